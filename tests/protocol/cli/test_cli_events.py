# SPDX-License-Identifier: Apache-2.0
"""cubby events, and --json of the verbs that change sandboxes, against the daemon."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from cubbyd import Daemon

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"


@pytest.fixture
def daemon():
    with Daemon() as running:
        yield running


def cubby(daemon, *words, status=0):
    done = subprocess.run([CUBBY, *words], env=dict(os.environ, CUBBY_HOME=str(daemon.home)), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def words(lines):
    return [line.split()[1] for line in lines]


def test_events_of_one_and_of_all(daemon):
    one, other = (daemon.create()["sandboxID"] for _ in range(2))
    cubby(daemon, "pause", one)
    cubby(daemon, "kill", one)
    lines = cubby(daemon, "events", one).splitlines()
    assert words(lines) == ["created", "paused", "killed"] and all(one in line for line in lines)
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z ", line) for line in lines)
    assert words(cubby(daemon, "events").splitlines()) == ["created", "created", "paused", "killed"]
    events = [json.loads(line) for line in cubby(daemon, "events", "--json", other).splitlines()]
    assert [(e["sandboxId"], e["type"]) for e in events] == [(other, "sandbox.lifecycle.created")]


def test_follow(daemon):
    first = daemon.create()["sandboxID"]
    running = subprocess.Popen([CUBBY, "events", "--follow"], env=dict(os.environ, CUBBY_HOME=str(daemon.home)),
                               stdout=subprocess.PIPE, text=True)
    assert first in running.stdout.readline()
    for turn in range(3):
        sandbox = daemon.create()["sandboxID"]
        assert f"created      {sandbox}" in running.stdout.readline()
        cubby(daemon, "kill", sandbox)
        assert f"killed       {sandbox}" in running.stdout.readline()
    running.terminate()
    running.wait(60)
    running.stdout.close()


def test_follow_ends_with_the_daemon(daemon):
    daemon.create()
    running = subprocess.Popen([CUBBY, "events", "-f"], env=dict(os.environ, CUBBY_HOME=str(daemon.home)),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "created" in running.stdout.readline()
    daemon.stop()
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1 and said.startswith("cubby: ")


def test_json_of_the_verbs_that_change(daemon):
    made = json.loads(cubby(daemon, "create", "--json"))
    sandbox = made["sandboxID"]
    assert made["templateID"] and len(sandbox) == 20
    ids = {"sandboxID": sandbox}
    for verb in ("pause", "resume"):
        assert json.loads(cubby(daemon, verb, "--json", sandbox[:8])) == ids
    snapshot = json.loads(cubby(daemon, "snapshot", "--json", sandbox))["snapshotID"]
    assert json.loads(cubby(daemon, "rollback", "--json", sandbox, snapshot)) == ids
    assert json.loads(cubby(daemon, "kill", "--json", sandbox)) == ids
    other = json.loads(cubby(daemon, "create", "--json"))["sandboxID"]
    assert json.loads(cubby(daemon, "kill", "--all", "--json")) == {"sandboxID": other}


def test_mistakes(daemon):
    assert "at most one sandbox" in cubby(daemon, "events", "a", "b", status=2)
    assert cubby(daemon, "events", "f" * 20) == ""
