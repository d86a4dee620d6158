# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are containers of gVisor: commands, files, every end, adoption, and saved states."""

import concurrent.futures
import contextlib
import errno
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import time

import pytest

from cubbyd import ENVD, process_exists, wait_for
from gvisor_world import RUNSC, Containers, files_of, note, post, put_note
from jail_peer import AS_USER, USER, lacking, status_of
from proc import descriptors

pytestmark = pytest.mark.skipif(not RUNSC.exists(), reason="runsc is not built: make runsc")


@pytest.fixture(scope="module")
def shared():
    with Containers() as d:
        yield d


@pytest.fixture
def daemon(shared):
    yield shared
    for sandbox in shared.request("GET", "/v2/sandboxes").json:
        shared.kill(sandbox["sandboxID"])
    wait_for(lambda: shared.machines() == [] and shared.directories() == [] and shared.container_dirs() == [], 30, "nothing is left")


# What a sentry has open of the host: "log", twice, is in memory, and gets what the sentry says when it ends.
FILES = [("log", False, 0), ("log", False, 0), ("rootfs.erofs", True, errno.EROFS), ("tools.erofs", True, errno.EROFS)]


# ---- a sandbox
def test_a_command(daemon):
    made = daemon.create(envVars={"GREETING": "hello"})
    assert made["isolation"] == "gvisor"
    assert daemon.command(made, "echo $GREETING; id -un; pwd; exit 3") == (3, b"hello\nuser\n/home/user\n")
    assert daemon.command(made, "id -u", user="root") == (0, b"0\n")
    assert daemon.command(made, "cat /proc/version")[1].startswith(b"Linux version 4.19.0-gvisor")


def test_devices_of_the_host_keep_their_owner(daemon):
    """runsc of root gives its standard streams to the sentry's user: they must be files of its own."""
    before = os.stat("/dev/null")
    daemon.create()
    after = os.stat("/dev/null")
    assert (after.st_uid, after.st_gid, after.st_ctime_ns) == (before.st_uid, before.st_gid, before.st_ctime_ns)


def test_envd_has_its_name(daemon):
    """init starts it by descriptor, and gVisor would call it "3"."""
    made = daemon.create()
    names = daemon.command(made, "cat /proc/[0-9]*/comm")[1].split()
    assert b"init" in names and b"envd" in names, names


def test_a_file(daemon):
    made = daemon.create()
    name, token = made["sandboxID"], made["envdAccessToken"]
    body = os.urandom(3 << 20)
    path = "/files?path=/home/user/data&username=user"
    sent = daemon.through(name, "POST", path, body, headers={"Content-Type": "application/octet-stream"}, token=token)
    assert sent.status == 200, sent.body
    assert daemon.through(name, "GET", path, token=token).body == body
    assert daemon.command(made, "wc -c </home/user/data") == (0, b"%d\n" % len(body))


def test_names(daemon):
    made, other = daemon.create(), daemon.create()
    ask = "hostname; cat /etc/machine-id; cat /proc/sys/kernel/random/boot_id"
    first, second = (daemon.command(m, ask)[1].split() for m in (made, other))
    assert first[0].decode() == made["sandboxID"]
    assert not set(first) & set(second)


def test_a_full_layer_is_a_full_disk(daemon):
    """The writable layer is in memory, and twice as large as the guest's memory. The guest sees the size that the API shows."""
    made = daemon.create()
    assert daemon.get(made["sandboxID"]).json["diskSizeMB"] == 256
    code, text = daemon.command(made, "df -B1M /")
    assert code == 0 and text.splitlines()[-1].split()[1] == b"256", text
    code, text = daemon.command(made, "dd if=/dev/zero of=/home/user/big bs=1M count=300 2>&1; rm -f /home/user/big")
    assert code == 0 and b"No space left on device" in text
    assert daemon.command(made, "echo x >/home/user/small && cat /home/user/small") == (0, b"x\n")


def test_no_argument_shows_the_id(daemon):
    made = daemon.create()
    everything = b"".join(open(f"/proc/{pid}/cmdline", "rb").read() for pid in daemon.machines())
    assert daemon.sentry(made) in daemon.machines()
    assert made["sandboxID"].encode() not in everything


# ---- the host
def below(pid):
    """The descendants of a process."""
    found = []
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in file.read_text().split():
            found += [int(child), *below(int(child))]
    return found


def test_what_the_guest_runs_is_limited_and_counted(daemon):
    """The guest's programs run in stubs, children of the sentry."""
    made = daemon.create()
    sentry = daemon.sentry(made)
    groups = [pathlib.Path(g["dir"]) for g in daemon.record(made["sandboxID"])["machine"]["limits"]["groups"]]
    s = daemon.open_command(made, "while :; do :; done")
    with s:
        s.recv(1)
        stubs = below(sentry)
        assert len(stubs) > 3
        for group in groups:  # each by itself: in version 1 they have the same name in each tree
            inside = (group / "cgroup.procs").read_text().split()
            assert not [p for p in (sentry, *stubs) if str(p) not in inside and process_exists(p)], group
        wait_for(lambda: processor_seconds(daemon, made) > 3, 60, "the loop is counted")


def test_its_groups_limit_it(daemon):
    """Swap counts, too. One sandbox gets at most an eighth of the host's process numbers."""
    made = daemon.create()
    limits = daemon.record(made["sandboxID"])["machine"]["limits"]
    assert (limits["holds"] == "none") == (not limits["groups"])
    numbers = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())
    for group in limits["groups"]:
        place = pathlib.Path(group["dir"])
        if "pids" in group["holds"]:
            assert int((place / "pids.max").read_text()) == min(16384, numbers // 8)
        for file, most in (("memory.memsw.limit_in_bytes", (128 + 256 + 192) << 20), ("memory.swap.max", 0)):
            if (place / file).exists():
                assert int((place / file).read_text()) == most


def test_its_memory_is_counted_and_promised(daemon):
    """All of the memory file, also pages that only a command has touched; and the layer, which is in memory, too."""
    made = daemon.create()
    daemon.command(made, "head -c 30000000 /dev/zero >/home/user/big")
    sentry = daemon.sentry(made)
    (file,) = [fd for fd, link in descriptors(sentry).items() if link.startswith("/memfd:runsc-memory")]
    stats = daemon.request("GET", "/sandboxes/stats").json
    (line,) = [x for x in stats["sandboxes"] if x["sandboxID"] == made["sandboxID"]]
    assert line["memoryBytes"] > os.stat(f"/proc/{sentry}/fd/{file}").st_blocks * 512 * 0.9 > 20e6
    assert stats["host"]["promisedBytes"] == (128 + 256 + 192) << 20, stats["host"]


def test_the_guest_sees_its_own_memory(daemon):
    made = daemon.create()
    assert daemon.command(made, "head -n 1 /proc/meminfo")[1].split() == [b"MemTotal:", b"131072", b"kB"]


def processor_seconds(daemon, made):
    (line,) = [x for x in daemon.request("GET", "/sandboxes/stats").json["sandboxes"] if x["sandboxID"] == made["sandboxID"]]
    return line["cpuSeconds"]


def test_what_is_around_a_sentry(daemon):
    made = daemon.create()
    proc = pathlib.Path(f"/proc/{daemon.sentry(made)}")
    status = status_of(daemon.sentry(made))
    assert status["NoNewPrivs"] == ["1"] and status["Seccomp"] == ["2"]
    assert int(status["CapEff"][0], 16) == 0 or os.geteuid() != 0
    assert ("privileges" in daemon.get(made["sandboxID"]).json["jail"]["walls"]) == (os.geteuid() == 0)
    shared = [name for name in ("user", "mnt", "pid", "net", "ipc", "uts")
              if os.readlink(proc / "ns" / name) == os.readlink(f"/proc/self/ns/{name}")]
    assert not shared
    (limit,) = [line.split() for line in (proc / "limits").read_text().splitlines() if line.startswith("Max file size")]
    (files,) = [line.split() for line in (proc / "limits").read_text().splitlines() if line.startswith("Max open files")]
    most = str(min(20480, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    assert files[3:5] == [most, most]
    most = (4 << 30) + 4 * ((128 + 256 + 192) << 20) + 1600 * ((16 << 20) + (128 << 10))
    assert limit[3] == limit[4] == str(most), "what it may write into its saved state, and its memory file"
    assert files_of(daemon.sentry(made)) == FILES


def test_a_guest_cannot_set_the_clock(daemon):
    """Not even by /init, which the daemon sends with a time that is late on a busy host."""
    made = daemon.create()
    body = json.dumps({"timestamp": "2040-01-01T00:00:00Z", "accessToken": made["envdAccessToken"]})
    request = f"POST /init HTTP/1.1\\r\\nHost: envd\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
    init = f"exec 3<>/dev/tcp/127.0.0.1/{ENVD}; printf '{request}%s' '{body}' >&3; head -n 1 <&3"
    assert daemon.command(made, f"bash <<'END'\n{init}\nEND") == (0, b"HTTP/1.1 204 No Content\r\n")
    code, text = daemon.command(made, "date -s @1000000000 2>&1", user="root")
    assert code == 1 and b"Operation not permitted" in text
    assert abs(int(daemon.command(made, "date +%s")[1]) - time.time()) < 10


def test_a_daemon_without_root():
    """Its sentries run as the same user, in user namespaces of their own."""
    daemon = Containers("--pool", "off")
    for path in (daemon.home, *daemon.home.rglob("*")):
        if not path.is_file():
            os.chown(path, USER, USER)
    daemon.wrap = AS_USER
    with daemon:
        made = daemon.create()
        put_note(daemon, made, "kept")
        assert status_of(daemon.sentry(made))["Uid"][0] == str(USER)
        assert int(status_of(daemon.sentry(made))["CapEff"][0], 16) != 0  # in its user namespace
        # It owns the template's files, but may not even change their modes.
        assert files_of(daemon.sentry(made)) == FILES
        assert "privileges" not in daemon.get(made["sandboxID"]).json["jail"]["walls"]
        post(daemon, made, "pause", {"depth": "hibernate"}, status=204)
        post(daemon, made, "connect", {"timeout": 600})
        assert note(daemon, made) == ["kept", "kept"]


def creator_of(daemon):
    """The process that is `runsc create`, or None. It takes some 70 ms."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if len(words) > 2 and os.fsencode(daemon.home / "runsc") in words[2] and b"create" in words:
                return int(entry.name)
    return None


def creating(daemon):
    """(the connection of a create, the pid of its `runsc create`). It runs for a tenth of a second: a create that was
    quicker than the look at all processes is done again."""
    for _ in range(20):
        asked = daemon.connection()
        asked.request("POST", "/v2/sandboxes", b'{"templateID": "default"}', {"Content-Type": "application/json"})
        late = time.monotonic() + 2
        while time.monotonic() < late:
            found = creator_of(daemon)
            if found:
                return asked, found
        daemon.kill(json.loads(asked.getresponse().read())["sandboxID"])
    raise AssertionError("no `runsc create` was seen")


def test_a_creator_that_hangs_is_killed(daemon):
    """And so is the sentry that it has started already."""
    asked, found = creating(daemon)
    os.kill(found, signal.SIGSTOP)
    asked.close()  # the create is given up
    wait_for(lambda: not process_exists(found), 10, "it has ended")
    wait_for(lambda: daemon.machines() == [] and daemon.container_dirs() == [], 10, "nothing is left")


def test_a_daemon_that_stops_while_runsc_creates():
    """It ends at once, and leaves neither the creator nor its sentry."""
    with Containers("--pool", "off") as d:
        asked, found = creating(d)
        wait_for(lambda: below(found), 10, "it has started the sentry")
        os.kill(found, signal.SIGSTOP)
        assert d.stop() == 0
        assert d.machines() == [] and d.container_dirs() == [] and d.directories() == []
        asked.close()


def test_a_template_that_is_rebuilt_meanwhile():
    """All that a sandbox gets is of one build."""
    with Containers("--pool", "off") as d:
        asked = d.connection()
        asked.request("POST", "/v2/sandboxes", b'{"templateID": "default"}', {"Content-Type": "application/json"})
        found = wait_for(lambda: creator_of(d), 10, "runsc create runs")
        os.kill(found, signal.SIGSTOP)
        template, old = d.home / "templates" / "default", d.home / "templates" / "old"
        template.rename(old)
        shutil.copytree(old, template)
        for file in (template / "gvisor").glob("*.erofs"):
            file.write_bytes(bytes(1 << 20))
        os.kill(found, signal.SIGCONT)
        answer = asked.getresponse()
        made = json.loads(answer.read())
        assert answer.status == 201, made
        assert d.command(made, "echo hi") == (0, b"hi\n")
        d.kill(made["sandboxID"])


def test_a_creator_that_names_no_sentry(daemon):
    """It ended with status 0, but the driver cannot read the sentry's pid. The sentry is killed all the same."""
    asked = daemon.connection()
    asked.request("POST", "/v2/sandboxes", b'{"templateID": "default"}', {"Content-Type": "application/json"})
    found = wait_for(lambda: creator_of(daemon), 10, "runsc create runs")
    os.kill(found, signal.SIGSTOP)
    (container,) = daemon.container_dirs()
    pid = daemon.home / "runsc" / container / "pid"
    assert not pid.exists()
    pid.symlink_to("/dev/null")
    os.kill(found, signal.SIGCONT)
    answer = asked.getresponse()
    text = answer.read().decode()
    assert answer.status >= 400 and "gVisor's sentry did not start: `runsc create` exited with status 0: " in text, text
    wait_for(lambda: daemon.machines() == [] and daemon.container_dirs() == [], 10, "nothing is left")


@pytest.mark.parametrize("memory", [128, 1024])
def test_a_fork_bomb_ends_itself_alone(daemon, memory):
    """A command may start so many processes, and then none. Or the host has no memory for more of them, and ends some."""
    made = daemon.create(memoryMB=memory)
    code, text = daemon.command(made, "i=0; while [ $i -lt 2000 ]; do sleep 1000 & i=$((i+1)); done 2>&1; echo made")
    assert code != 0 and b"made" not in text and b"annot fork" in text, (code, text[-200:])
    assert daemon.command(made, "echo lives; cat /sys/fs/cgroup/commands/pids.max") == (0, b"lives\n1000\n")


def test_a_sentry_that_gives_up_says_why(daemon):
    """Its memory file cannot grow. The network process ends, too, and mostly first."""
    made = daemon.create()
    resource.prlimit(daemon.sentry(made), resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
    with daemon.open_command(made, "i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; wait"):
        wait_for(lambda: daemon.get(made["sandboxID"]).status in (404, 410), 120, "the sentry has ended")
    message = daemon.get(made["sandboxID"]).json["message"]
    assert "gVisor's sentry ended: panic: failed to allocate" in message, message


# ---- the network
def test_policy(daemon):
    made = daemon.create()
    ask = "(exec 3<>/dev/tcp/10.0.2.3/53) 2>&1; exec 3<>/dev/tcp/192.0.2.1/80"
    changed = daemon.request("PUT", f"/sandboxes/{made['sandboxID']}/network", {"mode": "none"})
    assert changed.status in (200, 204), changed.body
    code, text = daemon.command(made, f"bash -c '{ask}' 2>&1")
    assert code == 1 and b"192.0.2.1/80: Connection refused" in text.replace(b"bash: line 1: ", b""), text
    shown = daemon.request("GET", f"/sandboxes/{made['sandboxID']}/network").json
    assert "192.0.2.1" in json.dumps(shown), shown


# ---- its end
def test_kill(daemon):
    made = daemon.create()
    sentry = daemon.sentry(made)
    assert daemon.kill(made["sandboxID"]) == 204
    wait_for(lambda: not process_exists(sentry), 10, "the sentry has ended")


@pytest.mark.parametrize("end", ["sentry", "init"])
def test_an_end_that_nobody_asked_for(daemon, end):
    made = daemon.create()
    sentry = daemon.sentry(made)
    if end == "sentry":
        os.kill(sentry, signal.SIGKILL)
    else:
        daemon.command(made, "kill -9 1; kill -TERM 1", user="root")
    wait_for(lambda: daemon.get(made["sandboxID"]).status in (404, 410), 30, "the daemon knows")
    assert "gVisor's sentry ended" in daemon.get(made["sandboxID"]).json["message"]


def test_a_saved_state_of_another_runsc_is_refused(daemon):
    made = daemon.create()
    snapshot = post(daemon, made, "snapshots")["snapshotID"]
    image = daemon.home / "snapshots" / snapshot / "image" / "image.json"
    image.write_text(image.read_text().replace('"runsc":"', '"runsc":"0'))
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": snapshot})
    assert answer.status >= 400 and "the image was saved by runsc 2" in answer.json["message"], answer.body
    daemon.request("DELETE", f"/templates/{snapshot}")


def test_the_end_with_the_daemon():
    with Containers("--end-with-daemon") as d:
        made = d.create()
        pids = d.machines()
        assert d.sentry(made) in pids
        d.process.send_signal(signal.SIGKILL)
        d.process.wait(30)
        wait_for(lambda: not any(process_exists(pid) for pid in pids) and d.machines() == [], 30, "the sentry, netd and the guard have ended")
        d.start()
        assert d.get(made["sandboxID"]).status == 404
        made = d.create()
        guard = guards(d)
        assert len(guard) == 1
        d.kill(made["sandboxID"])
        wait_for(lambda: d.machines() == [] and not any(os.path.exists(f"/proc/{pid}") for pid in guard), 30, "nothing is left")


def guards(daemon):
    return [pid for pid in below(daemon.process.pid) if b"--guard-fd" in command_line(pathlib.Path(f"/proc/{pid}"))]


def test_a_guard_that_ends_early_is_replaced():
    with Containers("--end-with-daemon") as d:
        d.create()
        pids = d.machines()
        (first,) = guards(d)
        os.kill(first, signal.SIGKILL)
        (second,) = wait_for(lambda: [pid for pid in guards(d) if pid != first], 30, "another guard")
        d.process.send_signal(signal.SIGKILL)
        d.process.wait(30)
        wait_for(lambda: not any(process_exists(pid) for pid in [second, *pids]) and d.machines() == [], 30, "all have ended")
        d.start()


def command_line(entry):
    with contextlib.suppress(OSError):
        return (entry / "cmdline").read_bytes()
    return b""


# ---- the walls of netd
@pytest.mark.parametrize("how, label", [("off", "no jail around netd"), ("landlock", "jail around netd without landlock")])
def test_the_label_tells_what_netd_lacks(how, label):
    d = Containers(*(["--jail", "off"] if how == "off" else []))
    d.preexec = lacking(how) if how != "off" else None
    with d:
        made = d.create()
        assert made["isolation"] == f"gvisor, {label}"
        jail = d.get(made["sandboxID"]).json["jail"]
        assert "seccomp" in jail["walls"], "those of the sentry are gVisor's"
        assert jail["network"]["missing"] == ([] if how == "off" else [how])
        assert (jail["network"]["walls"] == []) == (how == "off")
        assert d.command(made, "echo works") == (0, b"works\n")


# ---- saved states
def test_pause(daemon):
    made = daemon.create()
    put_note(daemon, made, "kept")
    post(daemon, made, "pause", status=204)
    assert daemon.get(made["sandboxID"]).json["state"] == "paused"
    post(daemon, made, "connect", {"timeout": 600})
    assert note(daemon, made) == ["kept", "kept"]


def states(daemon, made):
    """The states of the sandbox's machine, in their order."""
    return re.findall(rf"machine.state id={made['sandboxID']} \S+ -> (\S+)", daemon.log.read_text())


def test_a_sentry_that_answers_late(daemon):
    """It obeys all the same, and counts its stops. A pause or a wake that failed is undone, and may be repeated."""
    awake, asleep = daemon.create(), daemon.create()
    for made in (awake, asleep):
        put_note(daemon, made, "kept")
    post(daemon, asleep, "pause", status=204)
    sentries = [daemon.sentry(made) for made in (awake, asleep)]
    try:
        for sentry in sentries:
            os.kill(sentry, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            asked = [threads.submit(daemon.request, "POST", f"/sandboxes/{made['sandboxID']}/{what}", body, timeout=120)
                     for made, what, body in ((awake, "pause", {}), (asleep, "connect", {"timeout": 600}))]
            for answer in asked:
                assert answer.result().status >= 500, answer.result().body
    finally:
        for sentry in sentries:
            os.kill(sentry, signal.SIGCONT)
    for made, passed in ((awake, ["pausing", "paused", "resuming", "running"]), (asleep, ["resuming", "running", "pausing", "paused"])):
        wait_for(lambda made=made, passed=passed: states(daemon, made)[-3:] == passed[-3:], 30, "put back into the state before the request")
    for made in (awake, asleep):
        wait_for(lambda made=made: daemon.request("POST", f"/sandboxes/{made['sandboxID']}/connect", {"timeout": 600}).status < 300, 30, "awake")
        assert note(daemon, made) == ["kept", "kept"]
        post(daemon, made, "pause", status=204)
        post(daemon, made, "connect", {"timeout": 600})
        assert note(daemon, made) == ["kept", "kept"]


def test_hibernate_and_wake(daemon):
    made = daemon.create()
    put_note(daemon, made, "kept")
    s = daemon.open_command(made, "while sleep 0.05; do echo x >>/home/user/ticks; done")
    with s:
        wait_for(lambda: daemon.command(made, "cat /home/user/ticks")[0] == 0, 30, "it ticks")
        sentry = daemon.sentry(made)
        post(daemon, made, "pause", {"depth": "hibernate"}, status=204)
        wait_for(lambda: not process_exists(sentry), 10, "no machine is left")
    post(daemon, made, "connect", {"timeout": 600})
    assert note(daemon, made) == ["kept", "kept"]
    ticks = int(daemon.command(made, "wc -l </home/user/ticks")[1])
    wait_for(lambda: int(daemon.command(made, "wc -l </home/user/ticks")[1]) > ticks, 30, "its process goes on")


def test_fork_and_rollback(daemon):
    made = daemon.create()
    put_note(daemon, made, "first")
    snapshot = post(daemon, made, "snapshots")["snapshotID"]
    put_note(daemon, made, "second")
    (child,) = post(daemon, made, "fork")
    assert note(daemon, {**made, **child["sandbox"]}) == ["second", "second"]
    post(daemon, made, "rollback", {"snapshotID": snapshot}, status=200)
    assert note(daemon, made) == ["first", "first"]
    assert daemon.request("DELETE", f"/templates/{snapshot}").status in (200, 204)


def test_two_sandboxes_of_one_snapshot_draw_different_numbers(daemon):
    """Also before anything was told to them: the sentry takes random numbers from the host."""
    made = daemon.create()
    with daemon.open_command(made, "exec bash -c 'while sleep 0.02; do echo $SRANDOM >>/home/user/drawn; done'"):
        wait_for(lambda: daemon.command(made, "wc -l </home/user/drawn")[0] == 0, 30, "it draws")
        snapshot = post(daemon, made, "snapshots")["snapshotID"]
    assert b"sandbox.freeze" not in daemon.log.read_bytes(), "there is nothing to ask for"
    drawn = []
    for child in (daemon.create(templateID=snapshot), daemon.create(templateID=snapshot)):
        before = daemon.command(child, "wc -l </home/user/drawn")[1]
        wait_for(lambda child=child, before=before: daemon.command(child, "wc -l </home/user/drawn")[1] != before, 30, "it goes on")
        drawn.append(daemon.command(child, "cat /home/user/drawn")[1].split())
    first, second = drawn
    common = [a for a, b in zip(first, second) if a == b]
    assert common and first[:len(common)] == common, "those before the snapshot"
    assert not set(first[len(common):]) & set(second[len(common):])
    daemon.request("DELETE", f"/templates/{snapshot}")


def test_pool():
    with Containers("--pool", "default=1:1") as d:
        wait_for(lambda: d.request("GET", "/pool").json["templates"][0]["ready"] == 1, 170, "one is ready")
        made = d.create()
        assert d.command(made, "hostname") == (0, made["sandboxID"].encode() + b"\n")
        for group in d.record(made["sandboxID"])["machine"]["limits"]["groups"]:  # it has left the background
            idle = pathlib.Path(group["dir"]) / "cpu.idle"
            assert not idle.exists() or idle.read_text() == "0\n"
