# SPDX-License-Identifier: Apache-2.0
"""Forks: what children inherit and what is new in each, errors of one child and of all, and
parents, children and clients that end during a fork.
"""

import json
import signal
import socket

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from key_holder import ask, new_key
from test_daemon_api import to_live
from test_daemon_snapshots import count, entries, in_guest, init_of, log_of, read, wait_for_count, write


def fork(daemon, sandbox, **body):
    return daemon.request("POST", f"/sandboxes/{sandbox}/fork", body, timeout=60)


def forked(daemon, sandbox, **body):
    answer = fork(daemon, sandbox, **body)
    assert answer.status == 201, answer.body
    return [result["sandbox"] for result in answer.json]


def nothing_hidden(daemon):
    return wait_for(lambda: not [n for n in entries(daemon) if n.startswith(".")], 30, "the image is gone")


def test_fork(daemon):
    made = daemon.create(metadata={"a": "b", "cubby-name": "work"}, envVars={"A": "1"}, autoPause=True, network={
        "allowPublicTraffic": False, "denyOut": ["8.8.8.8/32"]})
    write(daemon, made, "notes", "before")
    count(daemon, made, start=True)
    wait_for_count(daemon, made, 0)
    children = forked(daemon, made["sandboxID"], count=3, timeout=120)
    at = count(daemon, made)
    wait_for_count(daemon, made, at)  # the parent goes on
    family = [made, *children]
    assert len({m["sandboxID"] for m in family}) == 4
    assert len({m["envdAccessToken"] for m in family}) == 4
    assert len({m["trafficAccessToken"] for m in family}) == 4
    parent = daemon.get(made["sandboxID"]).json
    for child in children:
        detail = daemon.get(child["sandboxID"]).json
        assert detail["metadata"] == {"a": "b"}, "a name is that of one sandbox"
        for same in ("network", "lifecycle", "cpuCount", "memoryMB", "templateID"):
            assert detail[same] == parent[same], same
        assert read(daemon, child, "notes") == "before"
        wait_for_count(daemon, child, 0)
        init = init_of(daemon, child)
        assert init["hostname"] == child["sandboxID"] and init["inheritEnvVars"] is True
        assert init["envVars"] == {"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": child["sandboxID"],
                                   "E2B_TEMPLATE_ID": "default"}
        assert any(made["sandboxID"] in line for line in log_of(daemon, child["sandboxID"]))
    assert len({in_guest(daemon, m, "GET", "/random") for m in family}) == 4
    write(daemon, children[0], "notes", "mine")
    assert {read(daemon, m, "notes") for m in (made, *children[1:])} == {"before"}
    assert any("forked into 3 of 3" in line for line in log_of(daemon, made["sandboxID"]))
    nothing_hidden(daemon)
    daemon.kill(made["sandboxID"])
    assert read(daemon, children[0], "notes") == "mine", "children need nothing of the parent"
    again = forked(daemon, children[0]["sandboxID"], count=1)[0]
    assert read(daemon, again, "notes") == "mine"


def test_defaults(daemon, sandbox):
    [child] = forked(daemon, sandbox)
    detail = daemon.get(child["sandboxID"]).json
    assert detail["state"] == "running" and detail["endAt"] > detail["startedAt"]


def test_timeout_0_is_the_life_of_the_parent(daemon):
    parent = daemon.create(timeout=4000)["sandboxID"]
    [child] = forked(daemon, parent, timeout=0)
    assert 3900 < to_live(daemon.get(child["sandboxID"]).json) <= 4000


@pytest.mark.parametrize("body", [
    {"count": 0}, {"count": 101}, {"count": "2"}, {"count": -1}, {"timeout": -5},
    {"timeout": 10**9}, {"Count": 2}])
def test_refused(daemon, sandbox, body):
    answer = fork(daemon, sandbox, **body)
    assert answer.status == 400 and answer.json["code"] == 400, answer.body
    assert len(daemon.request("GET", "/v2/sandboxes").json) == 1


def test_paused(daemon, made):
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {}).status == 204
    answer = fork(daemon, made["sandboxID"])
    assert answer.status == 409 and answer.json["code"] == 409
    assert fork(daemon, "x" * 20).status == 404
    daemon.kill(made["sandboxID"])
    assert fork(daemon, made["sandboxID"]).status == 404


def test_refusal_of_one_is_its_own():
    with Daemon("--max-sandboxes", "3", "--create-wait", "0") as d:
        made = d.create()
        answer = fork(d, made["sandboxID"], count=4, timeout=60)
        assert answer.status == 201, answer.body
        children = [r["sandbox"] for r in answer.json if "sandbox" in r]
        errors = [r["error"] for r in answer.json if "error" in r]
        assert len(children) == 2 and len(errors) == 2
        for error in errors:
            assert error["code"] in (429, 503) and "--max-sandboxes" in error["message"]
        for child in children:
            write(d, child, "notes", "works")
        nothing_hidden(d)


def test_no_child_can_be_made(daemon, made):
    """The state cannot be saved: one error for all children."""
    where = daemon.home / "snapshots"
    where.rmdir()
    where.write_text("in the way")
    try:
        answer = fork(daemon, made["sandboxID"], count=2)
        assert answer.status >= 400 and answer.json["code"] == answer.status
    finally:
        where.unlink()
        where.mkdir()
    write(daemon, made, "notes", "on")


def test_a_client_that_goes_away(daemon, made):
    """Children whose ids no client has received are ended."""
    daemon.template("default", restore="held")
    try:
        body = json.dumps({"count": 8, "timeout": 300}).encode()
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(daemon.home / "cubbyd.sock"))
        s.sendall(f"POST /sandboxes/{made['sandboxID']}/fork HTTP/1.1\r\nHost: x\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_for(lambda: len(daemon.directories()) > 1, 30, "a child is being made")
        s.close()
        wait_for(lambda: daemon.directories() == [made["sandboxID"]], 30, "only the parent is left")
    finally:
        daemon.template("default")
    wait_for(lambda: len(daemon.machines()) == 1, 30, "and its machine")
    nothing_hidden(daemon)
    assert len(daemon.request("GET", "/v2/sandboxes").json) == 1


def test_killed_in_the_middle(daemon, made):
    """A race: either the fork is refused, or its children do not need the parent."""
    body = json.dumps({"count": 2, "timeout": 300}).encode()
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(str(daemon.home / "cubbyd.sock"))
    s.sendall(f"POST /sandboxes/{made['sandboxID']}/fork HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
              f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    wait_for(lambda: [n for n in entries(daemon) if n.startswith(".fork")] or len(daemon.directories()) > 1,
             30, "it has begun")
    assert daemon.kill(made["sandboxID"]) == 204
    head = s.makefile("rb").readline()
    s.close()
    assert b" 201 " in head or b" 404 " in head, head
    nothing_hidden(daemon)


def test_keys():
    d = Daemon("--listen", "127.0.0.1:0")
    one, two = new_key(d, "one"), new_key(d, "two")
    with d:
        made = ask(d, "POST", "/v2/sandboxes", {"templateID": "default"}, key=one).json
        path = f"/sandboxes/{made['sandboxID']}/fork"
        assert ask(d, "POST", path, {}, key=two).status == 404
        [result] = ask(d, "POST", path, {"timeout": 60}, key=one).json
        child = f"/sandboxes/{result['sandbox']['sandboxID']}"
        assert ask(d, "GET", child, key=one).status == 200
        assert ask(d, "GET", child, key=two).status == 404


def test_children_are_found_again():
    d = Daemon()
    try:
        d.start()
        made = d.create()
        write(d, made, "notes", "kept")
        children = forked(d, made["sandboxID"], count=2, timeout=300)
        d.stop(signal.SIGKILL)
        d.start()
        for child in children:
            assert read(d, child, "notes") == "kept"
        assert d.stop() == 0
    finally:
        d.close()
