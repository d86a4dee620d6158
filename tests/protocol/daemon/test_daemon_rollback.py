# SPDX-License-Identifier: Apache-2.0
"""Rolling a sandbox back to a snapshot: what is restored, what stays, requests that are refused,
and failures.
"""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cubbyd import Daemon, process_exists, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from receive import receive


def post(daemon, sandbox, what, body=None):
    return daemon.request("POST", f"/sandboxes/{sandbox}/{what}", body or {})


def snapshot(daemon, made):
    answer = post(daemon, made["sandboxID"], "snapshots")
    assert answer.status == 201, answer.body
    return answer.json["snapshotID"]


def rollback(daemon, made, snap):
    return post(daemon, made["sandboxID"], "rollback", {"snapshotID": snap})


def put(daemon, made, text):
    answer = daemon.through(made["sandboxID"], "PUT", "/disk/note", text, token=made["envdAccessToken"])
    assert answer.status == 204, answer.body


def note(daemon, made):
    return daemon.through(made["sandboxID"], path="/disk/note", token=made["envdAccessToken"]).body


@pytest.fixture
def behaves(daemon):
    yield lambda **facts: daemon.template("default", **facts)
    daemon.template("default")


def test_from_running(daemon):
    made = daemon.create(timeout=300, metadata={"a": "b"})
    sandbox = made["sandboxID"]
    put(daemon, made, b"before")
    snap = snapshot(daemon, made)
    put(daemon, made, b"after")
    machine, view = daemon.machine(sandbox), daemon.get(sandbox).json
    answer = rollback(daemon, made, snap)
    assert answer.status == 200 and answer.json["envdAccessToken"] == made["envdAccessToken"]
    assert note(daemon, made) == b"before"
    assert daemon.machine(sandbox) != machine and len(daemon.machines()) == 1
    after = daemon.get(sandbox).json
    for same in ("sandboxID", "endAt", "startedAt", "metadata", "state", "memoryMB", "diskSizeMB"):
        assert after[same] == view[same], same
    assert daemon.record(sandbox)["image"] is None
    # Again, to the same one: it is not used up.
    put(daemon, made, b"after")
    assert rollback(daemon, made, snap).status == 200
    assert note(daemon, made) == b"before"


@pytest.mark.parametrize("depth", ["freeze", "hibernate"])
def test_from_paused(daemon, made, depth):
    sandbox = made["sandboxID"]
    put(daemon, made, b"before")
    snap = snapshot(daemon, made)
    put(daemon, made, b"after")
    assert post(daemon, sandbox, "pause", {"depth": depth}).status == 204
    assert rollback(daemon, made, snap).status == 200
    assert daemon.get(sandbox).json["state"] == "running"
    assert note(daemon, made) == b"before" and len(daemon.machines()) == 1
    wait_for(lambda: not (daemon.directory(sandbox) / "image").exists(), 30, "its own image is gone")


def test_one_that_was_made_from_it(daemon, made):
    put(daemon, made, b"parent")
    snap = snapshot(daemon, made)
    child = daemon.create(templateID=snap)
    put(daemon, child, b"child")
    assert rollback(daemon, child, snap).status == 200
    assert note(daemon, child) == b"parent"
    assert daemon.through(child["sandboxID"], path="/whoami", token=made["envdAccessToken"]).status == 401


def test_streams_are_cut(daemon, made):
    sandbox = made["sandboxID"]
    snap = snapshot(daemon, made)
    with daemon.open(sandbox, 49983, "GET /hang HTTP/1.1",
                     f"X-Access-Token: {made['envdAccessToken']}\r\n") as s:
        wait_for(lambda: (daemon.directory(sandbox) / "hanging").exists(), 30, "it is there")
        assert rollback(daemon, made, snap).status == 200
        assert receive(s, 12) == b"HTTP/1.1 502"


def test_what_is_refused(daemon, made):
    sandbox = made["sandboxID"]
    snap = snapshot(daemon, made)
    for unknown in ("snap-" + "x" * 20, "snap-1", "nope"):
        answer = rollback(daemon, made, unknown)
        assert (answer.status, answer.json["error_code"]) == (404, "snapshot_not_found")
        assert "cubby snapshot ls" in answer.json["message"] and "template" not in answer.json["message"]
    assert post(daemon, sandbox, "rollback").status == 400
    answer = rollback(daemon, made, "default")
    assert answer.status == 400 and "'default' is a template, not a snapshot" in answer.json["message"]
    assert post(daemon, "x" * 20, "rollback", {"snapshotID": snap}).status == 404
    daemon.template("other")
    other = daemon.create(templateID="other")
    answer = rollback(daemon, other, snap)
    assert answer.status == 400 and "default" in answer.json["message"]
    for one in (made, other):
        assert daemon.get(one["sandboxID"]).json["state"] == "running"


@pytest.mark.parametrize("gone", ["image.json", "memory"])
@pytest.mark.parametrize("state", ["running", "freeze", "hibernate"])
def test_a_damaged_image_is_found_before_anything_is_touched(daemon, made, gone, state):
    sandbox = made["sandboxID"]
    snap = snapshot(daemon, made)
    put(daemon, made, b"later")
    if state != "running":
        assert post(daemon, sandbox, "pause", {"depth": state}).status == 204
    before = daemon.machines()
    image = daemon.home / "snapshots" / snap / "image"
    (image / gone).rename(image / "away")
    answer = rollback(daemon, made, snap)
    assert answer.status == 400 and "the sandbox is unchanged" in answer.json["message"], answer.body
    assert f"{snap}/image" in answer.json["message"]
    assert daemon.machines() == before
    assert daemon.get(sandbox).json["state"] == ("running" if state == "running" else "paused")
    if state != "running":
        assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
    assert note(daemon, made) == b"later"
    (image / "away").rename(image / gone)
    assert rollback(daemon, made, snap).status == 200


def brought_to(daemon, made, state):
    """The sandbox in that state, with the note "later", and a snapshot with the note "before"."""
    put(daemon, made, b"before")
    snap = snapshot(daemon, made)
    put(daemon, made, b"later")
    if state != "running":
        assert post(daemon, made["sandboxID"], "pause", {"depth": state}).status == 204
    return snap


def is_as_it_was(daemon, made, state, machines):
    """Checks that it has its earlier machine, or none, and, if it runs, its last note."""
    sandbox = made["sandboxID"]
    wait_for(lambda: daemon.machines() == machines, 30, "only what it had before is left")
    view = daemon.get(sandbox).json
    assert view["state"] == ("running" if state == "running" else "paused")
    record = daemon.record(sandbox)
    assert record["image"] == ("" if state == "hibernate" else None)
    assert not list(daemon.directory(sandbox).glob("aside*"))
    if state != "running":
        assert view["depth"] == state
        assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
    assert note(daemon, made) == b"later"
    assert not daemon.record(sandbox)["aside"]


@pytest.mark.parametrize("how", [{"restore": "fail"}, {"init": "refuse"}, {"init": "die"}],
                         ids=["start", "init", "end"])
@pytest.mark.parametrize("state", ["running", "freeze", "hibernate"])
def test_what_fails_leaves_it_as_it_was(daemon, made, behaves, state, how):
    snap = brought_to(daemon, made, state)
    machines = daemon.machines()
    behaves(**how)
    answer = rollback(daemon, made, snap)
    assert answer.status >= 500, answer.body
    assert "the rollback failed; the sandbox keeps the state from before" in answer.json["message"]
    behaves()
    is_as_it_was(daemon, made, state, machines)
    assert rollback(daemon, made, snap).status == 200
    assert note(daemon, made) == b"before"
    assert len(daemon.machines()) == 1


def test_a_snapshot_is_needed_while_it_is_tried(daemon, made, behaves):
    snap = brought_to(daemon, made, "running")
    behaves(restore="held")
    asking = threading.Thread(target=rollback, args=(daemon, made, snap))
    asking.start()
    wait_for(lambda: daemon.record(made["sandboxID"])["aside"], 30, "it is being tried")
    assert daemon.request("DELETE", f"/templates/{snap}").status == 409
    behaves()
    asking.join()
    assert daemon.request("DELETE", f"/templates/{snap}").status == 204


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGUSR1], ids=["killed", "left"])
@pytest.mark.parametrize("state", ["running", "freeze", "hibernate"])
def test_the_daemon_goes_in_the_middle(daemon, made, behaves, state, stop):
    """The earlier state wins: the next daemon finds it, and no process or file of the other."""
    snap = brought_to(daemon, made, state)
    machines = daemon.machines()
    behaves(restore="held")
    asking = threading.Thread(target=lambda: pytest.raises(Exception, rollback, daemon, made, snap))
    asking.start()
    wait_for(lambda: len(daemon.machines()) > len(machines), 30, "another machine is there")
    daemon.stop(stop)
    asking.join()
    behaves()
    daemon.start()
    is_as_it_was(daemon, made, state, machines)


@pytest.mark.parametrize("works", [True, False])
def test_what_is_kept_ends_meanwhile(daemon, made, behaves, works):
    """The kept machine ends. With the snapshot's machine the sandbox goes on; without it, nothing
    is left of the sandbox."""
    sandbox = made["sandboxID"]
    snap = brought_to(daemon, made, "running")
    kept = daemon.machine(sandbox)
    init = {} if works else {"init": "refuse"}
    behaves(restore="held", **init)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(rollback(daemon, made, snap)))
    asking.start()
    wait_for(lambda: len(daemon.machines()) == 2, 30, "another machine is there")
    os.kill(kept, signal.SIGKILL)
    wait_for(lambda: not process_exists(kept), 30, "the kept machine is gone")
    behaves(**init)
    asking.join()
    if works:
        assert answers[0].status == 200 and note(daemon, made) == b"before"
        assert len(daemon.machines()) == 1
    else:
        assert answers[0].status == 404, answers[0].body
        assert "its machine ended unexpectedly" in daemon.get(sandbox).json["message"]
        wait_for(lambda: not daemon.machines() and not daemon.directories(), 30, "nothing is left")


def test_a_snapshot_that_waits_for_a_rollback_that_fails(daemon, made, behaves):
    """It has the size of what is saved, not of what was being tried when it was asked for."""
    sandbox = made["sandboxID"]
    larger = daemon.create(memoryMB=1024)
    snap = snapshot(daemon, larger)
    behaves(restore="held", init="refuse")
    with ThreadPoolExecutor() as pool:
        failing = pool.submit(rollback, daemon, made, snap)
        wait_for(lambda: daemon.record(sandbox)["aside"], 30, "it is being tried")
        taking = pool.submit(snapshot, daemon, made)
        wait_for(lambda: any(n.startswith(".new-") for n in os.listdir(daemon.home / "snapshots")), 30, "it waits")
        behaves(init="refuse")
    assert failing.result().status >= 500 and daemon.get(sandbox).json["memoryMB"] == 512
    written = json.loads((daemon.home / "snapshots" / taking.result() / "snapshot.json").read_text())
    assert (written["facts"]["memory_mb"], written["size"]["memory_mb"]) == (512, 0)
    behaves()
    assert daemon.create(templateID=taking.result())["sandboxID"]


def test_there_is_no_room_for_both():
    """The refusal comes before anything is changed."""
    with Daemon(env={"CUBBY_CREATE_WAIT": "0"}) as daemon:
        meminfo = daemon.home / "meminfo"
        daemon.stop()
        daemon.env["CUBBY_TEST_MEMINFO"] = str(meminfo)
        meminfo.write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {6 << 20} kB\n")
        daemon.start()
        made = daemon.create(timeout=300)
        snap = brought_to(daemon, made, "running")
        machines = daemon.machines()
        with daemon.open(made["sandboxID"], 49983, "GET /hang HTTP/1.1",
                         f"X-Access-Token: {made['envdAccessToken']}\r\n"):
            wait_for(lambda: (daemon.directory(made["sandboxID"]) / "hanging").exists(), 30, "it is there")
            meminfo.write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {100 << 10} kB\n")
            answer = rollback(daemon, made, snap)
            assert answer.status == 503 and answer.headers["retry-after"], answer.body
            for words in ("the rollback did not begin", "no memory for another sandbox"):
                assert words in answer.json["message"]
            meminfo.write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {6 << 20} kB\n")
            is_as_it_was(daemon, made, "running", machines)
        assert rollback(daemon, made, snap).status == 200


def test_it_is_killed_meanwhile(daemon, behaves):
    behaves(restore="held")
    made = daemon.create()
    sandbox = made["sandboxID"]
    snap = snapshot(daemon, made)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(rollback(daemon, made, snap)))
    asking.start()
    wait_for(lambda: daemon.get(sandbox).json["state"] == "paused", 30, "it is on its way")
    assert daemon.kill(sandbox) == 204
    asking.join()
    assert answers[0].status == 404
    wait_for(lambda: daemon.machines() == [], 30, "no machine is left")


def test_after_a_restart():
    with Daemon() as daemon:
        made = daemon.create()
        snap = snapshot(daemon, made)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert rollback(daemon, made, snap).status == 200
