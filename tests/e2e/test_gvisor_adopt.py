# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are containers of gVisor, after the end of their daemon."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from cubbyd import process_exists, wait_for
from gvisor_world import RUNSC, Containers, note, post, put_note

pytestmark = pytest.mark.skipif(not RUNSC.exists(), reason="runsc is not built: make runsc")


@pytest.mark.parametrize("paused", [False, True])
def test_adoption(paused):
    with Containers() as d:
        made = d.create()
        put_note(d, made, "kept")
        if paused:
            post(d, made, "pause", status=204)
        sentry = d.sentry(made)
        d.stop(signal.SIGKILL)
        d.start()
        assert d.get(made["sandboxID"]).json["state"] == ("paused" if paused else "running")
        assert d.sentry(made) == sentry
        if paused:
            post(d, made, "connect", {"timeout": 600})
        assert note(d, made) == ["kept", "kept"]


def change_record(daemon, made, change):
    path = daemon.directory(made["sandboxID"]) / "sandbox.json"
    record = json.loads(path.read_text())
    change(record["machine"])
    path.write_text(json.dumps(record))


def test_a_record_without_a_network_process():
    with Containers() as d:
        made = d.create()
        sentry = d.sentry(made)
        d.stop(signal.SIGKILL)
        change_record(d, made, lambda machine: machine.pop("netd"))
        d.start()
        wait_for(lambda: not process_exists(sentry) and d.machines() == [], 30, "what it had has ended")
        assert d.get(made["sandboxID"]).status in (404, 410)
        again = d.create()
        put_note(d, again, "works")


def test_the_limits_that_hold_are_known_after_an_adoption():
    """Not all that this host has: one of the processes may not have joined a group."""
    with Containers() as d:
        made = d.create()
        if d.record(made["sandboxID"])["machine"]["limits"]["holds"] == "none":
            pytest.skip("no control groups here")
        d.stop(signal.SIGKILL)
        change_record(d, made, lambda machine: machine["limits"].update(holds="pids"))
        d.start()
        post(d, made, "pause", status=204)  # writes the record
        assert d.record(made["sandboxID"])["machine"]["limits"]["holds"] == "pids"


def test_adoption_without_the_template():
    """Sandboxes run on when their template is removed."""
    with Containers() as d:
        made = d.create()
        put_note(d, made, "kept")
        d.stop(signal.SIGKILL)
        shutil.rmtree(d.home / "templates" / "default")
        d.start()
        assert note(d, made) == ["kept", "kept"]


def ask_sentry(container, call="None"):
    """Waits until the sentry answers; without a call, that it does not know it."""
    (control,) = container.glob("runsc-*.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(60)
        asked.connect(str(control))
        asked.sendall(b'{"method":"containerManager.%s","arg":null}' % call.encode())
        assert (b'"success":%s' % (b"false" if call == "None" else b"true")) in asked.recv(4096)


def test_a_daemon_that_ends_before_a_pause_is_answered():
    """The sentry obeys all the same, so the next daemon takes the sandbox for paused."""
    with Containers() as d:
        made = d.create()
        put_note(d, made, "kept")
        (container,) = (d.home / "runsc").iterdir()
        sentry = d.sentry(made)
        os.kill(sentry, signal.SIGSTOP)
        try:
            asked = d.connection()
            asked.request("POST", f"/sandboxes/{made['sandboxID']}/pause", b"{}", {"Content-Type": "application/json"})
            wait_for(lambda: re.search(rb"machine.state id=\S+ running -> pausing", d.log.read_bytes()), 60, "the sentry has been told")
            assert (container / "changing").exists()
            d.stop(signal.SIGKILL)
            asked.close()
        finally:
            os.kill(sentry, signal.SIGCONT)
        ask_sentry(container)  # it serves calls side by side, so a Resume at once could come before the Pause
        d.start()
        assert d.get(made["sandboxID"]).json["state"] == "paused"
        post(d, made, "connect", {"timeout": 600})
        assert note(d, made) == ["kept", "kept"]


@pytest.mark.parametrize("stops", [0, 1, 2])
def test_a_daemon_that_ends_while_it_is_not_known_what_a_sentry_was_told(stops):
    """Before the call, after it, or twice. The sandbox is adopted in the state of its record all the same."""
    with Containers() as d:
        awake, asleep = d.create(), d.create()
        for made in (awake, asleep):
            put_note(d, made, "kept")
        post(d, asleep, "pause", status=204)
        sentries = [d.sentry(made) for made in (awake, asleep)]
        d.stop(signal.SIGKILL)
        for container in (d.home / "runsc").iterdir():
            was_paused = (container / "paused").exists()
            (container / "paused").unlink(missing_ok=True)
            (container / "changing").touch()
            for _ in range(stops):
                ask_sentry(container, "Pause")
            if was_paused and stops == 0:
                ask_sentry(container, "Resume")
        d.start()
        for made, state in ((awake, "running"), (asleep, "paused")):
            wait_for(lambda made=made, state=state: d.get(made["sandboxID"]).json["state"] == state, 30, "as the record says")
            post(d, made, "connect", {"timeout": 600}, status=200 if state == "running" else 201)
            assert note(d, made) == ["kept", "kept"]
        assert [d.sentry(made) for made in (awake, asleep)] == sentries


@pytest.fixture(name="stopped_fork")
def fixture_stopped_fork():
    """A fork whose sandbox's sentry has been stopped, so that only the child's sentry is there: (daemon, sandbox, sentry)."""
    with Containers("--pool", "off") as d:
        made = d.create()
        put_note(d, made, "kept")
        sentry = d.sentry(made)
        os.kill(sentry, signal.SIGSTOP)
        try:
            asked = d.connection()
            asked.request("POST", f"/sandboxes/{made['sandboxID']}/fork", b"{}", {"Content-Type": "application/json"})
            wait_for(lambda: len(d.container_dirs()) == 2 and any((d.home / "runsc" / c / "pid").exists() for c in d.container_dirs()
                                                                  if c not in d.record(made["sandboxID"])["machine"]["place"]), 30, "a blank")
            yield d, made, sentry, asked
        finally:
            if process_exists(sentry):
                os.kill(sentry, signal.SIGCONT)


def test_a_fork_takes_the_sentry_that_was_made_meanwhile(stopped_fork):
    d, made, sentry, asked = stopped_fork
    os.kill(sentry, signal.SIGCONT)
    answer = asked.getresponse()
    (child,) = json.loads(answer.read())
    assert answer.status == 201
    assert b"blank.taken" in d.log.read_bytes() and len(d.container_dirs()) == 2
    assert note(d, {**made, **child["sandbox"]}) == note(d, made) == ["kept", "kept"]


def test_a_fork_that_comes_to_nothing_leaves_no_sentry(stopped_fork):
    d, made, sentry, _ = stopped_fork
    assert d.kill(made["sandboxID"]) == 204
    wait_for(lambda: not process_exists(sentry) and d.machines() == [] and d.container_dirs() == [], 30, "nothing is left")


def test_a_daemon_that_stops_during_a_fork_ends_the_sentry(stopped_fork):
    d = stopped_fork[0]
    assert d.stop() == 0
    assert d.machines() == [] and d.container_dirs() == []


def test_a_daemon_that_is_killed_during_a_fork_leaves_no_sentry(stopped_fork):
    d, made, sentry, _ = stopped_fork
    d.stop(signal.SIGKILL)
    os.kill(sentry, signal.SIGCONT)
    d.start()
    wait_for(lambda: len(d.container_dirs()) == 1, 30, "only the sandbox's own is left")
    assert note(d, made) == ["kept", "kept"]


def test_a_container_directory_of_another_process_is_kept():
    """`cubby template build` has machines too, and a daemon that starts meanwhile must leave them alone."""
    with Containers() as d:
        made = d.create()
        (own,) = (d.home / "runsc").iterdir()
        mine = os.open(own, os.O_RDONLY)
        with pytest.raises(BlockingIOError):  # the process that makes a machine locks the directory
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(mine)
        other = d.home / "runsc" / "0123456789ab"
        other.mkdir()
        lock = os.open(other, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        d.stop(signal.SIGKILL)
        d.start()
        assert d.container_dirs() == sorted([own.name, other.name])
        os.close(lock)
        d.stop(signal.SIGKILL)
        d.start()
        wait_for(lambda: d.container_dirs() == [own.name], 10, "the directory that no process has locked is removed")
        assert d.kill(made["sandboxID"]) == 204


def test_a_lost_container_is_swept():
    with Containers() as d:
        made = d.create()
        sentry = d.sentry(made)
        d.stop(signal.SIGKILL)
        (d.directory(made["sandboxID"]) / "sandbox.json").unlink()
        d.start()
        wait_for(lambda: not process_exists(sentry) and d.container_dirs() == [], 10, "nothing is left")


def test_only_runsc_is_killed_for_a_place():
    """Not an editor or a pager that has a file of it open."""
    with Containers() as d:
        left = d.home / "runsc" / "0123456789ab"
        d.stop()
        left.mkdir()
        with subprocess.Popen([sys.executable, "-c", "input()", left], stdin=subprocess.PIPE) as reader:
            d.start()
            wait_for(lambda: d.container_dirs() == [], 10, "the container's directory is removed")
            assert reader.poll() is None
            reader.communicate(b"\n")
