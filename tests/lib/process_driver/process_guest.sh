#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A machine made from the host's own programs: namespaces of processes, mounts, network and name, a
# user "user" with a home, the real envd on its port, and the Python kernel if the template has one.
# It isolates nothing.
#
# Arguments: the sandbox's directory, cubbyd-process, and the template's directory. Its file
# guest.env sets ENVD (the program) and KERNEL (the command of the Python kernel, or nothing).
# Descriptor 3: vm.net. Only root can run it.
set -eu
umask 022
if [ "${CUBBY_INSIDE:-}" != yes ]; then
    export CUBBY_INSIDE=yes
    exec unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc -- sh "$0" "$@"
fi
dir=$1 program=$2
. "$3/guest.env"
unset CUBBY_INSIDE CUBBY_HOME

ip link set lo up
ip address add 10.0.2.15/32 dev lo # services that listen only on loopback are not at this address

# An overlay over each, so that the host's files do not change.
layer() {
    mkdir -p "$dir/layers$1/upper" "$dir/layers$1/work"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$dir/layers$1/upper,workdir=$dir/layers$1/work" "$1"
}
mkdir "$dir/layers"
mkdir -p "$dir/home" # exists already if the machine is made from an image
mount -t tmpfs -o mode=700 tmpfs "$dir/layers"
layer /etc
layer /home
layer /root
rm -f /root/.bash* /root/.profile # the host's files may wait, or write to stderr
chmod 700 /root
mount -t tmpfs -o mode=755 tmpfs /run
awk -F: '$1 != "user" && $3 != 1000' /etc/passwd >"$dir/passwd"
echo 'user:x:1000:1000::/home/user:/bin/bash' >>"$dir/passwd"
awk -F: '$1 != "user" && $3 != 1000' /etc/group >"$dir/group"
echo 'user:x:1000:' >>"$dir/group"
cat "$dir/passwd" >/etc/passwd
cat "$dir/group" >/etc/group
mkdir -p /home/user /run/e2b
mount --bind "$dir/home" /home/user # the host's file system keeps attributes
chown 1000:1000 /home/user
# Machines share /tmp, but not their background commands and named shells.
mkdir -p -m 1777 /tmp/.cubby "$dir/commands"
mount --bind "$dir/commands" /tmp/.cubby

# envd and the Python kernel each write a line when they are ready.
mkfifo "$dir/ready"
"$ENVD" --port 49983 --bind 10.0.2.15 --relay-port 49982 --state-dir /run/e2b --machine no \
    >"$dir/ready" 2>"$dir/envd.log" 3<&- &
read -r _ <"$dir/ready"
if [ -n "$KERNEL" ]; then
    mkfifo "$dir/kernel"
    setpriv --reuid 1000 --regid 1000 --clear-groups env -i HOME=/home/user USER=user PATH="$PATH" \
        LANG=C.UTF-8 $KERNEL >"$dir/kernel" 2>"$dir/kernel.log" 3<&- &
    read -r _ <"$dir/kernel"
fi
trap '' CHLD # init must not keep orphaned processes as zombies
exec "$program" --machine "$dir" guest
