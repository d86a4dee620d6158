# SPDX-License-Identifier: Apache-2.0
"""The tiers that share the host's kernel: bubblewrap, and none. What all tiers do alike is in test_tiers.py."""

import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from cubbyd import wait_for
from harness import BIN, TEST_HOME, process_exists
from jail_peer import AS_LEAST_ROOT, AS_USER, NAMESPACES, USER
from nest_world import Nested, below, namespaces, users_of
from proc import descriptors
from tiers import BWRAP, SHARED

@pytest.fixture(scope="module", params=SHARED)
def daemon(request):
    with Nested(request.param) as running:
        yield running


@pytest.fixture(name="bubblewrap", scope="module")
def fixture_bubblewrap():
    with Nested("bubblewrap") as running:
        yield running


@pytest.fixture(name="none", scope="module")
def fixture_none():
    with Nested("none") as running:
        yield running


@pytest.fixture(name="sandbox")
def fixture_sandbox(daemon):
    made = daemon.create()
    yield made
    daemon.kill(made["sandboxID"])


def mounts():
    return pathlib.Path("/proc/self/mountinfo").read_text().splitlines()


# ---- both

def test_the_answer_of_a_create_says_what_the_tier_is_worth(daemon, sandbox):
    assert sandbox["tier"] == daemon.tier and sandbox["isolation"].startswith(daemon.tier)
    says = {"bubblewrap": "bubblewrap shares the host's kernel: use it only for code that you trust",
            "none": "no isolation: commands run on the host itself, as the user of cubbyd"}
    assert sandbox["tierWarning"] == says[daemon.tier]
    assert daemon.get(sandbox["sandboxID"]).json["tier"] == daemon.tier


def test_commands_and_files(daemon, sandbox):
    assert daemon.command(sandbox, "echo hi; echo err >&2; exit 3") == (3, b"hi\n")
    answer = daemon.through(sandbox["sandboxID"], "POST", "/files?path=note&username=user", b"kept",
                            headers={"Content-Type": "application/octet-stream"}, token=sandbox["envdAccessToken"])
    assert answer.status == 200, answer.body
    assert daemon.command(sandbox, "cat ~/note") == (0, b"kept")
    answer = daemon.through(sandbox["sandboxID"], "GET", "/files?path=note&username=user", token=sandbox["envdAccessToken"])
    assert (answer.status, answer.body) == (200, b"kept")
    answer = daemon.through(sandbox["sandboxID"], "GET", "/files?path=note&username=user")
    assert answer.status == 401, "envd asks for the token"


def test_a_port_of_the_guest(daemon, sandbox):
    """Also one that listens on the loopback only."""
    script = ("import http.server as h, sys\ns = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)\n"
              "print(s.server_port, flush=True)\nopen('port', 'w').write(str(s.server_port))\ns.serve_forever()")
    s = daemon.open_command(sandbox, f"cd ~ && exec python3 -c \"{script}\"")
    try:
        port = wait_for(lambda: daemon.command(sandbox, "cat ~/port")[1].decode().strip(), 30, "it listens")
        answer = daemon.through(sandbox["sandboxID"], "GET", "/port", port=int(port))
        assert (answer.status, answer.body.decode()) == (200, port)
    finally:
        s.close()
    refused = daemon.through(sandbox["sandboxID"], "GET", "/", port=9)
    assert refused.status in (404, 502), refused.body


def test_nothing_is_left_behind(daemon):
    """No process, namespace, mount, directory or control group, also of a command in the background that has
    left its session."""
    before = mounts()
    made = daemon.create()
    nest = daemon.nest(made)
    daemon.command(made, "setsid sleep 1000 >/dev/null 2>&1 & (setsid sh -c 'sleep 1001 & sleep 1002' >/dev/null 2>&1 &)")
    wait_for(lambda: sum(b"sleep" in pathlib.Path(f"/proc/{p}/cmdline").read_bytes() for p in below(nest)) >= 3, 20, "they run")
    processes = below(nest)
    guest = set(namespaces(processes[-1]).values()) - set(namespaces("self").values())
    assert len(guest) == (6 if daemon.tier == "bubblewrap" else 0), "namespaces of its own"
    groups = [tree["dir"] for tree in daemon.record(made["sandboxID"])["machine"]["limits"]["groups"]]
    assert daemon.kill(made["sandboxID"]) == 204
    assert [pid for pid in processes if process_exists(pid)] == []
    wait_for(lambda: users_of(guest) == [] and mounts() == before, 20, "the namespaces and mounts are gone")
    wait_for(lambda: not [g for g in groups if os.path.exists(g)], 10, "the control groups are removed")
    assert made["sandboxID"] not in daemon.directories()


def test_the_guest_ends_with_cubby_nest(daemon):
    """Killed outright, it takes the guest's first process with it, and the daemon ends the others, where control groups
    tell which they are. The daemon says that the sandbox has ended."""
    made = daemon.create()
    nest = daemon.nest(made)
    limits = daemon.record(made["sandboxID"])["machine"]["limits"]
    daemon.command(made, "(setsid sleep 1000 >/dev/null 2>&1 &)")
    wait_for(lambda: [p for p in below(nest) if pathlib.Path(f"/proc/{p}/comm").read_text() == "sleep\n"], 20, "it runs")
    first = below(nest)
    os.kill(nest, signal.SIGKILL)
    wait_for(lambda: daemon.get(made["sandboxID"]).status == 404, 20, "it has ended")
    assert "was killed (signal 9)" in daemon.get(made["sandboxID"]).json["message"]
    if daemon.tier == "bubblewrap" or limits["holds"]:  # the process namespace ends with its init
        wait_for(lambda: not [p for p in first if process_exists(p)], 10, "all have ended")


def test_a_guest_whose_init_ends(daemon):
    made = daemon.create()
    first = below(daemon.nest(made))[1]
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: daemon.get(made["sandboxID"]).status == 404, 20, "it has ended")
    assert "cubby-nest" in daemon.get(made["sandboxID"]).json["message"]


def test_limits(daemon, sandbox):
    """The host's control groups hold processes of the guest, and memory that runs out ends the command."""
    record = daemon.record(sandbox["sandboxID"])["machine"]
    if "memory" not in record["limits"]["holds"]:
        pytest.skip("this host limits no memory")
    name = os.path.basename(record["limits"]["groups"][0]["dir"])
    code, said = daemon.command(sandbox, "cat /proc/self/cgroup")
    if daemon.tier == "none":
        assert name.encode() in said
    assert daemon.command(sandbox, "python3 -c 'x = b\"x\" * (3 << 30)' 2>/dev/null")[0] != 0
    assert daemon.command(sandbox, "echo alive") == (0, b"alive\n")


def test_usage(daemon, sandbox):
    """The memory and the processor time of commands count."""
    def usage():
        lines = daemon.request("GET", "/sandboxes/stats").json["sandboxes"]
        (line,) = [x for x in lines if x["sandboxID"] == sandbox["sandboxID"]]
        return line["memoryBytes"], line["cpuSeconds"]

    memory, seconds = usage()
    s = daemon.open_command(sandbox, "exec python3 -c 'x = bytearray(b\"x\" * (60 << 20))\nwhile True: pass'")
    try:
        wait_for(lambda: usage()[0] > memory + (50 << 20) and usage()[1] > seconds + 0.2, 30, "it shows")
    finally:
        s.close()


@pytest.mark.parametrize("tier", SHARED)
def test_a_restart_of_the_daemon(tier):
    with Nested(tier) as daemon:
        made = daemon.create()
        daemon.command(made, "echo kept >~/note")
        nest = daemon.nest(made)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert daemon.nest(made) == nest
        assert daemon.command(made, "cat ~/note") == (0, b"kept\n")
        processes = below(nest)
        daemon.kill(made["sandboxID"])
        assert [pid for pid in processes if process_exists(pid)] == []


@pytest.mark.parametrize("tier", SHARED)
def test_the_end_with_the_daemon(tier):
    """--end-with-daemon: a daemon that is killed outright leaves no process."""
    daemon = Nested(tier, "--end-with-daemon")
    with daemon:
        made = daemon.create()
        daemon.command(made, "setsid sleep 1000 >/dev/null 2>&1 &")
        processes = below(daemon.nest(made))
        daemon.stop(signal.SIGKILL)
        wait_for(lambda: not [pid for pid in processes if process_exists(pid)], 20, "all have ended")
        daemon.start()


@pytest.mark.parametrize("tier", SHARED)
def test_what_the_tier_cannot(tier):
    """Each refusal names the tier."""
    with Nested(tier) as daemon:
        for size in 1000, 10240 if tier == "none" else 1000000:
            answer = daemon.request("POST", "/sandboxes", {"templateID": "default", "diskSizeMB": size})
            if tier == "none":  # its disk is the host's
                assert answer.status == 501, answer.body
                assert "driver 'none' cannot give a sandbox another disk size than its template's" in answer.json["message"]
            else:  # which can be larger, but not without end (test_tiers.py)
                assert answer.status == 400 and f"diskSizeMB: {size} is out of range" in answer.json["message"], answer.body
        made = daemon.create()
        name = made["sandboxID"]
        for path in (f"/sandboxes/{name}/pause", f"/sandboxes/{name}/snapshots", f"/sandboxes/{name}/fork"):
            answer = daemon.request("POST", path, {})
            assert answer.status == 501 and f"driver '{tier}' cannot" in answer.json["message"], answer.body


def own(daemon):
    """Gives a home to the tests' user, with a template.json alone."""
    (daemon.home / "templates").unlink()
    (daemon.home / "templates/default").mkdir(parents=True)
    (daemon.home / "templates/default/template.json").write_text(json.dumps({"cpus": 1, "memory_mb": 512, "disk_mb": 2048}))
    for path in (daemon.home, *daemon.home.rglob("*")):
        os.chown(path, USER, USER)


def test_none_of_another_user():
    daemon = Nested("none")
    daemon.wrap = AS_USER
    own(daemon)
    with daemon:
        made = daemon.create()
        assert daemon.command(made, "id -u") == (0, b"%d\n" % USER)
        answer = daemon.through(made["sandboxID"], "GET", "/files?path=x&username=root", token=made["envdAccessToken"])
        assert answer.status == 401, "it has no root"


# A user with ids of its own, and a TAP device that it may open, in a mount namespace of this test.
WORLD = """set -e
mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200
for f in passwd subuid subgid; do cp /etc/$f "$1/$f" 2>/dev/null || touch "$1/$f"; done
sed -i "/^nester:/d" "$1/passwd" && echo "nester:x:$2:$2::/:/bin/sh" >>"$1/passwd"
for f in subuid subgid; do echo "nester:700000:65536" >"$1/$f"; done
for f in passwd subuid subgid; do mount --bind "$1/$f" /etc/$f; done
shift 2
exec "$@"
"""


NEWUIDMAP = pytest.mark.skipif(not shutil.which("newuidmap"), reason="newuidmap is not installed: apt install uidmap")


def of_another_user(tmp_path):
    """A daemon of the tests' user, whose template this user has unpacked."""
    daemon = Nested("bubblewrap")
    own(daemon)
    subprocess.run(["cp", "--sparse=always", TEST_HOME / "templates/default/disk.ext4", daemon.home / "templates/default"], check=True)
    daemon.wrap = ["unshare", "--mount", "sh", "-c", WORLD, "sh", str(tmp_path), str(USER), *AS_USER]
    subprocess.run([*daemon.wrap, BIN / "cubby", "template", "unpack"], env=daemon.env, check=True, timeout=120)
    return daemon


@BWRAP
@NEWUIDMAP
def test_bubblewrap_of_another_user(tmp_path):
    """Its guest's root is the daemon's user, and its other users are those of /etc/subuid."""
    daemon = of_another_user(tmp_path)
    world = daemon.wrap
    with daemon:
        made = daemon.create()
        assert daemon.command(made, "id -un; stat -c %U /home/user /etc/passwd") == (0, b"user\nuser\nroot\n")
        assert daemon.command(made, "id -u; touch /etc/mine", "root") == (0, b"0\n")
        assert daemon.command(made, "ping -c 1 -W 5 10.0.2.2 >/dev/null && echo up") == (0, b"up\n")
        status = pathlib.Path(f"/proc/{below(daemon.nest(made))[-1]}/status").read_text()
        assert int(status.partition("Uid:\t")[2].split()[0]) in (USER, *range(700000, 765536))
        daemon.kill(made["sandboxID"])
        subprocess.run([*world, BIN / "cubby", "template", "unpack"], env=daemon.env, check=True, timeout=120)  # is done already
    assert not daemon.home.exists()


@BWRAP
@NEWUIDMAP
def test_the_unpacked_root_of_another_user(tmp_path):
    """Each sandbox holds it with a lock. A build removes an old one when no sandbox uses it any more, although its
    files belong to the users of /etc/subuid."""
    daemon = of_another_user(tmp_path)
    template = daemon.home / "templates/default"
    root = template / "bubblewrap/root"
    old = template.parent / ".build-default-01234567"
    for name in "mmdebstrap", "fakeroot":
        (daemon.home / name).write_text("#!/bin/sh\necho this fails >&2\nexit 1\n")
        (daemon.home / name).chmod(0o755)
    path = f"{daemon.home}:{os.environ['PATH']}"

    def build():
        """A build that fails as soon as it has looked for the remains of earlier ones."""
        done = subprocess.run([*daemon.wrap, "env", f"PATH={path}", BIN / "cubby", "template", "build", "other"], env=daemon.env,
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode != 0 and "this fails" in done.stderr + done.stdout, done

    with daemon:
        lock = os.open(root, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # as `cubby template rm` does
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default"})
        assert answer.status >= 500 and "the template is being removed" in answer.json["message"], answer.body
        os.close(lock)
        os.chown(root, 0, 0)
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default"})
        assert answer.status == 404 and "was unpacked by another user" in answer.json["message"], answer.body
        os.chown(root, USER, USER)
        made = daemon.create()
        template.rename(old)
        build()
        assert daemon.command(made, "cat /etc/debian_version")[0] == 0 and old.exists(), "the sandbox still uses it"
        daemon.kill(made["sandboxID"])
        build()
        assert not old.exists()


# ---- bubblewrap

REFUSED = re.compile(rb"(?i)operation not permitted|permission denied|must be (root|superuser)|\"no new privileges\" flag is set")
# The way out of a chroot, for root of the guest: a directory that is open lies outside of the new root. It leads to
# the root of the mount namespace, which must be the guest's own.
OUT = """import os
os.makedirs("/tmp/jail", exist_ok=True)
outside = os.open("/", os.O_RDONLY)
os.chroot("/tmp/jail")
os.fchdir(outside)
for _ in range(64):
    os.chdir("..")
os.chroot(".")
print([os.path.exists(p) for p in ("/usr/lib/cubby/bin/envd", "/upper", "/tools", "%s")])
"""


@BWRAP
def test_the_walls_of_bubblewrap(bubblewrap):
    """The guest's users are no users of the host, it has no rights over what it shares with it, and it sees nothing of it."""
    made = bubblewrap.create()
    nest = bubblewrap.nest(made)
    status = pathlib.Path(f"/proc/{below(nest)[-1]}/status").read_text()
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    uid = int(status.partition("Uid:\t")[2].split()[0])
    assert uid >= 0x70000000 or os.geteuid() != 0
    shown = bubblewrap.get(made["sandboxID"]).json["jail"]
    own = {wall for wall, name in NAMESPACES.items()
           if os.readlink(f"/proc/{below(nest)[-1]}/ns/{name}") != os.readlink(f"/proc/{bubblewrap.process.pid}/ns/{name}")}
    assert set(shown["walls"]) == {*own, "seccomp"} and own == set(NAMESPACES) - set(shown["missing"])
    for command in ("unshare -U true", "unshare -n true", "mount -t tmpfs x /mnt", "echo x >/proc/sys/kernel/core_pattern",
                    "echo x >/proc/sys/user/max_user_namespaces", "ip link set eth0 down", "sudo -n true", "mknod /tmp/x b 8 0",
                    "hostname other", "date -s 2020-01-01", "touch /usr/lib/cubby/bin/envd"):
        for user in ("user", "root")[:1 if "sudo" in command else 2]:
            code, said = bubblewrap.command(made, f"({command}) 2>&1", user)
            assert code != 0 and REFUSED.search(said), (user, command, said)
    code, said = bubblewrap.command(made, "ls /proc | grep -c '^[0-9]'; ls /tmp | wc -l; ls -A /sys | wc -l; id -un; cat /proc/1/comm", "root")
    seen = said.decode().split()
    assert code == 0 and int(seen[0]) < 30 and seen[1:] == ["0", "0", "root", "init"]
    code, said = bubblewrap.command(made, "cat /proc/self/mountinfo", "root")
    assert code == 0 and b" / / " in said and str(bubblewrap.home).encode() not in said
    assert bubblewrap.home.exists(), "the path that a guest looks for"
    assert bubblewrap.command(made, f"python3 -c '{OUT % bubblewrap.home}'", "root") == (0, b"[True, False, False, False]\n")
    arguments = [pathlib.Path(f"/proc/{p}/cmdline").read_bytes() for p in below(nest)]
    assert all(arguments) and b"--template" in arguments[0] and b"--unshare-pid" in arguments[1], arguments
    assert made["sandboxID"].encode() not in b"".join(arguments), "every user of the host can read arguments"
    bubblewrap.kill(made["sandboxID"])


@BWRAP
def test_a_daemon_with_the_least_rights_of_root():
    """docs/security.md lists them. Only the network card of bubblewrap needs one more."""
    daemon = Nested("bubblewrap")
    daemon.wrap = AS_LEAST_ROOT
    with daemon:
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default"})
        assert answer.status == 500 and "make a TAP device (this needs CAP_NET_ADMIN)" in answer.json["message"]
    daemon = Nested("bubblewrap")
    daemon.wrap = [*AS_LEAST_ROOT[:-1], AS_LEAST_ROOT[-1] + ",+net_admin"]
    with daemon:
        made = daemon.create()
        assert daemon.command(made, "ping -c 1 -W 5 10.0.2.2 >/dev/null && touch /etc/mine && echo up", "root") == (0, b"up\n")


DROP_IN = re.search(r"```\n(\[Service\]\n.*?)```", (pathlib.Path(__file__).parents[2] / "docs/hosts.md").read_text(), re.S)[1]
# The directives of the unit that the drop-in switches off, as systemd sets them up.
FORBIDS = {"ProtectKernelTunables": ("mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys", "Read-only file system"),
           "ProtectKernelLogs": ("mount --bind /dev/null /proc/kmsg", "Can't mount proc")}


@BWRAP
@pytest.mark.parametrize("directive", [None, *FORBIDS])
def test_the_directives_of_the_drop_in(directive):
    """The unit's other walls are there: no_new_privs, a /proc that hides processes, few capabilities."""
    rights = re.findall(r"CAP_(\w+)", DROP_IN)
    mounts, says = FORBIDS[directive] if directive else ("true", None)
    assert not directive or f"{directive}=no\n" in DROP_IN
    daemon = Nested("bubblewrap")
    daemon.wrap = ["unshare", "--mount", "sh", "-c", f'mount -t proc -o hidepid=invisible proc /proc && {mounts} && exec "$@"', "sh",
                   "setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", ",".join(["-all", *(f"+{r.lower()}" for r in rights)])]
    with daemon:
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default"})
        assert answer.status == (500 if directive else 201) and (not directive or says in answer.json["message"]), answer.body
        if not directive:
            assert daemon.command(answer.json, "ping -c 1 -W 5 10.0.2.2 >/dev/null && echo up") == (0, b"up\n")
            daemon.kill(answer.json["sandboxID"])


@BWRAP
def test_the_filter_of_bubblewrap(bubblewrap):
    """By number: no program of the template makes these calls."""
    made = bubblewrap.create()
    for name, number, wanted in (("bpf", 321, "EPERM"), ("perf_event_open", 298, "EPERM"), ("userfaultfd", 323, "EPERM"),
                                 ("keyctl", 250, "EPERM"), ("mount", 165, "EPERM"), ("init_module", 175, "EPERM"),
                                 ("io_uring_setup", 425, "ENOSYS"), ("clone3", 435, "ENOSYS")):
        code = f"import ctypes, errno; l = ctypes.CDLL(None, use_errno=True); l.syscall({number}, 0, 0, 0, 0, 0); print(errno.errorcode[ctypes.get_errno()])"
        for user in ("user", "root"):
            assert bubblewrap.command(made, f"python3 -c '{code}'", user) == (0, wanted.encode() + b"\n"), (name, user)
    for family, fine in ("AF_INET", True), ("AF_INET6", True), ("AF_UNIX", True), ("AF_VSOCK", False), ("AF_ALG", False), ("AF_PACKET", False):
        kind = {"AF_PACKET": "SOCK_RAW", "AF_ALG": "SOCK_SEQPACKET"}.get(family, "SOCK_STREAM")
        code = f"import socket; socket.socket(socket.{family}, socket.{kind})"
        assert (bubblewrap.command(made, f'python3 -c "{code}" 2>/dev/null', "root")[0] == 0) is fine, family
    bubblewrap.kill(made["sandboxID"])


def test_no_descriptor_of_the_host_is_inherited(daemon, sandbox):
    """Neither by a command nor by the guest's own processes: one is the sandbox's directory on the host."""
    code, said = daemon.command(sandbox, "ls -l /proc/self/fd", "root")
    names = [line.split()[-3] for line in said.decode().splitlines() if "->" in line and not line.endswith("/fd")]
    assert code == 0 and names == ["0", "1", "2"], said
    for pid in below(daemon.nest(sandbox))[1:]:
        links = descriptors(pid).values()
        assert str(daemon.directory(sandbox["sandboxID"])) not in links and "anon_inode:[pidfd]" not in links, links



@BWRAP
def test_the_template_does_not_change_and_the_layer_is_limited(bubblewrap):
    one, two = bubblewrap.create(), bubblewrap.create()
    assert bubblewrap.command(one, "rm -rf /etc/skel /usr/share/doc && mkdir /usr/share/doc && touch /etc/mine", "root")[0] == 0
    assert bubblewrap.command(two, "ls -d /etc/skel /usr/share/doc/bash; ls /etc/mine", "root")[0] != 0
    assert bubblewrap.command(two, "ls -d /etc/skel /usr/share/doc/bash", "root")[0] == 0
    code, said = bubblewrap.command(one, "dd if=/dev/zero of=/root/big bs=1M 2>&1", "root")
    assert code != 0 and b"No space left" in said
    assert bubblewrap.command(one, "rm /root/big; echo ok", "root") == (0, b"ok\n")
    for made in (one, two):
        bubblewrap.kill(made["sandboxID"])


@BWRAP
def test_its_network_has_a_policy(bubblewrap):
    """The same cubby-netd as in other tiers: nothing of this host answers, and the policy can change."""
    made = bubblewrap.create(network={"mode": "none"})

    def refusals():
        """Those of one attempt to connect, whether the internet is there or not."""
        before = len(bubblewrap.request("GET", where).json["refusals"])
        bubblewrap.command(made, "curl -s -m 2 http://1.1.1.1/")
        return bubblewrap.request("GET", where).json["refusals"][before:]

    where = f"/sandboxes/{made['sandboxID']}/network"
    assert [(r["address"], r["port"], r["reason"]) for r in refusals()] == [("1.1.1.1", 80, "the network is off")]
    answer = bubblewrap.request("PUT", where, {"mode": "public"})
    assert answer.status in (200, 204), answer.body
    assert refusals() == []
    assert bubblewrap.command(made, "ping -c 1 -W 5 10.0.2.2 >/dev/null && echo up") == (0, b"up\n")
    assert bubblewrap.request("GET", f"/sandboxes/{made['sandboxID']}/network").json["policy"]["mode"] == "public"
    bubblewrap.kill(made["sandboxID"])


@BWRAP
def test_without_a_tap_device_there_is_no_network():
    """The create's answer says so, and everything else works."""
    daemon = Nested("bubblewrap")
    daemon.wrap = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/net && exec "$@"', "sh"]
    with daemon:
        made = daemon.create()
        warning = "bubblewrap shares the host's kernel, and the sandbox has no network: /dev/net/tun could not be opened when it was made"
        assert made["tierWarning"] == warning
        assert daemon.command(made, "echo hi; ls /sys/class/net 2>/dev/null; cat /proc/net/dev | grep -c eth0") == (1, b"hi\n0\n")
        answer = daemon.request("PUT", f"/sandboxes/{made['sandboxID']}/network", {"mode": "public"})
        assert answer.status == 501 and "has no network" in answer.json["message"], answer.body
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert daemon.command(made, "echo again") == (0, b"again\n")
        # The host gets the device. An answer tells what the sandbox has, not what a new one would have.
        subprocess.run(["nsenter", "-t", str(daemon.process.pid), "-m", "umount", "/dev/net"], check=True)
        assert daemon.get(made["sandboxID"]).json["tierWarning"] == warning
        other = daemon.create()
        assert other["tierWarning"] != warning and daemon.command(other, "grep -c eth0 /proc/net/dev") == (0, b"1\n")


@BWRAP
def test_the_layer_has_the_size_that_the_answer_tells(bubblewrap):
    """Twice the template's memory, also for a sandbox with other memory."""
    for size in {}, {"memoryMB": 256}:
        made = bubblewrap.create(**size)
        code, said = bubblewrap.command(made, "df -m --output=size / | tail -1")
        assert code == 0 and int(said) == bubblewrap.get(made["sandboxID"]).json["diskSizeMB"]
        bubblewrap.kill(made["sandboxID"])


@BWRAP
def test_a_template_that_is_not_unpacked():

    class Packed(Nested):
        def templates(self):
            where = self.home / "templates/default"
            where.mkdir(parents=True)
            (where / "template.json").write_text(json.dumps({"cpus": 1, "memory_mb": 512, "disk_mb": 2048}))

    with Packed("bubblewrap") as daemon:
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default"})
        assert answer.status == 404
        assert "template default is not unpacked for bubblewrap; run: cubby template unpack default" in answer.json["message"]


# ---- none

def test_none_has_a_directory_of_the_host(none):
    made = none.create()
    home = none.directory(made["sandboxID"]) / "home"
    assert none.command(made, "pwd; echo $TMPDIR; id -u")[1].decode().split() == [
        str(home), str(home.parent / "tmp"), str(os.geteuid())]
    assert none.command(made, "echo x >~/note")[0] == 0 and (home / "note").read_text() == "x\n"
    none.kill(made["sandboxID"])
    assert not home.exists()


@pytest.mark.parametrize("network", [{"network": {"mode": "none"}}, {"allow_internet_access": False},
                                     {"network": {"mode": "allow", "allow": ["example.com"]}},
                                     {"network": {"mode": "public", "limits": {"connections": 5}}}])
def test_none_refuses_a_network_policy(none, network):
    answer = none.request("POST", "/v2/sandboxes", {"templateID": "default", **network})
    assert answer.status == 501
    assert "tier 'none' cannot restrict the network: its sandboxes have the host's" in answer.json["message"]


def test_none_must_be_allowed(home):
    """The command line's daemon offers the usual tiers only, and doctor says why."""
    refused = subprocess.run([BIN / "cubby", "create", "--tier", "none"], env=home.env, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1 and "tier 'none' is not offered by this cubbyd" in refused.stderr
    found = {f["name"]: f for f in json.loads(home.cubby("doctor", "--json", check=False).stdout)}
    assert "isolates nothing" in found["none"]["text"] and found["bubblewrap"]["level"] in ("ok", "note")


def test_a_key_must_name_the_tier(none):
    """The operator's list offers it to callers on the unix socket. A key needs a list of its own."""
    keys = {}
    for name, tiers in ("usual", []), ("trusted", ["--tiers", "none"]):
        done = subprocess.run([BIN / "cubby", "key", "new", "--plain", name, *tiers], env=none.env, capture_output=True, text=True,
                              timeout=60, check=True)
        keys[name] = done.stdout.strip()
    with Nested("none", "--listen", "127.0.0.1:0") as daemon:
        shutil.copy(none.home / "keys.json", daemon.home / "keys.json")
        host = (daemon.home / "cubbyd.url").read_text().strip().partition("//")[2]

        def create(name):
            connection = http.client.HTTPConnection(host, timeout=60)
            connection.request("POST", "/sandboxes", json.dumps({"templateID": "default"}),
                               {"X-API-KEY": keys[name], "Content-Type": "application/json"})
            answer = connection.getresponse()
            body = json.loads(answer.read())
            connection.close()
            return answer.status, body

        wait_for(lambda: create("trusted")[0] == 201, 20, "the daemon has read the keys")
        status, body = create("usual")
        assert status == 403 and "tier 'none' is not for this API key" in body["message"]
        for made in daemon.request("GET", "/sandboxes").json:
            daemon.kill(made["sandboxID"])


def test_the_command_line_warns(home):
    home.env["CUBBY_TIERS_ALLOWED"] = "microvm,none"
    made = home.cubby("create", "--tier", "none")
    assert b"no isolation: commands run on the host itself" in made.stderr
    head, row = home.cubby("ps").stdout.decode().splitlines()
    assert row.split()[head.split().index("TIER")] == "none" and "none (commands run on the host itself)" in row
    home.cubby("kill", made.stdout.decode().strip())


def test_envd_of_none_is_for_the_daemons_user_alone(none):
    """Also for a sandbox without a token: other users of the host cannot open its socket, and it has no port."""
    made = none.request("POST", "/sandboxes", {"templateID": "default", "secure": False}).json
    assert "envdAccessToken" not in made
    assert none.through(made["sandboxID"], "GET", "/files?path=/etc/hostname&username=user").status == 200
    (envd,) = below(none.nest(made))[1:]
    sockets = set(descriptors(envd).values())
    ports = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    assert [line for line in ports if f"socket:[{line[9]}]" in sockets] == []
    where = none.directory(made["sandboxID"]) / "run"
    for path in where, where / "envd.sock":
        assert path.stat().st_mode & 0o077 == 0, path
    none.kill(made["sandboxID"])
