# SPDX-License-Identifier: Apache-2.0
"""cubby logs against the daemon, whose sandboxes are processes."""

import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

from cubbyd import Daemon

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"


@pytest.fixture
def daemon():
    with Daemon() as running:
        yield running


def environment(daemon):
    return dict(os.environ, CUBBY_HOME=str(daemon.home))


def logs(daemon, *words):
    done = subprocess.run([CUBBY, "logs", *words], env=environment(daemon), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_the_log_is_shown_oldest_first(daemon):
    sandbox = daemon.create()["sandboxID"]
    assert daemon.request("POST", f"/sandboxes/{sandbox}/pause").status == 204
    status, lines, said = logs(daemon, sandbox[:6])
    assert (status, said) == (0, "")
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z (info |warn |error) \S", line) for line in lines), lines
    assert lines == sorted(lines) and "paused" in lines[-1]


def test_json_and_levels(daemon):
    sandbox = daemon.create()["sandboxID"]
    _, debug, _ = logs(daemon, "--json", "--level", "debug", sandbox)
    _, errors, _ = logs(daemon, "--json", "--level", "error", sandbox)
    entries = [json.loads(line) for line in debug]
    told = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?direction=forward").json["logs"]
    assert entries == told and errors == []


def test_follow_until_the_end(daemon):
    sandbox = daemon.create()["sandboxID"]
    follower = subprocess.Popen([CUBBY, "logs", "-f", sandbox], env=environment(daemon), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen, paused, woken = [], threading.Event(), threading.Event()

    def read():
        for line in follower.stdout:
            seen.append(line)
            if "paused" in line:
                paused.set()
            if paused.is_set() and "resumed" in line:
                woken.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert daemon.request("POST", f"/sandboxes/{sandbox}/pause").status == 204
    assert paused.wait(30), seen
    assert daemon.request("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 60}).status == 201
    assert woken.wait(30), seen
    daemon.kill(sandbox)
    assert follower.wait(30) == 0
    reader.join()
    assert "killed" in follower.stderr.read()
    assert len(seen) == len(set(seen))  # nothing twice
    follower.stdout.close()
    follower.stderr.close()


def test_a_follower_does_not_start_a_daemon_that_was_stopped(daemon):
    sandbox = daemon.create()["sandboxID"]
    follower = subprocess.Popen([CUBBY, "logs", "--follow", sandbox], env=environment(daemon), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "created" in follower.stdout.readline()
    daemon.stop()
    assert follower.wait(30) in (0, 1)  # 0: it was told of the sandbox's end before
    assert re.search("cubbyd has stopped|has ended", follower.stderr.read())
    assert not (daemon.home / "cubbyd.sock").exists()
    follower.stdout.close()
    follower.stderr.close()


def test_no_such_sandbox(daemon):
    status, lines, said = logs(daemon, "a" * 20)
    assert status == 1 and not lines and "doesn't exist" in said
