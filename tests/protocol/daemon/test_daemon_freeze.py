# SPDX-License-Identifier: Apache-2.0
"""The requests that a guest gets around the saving of its state, their order, and failures of each.
"""

import contextlib
import http.client
import os
import signal
import threading

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from test_daemon_fork import forked
from test_daemon_snapshots import count, in_guest, log_of, taken, wait_for_count

ONCE = ["freeze", "save", "unfreeze"]


def machine_dir(daemon, made):
    return daemon.home / "sandboxes" / made["sandboxID"]


def calls(daemon, made):
    """The requests to envd since the machine was made, or woken."""
    lines = (machine_dir(daemon, made) / "calls.log").read_text().split()
    return [line for line in lines if line != "init"]


def complaints(daemon, made):
    return [line for line in log_of(daemon, made["sandboxID"]) if "quiesced" in line]


def goes_on(daemon, made):
    count(daemon, made, start=True)
    wait_for_count(daemon, made, count(daemon, made))


def test_fork_and_snapshot(daemon, made):
    children = forked(daemon, made["sandboxID"], count=2)
    assert calls(daemon, made) == ONCE
    taken(daemon, made["sandboxID"])
    assert calls(daemon, made) == ONCE * 2
    for child in children:
        assert calls(daemon, child) == [], "its /init is all that it needs"
    assert not complaints(daemon, made)


def test_several_at_once(daemon, made):
    """One operation's thaw does not disturb another's save."""
    threads = [threading.Thread(target=forked, args=(daemon, made["sandboxID"])) for _ in range(2)]
    threads += [threading.Thread(target=taken, args=(daemon, made["sandboxID"])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert calls(daemon, made) == ONCE * 4
    goes_on(daemon, made)


@pytest.mark.parametrize("mode, said, asked", [
    ("404", "too old", ["freeze", "save"]),
    ("503", "does not freeze", ["freeze", "save"]),
    ("silent", "not answered", ["freeze", "save", "unfreeze"])])
def test_a_guest_that_does_not_freeze(daemon, made, mode, said, asked):
    """It is saved all the same, and the log says so."""
    (machine_dir(daemon, made) / "freeze-mode").write_text(mode)
    [child] = forked(daemon, made["sandboxID"])
    assert calls(daemon, made) == asked
    assert said in complaints(daemon, made)[0]
    goes_on(daemon, child)
    goes_on(daemon, made)


def test_a_save_that_fails(daemon, made):
    template = daemon.home / "templates" / "default" / "template.json"
    text = template.read_text()
    template.write_text(text.replace("{", '{"save": "fail", ', 1))
    try:
        answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}, timeout=60)
    finally:
        template.write_text(text)
    assert answer.status >= 400
    assert calls(daemon, made) == ONCE, "it is thawed"
    goes_on(daemon, made)


def test_one_that_stands_still_is_not_asked(daemon, made):
    """It was asked before its pause, and has not gone on since."""
    path = f"/sandboxes/{made['sandboxID']}"
    assert daemon.request("POST", f"{path}/pause", {}).status == 204
    taken(daemon, made["sandboxID"])
    assert calls(daemon, made) == ["freeze", "save"] and not complaints(daemon, made)
    assert daemon.get(made["sandboxID"]).json["state"] == "paused"


@pytest.mark.parametrize("mode", ["404", "503", "silent"])
def test_a_pause_waits_for_nobody(daemon, made, mode):
    """A guest that does not quiesce is paused all the same, and its logs say so. After a timeout,
    /unfreeze is sent after the wake, because the guest may quiesce late."""
    path = f"/sandboxes/{made['sandboxID']}"
    (machine_dir(daemon, made) / "freeze-mode").write_text(mode)
    assert daemon.request("POST", f"{path}/pause", {}).status == 204
    said = [line["message"] for line in daemon.request("GET", f"/v2{path}/logs").json["logs"]]
    assert any("processes were not stopped before the pause" in line for line in said)
    (machine_dir(daemon, made) / "freeze-mode").unlink()
    assert daemon.request("POST", f"{path}/connect", {"timeout": 60}).status == 201
    asked = ["freeze", "unfreeze"] if mode == "silent" else ["freeze"]
    wait_for(lambda: calls(daemon, made) == asked, 30, "they go on")
    goes_on(daemon, made)


@pytest.mark.parametrize("what, begun", [("snapshots", ".new-*"), ("fork", ".fork-*")])
def test_one_that_froze_late_is_saved_once(daemon, made, what, begun):
    """Its /freeze timed out, so its wake sends /unfreeze. A save that waits for this wake begins
    once: the end of that /unfreeze does not start it again."""
    path, where = f"/sandboxes/{made['sandboxID']}", machine_dir(daemon, made)
    (where / "freeze-mode").write_text("silent")
    assert daemon.request("POST", f"{path}/pause", {}).status == 204
    (where / "freeze-mode").unlink()
    (where / "stop-at-init").touch()
    answers = {}

    def post(what, body):
        answers[what] = daemon.request("POST", f"{path}/{what}", body, timeout=60).status

    threads = [threading.Thread(target=post, args=call) for call in (("connect", {"timeout": 60}), (what, {}))]
    threads[0].start()
    wait_for(lambda: not (where / "stop-at-init").exists(), 30, "the wake waits for the guest")
    threads[1].start()
    wait_for(lambda: list((daemon.home / "snapshots").glob(begun)), 30, "the save waits for the wake")
    os.kill(daemon.machine(made["sandboxID"]), signal.SIGCONT)
    for thread in threads:
        thread.join(60)
    assert answers == {"connect": 201, what: 201}
    wait_for(lambda: calls(daemon, made).count("unfreeze") >= 2, 30, "both freezes are undone")
    assert sorted(calls(daemon, made)) == ["freeze", "freeze", "save", "unfreeze", "unfreeze"]
    goes_on(daemon, made)


def test_ended_meanwhile(daemon, made):
    """The sandbox is killed during /freeze, while another request waits behind it."""
    (machine_dir(daemon, made) / "freeze-mode").write_text("silent")
    answers = []

    def fork():
        answers.append(daemon.request("POST", f"/sandboxes/{made['sandboxID']}/fork", {}, timeout=60))

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_for(lambda: "freeze" in calls(daemon, made), 30, "it is asked")
    assert daemon.kill(made["sandboxID"]) == 204
    for thread in threads:
        thread.join(60)
    assert [a.status for a in answers] == [404, 404], [a.body for a in answers]
    wait_for(lambda: not daemon.machines(), 30, "nothing is left")


def test_the_daemon_is_killed_meanwhile():
    """The next daemon thaws the guest, at whatever stage the first one died; if it also has to wake
    the machine, it sends /init too."""
    daemon = Daemon()
    daemon.template("default", save="late")
    with daemon:
        made = daemon.create()

        def ask():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}, timeout=60)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: calls(daemon, made)[:1] == ["freeze"], 30, "it is asked to stand still")
        daemon.stop(signal.SIGKILL)
        thread.join(60)
        log = machine_dir(daemon, made) / "calls.log"
        before = len(log.read_text().split())
        daemon.start()
        wait_for(lambda: log.read_text().split()[before:][:1] in (["init"], ["unfreeze"]), 30, "it is let go on")
        goes_on(daemon, made)
