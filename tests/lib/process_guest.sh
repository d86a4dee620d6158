#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A place that is like a guest, of the host's own programs: namespaces of processes, mounts, network
# and name, a user "user" with a home, the real envd on its port, and the code interpreter's server
# when the template has one. Nothing is protected from anything.
#
# Arguments: the sandbox's directory, cubbyd-process, the template's directory, whose file guest.env
# says ENVD (the program) and KERNEL (the command of the interpreter's server, or nothing).
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
ip address add 10.0.2.15/32 dev lo # services of loopback alone are not at this one

# A layer of its own over each, so that nothing is changed for the host.
layer() {
    mkdir -p "$dir/layers$1/upper" "$dir/layers$1/work"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$dir/layers$1/upper,workdir=$dir/layers$1/work" "$1"
}
mkdir "$dir/layers"
mkdir -p "$dir/home" # it is there already when the machine goes on from an image
mount -t tmpfs -o mode=700 tmpfs "$dir/layers"
layer /etc
layer /home
layer /root
rm -f /root/.bash* /root/.profile # what the host's root has there may wait, and write to stderr
chmod 700 /root
mount -t tmpfs -o mode=755 tmpfs /run
awk -F: '$1 != "user" && $3 != 1000' /etc/passwd >"$dir/passwd"
echo 'user:x:1000:1000::/home/user:/bin/bash' >>"$dir/passwd"
awk -F: '$1 != "user" && $3 != 1000' /etc/group >"$dir/group"
echo 'user:x:1000:' >>"$dir/group"
cat "$dir/passwd" >/etc/passwd
cat "$dir/group" >/etc/group
mkdir -p /home/user /run/e2b
mount --bind "$dir/home" /home/user # of the host's file system, which keeps attributes
chown 1000:1000 /home/user

# Ready when it says so.
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
trap '' CHLD # nobody waits for what loses its parent; init must not keep them
exec "$program" --machine "$dir" guest
