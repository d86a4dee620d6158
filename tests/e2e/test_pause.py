# SPDX-License-Identifier: Apache-2.0
"""A real sandbox is paused and woken through the API: its processes, its clock, its memory, and a
daemon that is killed in between. Assertions 24, 25 and 27 of the reference, section 11.
"""

import signal
import time

import pytest

from cubbyd import Shipped, events, wait_for
from tiers import tier  # noqa: F401

BEHIND_S = 2  # how long a pause lasts, so that a clock that nobody sets would be seen


@pytest.fixture
def daemon(tier):  # noqa: F811
    with Shipped(tier=tier) as d:
        yield d


def post(daemon, made, what, body=None):
    return daemon.request("POST", f"/sandboxes/{made['sandboxID']}/{what}", body or {}, timeout=60)


def stay_paused(seconds):
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until, seconds + 30, "time has passed")


def clock_is_right(daemon, made):
    before = time.time()
    code, text = daemon.command(made, "date +%s.%N")
    after = time.time()
    return code == 0 and before - 1 <= float(text) <= after + 1


def started(daemon, made, command):
    """The pid of a command that keeps running."""
    s = daemon.open_command(made, command)
    data = b""
    while not (seen := [e["start"]["pid"] for e in events(data) if "start" in e]):
        data += s.recv(65536)
    return s, seen[0]


def pids(daemon, made):
    return [p["pid"] for p in daemon.rpc(made, "process.Process/List", {})["processes"]]


def test_pause_and_connect(daemon):
    made = daemon.create(timeout=600)
    s, pid = started(daemon, made, "sleep 10000")
    with s:
        assert daemon.command(made, "echo kept >/dev/shm/note") == (0, b"")
        assert post(daemon, made, "pause").status == 204
        assert daemon.get(made["sandboxID"]).json["state"] == "paused"
        stay_paused(BEHIND_S)
        woken = post(daemon, made, "connect", {"timeout": 600})
    assert woken.status == 201
    assert woken.json["envdAccessToken"] == made["envdAccessToken"]
    assert clock_is_right(daemon, made)
    assert daemon.command(made, "cat /dev/shm/note") == (0, b"kept\n")
    assert pid in pids(daemon, made)


def test_the_daemon_is_killed_while_it_is_paused(daemon):
    made = daemon.create(timeout=600, autoResume={"enabled": True})
    s, pid = started(daemon, made, "sleep 10000")
    s.close()
    assert post(daemon, made, "pause").status == 204
    daemon.stop(signal.SIGKILL)
    daemon.start()
    assert daemon.get(made["sandboxID"]).json["state"] == "paused"
    stay_paused(BEHIND_S)
    assert pid in pids(daemon, made)  # the request wakes it
    assert daemon.get(made["sandboxID"]).json["state"] == "running"
    assert clock_is_right(daemon, made)
    assert post(daemon, made, "pause").status == 204
    assert daemon.kill(made["sandboxID"]) == 204
    assert daemon.machines() == []
