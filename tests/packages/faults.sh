#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What goes wrong while Cubby is installed and set up, in a bare root: see test_packages.py, which
# reads the lines. /shared has the packages.
set -u
template=/usr/share/cubby/templates/default.cubby
install() { apt-get install -q -y --no-install-recommends "$@" >/tmp/apt.log 2>&1; }
state() { sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null; }
# Wait until a command succeeds, or until the process PID has ended.
await() { # PID COMMAND...
    pid=$1
    shift
    until "$@"; do
        case $(state "$pid") in '' | Z) return 1 ;; esac
        sleep 0.02
    done
}

# 1. A full disk: nothing of the package stays, and its installation can be repeated.
mkdir -p /usr/libexec/cubby
mount -t tmpfs -o size=20m small /usr/libexec/cubby
install /shared/cubby_*.deb
echo "full $? $(grep -c 'No space left on device' /tmp/apt.log) $(find /usr/bin /usr/libexec/cubby -name '*cubby*' -type f | wc -l)"
umount /usr/libexec/cubby

# 2. dpkg is killed while it unpacks; the user does what apt then asks for.
dpkg -i /shared/cubby_*.deb >/tmp/dpkg.log 2>&1 &
dpkg=$!
await $dpkg test -e /usr/libexec/cubby/runsc.dpkg-new && kill -9 $dpkg
wait $dpkg 2>/dev/null
echo "killed $?"
dpkg --configure -a >/tmp/dpkg.log 2>&1
install /shared/cubby_*.deb /shared/cubby-template-default_*.deb
echo "repeated $? $(find /usr -name '*.dpkg-*' | wc -l) $(cubby --version | wc -l)"
echo "enabled $(find /etc/systemd -name 'cubbyd*' | wc -l)"

# 3. Archives that are cut short, or changed by a byte, leave no template.
head -c 50000000 $template >/tmp/cut.cubby
said=$(CUBBY_TEMPLATE_ARCHIVE=/tmp/cut.cubby cubby setup 2>&1)
echo "cut $? $(ls -A /var/lib/cubby-templates /var/lib/cubby/templates 2>/dev/null | grep -c default)"
echo "$said" >/tmp/cut.log
cp $template /tmp/cut.cubby
printf X | dd of=/tmp/cut.cubby bs=1 seek=150000000 conv=notrunc 2>/dev/null
said=$(CUBBY_TEMPLATE_ARCHIVE=/tmp/cut.cubby cubby setup 2>&1)
echo "changed $? $(ls -A /var/lib/cubby-templates /var/lib/cubby/templates 2>/dev/null | grep -c default)"
echo "$said" >>/tmp/cut.log
rm /tmp/cut.cubby

# 4. Two users at once, neither of them root, each with a template of the own. Without runsc, which would
# go on in the background.
for name in one two; do
    useradd --create-home $name
    su $name -c 'export CUBBY_SYSTEM_TEMPLATES= CUBBY_RUNSC=/nonexistent
        cubby setup >~/setup.log 2>&1; echo $? >~/status
        id=$(cubby create) && cubby exec "$id" -- echo works >~/output; cubby daemon stop >/dev/null' &
done
wait
for name in one two; do
    echo "$name $(cat /home/$name/status) $(cat /home/$name/output)"
    tail -n 20 /home/$name/setup.log >>/tmp/users.log
    userdel --remove $name 2>/dev/null
done

# 5. An upgrade while a template is built: the build goes on, with the files that are there then.
cubby template import --microvm-only --name during $template >/tmp/build.log 2>&1 &
build=$!
await $build grep -q accelerator /tmp/build.log && kill -STOP $build
install --reinstall /shared/cubby_*.deb || tail -20 /tmp/apt.log
stopped=$(state $build)
kill -CONT $build
wait $build
echo "during $? $stopped $(cubby exec "$(cubby create --template during)" -- echo works)"
cubby daemon stop >/dev/null

# 6. A purge while the template's part for gVisor is made in the background, right after the setup.
finishes() { grep -lzx '[f]inish' /proc/[0-9]*/cmdline 2>/dev/null | wc -l; }
cubby setup >/tmp/setup.log 2>&1
running=$(finishes)
apt-get purge -q -y cubby cubby-template-default >/tmp/purge.log 2>&1
echo "early $? $running $(finishes) $(ls -d /var/lib/cubby* 2>/dev/null | wc -l) $(dpkg -l cubby 2>/dev/null | grep -c '^.[ic]')"
tail -n 20 /tmp/purge.log /tmp/cut.log /tmp/users.log /tmp/build.log
