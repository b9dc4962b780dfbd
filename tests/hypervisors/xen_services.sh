# Sourced in the root of Xen's dom0 (tests/test_hypervisors.py): what a distribution's services would have set up.
mount -t xenfs xenfs /proc/xen
mkdir -p /dev/pts /run/xen /run/xenstored /run/lock
mount -t devpts devpts /dev/pts
for place in /var/lib/xen /var/log/xen; do mount -t tmpfs tmpfs "$place"; done
xen=/usr/lib/xen-$(cat /sys/hypervisor/version/major).$(cat /sys/hypervisor/version/minor)/bin
"$xen/xenstored" --pid-file /run/xenstore.pid
"$xen/xen-init-dom0"
"$xen/xenconsoled" --pid-file /run/xenconsoled.pid
