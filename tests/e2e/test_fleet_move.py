# SPDX-License-Identifier: Apache-2.0
"""Real sandboxes of one daemon are moved to another one, a home of its own on this host, with their memory: programs
and Python variables go on. Sandboxes of the process driver are moved by real ssh, between two hosts.
tests/protocol/fleet/test_fleet_drain.py has the proxy, and what is interrupted."""

import os
import subprocess

import pytest

from cubbyd import Shipped, wait_for
from fleet import DrainNode, Fleet
from fleet_hosts import Hosts
from harness import BIN
from test_hibernate import COUNTER, counted, python, run
from tiers import tier  # noqa: F401

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(name="pair", scope="module")
def fixture_pair(tier, tmp_path_factory):  # noqa: F811
    """Two nodes, and the list of them."""
    nodes = tmp_path_factory.mktemp("fleet") / "nodes"
    nodes.write_text("a http://127.0.0.1:1 then=b\nb http://127.0.0.1:2\n")
    with Shipped("--pool", "off", "--node", "a", tier=tier) as a, Shipped("--pool", "off", "--node", "b", tier=tier) as b:
        yield a, b, nodes


def drain(pair, status=0):
    a, b, nodes = pair
    done = subprocess.run([BIN / "cubby", "fleet", "drain", "--via", f"env CUBBY_HOME={b.home} {BIN}/cubby", "a", nodes],
                          env=a.env, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_what_runs_goes_on_at_the_other_node(pair):
    a, b, _ = pair
    try:
        busy, quiet = a.create(timeout=3600, metadata={"who": "busy"}), a.create(timeout=3600)
        counter = a.open_command(busy, COUNTER)
        wait_for(lambda: a.command(busy, "test -s /tmp/count")[0] == 0, 60, "the program counts")
        python(a, busy, "import threading, time\nn = 0\ndef count():\n    global n\n    while True:\n        n += 1\n"
                        "        time.sleep(0.05)\nthreading.Thread(target=count, daemon=True).start()")
        run(a, quiet, "echo kept >/home/user/note")
        before, variable = counted(a, busy), int(python(a, busy, "print(n)"))
        assert a.request("POST", f"/sandboxes/{quiet['sandboxID']}/pause", {}).status == 204
        said = drain(pair)
        counter.close()
        assert said == {busy["sandboxID"]: "moved", quiet["sandboxID"]: "moved"}
        assert a.directories() == []
        listed = {one["sandboxID"]: one["state"] for one in b.request("GET", "/v2/sandboxes").json}
        assert listed == {busy["sandboxID"]: "running", quiet["sandboxID"]: "paused"}
        after = counted(b, busy)
        assert after >= before and int(python(b, busy, "print(n)")) >= variable
        wait_for(lambda: counted(b, busy) > after, 60, "the program goes on")
        wait_for(lambda: int(python(b, busy, "print(n)")) > variable + 3, 60, "the thread goes on")
        assert b.get(busy["sandboxID"]).json["metadata"] == {"who": "busy"}
        assert b.request("POST", f"/v2/sandboxes/{quiet['sandboxID']}/connect", {"timeout": 600}).status == 201
        assert run(b, quiet, "cat /home/user/note") == "kept\n"
        assert (a.home / "moved" / busy["sandboxID"]).read_text() == "b"
    finally:
        a.request("DELETE", "/drain")
        for sandbox in b.directories():
            b.kill(sandbox)


def test_a_mount_of_this_host_stays(pair, tmp_path):
    a, b, _ = pair
    sandbox = a.create(timeout=3600)
    made = sandbox["sandboxID"]
    try:
        mounted = a.request("POST", f"/sandboxes/{made}/mounts", {"source": str(tmp_path), "target": "/look"}, timeout=90)
        assert mounted.status == 201, mounted.body
        said = drain(pair, status=1)[made]
        assert said.startswith("stays: ") and "mounts" in said
        (tmp_path / "file").write_text("here\n")
        assert run(a, sandbox, "cat /look/file") == "here\n"
        assert a.request("DELETE", f"/sandboxes/{made}/mounts?target=/look").status == 204
        wait_for(lambda: "mounts" not in a.record(made), 60, "it has no mount any more")
        assert drain(pair) == {made: "moved"}
    finally:
        a.request("DELETE", "/drain")
        for node in (a, b):
            for one in node.directories():
                node.kill(one)


# ---- by ssh
@pytest.fixture
def hosts(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    fleet = Fleet("a", "b", kind=DrainNode)
    fleet.list_nodes(a="then=b")
    with fleet:
        made = Hosts(fleet, tmp_path)
        yield made
        made.close()


def test_sandboxes_go_over_the_wire(hosts):
    fleet = hosts.fleet
    running, paused = fleet.create("a"), fleet.create("a")
    fleet.count(running, "POST")
    before = fleet.count(running)
    assert fleet.request("POST", f"/sandboxes/{paused['sandboxID']}/pause", {}).status == 204
    ids = {one["sandboxID"] for one in (running, paused)}
    assert hosts.drain() == dict.fromkeys(ids, "moved")
    assert fleet.here("a") == set() and fleet.here("b") == ids
    after = fleet.count(running)
    assert after["boot"] == before["boot"] and after["count"] >= before["count"]
    assert hosts.log.read_text().count("Accepted publickey for root from ") == len(ids) + 1


def test_a_host_that_is_not_the_one_that_is_known(hosts):
    """Nothing is sent to it, and nothing is changed here."""
    fleet = hosts.fleet
    made = fleet.create("a")
    hosts.trust((hosts.where / "root/.ssh/id_ed25519.pub").read_text())
    assert hosts.drain(status=1) == {} and "cannot receive" in hosts.said and "Host key verification failed" in hosts.said
    assert fleet.here("b") == set() and "Accepted" not in hosts.log.read_text()
    hosts.trust()
    assert hosts.drain() == {made["sandboxID"]: "moved"} and fleet.here("b") == {made["sandboxID"]}


def test_a_cable_that_breaks_is_no_loss(hosts):
    """The other host cannot be reached; once it can, the command goes on."""
    fleet = hosts.fleet
    made = fleet.create("a")
    hosts.a.ip("link", "set", "eth0", "down")
    assert hosts.drain(status=1) == {}
    hosts.a.ip("link", "set", "eth0", "up")
    assert hosts.drain() == {made["sandboxID"]: "moved"}
    assert fleet.here("a") == set() and fleet.here("b") == {made["sandboxID"]}
