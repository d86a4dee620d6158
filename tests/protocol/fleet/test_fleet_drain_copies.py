# SPDX-License-Identifier: Apache-2.0
"""cubby fleet drain never makes two copies of a sandbox, and removes none in favour of another copy."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess

import pytest

from crash import MOVES
from cubbyd import wait_for
from drain_fixtures import *  # noqa: F401,F403
from fleet import DrainFleet

FAULTS = pathlib.Path(os.environ["TEST"]) / "faults" / "cubbyd-process"
# The other node takes the sandbox, but its answer is lost.
UNANSWERED = '{via} "$@" >/dev/null; exit 255'


def unanswered(fleet, where):
    return fleet.breaks(where, UNANSWERED.format(via=fleet.via("b")))


class Late:
    """An archive that is under way, as from a drain that has ended: it comes to node b at the end."""

    def __init__(self, fleet, where):
        self.fleet, self.archive, self.words = fleet, where / "late.cubby", where / "late.words"
        self.via = fleet.breaks(where, f'echo "$*" >{self.words}; cat >{self.archive}; exit 255')

    def come(self, status):
        with self.archive.open("rb") as archive:
            done = subprocess.run([*shlex.split(self.fleet.via("b")), *self.words.read_text().split()], stdin=archive,
                                  capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)


def test_an_archive_that_comes_after_a_refusal(fleet, tmp_path):
    made = fleet.create("a")
    sandbox = made["sandboxID"]
    fleet.count(made, "POST")
    late = Late(fleet, tmp_path)
    assert fleet.drain(via=late.via, status=1)[sandbox].startswith("unsure")
    said = fleet.drain(via=fleet.breaks(tmp_path, f'{fleet.via("b")} "$@" </dev/null'), status=1)
    assert said[sandbox].startswith("stays: node b refused it: "), said
    wait_for(lambda: fleet.nodes["a"].record(sandbox)["state"] == "running", 30, "it runs at node a")
    answer = late.come(1)
    assert (answer["taken"], answer["barred"]) == (False, True) and "has refused this move" in answer["why"]
    assert fleet.here("b") == set() and fleet.count(made)["count"] >= 0
    assert fleet.drain() == {sandbox: "moved"}, "a new move has another name"
    assert late.come(1)["barred"] and fleet.here("b") == {sandbox} and fleet.here("a") == set()


def test_an_archive_that_comes_after_another_of_the_same_move(fleet, tmp_path):
    made = fleet.create("a")
    sandbox, there = made["sandboxID"], fleet.nodes["b"]
    late = Late(fleet, tmp_path)
    assert fleet.drain(via=late.via, status=1)[sandbox].startswith("unsure")
    assert fleet.drain() == {sandbox: "moved"}
    assert late.come(0) == {"taken": True} and fleet.here("b") == {sandbox}
    assert there.kill(sandbox) == 204
    wait_for(lambda: there.directories() == [], 30, "it has ended")
    assert late.come(0) == {"taken": True} and there.directories() == [], "it does not come back"


def test_two_copies_stay_two(tmp_path):
    """The operator abandoned a node that was not gone for good. A drain must not remove the one copy for the other."""
    with DrainFleet() as fleet:
        made = fleet.create("a")
        sandbox, there = made["sandboxID"], fleet.nodes["b"]
        fleet.count(made, "POST")
        assert fleet.drain(via=unanswered(fleet, tmp_path), status=1)[sandbox].startswith("unsure")
        there.stop(signal.SIGUSR1)
        assert fleet.drain("--abandon") == {sandbox: "is here again; node b may have it too"}
        there.start()
        assert fleet.here("a") == fleet.here("b") == {sandbox}
        said = fleet.drain(status=1)[sandbox]
        assert said.startswith("stays: node b refused it: another copy"), said
        assert fleet.here("a") == fleet.here("b") == {sandbox}
        assert there.kill(sandbox) == 204
        wait_for(lambda: there.directories() == [], 30, "one has ended")
        assert fleet.drain(status=1)[sandbox].startswith("stays: ") and fleet.here("a") == {sandbox}
        wait_for(lambda: fleet.nodes["a"].record(sandbox)["state"] == "running", 30, "it runs at node a")


def test_a_way_that_leads_elsewhere_after_the_question(fleet, tmp_path):
    """To the node that has the sandbox, even."""
    made = fleet.create("a")
    sandbox = made["sandboxID"]
    said = fleet.drain(via=fleet.breaks(tmp_path, f'exec {fleet.via("a")} "$@"'), status=1)
    assert said[sandbox].startswith("stays: ") and 'not node "b"' in said[sandbox], said
    wait_for(lambda: fleet.nodes["a"].record(sandbox)["state"] == "running", 30, "it goes on here")
    assert fleet.drain() == {sandbox: "moved"}


@contextlib.contextmanager
def killed_at(node, point):
    """The daemon of the node runs until this point, at which it is killed. At the end it does not run."""
    node.stop(signal.SIGUSR1)
    program, fault = node.program, node.home / "fault"
    fault.write_text(f"{point}:1")
    node.program, node.env["CUBBY_FAULT"] = FAULTS, str(fault)
    node.start()
    yield
    node.process.wait(60)
    node.program, _ = program, node.env.pop("CUBBY_FAULT")


def move(fleet, node, to, status=0):
    """A drain of any node. Returns {sandbox: what was said of it}."""
    fleet.list_nodes(**{node: f"then={to}"})
    fleet.nodes[to].request("DELETE", "/drain")
    process = fleet.start_drain(node, to)
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, out + err
    fleet.list_nodes(a="then=b")
    return dict(line.split(" ", 1) for line in out.splitlines())


def test_a_move_goes_there_and_back(fleet):
    """Each move has a later name, so the notes of the first do not refuse the third."""
    made = fleet.create("a")
    sandbox = made["sandboxID"]
    fleet.count(made, "POST")
    for node, to in (("a", "b"), ("b", "a"), ("a", "b")):
        assert move(fleet, node, to) == {sandbox: "moved"}
        assert fleet.here(to) == {sandbox} and fleet.here(node) == set()


class Unknown:
    """Within it, no node knows the key of the fleet's sandboxes, so none takes one from another."""

    def __init__(self, fleet):
        self.fleet, self.text = fleet, fleet.keys.read_text()

    def asked(self, status):
        for name, node in self.fleet.nodes.items():
            wait_for(lambda node=node: self.fleet.request("GET", "/v2/sandboxes", port=node.port).status == status, 30,
                     f"node {name} has read the keys")

    def __enter__(self):
        self.fleet.keys.write_text('{"tokens": []}\n')
        self.asked(401)

    def __exit__(self, *exc):
        self.fleet.keys.write_text(self.text)
        self.asked(200)


def test_a_way_back_that_is_refused(fleet):
    """The note of its first leaving does not mean that it came back."""
    sandbox = fleet.create("b")["sandboxID"]
    assert move(fleet, "b", "a") == {sandbox: "moved"}
    with Unknown(fleet):
        said = move(fleet, "a", "b", status=1)[sandbox]
    assert said.startswith("stays: node b refused it: "), said
    assert fleet.here("a") == {sandbox} and fleet.here("b") == set()
    assert move(fleet, "a", "b") == {sandbox: "moved"} and fleet.here("b") == {sandbox}


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("point", [name for name in MOVES if name.startswith("arrival.")])
def test_a_daemon_that_is_killed_on_a_way_back(fleet, point, known):
    """The next one has it, or takes it when it is sent again; and does not skip what it checks."""
    sandbox, there = fleet.create("b")["sandboxID"], fleet.nodes["b"]
    assert move(fleet, "b", "a") == {sandbox: "moved"}
    with killed_at(there, point):
        assert move(fleet, "a", "b", status=1)[sandbox].startswith("unsure")
    unknown = Unknown(fleet)
    if known or point == "arrival.4":  # the checks are before it
        there.start()
        assert move(fleet, "a", "b") == {sandbox: "moved"}
        assert fleet.here("b") == {sandbox} and fleet.here("a") == set()
        return
    fleet.keys.write_text('{"tokens": []}\n')  # as it starts
    there.start()
    with unknown:
        assert move(fleet, "a", "b", status=1)[sandbox].startswith("stays: ")
    assert fleet.here("a") == {sandbox} and fleet.here("b") == set()


def test_a_way_back_that_failed_is_no_end(fleet):
    """Node b still tells the proxy that the sandbox is at node a."""
    made = fleet.create("b")
    sandbox, there = made["sandboxID"], fleet.nodes["b"]
    assert move(fleet, "b", "a") == {sandbox: "moved"}
    with killed_at(there, "arrival.3"):
        assert move(fleet, "a", "b", status=1)[sandbox].startswith("unsure")
    there.start()
    assert fleet.nodes["a"].request("DELETE", f"/sandboxes/{sandbox}/move").status == 204
    asked = fleet.request("GET", f"/sandboxes/{sandbox}", port=there.port)
    assert asked.status == 425 and asked.headers["Cubby-Node"] == "a", asked.body
    assert fleet.here("a") == {sandbox} and fleet.here("b") == set()


# ---- the notes
def note_of(fleet, sandbox):
    return fleet.nodes["b"].home / "arrivals" / sandbox


def test_a_note_that_was_lost(fleet, tmp_path):
    """The sandbox tells itself by which move it came."""
    sandbox = fleet.create("a")["sandboxID"]
    assert fleet.drain(via=unanswered(fleet, tmp_path), status=1)[sandbox].startswith("unsure")
    note_of(fleet, sandbox).write_text("")
    assert fleet.drain() == {sandbox: "moved"}
    assert fleet.here("b") == {sandbox} and fleet.here("a") == set()


@pytest.mark.parametrize("text", ["", "\0" * 30, "1-0123456789abcdef\n", "1-0123456789abcdef taken", "refused\n"])
def test_a_damaged_note_lets_nothing_in(fleet, tmp_path, text):
    sandbox = fleet.create("a")["sandboxID"]
    late = Late(fleet, tmp_path)
    assert fleet.drain(via=late.via, status=1)[sandbox].startswith("unsure")
    assert fleet.drain(via=fleet.breaks(tmp_path, f'{fleet.via("b")} "$@" </dev/null'), status=1)[sandbox].startswith("stays: ")
    note_of(fleet, sandbox).write_text(text)
    answer = late.come(1)
    assert (answer["taken"], answer["barred"]) == (False, False) and "is damaged" in answer["why"]
    assert fleet.here("b") == set()
    note_of(fleet, sandbox).unlink()


def test_one_that_has_ended_does_not_come_back_when_its_end_is_forgotten(fleet, tmp_path):
    sandbox, there = fleet.create("a")["sandboxID"], fleet.nodes["b"]
    assert fleet.drain(via=unanswered(fleet, tmp_path), status=1)[sandbox].startswith("unsure")
    assert there.kill(sandbox) == 204
    wait_for(lambda: there.directories() == [], 30, "it has ended")
    there.stop(signal.SIGUSR1)
    (there.home / "ended.jsonl").unlink()
    there.start()
    assert fleet.drain() == {sandbox: "moved"} and fleet.here("b") == fleet.here("a") == set()


# ---- a node that is not gone for good
@pytest.mark.parametrize("how", ["stopped", "unnamed", "unresolved"])
def test_a_node_that_may_run_is_not_abandoned(tmp_path, how):
    with DrainFleet() as fleet:
        sandbox = fleet.create("a")["sandboxID"]
        there = fleet.nodes["b"]
        assert fleet.drain(via=unanswered(fleet, tmp_path), status=1)[sandbox].startswith("unsure")
        nodes = fleet.nodes_file.read_text()
        if how == "stopped":
            there.process.send_signal(signal.SIGSTOP)
        elif how == "unresolved":
            fleet.nodes_file.write_text(nodes.replace(f"127.0.0.1:{there.port}", f"b.invalid:{there.port}"))
        else:
            fleet.nodes_file.write_text("".join(line.replace("then=b", "") for line in nodes.splitlines(keepends=True)
                                                if not line.startswith("b ")))
        try:
            assert fleet.drain("--abandon", status=1) == {}
        finally:
            there.process.send_signal(signal.SIGCONT)
            fleet.nodes_file.write_text(nodes)
        assert {"stopped": "accepts connections", "unnamed": 'does not name node "b"',
                "unresolved": "b.invalid cannot be resolved"}[how] in fleet.said
        assert fleet.nodes["a"].request("GET", f"/sandboxes/{sandbox}").json["movingTo"] == "b"
        assert fleet.drain() == {sandbox: "moved"} and fleet.here("b") == {sandbox}
