#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a user does after the installation, in a bare root: see test_packages.py, which reads the
# lines. /shared has the packages.
set -u
began=$(date +%s.%N)
since() { echo "$(date +%s.%N) $began" | awk '{ printf "%.1f", $1 - $2 }'; }
files() {
    find / -xdev \( -path /shared -o -path /proc -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
        -o -path /tmp -o -path /var/lib/dpkg \) -prune -o -print | grep -i cubby
    getent passwd cubby
    getent group cubby
}
apt-get install -q -y --no-install-recommends /shared/cubby_*.deb /shared/cubby-template-default_*.deb >/tmp/apt.log 2>&1 || {
    tail -20 /tmp/apt.log
    exit 1
}
echo "installed $(since)"
echo "next $(cubby | grep -c 'cubby setup   ')"
cubby setup >/tmp/setup.log 2>&1
echo "setup $? $(since)"
echo "machine $(grep -c 'that of the archive fits this host' /tmp/setup.log)"
echo "where $(ls -d /var/lib/cubby*/default /var/lib/cubby/templates/default 2>/dev/null | tr '\n' ' ')"
id=$(cubby create)
echo "output $(cubby exec "$id" -- echo works) $(since)"
# A profile that no AppArmor of the host can refuse: its parser reads it, where it knows the rule.
if [ -e /etc/apparmor.d/abi/4.0 ]; then
    echo "apparmor $(apparmor_parser --skip-kernel-load --skip-cache /etc/apparmor.d/cubby && echo read)"
else
    echo "apparmor $(ls /etc/apparmor.d/cubby 2>/dev/null || echo none)"
fi
# An upgrade with a sandbox that runs: the next daemon adopts it.
cubby exec "$id" -- sh -c 'echo kept >/tmp/mark'
apt-get install -q -y --reinstall --no-install-recommends /shared/cubby_*.deb >/tmp/apt.log 2>&1 || tail -20 /tmp/apt.log
cubby daemon stop --keep >/dev/null
echo "upgraded $(cubby exec "$id" -- cat /tmp/mark)"
cubby selftest --tier microvm >/tmp/selftest.log 2>&1
echo "selftest $?"
cubby daemon stop >/dev/null
# Another user finds the template that root made.
useradd --create-home someone
su someone -c 'id=$(cubby create) && cubby exec "$id" -- echo shared; cubby daemon stop >/dev/null; ls ~/.local/share/cubby/templates 2>/dev/null' >/tmp/someone.log 2>&1
echo "someone $(cat /tmp/someone.log | tr '\n' ' ')"
userdel --remove someone 2>/dev/null
echo "user $(getent passwd cubby | cut -d: -f6)"
apt-get purge -q -y cubby cubby-template-default >/tmp/purge.log 2>&1 || tail -20 /tmp/purge.log
echo "left $(files | wc -l)"
files
tail -n 40 /tmp/setup.log /tmp/selftest.log
