# Sourced in the outer machine (tests/test_hypervisors.py): VirtualBox in a Debian of its own, and a machine to clone.
mkdir -p /run/vbox /run/bin
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose virtualbox /run/vbox
for place in run tmp; do mount -t tmpfs "$place" "/run/vbox/$place"; done
for place in proc sys dev; do mount --bind "/$place" "/run/vbox/$place"; done
# It asks for KVM's modules, but works without.
chroot /run/vbox sh -c 'modprobe -a vboxdrv vboxnetflt vboxnetadp; rmmod kvm_amd kvm'
install -m 600 /run/vbox/guest/key /run/tmp/key

# The program that the lab finds: what passes is kept as in tests/transcripts.
cat >/run/bin/VBoxManage <<'END'
#!/bin/sh
kept=$(mktemp -d)
chroot /run/vbox env HOME=/tmp VBoxManage "$@" >"$kept/out" 2>"$kept/err"
code=$?
{ echo "$ VBoxManage $*"; sed 's/^/! /' "$kept/err"; cat "$kept/out"; echo "= $code"; } >>/run/job/transcript
cat "$kept/err" >&2
cat "$kept/out"
rm -r "$kept"
exit "$code"
END
chmod 755 /run/bin/VBoxManage
PATH=/run/bin:$PATH

VBoxManage hostonlyif create
VBoxManage hostonlyif ipconfig vboxnet0 --ip 192.168.56.1 --netmask 255.255.255.0
VBoxManage convertfromraw /guest/disk.iso /tmp/tiny.vdi --format VDI
VBoxManage createvm --name tiny --ostype Linux_64 --register
VBoxManage modifyvm tiny --memory 256 --vram 8 --ioapic on --paravirt-provider kvm --large-pages off --boot1 disk \
  --audio-enabled off --mouse ps2 --keyboard ps2 --nic1 hostonly --hostonlyadapter1 vboxnet0 --nictype1 virtio
VBoxManage storagectl tiny --name SATA --add sata --portcount 1
VBoxManage storageattach tiny --storagectl SATA --port 0 --device 0 --type hdd --medium /tmp/tiny.vdi
