# SPDX-License-Identifier: Apache-2.0
"""A daemon with a node name: the ids that it makes and finds, what it says of other nodes' ids, and what it tells
a proxy about its load.
"""

import re
import socket
import subprocess

import pytest

from cubbyd import PROGRAM, Daemon, closed_port
from test_daemon_admission import Machine

OTHER = "b" + "x" * 20
OLD = "y" * 20


@pytest.fixture(scope="module")
def node():
    with Daemon("--node", "a1", "--pool", "off") as d:
        yield d


def test_ids_of_sandboxes_snapshots_forks_and_builds(node):
    made = node.create()["sandboxID"]
    assert re.fullmatch("a1[a-z0-9]{20}", made)
    snapshot = node.request("POST", f"/sandboxes/{made}/snapshots", {}).json["snapshotID"]
    assert re.fullmatch("snap-a1[a-z0-9]{20}", snapshot)
    child = node.request("POST", f"/sandboxes/{made}/fork", {}).json[0]["sandbox"]["sandboxID"]
    from_snapshot = node.create(templateID=snapshot)["sandboxID"]
    for sandbox in (child, from_snapshot):
        assert re.fullmatch("a1[a-z0-9]{20}", sandbox)
        assert node.through(sandbox).status == 204
    host = node.request("GET", "/health", headers={"Host": f"49983-{child}.localhost"})
    assert host.status == 204
    build = node.request("POST", "/v3/templates", {"name": "built"}).json["buildID"]
    assert re.fullmatch("a1-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", build)
    assert node.request("GET", f"/templates/built/builds/{build}/status").json["status"] == "waiting"
    page = node.request("GET", "/v2/sandboxes?limit=1")
    rest = node.request("GET", f"/v2/sandboxes?nextToken={page.headers['X-Next-Token']}")
    assert {s["sandboxID"] for s in page.json + rest.json} == {made, child, from_snapshot}
    metrics = node.request("GET", f"/sandboxes/metrics?sandbox_ids={made},{child}")
    assert set(metrics.json["sandboxes"]) <= {made, child}
    assert [node.kill(s) for s in (made, child, from_snapshot)] == [204] * 3
    assert node.get(made).json["error_code"] == "sandbox_ended"


def test_ids_of_an_earlier_daemon_stay_valid():
    with Daemon("--keep") as d:
        old = d.create()["sandboxID"]
        assert re.fullmatch("[a-z0-9]{20}", old)
        snapshot = d.request("POST", f"/sandboxes/{old}/snapshots", {}).json["snapshotID"]
        build = d.request("POST", "/v3/templates", {"name": "built"}).json["buildID"]
        d.stop()
        d.start("--node", "n7")
        assert d.get(old).status == 200 and d.through(old).status == 204
        new = d.create(templateID=snapshot)["sandboxID"]
        assert new.startswith("n7")
        assert d.request("GET", f"/templates/built/builds/{build}/status").status == 200
        assert [s["snapshotID"] for s in d.request("GET", "/snapshots").json] == [snapshot]
        assert {d.kill(old), d.kill(new)} == {204}
        assert d.request("DELETE", f"/templates/{snapshot}").status == 204


def test_other_nodes_ids_are_told_apart_from_unknown_ones(node):
    for answer in (node.get(OTHER), node.through(OTHER),
                   node.request("POST", f"/sandboxes/{OTHER}/pause", {}),
                   node.request("GET", "/", headers={"Host": f"80-{OTHER}.localhost"})):
        assert answer.status == 421 and answer.json["code"] == 421
        assert answer.json["error_code"] == "wrong_node"
        assert 'of node "b"' in answer.json["message"] and 'is node "a1"' in answer.json["message"]
    assert node.get(OLD).json["error_code"] == "sandbox_not_found"
    assert node.get("a1" + OLD).json["error_code"] == "sandbox_not_found"
    assert node.through("a1" + OLD).status == 502
    refused = node.request("POST", "/v2/sandboxes", {"templateID": "snap-" + OTHER})
    assert refused.status == 404 and 'is of node "b"' in refused.json["message"]


def test_a_daemon_without_a_name_says_so():
    with Daemon() as d:
        answer = d.get(OTHER)
        assert answer.status == 421 and "has no --node" in answer.json["message"]
        assert "node" not in d.request("GET", "/health").json
        assert d.request("POST", "/drain").status == 204
        refused = d.request("POST", "/v2/sandboxes", {"templateID": "default"})
        assert refused.status == 503 and refused.json["message"].startswith("this daemon is being drained")
        assert "node" not in refused.json["message"] and "proxy" not in refused.json["message"]


@pytest.mark.parametrize("name", ["", "A", "a-b", "a.b", "abcdefghijkl"])
def test_names_are_checked(name, tmp_path):
    ran = subprocess.run([PROGRAM, "--node", name], env={"CUBBY_HOME": str(tmp_path)}, capture_output=True, text=True,
                         timeout=60)
    assert ran.returncode == 2 and "1 to 11 lower-case letters and digits" in ran.stderr


def test_health_tells_load_and_room():
    with Machine("--node", "a", "--create-wait", "0", available=9000) as d:
        def health(query=""):
            return d.request("GET", "/health" + query)
        free = health("?for=create")
        assert free.status == 200 and free.json["status"] == "ok"
        assert free.json["node"] == "a" and free.json["room"] is True and free.json["draining"] is False
        assert 0 <= free.json["load"] < 100
        d.has(500)
        assert health().status == 200 and health().json["load"] == 100
        full = health("?for=create")
        assert full.status == 503 and full.json["status"] == "full" and full.json["room"] is False
        refused = d.ask()
        assert refused.status == 503 and refused.json["error_code"] == "host_full"
        assert refused.headers["Retry-After"]


def test_a_drained_node_takes_no_creates_and_serves_what_it_has(node):
    kept = node.create()["sandboxID"]
    assert node.request("POST", "/drain").status == 204
    assert node.request("GET", "/health").json["draining"] is True
    assert node.request("GET", "/health?for=create").status == 503
    refused = node.request("POST", "/v2/sandboxes", {"templateID": "default"})
    assert refused.status == 503 and "being drained" in refused.json["message"]
    assert refused.headers["Retry-After"]
    assert node.through(kept).status == 204
    assert node.request("DELETE", "/drain").status == 204
    assert node.kill(kept) == 204 and node.kill(node.create()["sandboxID"]) == 204


def test_a_restarted_node_is_still_drained(node):
    node.request("POST", "/drain")
    node.process.kill()
    node.process.wait()
    node.start()
    assert node.request("GET", "/health").json["draining"] is True
    assert node.request("POST", "/v2/sandboxes", {"templateID": "default"}).status == 503
    assert node.request("DELETE", "/drain").status == 204
    node.process.kill()
    node.process.wait()
    node.start()
    assert node.kill(node.create()["sandboxID"]) == 204


def test_the_agent_of_a_proxy():
    with closed_port() as held:
        port = held.getsockname()[1]

    def line():
        with socket.create_connection(("127.0.0.1", port), 30) as s:
            return s.makefile().read()
    with Machine("--node", "a", "--agent", f"127.0.0.1:{port}", available=9000) as d:
        assert re.fullmatch(r"ready up ([1-9]\d?|100)%\n", line())
        d.has(500)
        assert line() == "ready up 1%\n"
        d.request("POST", "/drain")
        assert line() == "drain\n"
