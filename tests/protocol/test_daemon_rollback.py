# SPDX-License-Identifier: Apache-2.0
"""Rolling a sandbox back to a snapshot: what comes back, what stays, what is refused, and failures."""

import signal
import threading

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403


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
        assert b"502" in s.recv(4096)


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
    assert answer.status == 400 and "goes on as it was" in answer.json["message"], answer.body
    assert f"{snap}/image" in answer.json["message"]
    assert daemon.machines() == before
    assert daemon.get(sandbox).json["state"] == ("running" if state == "running" else "paused")
    if state != "running":
        assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
    assert note(daemon, made) == b"later"
    (image / "away").rename(image / gone)
    assert rollback(daemon, made, snap).status == 200


def test_it_fails_after_the_kill(daemon, made, behaves):
    sandbox = made["sandboxID"]
    put(daemon, made, b"before")
    snap = snapshot(daemon, made)
    behaves(restore="fail")
    answer = rollback(daemon, made, snap)
    assert answer.status >= 500, answer.body
    assert "the state before it is gone" in answer.json["message"]
    view = daemon.get(sandbox).json
    assert view["state"] == "paused" and view["depth"] == "hibernate"
    assert daemon.record(sandbox)["image"] == snap and daemon.machines() == []
    assert daemon.request("DELETE", f"/templates/{snap}").status == 409
    daemon.stop(signal.SIGKILL)
    daemon.start()
    behaves()
    assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
    assert note(daemon, made) == b"before"
    assert daemon.request("DELETE", f"/templates/{snap}").status == 204


def test_it_is_killed_meanwhile(daemon, behaves):
    behaves(restore="late")
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
