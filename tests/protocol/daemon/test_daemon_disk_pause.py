# SPDX-License-Identifier: Apache-2.0
"""Pauses and snapshots that keep the disk alone ("memory": false): a guest boots from them."""

import json

import pytest

from cubbyd import wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from test_daemon_hibernate import count, files, get, post, put, view


def init_of(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "init.json").read_text())


@pytest.fixture
def used(daemon):
    """A sandbox with a file on its disk and a program that counts."""
    made = daemon.create(timeout=600, envVars={"COLOUR": "green"})
    put(daemon, made, "note", b"kept")
    count(daemon, made, "POST")
    return made


def booted(daemon, made, before, sandbox=None):
    """It has the disk and none of the memory."""
    after = count(daemon, made)
    return get(daemon, made, "note") == b"kept" and after["boot"] != before["boot"] and after["count"] == 0


def test_pause_and_connect(daemon, used):
    sandbox, before = used["sandboxID"], count(daemon, used)
    assert post(daemon, sandbox, "pause", {"memory": False}).status == 204
    assert view(daemon, sandbox)["state"] == "paused" and daemon.machines() == []
    assert files(daemon, sandbox) == ["image", "sandbox.json"]
    assert not (daemon.directory(sandbox) / "image" / "memory").exists()
    again = post(daemon, sandbox, "pause", {"memory": False})
    assert again.status == 409 and "already paused" in again.json["message"]
    assert post(daemon, sandbox, "connect", {"timeout": 600, "memory": False}).status == 201
    assert booted(daemon, used, before)
    told = init_of(daemon, sandbox)
    assert told["envVars"]["COLOUR"] == "green" and told["hostname"] == sandbox and told["defaultUser"] == "user"
    assert files(daemon, sandbox)[0] != "image"


def test_the_guest_writes_its_files_first(daemon, used):
    sandbox = used["sandboxID"]
    machine = daemon.directory(sandbox)
    assert post(daemon, sandbox, "snapshots", {"memory": False}).status == 201
    assert b'"sync"' in (machine / "started").read_bytes()
    calls = (machine / "calls.log").read_text().split()
    assert calls[-3:] == ["freeze", "save", "unfreeze"]


@pytest.mark.parametrize("keep", [True, False])
def test_it_can_be_paused_again(daemon, used, keep):
    sandbox = used["sandboxID"]
    for _ in range(2):
        assert post(daemon, sandbox, "pause", {"memory": False}).status == 204
        assert post(daemon, sandbox, "connect", {"timeout": 600}).status == 201
    count(daemon, used, "POST")
    before = count(daemon, used)
    body = {"depth": "hibernate"} if keep else {"memory": False}
    assert post(daemon, sandbox, "pause", body).status == 204
    assert post(daemon, sandbox, "connect", {"timeout": 600}).status == 201
    assert (count(daemon, used)["boot"] == before["boot"]) == keep
    assert get(daemon, used, "note") == b"kept"


def test_a_later_daemon_boots_it(daemon, used):
    sandbox, before = used["sandboxID"], count(daemon, used)
    daemon.args.append("--keep")
    assert post(daemon, sandbox, "pause", {"memory": False}).status == 204
    daemon.stop(9)
    daemon.start()
    assert view(daemon, sandbox)["state"] == "paused"
    assert post(daemon, sandbox, "connect", {"timeout": 600}).status == 201
    assert booted(daemon, used, before)
    assert init_of(daemon, sandbox)["envVars"]["COLOUR"] == "green"
    daemon.kill(sandbox)


def test_snapshot(daemon, used):
    sandbox, before = used["sandboxID"], count(daemon, used)
    taken = post(daemon, sandbox, "snapshots", {"memory": False, "name": "disk"})
    assert taken.status == 201, taken.body
    assert count(daemon, used)["boot"] == before["boot"]  # it goes on
    for wanted in (taken.json["snapshotID"], "disk"):
        made = daemon.create(templateID=wanted, timeout=600, envVars={"MORE": "1"})
        assert booted(daemon, made, before)
        told = init_of(daemon, made["sandboxID"])
        assert told["envVars"]["COLOUR"] == "green" and told["envVars"]["MORE"] == "1"
        assert told["hostname"] == made["sandboxID"]


def test_snapshot_of_a_paused_one(daemon, used):
    """Paused with its memory, it cannot write its files; without, the snapshot is of the disk as well."""
    sandbox, before = used["sandboxID"], count(daemon, used)
    post(daemon, sandbox, "pause")
    refused = post(daemon, sandbox, "snapshots", {"memory": False})
    assert refused.status == 409 and "resume it first" in refused.json["message"]
    post(daemon, sandbox, "connect", {"timeout": 600})
    post(daemon, sandbox, "pause", {"memory": False})
    taken = post(daemon, sandbox, "snapshots")
    assert taken.status == 201, taken.body
    assert booted(daemon, daemon.create(templateID=taken.json["snapshotID"], timeout=600), before)
    rolled = post(daemon, sandbox, "rollback", {"snapshotID": taken.json["snapshotID"]})
    assert rolled.status == 409 and "resume it first" in rolled.json["message"]


def test_rollback_to_a_disk(daemon, used):
    sandbox, before = used["sandboxID"], count(daemon, used)
    taken = post(daemon, sandbox, "snapshots", {"memory": False})
    put(daemon, used, "note", b"changed")
    rolled = post(daemon, sandbox, "rollback", {"snapshotID": taken.json["snapshotID"]})
    assert rolled.status == 200, rolled.body
    assert booted(daemon, used, before)


@pytest.mark.parametrize("asleep", [False, True])
def test_auto_pause(daemon, asleep):
    idle = {"freeze": 1, "hibernate": 0} if asleep else {"freeze": 0, "hibernate": 0}
    made = daemon.create(timeout=5, autoPause=True, autoPauseMemory=False, autoResume={"enabled": True}, idle=idle)
    sandbox = made["sandboxID"]
    put(daemon, made, "note", b"kept")
    count(daemon, made, "POST")
    before = count(daemon, made)
    wait_for(lambda: view(daemon, sandbox)["state"] == "paused", 60, "it is paused at its end time")
    wait_for(lambda: daemon.machines() == [], 30, "its machine has ended")
    assert not (daemon.directory(sandbox) / "image" / "memory").exists()
    assert booted(daemon, made, before)  # a request resumes it


def test_what_cannot_be_saved_runs_on(daemon, used):
    sandbox, before = used["sandboxID"], count(daemon, used)
    daemon.template("default", save="fail")
    failed = post(daemon, sandbox, "pause", {"memory": False})
    assert failed.status == 429 and "runs on" in failed.json["message"], failed.body
    assert view(daemon, sandbox)["state"] == "running" and count(daemon, used)["boot"] == before["boot"]
    assert "image" not in files(daemon, sandbox)


def test_refusals(daemon, used):
    sandbox = used["sandboxID"]
    both = post(daemon, sandbox, "pause", {"memory": False, "depth": "freeze"})
    assert both.status == 400 and "depth" in both.json["message"]
    daemon.template("plain", driver="plain")
    refused = daemon.request("POST", "/v2/sandboxes", {
        "templateID": "plain", "autoPause": True, "autoPauseMemory": False})
    assert refused.status == 501 and "driver 'plain' cannot" in refused.json["message"]
