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
echo "fetched $(sed -n 's/^Need to get \(.*\) of archives[.]$/\1/p' /tmp/apt.log)"
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
# Memory while nothing happens, without a sandbox: a client's server, the daemon, and what the daemon has ready. A line
# for each kind of program.
memory() {
    for process in /proc/[0-9]*; do
        name=$(basename "$(readlink "$process/exe")" 2>/dev/null)
        case $name in cubby* | qemu-system* | runsc* | exe) ;; *) continue ;; esac
        awk -v name="$name" '/^Rss:/ { rss = $2 } /^Pss:/ { pss = $2 } END { print name, rss, pss }' "$process/smaps_rollup" 2>/dev/null
    done | awk -v tier="$1" 'NF == 3 { n[$1]++; rss[$1] += $2; pss[$1] += $3 }
        END { for (name in n) printf "idle %s %s: %d, resident %.1f MB, its share %.1f MB\n", tier, name, n[name], rss[name] / 1024, pss[name] / 1024 }'
}
idle() {
    export CUBBY_TIER=$1
    rm -f /tmp/to-server && mkfifo /tmp/to-server
    cubby-mcp </tmp/to-server >/tmp/from-server 2>/dev/null &
    exec 3>/tmp/to-server
    echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}' >&3
    echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_sandboxes","arguments":{}}}' >&3
    cubby kill "$(cubby create)" >/dev/null # the daemon runs now, and has a spare
    began=$(date +%s.%N)
    until grep -q '"id":2' /tmp/from-server && cubby stats | grep -q '2 pooled' || [ "$(since | cut -d. -f1)" -ge 300 ]; do sleep 0.2; done
    memory "$1"
    exec 3>&-
    cubby daemon stop >/dev/null
    unset CUBBY_TIER
}
while grep -qzx '[f]inish' /proc/[0-9]*/cmdline 2>/dev/null; do sleep 0.2; done
echo "gvisor $(tail -n 1 /var/lib/cubby/finish.log)"
idle microvm
idle gvisor
# Another user finds the template that root made.
useradd --create-home someone
su someone -c 'id=$(cubby create) && cubby exec "$id" -- echo shared; cubby daemon stop >/dev/null; ls ~/.local/share/cubby/templates 2>/dev/null' >/tmp/someone.log 2>&1
echo "someone $(cat /tmp/someone.log | tr '\n' ' ')"
userdel --remove someone 2>/dev/null
echo "user $(getent passwd cubby | cut -d: -f6)"
# A purge with an enabled service, a daemon of root and sandboxes that run.
wants=/etc/systemd/system/multi-user.target.wants
mkdir -p $wants && ln -sf /usr/lib/systemd/system/cubbyd.service $wants
cubby create >/dev/null
apt-get purge -q -y cubby cubby-template-default >/tmp/purge.log 2>&1 || tail -20 /tmp/purge.log
echo "alive $(for process in /proc/[0-9]*; do readlink "$process/exe" 2>/dev/null; done | grep -c 'cubby\|qemu')"
echo "left $(files | wc -l)"
files
tail -n 40 /tmp/setup.log /tmp/selftest.log
