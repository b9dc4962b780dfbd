#!/bin/sh
# virtualbox_root.sh DIRECTORY: lay out Debian unstable with VirtualBox (Debian 12 and 13 have none), its modules
# for its kernel, and in /guest the disk of a machine that vtare can clone. Takes 3 minutes, 2 GB and root.
set -eu
root=$1
mkdir "$root"
debootstrap --variant=minbase --components=main,contrib --include=ca-certificates sid "$root"
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# A mirror may be older than the lists are valid.
echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99old"
mkdir -p "$root/guest/iso/isolinux" "$root/guest/files"
cp "$(dirname "$0")/virtualbox_guest_init.sh" "$root/guest/files/init"
DEBIAN_FRONTEND=noninteractive INITRD=No chroot "$root" sh -eu <<'END'
apt-get update -qq
apt-get install -qq --no-install-recommends linux-headers-amd64 linux-image-amd64 virtualbox virtualbox-dkms \
  virtualbox-guest-utils openssh-server busybox-static isolinux syslinux-common xorriso cpio kmod
release=$(basename /usr/lib/modules/*)
dkms autoinstall -k "$release"
depmod "$release"

# The machine: a kernel, busybox, sshd and the service of the Guest Additions, all in its initramfs.
cd /guest/files
mkdir -p bin dev etc modules proc root run/sshd sys tmp var/empty
cp /usr/bin/busybox bin/busybox
ln -s busybox bin/sh
for program in /usr/sbin/sshd /usr/lib/openssh/sshd-session /usr/lib/openssh/sshd-auth /usr/lib/openssh/sftp-server \
  /usr/sbin/VBoxService; do
  cp -L --parents "$program" $(ldd "$program" | grep -o '/[^ ]*') .
done
modprobe -S "$release" -a --show-depends e1000 virtio_net vboxguest | while read -r word path rest; do
  [ "$word" = insmod ] || continue
  name=$(basename "$path" .xz)
  xz -dc "$path" >"modules/$name"
  echo "/modules/$name" >>modules/order
done
ssh-keygen -q -t ed25519 -N '' -f etc/host_key
ssh-keygen -q -t ed25519 -N '' -f /guest/key
cp /guest/key.pub etc/keys
echo "tiny $(cat etc/host_key.pub)" >/guest/known_hosts
printf 'root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\n' >etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
printf '%s\n' 'HostKey /etc/host_key' 'AuthorizedKeysFile /etc/keys' 'PermitRootLogin yes' 'StrictModes no' \
  'UsePAM no' 'UseDNS no' 'Subsystem sftp /usr/lib/openssh/sftp-server' >etc/sshd_config
printf '#!/bin/sh\n[ "$1" != bound ] || ifconfig "$interface" "$ip" netmask "$subnet"\n' >etc/dhcp
chmod 755 init etc/dhcp
find . | cpio --quiet -o -H newc | gzip >../iso/initrd
cd ../iso
cp /usr/lib/modules/*/vmlinuz kernel
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 isolinux/
# QEMU emulates XSAVE without the trap by which VirtualBox switches vector registers: programs' registers change.
cat >isolinux/isolinux.cfg <<CONFIG
DEFAULT tiny
LABEL tiny
  KERNEL /kernel
  INITRD /initrd
  APPEND console=ttyS0 quiet panic=-1 no_timer_check cryptomgr.notests noxsave
CONFIG
xorriso -as mkisofs -quiet -o ../disk.iso -isohybrid-mbr /usr/lib/ISOLINUX/isohdpfx.bin -b isolinux/isolinux.bin \
  -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table .
truncate -s %1M ../disk.iso
apt-get clean
END
