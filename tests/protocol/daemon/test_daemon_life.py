# SPDX-License-Identifier: Apache-2.0
"""cubbyd's own life: one daemon per home, signals, a crash, and the state that the next daemon
finds.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from cubbyd import PROGRAM, Daemon, process_exists, wait_for
from proc import descriptors


@pytest.fixture
def daemon():
    with Daemon() as d:
        yield d


def crash(daemon):
    daemon.process.kill()
    daemon.process.wait()


def works(daemon, made):
    answer = daemon.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"])
    return answer.status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_everything(number):
    daemon = Daemon().start()
    pids = [daemon.machine(daemon.create()["sandboxID"]) for _ in range(3)]
    assert daemon.stop(number) == 0
    assert not any(process_exists(pid) for pid in pids)
    assert daemon.directories() == [] and not (daemon.home / "cubbyd.sock").exists()
    daemon.close()


def test_stopped_ones_are_remembered():
    daemon = Daemon().start()
    sandbox = daemon.create()["sandboxID"]
    daemon.stop()
    daemon.start()
    answer = daemon.get(sandbox).json
    assert answer["error_code"] == "sandbox_ended" and "daemon was stopped" in answer["message"]
    daemon.close()


@pytest.mark.parametrize("how", ["SIGUSR1", "--keep"])
def test_handing_over(how):
    daemon = Daemon(*(["--keep"] if how == "--keep" else [])).start()
    made = daemon.create(metadata={"a": "b"}, timeout=200)
    before = daemon.get(made["sandboxID"]).json
    pid = daemon.machine(made["sandboxID"])
    assert daemon.stop(signal.SIGTERM if how == "--keep" else signal.SIGUSR1) == 0
    assert process_exists(pid)
    daemon.args = []
    daemon.start()
    assert daemon.get(made["sandboxID"]).json == before
    assert works(daemon, made)
    daemon.close()


def test_crash_and_adoption(daemon):
    made = [daemon.create(metadata={"n": str(n)}, timeout=200) for n in range(5)]
    before = [daemon.get(m["sandboxID"]).json for m in made]
    crash(daemon)
    assert len(daemon.machines()) == 5
    daemon.start()
    assert [daemon.get(m["sandboxID"]).json for m in made] == before
    assert all(works(daemon, m) for m in made)
    assert daemon.kill(made[0]["sandboxID"]) == 204
    assert len(daemon.machines()) == 4


def test_adopted_machine_dies(daemon):
    sandbox = daemon.create()["sandboxID"]
    crash(daemon)
    daemon.start()
    os.kill(daemon.machine(sandbox), signal.SIGKILL)
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "the daemon notices")
    assert "its machine ended unexpectedly" in daemon.get(sandbox).json["message"]


def test_machine_gone_at_adoption(daemon):
    sandbox = daemon.create()["sandboxID"]
    pid = daemon.machine(sandbox)
    crash(daemon)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not process_exists(pid), 30)
    daemon.start()
    answer = daemon.get(sandbox).json
    assert answer["error_code"] == "sandbox_ended"
    assert "no longer ran when the daemon was started again" in answer["message"]
    assert daemon.through(sandbox).json["reason"] == "lost"
    assert daemon.directories() == []


def test_overdue_at_adoption(daemon):
    kept = daemon.create(timeout=100)["sandboxID"]
    sandbox = daemon.create(timeout=8)["sandboxID"]
    over = time.monotonic() + 8  # at the latest
    pid = daemon.machine(sandbox)
    crash(daemon)
    wait_for(lambda: time.monotonic() > over, 30, "its time to live passes while nobody watches")
    assert process_exists(pid)
    daemon.start()
    wait_for(lambda: not process_exists(pid), 30, "it is ended")
    assert "time to live" in daemon.get(sandbox).json["message"]
    assert daemon.get(kept).status == 200


def test_time_to_live_is_kept_over_a_crash(daemon):
    sandbox = daemon.create(timeout=300)["sandboxID"]
    assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 2000}).status == 204
    before = daemon.get(sandbox).json["endAt"]
    crash(daemon)
    daemon.start()
    assert daemon.get(sandbox).json["endAt"] == before


def test_half_made_is_removed(daemon):
    sandbox = daemon.create()["sandboxID"]
    pid = daemon.machine(sandbox)
    crash(daemon)
    (daemon.directory(sandbox) / "sandbox.json").unlink()
    daemon.start()
    assert daemon.directories() == [] and not process_exists(pid)
    assert daemon.get(sandbox).json["error_code"] == "sandbox_not_found"


def test_crash_during_creation(daemon):
    daemon.template("silent", init="silent")
    threading.Thread(target=lambda: pytest.raises(Exception, daemon.create, templateID="silent"),
                     daemon=True).start()
    pid = wait_for(daemon.machines, 30, "the machine runs")[0]
    crash(daemon)
    assert process_exists(pid)
    daemon.start()
    assert daemon.directories() == [] and not process_exists(pid)


@pytest.mark.parametrize("text", ["", "{", '{"format":1}', "[]", '{"format":1,"id":"x"}',
                                  '{"format":1,"facts":7}', "\xff"])
def test_broken_records(daemon, text):
    sandbox = daemon.create()["sandboxID"]
    pid = daemon.machine(sandbox)
    crash(daemon)
    (daemon.directory(sandbox) / "sandbox.json").write_bytes(text.encode("latin-1"))
    daemon.start()
    assert daemon.directories() == [] and not process_exists(pid)
    assert daemon.get(sandbox).json["error_code"] == "sandbox_ended"


def test_a_record_of_a_newer_version_is_refused_and_kept(daemon):
    """The daemon of an older version starts only where it ends nothing that it cannot read."""
    sandbox = daemon.create()["sandboxID"]
    pid = daemon.machine(sandbox)
    crash(daemon)
    path = daemon.directory(sandbox) / "sandbox.json"
    mine = path.read_text()
    path.write_text(json.dumps({**json.loads(mine), "format": 99}))
    done = subprocess.run([daemon.program], env=daemon.env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "newer version of Cubby (format 99" in done.stderr and "CUBBY_HOME" in done.stderr
    assert process_exists(pid) and path.exists()
    path.write_text(mine)
    daemon.start()
    assert daemon.get(sandbox).json["state"] == "running"


# What the daemon of commit 52a3fd0, the earliest whose state was tried, wrote into these files.
OLD_RECORD = """format id template build token owner metadata policy facts state asleep image snapshot traffic_token
    mask_request_host size aside machine auto_pause auto_resume sliding timeout_ms started_ns end_ms end_ns used_ms freeze_ms
    hibernate_ms""".split()
OLD_SNAPSHOT = "format id metadata policy size facts created_ns bytes standstill_us sandbox template build token".split()
OLD_FACTS = ["cpus", "memory_mb", "disk_mb", "accel", "python", "driver"]  # "driver" is the test's: without it, microvm


def make_old(path, members, version):
    """Leave in a state file what that daemon would have written."""
    text = json.loads(path.read_text())
    old = {name: text.get(name) for name in members}
    path.write_text(json.dumps({**old, "format": version, "facts": {name: text["facts"].get(name) for name in OLD_FACTS
                                                                    if name in text["facts"]}}))


def test_the_state_of_an_old_version_is_carried_over(daemon):
    """A running, a frozen and a hibernated sandbox, and a snapshot."""
    running, frozen, hibernated = (daemon.create() for _ in range(3))
    snapshot = daemon.request("POST", f"/sandboxes/{running['sandboxID']}/snapshots", {}).json["snapshotID"]
    assert daemon.request("POST", f"/sandboxes/{frozen['sandboxID']}/pause", {"depth": "freeze"}).status == 204
    assert daemon.request("POST", f"/sandboxes/{hibernated['sandboxID']}/pause", {"depth": "hibernate"}).status == 204
    crash(daemon)
    for made in running, frozen, hibernated:
        make_old(daemon.directory(made["sandboxID"]) / "sandbox.json", OLD_RECORD, 3)
    make_old(daemon.home / "snapshots" / snapshot.split(":")[0] / "snapshot.json", OLD_SNAPSHOT, 1)
    daemon.start()
    assert [daemon.get(made["sandboxID"]).json["state"] for made in (running, frozen, hibernated)] == ["running", "paused", "paused"]
    for made in frozen, hibernated:
        assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/resume", {}).status in (200, 201)
    assert all(works(daemon, made) for made in (running, frozen, hibernated))
    again = daemon.create(templateID=snapshot)
    assert works(daemon, again)


def test_an_unreadable_record_is_named_once(daemon):
    sandbox = daemon.create()["sandboxID"]
    path = daemon.directory(sandbox) / "sandbox.json"
    crash(daemon)
    path.unlink()
    path.mkdir()
    daemon.start()
    assert daemon.get(sandbox).json["message"].count("sandbox.json") == 1


def test_a_reused_pid_is_not_touched(daemon):
    sandbox = daemon.create()["sandboxID"]
    record = daemon.record(sandbox)
    pid = record["machine"]["pid"]
    crash(daemon)
    os.kill(pid, signal.SIGKILL)
    other = subprocess.Popen(["sleep", "100"])
    try:
        record["machine"].update(pid=other.pid, start_time=record["machine"]["start_time"] - 1000)
        (daemon.directory(sandbox) / "sandbox.json").write_text(json.dumps(record))
        daemon.start()
        assert daemon.get(sandbox).status == 404
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_strangers_are_left_alone(daemon):
    daemon.stop()
    (daemon.home / "sandboxes" / "notes").mkdir()
    daemon.start()
    assert daemon.directories() == ["notes"]
    shutil.rmtree(daemon.home / "sandboxes" / "notes")


def test_torn_memory_of_ended_ones(daemon):
    first = daemon.create()["sandboxID"]
    daemon.kill(first)
    crash(daemon)
    with open(daemon.home / "ended.jsonl", "a") as f:
        f.write('nonsense\n{"id":"x","why":"killed","at_ns":1}\n{"id":"' + "a" * 20)
    daemon.start()
    assert daemon.get(first).json["error_code"] == "sandbox_ended"


def test_memory_of_ended_ones_is_bounded(daemon):
    daemon.stop()
    now = time.time_ns()
    lines = [{"id": f"{n:020d}", "why": "killed", "at_ns": now} for n in range(3000)]
    lines.insert(2999, {"id": "o" * 20, "why": "killed", "at_ns": now - 25 * 3600 * 10**9})
    (daemon.home / "ended.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    daemon.start()
    assert daemon.get(f"{2999:020d}").json["error_code"] == "sandbox_ended"
    assert daemon.get(f"{1000:020d}").json["error_code"] == "sandbox_not_found"
    assert daemon.get("o" * 20).json["error_code"] == "sandbox_not_found"
    assert len((daemon.home / "ended.jsonl").read_text().splitlines()) < 1001


def served_while_removed(daemon, other):
    """The number of requests of another sandbox that were answered while a large disk was removed."""
    large = daemon.create()["sandboxID"]
    with open(daemon.directory(large) / "disk.qcow2", "wb") as f:
        for _ in range(1024):
            f.write(b"x" * (1 << 20))
    took, served = [], 0
    killer = threading.Thread(target=lambda: took.append(daemon.kill(large)))
    killer.start()
    while killer.is_alive():
        assert works(daemon, other)
        served += 1
    killer.join()
    assert took == [204] and daemon.directories() == [other["sandboxID"]]
    return served


def test_a_large_disk_is_removed_without_holding_others_up(daemon):
    other = daemon.create()
    # On a busy machine the disk may be gone before anybody has had a turn to ask.
    assert any(served_while_removed(daemon, other) > 3 for _ in range(5))


# ---- one daemon a home
def test_second_daemon(daemon):
    second = subprocess.run([PROGRAM], env=daemon.env, capture_output=True, text=True, timeout=60)
    assert second.returncode == 3
    assert "already runs" in second.stderr and str(daemon.home) in second.stderr
    assert daemon.request("GET", "/health").status == 200


def test_many_started_at_once():
    daemon = Daemon()
    started = [subprocess.Popen([PROGRAM], env=daemon.env, stderr=subprocess.DEVNULL)
               for _ in range(8)]
    wait_for(lambda: sum(p.poll() is None for p in started) == 1, 30, "one is left")
    assert sorted(p.poll() for p in started if p.poll() is not None) == [3] * 7
    daemon.process = next(p for p in started if p.poll() is None)
    wait_for(lambda: (daemon.home / "cubbyd.sock").exists(), 30)
    daemon.create()
    daemon.close()


def test_start_waits_for_one_that_is_stopping():
    daemon = Daemon().start()
    for _ in range(10):
        daemon.create()
    old = daemon.process
    old.send_signal(signal.SIGTERM)
    wait_for(lambda: not (daemon.home / "cubbyd.sock").exists(), 30, "it listens no more")
    daemon.start()  # at once: it may have to wait for the lock
    assert old.wait(30) == 0
    assert daemon.request("GET", "/v2/sandboxes").json == []
    daemon.close()


def test_stop_waits_for_no_machine_that_starts():
    """Neither one for the pool, nor one that a client waits for."""
    daemon = Daemon("--pool", "slow=1:1")
    daemon.template("slow", create="never")
    daemon.start()
    wait_for(lambda: len(daemon.machines()) == 1, what="the pool's")
    client = daemon.connection(timeout=60)
    client.request("POST", "/v2/sandboxes", json.dumps({"templateID": "slow"}), {"Content-Type": "application/json"})
    wait_for(lambda: len(daemon.machines()) == 2, what="the client's")
    assert daemon.stop() == 0
    client.close()
    assert daemon.machines() == []
    daemon.close()


# A killed daemon's lock and socket, in a child that has not executed its program yet: says so when the
# next daemon has looked at them for the second time, and ends when it is told to.
HOLDER = """
import fcntl, os, socket, sys
lock = os.open(sys.argv[1] + "/cubbyd.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + "/cubbyd.sock")
listener.listen(100)
if os.fork():
    os._exit(0)
listener.accept(), listener.accept()
print("looked", flush=True)
sys.stdin.read()
"""


def test_start_waits_for_the_child_of_one_that_was_killed():
    daemon = Daemon()
    holder = subprocess.Popen(["python3", "-c", HOLDER, daemon.home], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.wait(30)  # who listened is gone; its child has the pipes
    starting = threading.Thread(target=daemon.start)
    starting.start()
    assert holder.stdout.readline() == b"looked\n", daemon.log.read_text()
    holder.stdin.close()
    starting.join(60)
    assert daemon.request("GET", "/v2/sandboxes").json == []
    daemon.close()


def test_no_descriptor_reaches_a_machine(daemon):
    """Otherwise a machine would hold the lock, or a client's connection, after the daemon's end."""
    busy = daemon.connection()
    busy.connect()
    pid = daemon.machine(daemon.create()["sandboxID"])

    def open_files(of):
        return {name for name in descriptors(of).values() if not name.startswith("anon_inode:")}

    assert open_files(pid) & open_files(daemon.process.pid) <= {"/dev/null", str(daemon.log)}
    busy.close()


# ---- leaks
def test_nothing_leaks(daemon):
    def round_trip():
        made = daemon.create()
        assert works(daemon, made)
        assert daemon.through(made["sandboxID"], port=1).status == 502
        assert daemon.kill(made["sandboxID"]) == 204

    def resident():
        with open(f"/proc/{daemon.process.pid}/statm") as f:
            return int(f.read().split()[1]) * 4

    for _ in range(20):
        round_trip()
    before = daemon.fds(), resident()
    for _ in range(100):
        round_trip()
    wait_for(lambda: daemon.fds() <= before[0], 30, "no descriptor is left")
    assert resident() - before[1] < 2048 or os.environ.get("SAN")
    assert daemon.machines() == [] and daemon.directories() == []


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_service_manager_is_told(tmp_path, is_abstract):
    """sd_notify(3): the daemon listens when the message comes."""
    address = f"\0cubby-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(30)
        with Daemon(env={"NOTIFY_SOCKET": address.replace("\0", "@")}) as daemon:
            assert manager.recv(100) == b"READY=1"
            assert daemon.request("GET", "/health").status in (200, 204)


# ---- the program
@pytest.mark.parametrize("args, status, words", [
    (["--help"], 0, ["--max-sandboxes", "CUBBY_MAX_MEMORY", "SIGUSR1", "Exit status"]),
    (["--version"], 0, ["cubbyd "]),
    (["--nonsense"], 2, ["unknown option"]),
    (["operand"], 2, ["operand"]),
    (["--max-sandboxes", "0"], 2, ["--max-sandboxes"]),
    (["--log-level", "loud"], 2, ["--log-level"]),
])
def test_options(args, status, words):
    ran = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=20)
    assert ran.returncode == status
    for word in words:
        assert word in ran.stdout + ran.stderr


def test_home_too_long(tmp_path):
    ran = subprocess.run([PROGRAM], env=dict(os.environ, CUBBY_HOME=str(tmp_path / ("x" * 90))),
                         capture_output=True, text=True, timeout=20)
    assert ran.returncode == 1 and "too long" in ran.stderr


@pytest.mark.parametrize("name, make", [
    ("sandboxes", lambda path: path.write_text("a file")),
    ("cubbyd.sock", lambda path: path.mkdir()),
    ("cubbyd.lock", lambda path: path.mkdir()),
])
def test_home_that_cannot_be_used(name, make):
    daemon = Daemon()
    make(daemon.home / name)
    ran = subprocess.run([PROGRAM], env=daemon.env, capture_output=True, text=True, timeout=20)
    assert ran.returncode == 1 and name in ran.stderr.splitlines()[-1]
    assert "ERROR: " not in ran.stderr
    shutil.rmtree(daemon.home)
