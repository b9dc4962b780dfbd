#!/bin/sh
# First process of the machine under VirtualBox (virtualbox_root.sh): an address by DHCP, sshd, the Guest Additions.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
while read -r module; do insmod "$module"; done </modules/order
ifconfig lo up
ifconfig eth0 up
udhcpc -i eth0 -s /etc/dhcp -t 20 -T 2 -n
/usr/sbin/sshd -f /etc/sshd_config
/usr/sbin/VBoxService --only-vminfo --vminfo-interval 1000
while :; do sleep 1000; done
