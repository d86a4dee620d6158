# SPDX-License-Identifier: Apache-2.0
"""cubby fleet drain never makes two copies of a sandbox, and removes none in favour of another copy."""

import json
import shlex
import signal
import subprocess

import pytest

from cubbyd import wait_for
from drain_fixtures import *  # noqa: F401,F403
from fleet import DrainFleet

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
    assert (answer["taken"], answer["barred"]) == (False, True) and "refused this move before" in answer["why"]
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


def test_a_move_goes_there_and_back(fleet):
    """Each move has a later name, so the notes of the first do not refuse the third."""
    made = fleet.create("a")
    sandbox = made["sandboxID"]
    fleet.count(made, "POST")
    assert fleet.drain() == {sandbox: "moved"}
    for node, to in (("b", "a"), ("a", "b")):
        fleet.list_nodes(**{node: f"then={to}"})
        fleet.nodes[to].request("DELETE", "/drain")
        process = fleet.start_drain(node, to)
        out, err = process.communicate(timeout=120)
        assert out == f"{sandbox} moved\n" and process.returncode == 0, out + err
        assert fleet.here(to) == {sandbox} and fleet.here(node) == set()
    fleet.list_nodes(a="then=b")


# ---- a node that is not gone for good
@pytest.mark.parametrize("how", ["stopped", "unnamed"])
def test_a_node_that_may_run_is_not_abandoned(tmp_path, how):
    with DrainFleet() as fleet:
        sandbox = fleet.create("a")["sandboxID"]
        there = fleet.nodes["b"]
        assert fleet.drain(via=unanswered(fleet, tmp_path), status=1)[sandbox].startswith("unsure")
        nodes = fleet.nodes_file.read_text()
        if how == "stopped":
            there.process.send_signal(signal.SIGSTOP)
        else:
            fleet.nodes_file.write_text("".join(line.replace("then=b", "") for line in nodes.splitlines(keepends=True)
                                                if not line.startswith("b ")))
        try:
            assert fleet.drain("--abandon", status=1) == {}
        finally:
            there.process.send_signal(signal.SIGCONT)
            fleet.nodes_file.write_text(nodes)
        assert ("accepts connections" if how == "stopped" else 'does not name node "b"') in fleet.said
        assert fleet.nodes["a"].request("GET", f"/sandboxes/{sandbox}").json["movingTo"] == "b"
        assert fleet.drain() == {sandbox: "moved"} and fleet.here("b") == {sandbox}
