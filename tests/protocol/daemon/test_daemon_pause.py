# SPDX-License-Identifier: Apache-2.0
"""Pausing and waking: states, time to live, requests that wait for another, and a daemon that dies
in between.

Assertions 21 to 23, 26 and 27 of the reference, section 11.
"""

import concurrent.futures
import contextlib
import datetime
import json
import os
import random
import signal
import threading
import time

import pytest

from cubbyd import Daemon, process_exists, read_all, small_disk, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403


def is_stopped(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "T"


def stopped(pid):
    """Waits for a stop signal, which takes a moment on a busy machine."""
    return wait_for(lambda: is_stopped(pid), 30, "it stands still")


def state(daemon, sandbox):
    answer = daemon.get(sandbox)
    return answer.json["state"] if answer.status == 200 else answer.status


def pause(daemon, sandbox, body=None):
    return daemon.request("POST", f"/sandboxes/{sandbox}/pause", {} if body is None else body)


def connect(daemon, sandbox, body=None, v1=False):
    prefix = "" if v1 else "/v2"
    return daemon.request("POST", f"{prefix}/sandboxes/{sandbox}/connect", body)


def left(daemon, sandbox):
    """Seconds to the end."""
    end = datetime.datetime.fromisoformat(daemon.get(sandbox).json["endAt"].replace("Z", "+00:00"))
    return (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def whoami(daemon, made):
    return daemon.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"])


def init_of(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "init.json").read_text())


# ---- pause
def test_pause(daemon, sandbox):
    assert pause(daemon, sandbox).status == 204
    assert state(daemon, sandbox) == "paused" and stopped(daemon.machine(sandbox))
    again = pause(daemon, sandbox)
    assert again.status == 409 and again.json["code"] == 409
    assert pause(daemon, "x" * 20).status == 404


def test_lists(daemon, sandbox):
    other = daemon.create()["sandboxID"]
    pause(daemon, sandbox)
    for states, ids in [("running", [other]), ("paused", [sandbox]), ("", [other, sandbox]),
                        ("running,paused", [other, sandbox])]:
        answer = daemon.request("GET", f"/v2/sandboxes?state={states}")
        assert [s["sandboxID"] for s in answer.json] == ids
        assert answer.headers["X-Total-Running"] == "1"
    assert [s["sandboxID"] for s in daemon.request("GET", "/sandboxes").json] == [other]


def test_refused_while_paused(daemon, sandbox):
    pause(daemon, sandbox)
    for method, path, body in [("POST", "timeout", {"timeout": 10}), ("POST", "refreshes", {}),
                               ("PUT", "network", {})]:
        answer = daemon.request(method, f"/sandboxes/{sandbox}/{path}", body)
        assert answer.status == 409 and "is paused" in answer.json["message"], path
    assert daemon.request("GET", f"/sandboxes/{sandbox}/metrics").json == []


@pytest.mark.parametrize("what", ["connect", "resume"])
def test_a_kept_memory_cannot_be_left_out(daemon, sandbox, what):
    pause(daemon, sandbox)
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/{what}",
                            {"memory": False, "timeout": 10})
    assert answer.status == 400 and "memory: false" in answer.json["message"]
    assert state(daemon, sandbox) == "paused"


def test_kill_while_paused(daemon, sandbox):
    machine = daemon.machine(sandbox)
    pause(daemon, sandbox)
    assert daemon.kill(sandbox) == 204 and daemon.kill(sandbox) == 404
    assert machine not in daemon.machines()


def test_streams_are_cut(daemon, made):
    """A stream that has no answer yet gets one with the reason; one that has ends without a clean end."""
    sandbox = made["sandboxID"]
    more = f"X-Access-Token: {made['envdAccessToken']}\r\nConnection: close\r\n"
    with (daemon.open(sandbox, 49983, "GET /hang HTTP/1.1", more) as hanging,
          daemon.open(sandbox, 49983, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                      more + "Content-Length: 0\r\n") as watching):
        wait_for(lambda: (daemon.directory(sandbox) / "hanging").exists(), 30, "it waits")
        begun = b""
        while b"armed" not in begun:
            begun += watching.recv(65536)
        assert pause(daemon, sandbox).status == 204
        assert read_all(hanging).startswith(b"HTTP/1.1 502 ")  # it may have been acted upon
        assert b"\r\n0\r\n" not in read_all(watching)


def test_the_machine_dies_while_paused(daemon, sandbox):
    pause(daemon, sandbox)
    os.kill(daemon.machine(sandbox), signal.SIGKILL)
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "it is gone")


# ---- waking
def test_connect(daemon, made):
    sandbox = made["sandboxID"]
    assert connect(daemon, sandbox, {}).status == 200
    first = init_of(daemon, sandbox)
    pause(daemon, sandbox)
    woken = connect(daemon, sandbox, {})
    assert woken.status == 201
    assert woken.json["sandboxID"] == sandbox
    assert woken.json["envdAccessToken"] == made["envdAccessToken"]
    assert state(daemon, sandbox) == "running" and not is_stopped(daemon.machine(sandbox))
    assert whoami(daemon, made).status == 200
    second = init_of(daemon, sandbox)  # the clock, and nothing that was set at the beginning
    assert second["timestamp"] > first["timestamp"]
    assert set(second) == {"timestamp", "accessToken"}
    assert 200 < left(daemon, sandbox) < 310


def test_connect_without_a_body(daemon, sandbox):
    pause(daemon, sandbox)
    assert connect(daemon, sandbox).status == 201


def test_timeout_0_keeps_the_life(daemon):
    sandbox = daemon.create(timeout=5000)["sandboxID"]
    pause(daemon, sandbox)
    assert connect(daemon, sandbox, {"timeout": 0}).status == 201
    assert 4900 < left(daemon, sandbox) <= 5010


def test_connect_v1(daemon, sandbox):
    assert connect(daemon, sandbox, {}, v1=True).status == 400
    before = daemon.get(sandbox).json["endAt"]
    assert connect(daemon, sandbox, {"timeout": 30}, v1=True).status == 200
    assert daemon.get(sandbox).json["endAt"] == before  # never shortened
    pause(daemon, sandbox)
    assert connect(daemon, sandbox, {"timeout": 1000}, v1=True).status == 201
    assert 900 < left(daemon, sandbox) < 1010


def test_resume(daemon, sandbox):
    running = daemon.request("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 100})
    assert running.status == 409 and running.json["code"] == 409
    pause(daemon, sandbox)
    woken = daemon.request("POST", f"/sandboxes/{sandbox}/resume",
                           {"timeout": 1000, "autoPause": True})
    assert woken.status == 201 and woken.json["sandboxID"] == sandbox
    assert 900 < left(daemon, sandbox) < 1010
    assert daemon.get(sandbox).json["lifecycle"]["onTimeout"] == "pause"


def test_many_connect_at_once(daemon, sandbox):
    pause(daemon, sandbox)
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(connect(daemon, sandbox, {}).status))
               for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(statuses) <= {200, 201} and 201 in statuses and len(statuses) == 12
    log = daemon.log.read_text()
    assert log.count(f"id={sandbox} resumed") == 1


def test_a_guest_that_does_not_answer_is_paused_again(daemon):
    daemon.template("once", init="once")
    sandbox = daemon.create(templateID="once")["sandboxID"]
    pause(daemon, sandbox)
    answer = connect(daemon, sandbox, {})
    assert answer.status == 500 and "clock" in answer.json["message"]
    assert state(daemon, sandbox) == "paused" and stopped(daemon.machine(sandbox))


# ---- by itself
def test_auto_pause(daemon):
    made = daemon.create(timeout=1, autoPause=True)
    sandbox = made["sandboxID"]
    assert daemon.get(sandbox).json["lifecycle"] == {"autoResume": False, "onTimeout": "pause"}
    wait_for(lambda: state(daemon, sandbox) == "paused", 30, "its time is over")
    # Nobody said that a request may wake it. On its way to its pause it shows as paused, too: 409.
    wait_for(lambda: whoami(daemon, made).status == 502, 30, "it stands still")
    assert connect(daemon, sandbox, {"timeout": 100}).status == 201


def test_a_held_guest_keeps_its_streams_at_its_end_time(daemon):
    """A guest that waits for room on the host's disk cannot be paused, so nothing of it is cut before the refusal."""
    made = daemon.create(timeout=1000, autoPause=True)
    sandbox = made["sandboxID"]
    more = f"X-Access-Token: {made['envdAccessToken']}\r\nConnection: close\r\n"
    # The stream is passive: another one would put the end time off.
    with daemon.open(sandbox, 49983, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                     more + "Content-Length: 0\r\n") as watching:
        begun = b""
        while b"armed" not in begun:
            begun += watching.recv(65536)
        (daemon.directory(sandbox) / "disk-full").touch()
        assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 0}).status == 204
        wait_for(lambda: f"id={sandbox} not=" in daemon.log.read_text(), 30, "its pause is refused")
        assert state(daemon, sandbox) == "running"
        watching.setblocking(False)
        with pytest.raises(BlockingIOError):  # it is open, and nothing came
            watching.recv(65536)


def test_auto_resume(daemon):
    made = daemon.create(autoPause=True, autoResume={"enabled": True})
    sandbox = made["sandboxID"]
    assert daemon.get(sandbox).json["lifecycle"] == {"autoResume": True, "onTimeout": "pause"}
    pause(daemon, sandbox)
    assert whoami(daemon, made).status == 200
    assert state(daemon, sandbox) == "running"
    assert left(daemon, sandbox) > 200


@pytest.mark.parametrize("first, last, expected", [(20, 600, 300), (900, 20, 900), (20, None, 300)])
def test_auto_resume_gives_the_first_time_and_at_least_five_minutes(daemon, first, last, expected):
    made = daemon.create(timeout=first, autoPause=True, autoResume={"enabled": True})
    sandbox = made["sandboxID"]
    if last:
        daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": last})
    pause(daemon, sandbox)
    assert whoami(daemon, made).status == 200
    assert expected - 60 < left(daemon, sandbox) <= expected


def test_a_resume_by_a_request_that_names_a_time_keeps_it(daemon):
    sandbox = daemon.create(autoPause=True, autoResume={"enabled": True})["sandboxID"]
    pause(daemon, sandbox)
    assert connect(daemon, sandbox, {"timeout": 30}).status == 201
    assert left(daemon, sandbox) <= 30


def test_the_first_time_is_known_to_the_next_daemon():
    with Daemon() as daemon:
        made = daemon.create(timeout=900, autoPause=True, autoResume={"enabled": True})
        daemon.request("POST", f"/sandboxes/{made['sandboxID']}/timeout", {"timeout": 20})
        pause(daemon, made["sandboxID"])
        daemon.stop(signal.SIGUSR1)
        daemon.start()
        assert whoami(daemon, made).status == 200
        assert left(daemon, made["sandboxID"]) > 800


def test_pauses_at_once(daemon, sandbox):
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: pause(daemon, sandbox).status, range(5)))
    # One that comes after the pause finds a paused sandbox.
    assert set(answers) <= {204, 409} and answers.count(204) >= 1 and state(daemon, sandbox) == "paused"


def test_pauses_while_one_is_under_way(daemon, sandbox):
    """A guest that is slow to quiesce leaves time for the others, which all succeed with the first."""
    (daemon.directory(sandbox) / "freeze-mode").write_text("silent")
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(pause, daemon, sandbox) for _ in range(5)]
        assert [a.result().status for a in answers] == [204] * 5
    assert state(daemon, sandbox) == "paused"


# ---- the daemon comes and goes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1])
def test_adopted_as_paused(number):
    with Daemon() as daemon:
        made = daemon.create(metadata={"k": "v"}, autoResume={"enabled": True})
        sandbox = made["sandboxID"]
        pause(daemon, sandbox)
        daemon.stop(number)
        assert stopped(daemon.record(sandbox)["machine"]["pid"])
        daemon.start()
        detail = daemon.get(sandbox).json
        assert detail["state"] == "paused" and detail["metadata"] == {"k": "v"}
        assert detail["lifecycle"]["autoResume"] is True
        woken = connect(daemon, sandbox, {})
        assert woken.status == 201 and woken.json["envdAccessToken"] == made["envdAccessToken"]
        assert whoami(daemon, made).status == 200


def test_a_daemon_that_died_on_the_way():
    """The record says paused, but the machine runs: it is stopped before it can be used."""
    with Daemon() as daemon:
        made = daemon.create()
        sandbox, machine = made["sandboxID"], daemon.machine(made["sandboxID"])
        pause(daemon, sandbox)
        daemon.stop(signal.SIGKILL)
        assert stopped(machine)
        os.kill(machine, signal.SIGCONT)
        wait_for(lambda: not is_stopped(machine), 30, "it runs")
        daemon.start()
        assert stopped(machine) and daemon.record(sandbox)["state"] == "paused"
        assert state(daemon, sandbox) == "paused"
        assert connect(daemon, sandbox, {}).status == 201
        assert not daemon.record(sandbox)["state"] == "paused"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_paused_while_the_disk_is_full():
    """The record is written when there is room again. A daemon that trusted the older record would
    let the sandbox go on, and end it when its time is over."""
    daemon = Daemon()
    with small_disk(daemon.home, "256k") as fill, daemon:
        made = daemon.create(timeout=1000)
        sandbox = made["sandboxID"]
        filler = fill()
        assert pause(daemon, sandbox).status == 204
        assert daemon.record(sandbox)["state"] == "running"
        filler.unlink()
        wait_for(lambda: daemon.record(sandbox)["state"] == "paused", 30, "it is written down")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert state(daemon, sandbox) == "paused" and stopped(daemon.machine(sandbox))
        assert connect(daemon, sandbox, {}).status == 201
        assert whoami(daemon, made).status == 200
        assert daemon.log.read_text().count("sandbox.record") < 10


# ---- on the way
@pytest.fixture
def resuming(daemon, sandbox):
    """A sandbox whose wake waits until the test lets its machine go on; and a thread that waits for
    the answer."""
    machine = daemon.machine(sandbox)
    sign = daemon.directory(sandbox) / "stop-at-init"
    assert pause(daemon, sandbox).status == 204 and stopped(machine)
    sign.touch()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(connect, daemon, sandbox, {})
        wait_for(lambda: not sign.exists() and is_stopped(machine), 30, "its envd has the question")
        try:
            yield sandbox, machine, first, pool
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(machine, signal.SIGCONT)


def test_what_waits_and_what_is_refused_while_it_is_woken(daemon, resuming):
    sandbox, machine, first, pool = resuming
    for method, path, body in [("POST", "pause", {}), ("POST", "timeout", {"timeout": 10}),
                               ("POST", "refreshes", {}), ("PUT", "network", {})]:
        answer = daemon.request(method, f"/sandboxes/{sandbox}/{path}", body)
        assert answer.status == 409 and answer.json["error_code"] == "sandbox_in_transition", path
        assert "is resuming; try again in a moment" in answer.json["message"]
    answer = daemon.through(sandbox, path="/whoami")
    assert answer.status == 409 and answer.json["error_code"] == "sandbox_in_transition"
    assert state(daemon, sandbox) == "paused"
    second = pool.submit(connect, daemon, sandbox, {})
    os.kill(machine, signal.SIGCONT)
    assert first.result(60).status == 201
    assert second.result(60).status in (200, 201)  # 200: it came when all was over
    assert state(daemon, sandbox) == "running"


def test_the_time_is_told_again_to_a_guest_that_was_late(daemon, resuming):
    sandbox, machine, first, _ = resuming
    told = time.time_ns() + 200_000_000
    wait_for(lambda: time.time_ns() > told, 30, "it is late")
    os.kill(machine, signal.SIGCONT)
    assert first.result(60).status == 201
    last = init_of(daemon, sandbox)
    assert datetime.datetime.fromisoformat(last["timestamp"][:26] + "+00:00").timestamp() >= told / 1e9, last
    assert set(last) == {"timestamp", "accessToken"}


def test_killed_while_it_is_woken(daemon, resuming):
    sandbox, machine, first, _ = resuming
    assert daemon.kill(sandbox) == 204
    answer = first.result(60)
    assert answer.status == 404 and "ended" in answer.json["message"], answer.body
    assert daemon.get(sandbox).status == 404
    wait_for(lambda: not process_exists(machine), 30, "its machine is gone")


def test_everything_at_once(daemon):
    """Pauses, wakes, requests and kills at the same time: each is answered, and nothing is left."""
    ends = {"pause": {204, 404, 409}, "connect": {200, 201, 404, 409}, "kill": {204, 404},
            "whoami": {200, 409, 502}}
    made = [daemon.create(autoResume={"enabled": True}) for _ in range(3)]
    wrong = []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(40):
            one = rng.choice(made)
            what = rng.choices(list(ends), [5, 5, 0.2, 5])[0]
            if what == "whoami":
                status = whoami(daemon, one).status
            elif what == "kill":
                status = daemon.kill(one["sandboxID"])
            else:
                status = {"pause": pause, "connect": connect}[what](daemon, one["sandboxID"],
                                                                     {}).status
            if status not in ends[what]:
                wrong.append((what, status))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
