#!/bin/busybox sh
# First process of the outer guest (tests/test_hypervisors.py): the host's root read-only over 9p, and one job in it.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "$module" || echo "cannot load $module"; done </modules/order
mount_9p() { $b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" || echo "cannot mount $1"; }
mount_9p host /root ro,cache=loose
$b mount -t tmpfs run /root/run
$b mkdir /root/run/job /root/run/tmp
mount_9p job /root/run/job rw
$b mount -t proc proc /root/proc
$b mount -t sysfs sys /root/sys
$b mount --bind /dev /root/dev
$b ifconfig lo up
$b chroot /root /bin/sh /run/job/job.sh >/root/run/job/log 2>&1
$b poweroff -f
