# SPDX-License-Identifier: Apache-2.0
"""cubby fleet drain when the way to the other host fails: what cannot be there goes on here, and what may be there
waits until somebody knows.
"""

import signal
import subprocess

import pytest

from cubbyd import wait_for
from drain_fixtures import *  # noqa: F401,F403
from fleet import CUBBY, LOST, DrainFleet
from harness import BIN


def test_a_host_that_cannot_receive_changes_nothing(fleet, tmp_path):
    """It is asked before the first sandbox sleeps."""
    made = fleet.create("a")
    fleet.count(made, "POST")
    node = fleet.nodes["a"]
    for via, why in (("false", "gave no answer"), ("true", "gave no answer"), ("echo 'Welcome\x1b'; :", 'printed "Welcome?"'), (fleet.via("a"), "not node \"b\""),
                     (f"env CUBBY_HOME={tmp_path}/none {CUBBY}", "none")):
        assert fleet.drain(via=via, status=1) == {}
        assert "node b cannot receive, so nothing was moved or changed" in fleet.said and why in fleet.said
        assert not node.request("GET", "/health").json["draining"] and node.record(made["sandboxID"])["state"] == "running"
    assert fleet.nodes["b"].request("POST", "/drain").status == 204
    assert fleet.drain(status=1) == {} and "it is being drained itself" in fleet.said
    assert fleet.nodes["b"].request("DELETE", "/drain").status == 204
    assert fleet.count(made)["count"] >= 0


@pytest.mark.parametrize("how", ["exit 255", "exec sleep 0"])
def test_a_way_that_breaks_before_the_end_of_the_archive(fleet, tmp_path, how):
    """The other node cannot have the sandbox, so it goes on here, and the drain leaves the others alone."""
    made = [fleet.create("a") for _ in range(3)]
    for one in made:
        fleet.count(one, "POST")
    said = fleet.drain(via=fleet.breaks(tmp_path, how), status=1)
    assert len(said) == 1 and list(said.values())[0].startswith("stays: "), said
    assert "the way to node b failed" in fleet.said
    node = fleet.nodes["a"]
    for one in made:
        wait_for(lambda one=one: node.record(one["sandboxID"])["state"] == "running", 30, "it runs here")
        assert fleet.count(one)["count"] >= 0
    assert fleet.drain() == {one["sandboxID"]: "moved" for one in made}


def test_an_archive_that_was_lost_at_its_end(fleet, tmp_path):
    made = fleet.create("a")
    sandbox, node = made["sandboxID"], fleet.nodes["a"]
    said = fleet.drain(via=fleet.breaks(tmp_path, LOST), status=1)
    assert said[sandbox].startswith("unsure")
    for method, path in ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/connect"):
        refused = fleet.request(method, f"/sandboxes/{sandbox}{path}", {"timeout": 60} if path == "/connect" else {})
        assert (refused.status, refused.json["error_code"]) == (503, "sandbox_moving"), refused.body  # it may be there
    routed = fleet.through(sandbox, path="/whoami", headers={"X-Access-Token": made["envdAccessToken"]})
    assert (routed.status, routed.json["error_code"]) == (503, "sandbox_moving"), routed.body
    assert node.request("GET", f"/sandboxes/{sandbox}").json["movingTo"] == "b"
    listed = subprocess.run([BIN / "cubby", "ps"], env=node.env, capture_output=True, text=True, timeout=60)
    assert sandbox in listed.stdout and "moving" in listed.stdout, listed
    assert fleet.drain(via="false", status=1) == {}, "nothing is known, so nothing changes"
    assert fleet.drain(via=fleet.breaks(tmp_path, "exit 1"), status=1)[sandbox].startswith("unsure"), "from the first run"
    assert fleet.drain() == {sandbox: "moved"}


def test_a_wake_during_a_drain_is_refused_by_its_own_name(fleet):
    made, node = fleet.create("a"), fleet.nodes["a"]
    sandbox = made["sandboxID"]
    assert fleet.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    assert node.request("POST", "/drain?wakes=off").status == 204
    for path in "resume", "connect":
        refused = fleet.request("POST", f"/sandboxes/{sandbox}/{path}", {"timeout": 60})
        assert (refused.status, refused.json["error_code"]) == (503, "sandbox_moving"), refused.body


def test_a_node_that_is_gone_for_good(tmp_path):
    """Its operator says so, and the sandboxes that it may have are here again."""
    with DrainFleet() as fleet:
        made = fleet.create("a")
        fleet.count(made, "POST")
        sandbox = made["sandboxID"]
        assert fleet.drain(via=fleet.breaks(tmp_path, LOST), status=1)[sandbox].startswith("unsure")
        assert fleet.drain("--abandon", status=1) == {} and "node b may run" in fleet.said
        fleet.nodes["b"].stop()
        said = fleet.drain("--abandon")
        assert said == {sandbox: "is here again; node b may have it too"} and "would then run twice" in fleet.said
        wait_for(lambda: fleet.nodes["a"].record(sandbox)["state"] == "running", 30, "it runs here")
        fleet.nodes["a"].stop(signal.SIGUSR1)
        fleet.nodes["a"].start()
        wait_for(lambda: fleet.through(sandbox).status == 204, 30, "the proxy knows that node a is back")
        assert fleet.count(made)["count"] >= 0
        assert "movingTo" not in fleet.nodes["a"].request("GET", f"/sandboxes/{sandbox}").json
        assert fleet.drain("--abandon") == {}
        fleet.nodes["b"].start()
