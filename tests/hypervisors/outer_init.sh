#!/bin/busybox sh
# First process of the outer machine (tests/outer.py): the host's root read-only over 9p, and one job in it.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "$module" || echo "cannot load $module"; done </modules/order
mount_9p() { $b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" || echo "cannot mount $1"; }
mount_9p host /host ro,cache=loose
$b mount -t tmpfs run /host/run
$b mkdir /host/run/job /host/run/tmp
mount_9p job /host/run/job rw
$b mount -t proc proc /host/proc
$b mount -t sysfs sys /host/sys
$b mount --bind /dev /host/dev
$b ifconfig lo up
$b chroot /host /bin/sh /run/job/job.sh >/host/run/job/log 2>&1
$b poweroff -f
