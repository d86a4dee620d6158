# SPDX-License-Identifier: Apache-2.0
"""The jails of real machines: what /proc shows of QEMU and cubby-netd, under a daemon of root and
of another user; what a machine can still do in a jail; hosts on which a part of the jail cannot be
built.
"""

import fcntl
import os
import pathlib
import secrets
import shutil
import signal
import stat
import struct
import subprocess

import pytest

from cubbyd import MicroVMs, process_exists, wait_for
from harness import BIN, TEST_HOME
from jail_peer import (AS_LEAST_ROOT, NAMESPACES, UIDS, USER, WALLS, groups_of_user, lacking, mounts_of,
                       namespace_of, of_user, status_of)

NONE = ["0" * 16]
PRIVATE = "/etc/shadow"
ALLOWED = f"of-{secrets.token_hex(8)}.example"  # a name that stands nowhere else


@pytest.fixture(scope="module", name="jailed", params=["root", "user"])
def fixture_jailed(request):
    daemon = MicroVMs() if request.param == "root" else of_user()
    daemon.is_root = request.param == "root"
    if daemon.is_root:
        daemon.wrap = AS_LEAST_ROOT
    with daemon:
        daemon.made = daemon.create(timeout=3600, network={"allowOut": [ALLOWED], "denyOut": ["0.0.0.0/0"]})
        yield daemon


def processes(daemon, made=None):
    machine = daemon.record((made or daemon.made)["sandboxID"])["machine"]
    return machine["qemu"]["pid"], machine["netd"]["pid"]


def test_the_walls_of_both_processes(jailed):
    qemu, netd = processes(jailed)
    for pid in qemu, netd:
        status = status_of(pid)
        for key in "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb":
            assert status[key] == NONE, (key, status[key])
        assert status["NoNewPrivs"] == ["1"] and status["Seccomp"] == ["2"]
        assert len(status["Uid"]) == 4 and len(set(status["Uid"] + status["Gid"])) == 1
        # A daemon without root cannot drop its user's groups: the jail's user namespace forbids that.
        assert status["Groups"] == ([] if jailed.is_root else groups_of_user())
        assert status["NSpid"] == [str(pid), "1"]
        for wall in NAMESPACES:
            own = namespace_of(pid, wall) != namespace_of(jailed.process.pid, wall)
            assert own is not (wall == "network" and pid == netd), wall
    if jailed.is_root:
        uids = [int(status_of(pid)["Uid"][0]) for pid in (qemu, netd)]
        assert all(uid in UIDS for uid in uids) and uids[0] != uids[1]
    else:
        assert status_of(qemu)["Uid"][0] == str(USER)


def test_the_root_directories(jailed):
    for pid in processes(jailed):
        # A netd with sanitizers (never one that is installed) reads /proc, of its own processes.
        proc = {"proc"} if os.environ.get("SAN") and pid == processes(jailed)[1] else set()
        hidden = [PRIVATE, str(jailed.home), str(TEST_HOME), "/sys"]
        hidden += [] if proc else ["/proc"]
        root = pathlib.Path(f"/proc/{pid}/root")
        assert {entry.name for entry in root.iterdir()} - proc <= {
            "dev", "etc", "lib", "lib64", "usr", *{path.parts[1] for path in (BIN, TEST_HOME)}}
        for point, options in mounts_of(pid):
            assert {"ro", "nosuid"} <= set(options) and ("nodev" in options) != point.startswith("/dev/"), point
        for path in hidden:
            assert os.path.lexists(path) and not os.path.lexists(str(root) + path), path
        assert {entry.name for entry in (root / "dev").iterdir()} - {"kvm"} == {"urandom", "zero", "null"}
    qemu, netd = processes(jailed)
    assert not os.path.exists(f"/proc/{qemu}/root/etc/resolv.conf")
    shown = pathlib.Path(f"/proc/{netd}/root/etc/resolv.conf")
    assert shown.read_bytes() == pathlib.Path("/etc/resolv.conf").read_bytes()


def test_a_vmm_has_no_network(jailed):
    qemu, netd = processes(jailed)

    def interfaces(pid):
        lines = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        return [line.split(":")[0].strip() for line in lines]
    assert interfaces(qemu) == ["lo"] and interfaces(netd) == interfaces(os.getpid())
    routes = pathlib.Path(f"/proc/{qemu}/net/fib_trie").read_text()
    assert "127.0.0.1" not in routes  # not even that is up


def test_the_walls_are_shown(jailed):
    walls = [wall for wall in WALLS if jailed.is_root or wall != "uid"]
    shown = jailed.get(jailed.made["sandboxID"]).json
    assert shown["jail"] == {"walls": walls, "missing": []}
    assert shown["isolation"] in ("microvm (tcg)", "microvm (kvm)")


def test_it_works_all_the_same(jailed):
    """Operations that read and write a machine from outside: saving its memory for a snapshot, and
    making a sandbox from that."""
    sandbox = jailed.made["sandboxID"]
    assert jailed.command(jailed.made, "echo before > /tmp/f; cat /proc/loadavg > /dev/null")[0] == 0
    answer = jailed.request("POST", f"/sandboxes/{sandbox}/snapshots", {}, timeout=120)
    assert answer.status == 201, answer.body
    other = jailed.create(templateID=answer.json["snapshotID"])
    assert jailed.command(other, "cat /tmp/f") == (0, b"before\n")
    qemus = [processes(jailed, made)[0] for made in (jailed.made, other)]
    assert namespace_of(qemus[0], "mount") != namespace_of(qemus[1], "mount")
    if jailed.is_root:
        assert status_of(qemus[0])["Uid"] != status_of(qemus[1])["Uid"]
    # one that boots sees the kernel and the initramfs
    larger = jailed.create(memoryMB=768)
    assert jailed.command(larger, "echo booted") == (0, b"booted\n")
    for made in other, larger:
        assert jailed.kill(made["sandboxID"]) == 204


def test_nothing_of_it_is_others(jailed):
    """Directories belong to the sandbox's user alone, and so do files and sockets, except the files
    by which a jail shows the host's resolver. Arguments, control groups and the names of sockets,
    which everybody can read, show neither the sandbox's whole id nor the hosts of its policy."""
    assert jailed.request("POST", f"/sandboxes/{jailed.made['sandboxID']}/snapshots", {}, timeout=120).status == 201
    found = {}
    for directory, directories, files in os.walk(jailed.home):
        for name in directories + files:
            path = pathlib.Path(directory, name)
            found[path.relative_to(jailed.home)] = path.lstat().st_mode
    shown = {path for path, mode in found.items() if mode & 0o077 and not stat.S_ISLNK(mode)
             and path.parts[0] not in ("log", "templates")}  # which the test has made
    assert shown == {pathlib.Path("jail/resolv.conf")}, shown
    kinds = {stat.S_IFMT(mode) for mode in found.values()}
    assert kinds >= {stat.S_IFDIR, stat.S_IFREG, stat.S_IFSOCK} and pathlib.Path("cubbyd.sock") in found
    sandbox = jailed.made["sandboxID"].encode()
    shown = {pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes(jailed)}
    assert all(shown.values()) and any(b"guest=cubby-" + sandbox[:6] + b"\0" in words for words in shown.values())
    for entry in pathlib.Path("/proc").glob("[0-9]*"):  # its jails and all other processes of the sandbox
        try:
            shown[entry.name] = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
        except OSError:
            continue
    shown["unix"] = pathlib.Path("/proc/net/unix").read_bytes()
    telling = {where: words for where, words in shown.items() if sandbox in words or ALLOWED.encode() in words}
    assert not telling, telling


def counters(jailed):
    return jailed.request("GET", f"/sandboxes/{jailed.made['sandboxID']}/network").json["counters"]


def is_refused_another(jailed):
    """The guest tries to reach a private address; returns netd's count of refusals afterwards."""
    before = counters(jailed)
    assert jailed.command(jailed.made, "bash -c ': 2>/dev/null </dev/tcp/10.9.8.7/80'")[0] != 0
    return wait_for(lambda: (now := counters(jailed))["refused"] > before["refused"] and now, 30, "it is counted")


def test_the_next_daemon_finds_it(jailed):
    sandbox = jailed.made["sandboxID"]
    before, counted = processes(jailed), is_refused_another(jailed)
    jailed.process.kill()
    jailed.process.wait(30)
    jailed.start()
    assert processes(jailed) == before
    kept = counters(jailed)
    assert all(kept[key] >= counted[key] > 0 for key in ("refused", "receivedBytes", "sentBytes")), (counted, kept)
    assert is_refused_another(jailed)["refused"] > kept["refused"]
    assert jailed.get(sandbox).json["jail"]["missing"] == []
    assert jailed.command(jailed.made, "cat /tmp/f") == (0, b"before\n")
    assert jailed.request("POST", f"/sandboxes/{sandbox}/snapshots", {}, timeout=120).status == 201


F_OFD_SETLK, READ_LOCK = 37, struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


def test_a_lock_on_the_template_is_in_nobodys_way(jailed):
    """Everyone who can read the template's disk can lock it, and a QEMU that was taken over could
    do so to stop all others."""
    disk = jailed.home / "templates/default/disk.ext4"
    with open(disk, "rb") as held:
        fcntl.fcntl(held, F_OFD_SETLK, READ_LOCK)
        qemu = ["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display", "none", "-S"]
        drive = f"if=none,file={disk},format=raw,readonly=on"
        done = subprocess.run([*qemu, "-drive", drive], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "lock" in done.stderr, done  # control: one that locks
        assert jailed.kill(jailed.create()["sandboxID"]) == 204


def test_a_directory_that_somebody_removed(jailed):
    """The directory and the record were removed while no daemon ran: no process of that sandbox survives."""
    sandbox, pids = jailed.made["sandboxID"], processes(jailed)
    jailed.process.kill()
    jailed.process.wait(30)
    shutil.rmtree(jailed.directory(sandbox))
    assert all(process_exists(pid) for pid in pids)  # control: by itself nothing ends
    jailed.start()
    wait_for(lambda: not any(process_exists(pid) for pid in pids), 30, "they are ended")
    assert jailed.get(sandbox).status == 404


def test_a_host_without_a_wall():
    with MicroVMs() as daemon:
        pass  # control: nothing is missing here
    daemon = MicroVMs()
    daemon.preexec = lacking("landlock")
    with daemon:
        made = daemon.create()
        assert made["isolation"].endswith(", jail without landlock")
        jail = daemon.get(made["sandboxID"]).json["jail"]
        assert jail == {"walls": [w for w in WALLS if w != "landlock"], "missing": ["landlock"]}
        assert daemon.command(made, "echo works") == (0, b"works\n")
        assert "jail.missing wall=landlock" in daemon.log.read_text()


def test_a_resolver_that_the_host_replaces(tmp_path):
    """Another file takes the name, as with DHCP clients. In an /etc of the daemon's own."""
    etc = tmp_path / "etc"
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    (etc / "resolv.conf").unlink()
    (etc / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    daemon = MicroVMs()
    daemon.wrap = ["unshare", "-m", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh"]
    with daemon:
        netd = processes(daemon, daemon.create())[1]
        shown = pathlib.Path(f"/proc/{netd}/root/etc/resolv.conf")
        assert shown.read_text() == "nameserver 192.0.2.1\n"
        (etc / "new").write_text("nameserver 192.0.2.2\noptions timeout:1\n")
        (etc / "new").rename(etc / "resolv.conf")
        wait_for(lambda: shown.read_text() == "nameserver 192.0.2.2\noptions timeout:1\n", 30, "the new one is seen")
        (etc / "new").write_text("\n")
        (etc / "new").rename(etc / "resolv.conf")
        wait_for(lambda: shown.read_text() == "\n", 30, "the shorter one is seen")


def test_a_wall_that_falls_later():
    """A protection that the host could build when the daemon started cannot be built later: the
    sandbox does not start."""
    with MicroVMs() as daemon:
        shown = daemon.home / "jail/resolv.conf"
        aside = shown.rename(shown.with_name("aside"))
        answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"}, timeout=60)
        assert answer.status >= 500 and b"cubby-jail: bind mount" in answer.body, answer.body
        aside.rename(shown)
        daemon.create()  # control


def run(*args, **more):
    """Runs a daemon that must end by itself; returns its status and its output."""
    daemon = MicroVMs()
    try:
        done = subprocess.run([daemon.program, *args], env=daemon.env, capture_output=True, text=True, timeout=60,
                              **more)
        return done.returncode, done.stderr
    finally:
        shutil.rmtree(daemon.home)


def test_require_jail():
    with MicroVMs("--require-jail") as daemon:  # control: here it starts
        assert daemon.request("GET", "/health").status in (200, 204)
    status, said = run("--require-jail", preexec_fn=lacking("landlock"))
    assert status == 1 and "cannot build the walls landlock" in said and "lsm=" in said, said
    assert run("--require-jail", "--jail", "off")[0] == 2


def test_no_jail_and_the_end_with_the_daemon():
    with MicroVMs("--jail", "off", "--end-with-daemon") as daemon:
        made = daemon.create()
        assert made["isolation"].endswith(", no jail")
        for pid in processes(daemon, made):
            assert namespace_of(pid, "mount") == namespace_of(os.getpid(), "mount")
        ends_with(daemon, made)


def test_the_end_with_the_daemon():
    with MicroVMs("--end-with-daemon") as daemon:
        ends_with(daemon, daemon.create())


def ends_with(daemon, made):
    pids = processes(daemon, made)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait(30)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 30, "both are gone")
    daemon.start()
    assert daemon.get(made["sandboxID"]).status == 404
