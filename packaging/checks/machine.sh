#!/usr/bin/env bash
# Starts systemd in a folder with a system, in namespaces of its own: packaging/checks/machine.sh ROOT
#
# It prints nothing and runs until it is killed, and everything in it ends with it. It needs root.
set -euo pipefail
root=$(realpath "$1")

if [ "${2:-}" != inside ]; then
  exec unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup "$0" "$root" inside
fi

mount --make-rprivate /
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/unified" "$root/sys/fs/cgroup/systemd"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
ip link set lo up
hostname store
# No chroot: the kernel refuses user namespaces to a process in one.
cd "$root"
pivot_root . mnt
umount -l /mnt
exec env container=test /sbin/init
