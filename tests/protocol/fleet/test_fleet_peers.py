# SPDX-License-Identifier: Apache-2.0
"""Lists of a fleet: the daemon that is asked adds what its peers have, says which peer is missing, and never runs in
circles. E2B's SDK, cubby and cubby-mcp see one service.
"""

import http.client
import http.server
import json
import os
import subprocess
import threading

import pytest

from cubbyd import PROGRAM, wait_for
from fleet import Fleet, free_ports
from harness import BIN

NODES = ("a", "b", "c")


@pytest.fixture(scope="module")
def fleet():
    with Fleet(*NODES) as f:
        yield f


@pytest.fixture(autouse=True)
def no_sandbox_stays(request):
    yield
    if "fleet" in request.fixturenames:
        for node in request.getfixturevalue("fleet").nodes.values():
            for one in node.request("GET", "/v2/sandboxes").json:
                node.kill(one["sandboxID"])


def ids(answer, member="sandboxID"):
    return [one[member] for one in answer.json]


# ---- lists
def test_a_list_of_sandboxes_is_whole_at_each_node(fleet):
    made = [fleet.create(node)["sandboxID"] for node in NODES for _ in range(2)]
    for path in ("/v2/sandboxes", "/sandboxes"):
        for name, answer in fleet.everywhere("GET", path).items():
            assert sorted(ids(answer)) == sorted(made), name
            assert "Cubby-Missing-Nodes" not in answer.headers
    times = [one["startedAt"] for one in fleet.request("GET", "/v2/sandboxes").json]
    assert times == sorted(times, reverse=True)
    assert fleet.request("GET", "/v2/sandboxes").headers["X-Total-Running"] == "6"
    paused = made[-1]
    assert fleet.request("POST", f"/sandboxes/{paused}/pause", {}).status == 204
    for node in fleet.nodes.values():
        assert ids(fleet.request("GET", "/v2/sandboxes?state=paused", port=node.port)) == [paused]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_have_each_sandbox_once(fleet, limit, order):
    made = [fleet.create(node)["sandboxID"] for node in "abcabca"]  # the oldest first
    seen, token, pages = [], "", 0
    while pages < 10:
        answer = fleet.request("GET", f"/v2/sandboxes?limit={limit}&order={order}&nextToken={token}")
        assert len(ids(answer)) <= limit
        seen, token, pages = seen + ids(answer), answer.headers["X-Next-Token"], pages + 1
        if not token:
            break
    assert seen == (made if order == "asc" else made[::-1])


def test_snapshots_of_all_nodes(fleet):
    made = []
    for node in NODES:
        sandbox = fleet.create(node)["sandboxID"]
        made.append(fleet.request("POST", f"/sandboxes/{sandbox}/snapshots", {}).json["snapshotID"])
    for answer in fleet.everywhere("GET", "/snapshots").values():
        assert ids(answer, "snapshotID") == made[::-1]
    page = fleet.request("GET", "/snapshots?limit=2")
    rest = fleet.request("GET", f"/snapshots?limit=2&nextToken={page.headers['X-Next-Token']}")
    assert ids(page, "snapshotID") + ids(rest, "snapshotID") == made[::-1]
    assert "X-Next-Token" not in rest.headers
    for snapshot in made:
        assert fleet.request("DELETE", f"/templates/{snapshot}").status == 204


def test_volumes_of_all_nodes(fleet):
    made = [fleet.request("POST", "/volumes", {"name": f"of-{node}"}, port=fleet.nodes[node].port).json["volumeID"]
            for node in NODES]
    for node, answer in fleet.everywhere("GET", "/volumes").items():
        assert sorted(ids(answer, "volumeID")) == sorted(made), node
    for volume in made:
        assert fleet.request("DELETE", f"/volumes/{volume}").status == 204
    assert fleet.request("GET", "/volumes").json == []


def test_templates_of_all_nodes_once(fleet):
    fleet.nodes["b"].template("only-b")
    for answer in fleet.everywhere("GET", "/templates").values():
        assert sorted(ids(answer, "templateID")) == ["default", "only-b"]


def test_metrics_and_stats_of_all_nodes(fleet):
    made = [fleet.create(node)["sandboxID"] for node in NODES]
    for answer in fleet.everywhere("GET", f"/sandboxes/metrics?sandbox_ids={','.join(made)}").values():
        assert answer.status == 200 and "Cubby-Missing-Nodes" not in answer.headers
        assert set(answer.json["sandboxes"]) <= set(made)  # these guests tell nothing
    for answer in fleet.everywhere("GET", "/sandboxes/stats").values():
        assert {one["sandboxID"] for one in answer.json["sandboxes"]} == set(made)


# ---- who sees what
def test_each_key_sees_its_own(fleet):
    mine = fleet.create("b")["sandboxID"]
    key, fleet.key = fleet.key, fleet.new_key("other")
    try:
        wait_for(lambda: all(a.status == 200 for a in fleet.everywhere("GET", "/v2/sandboxes").values()), 30, "keys")
        theirs = fleet.create("c")["sandboxID"]
        for answer in fleet.everywhere("GET", "/v2/sandboxes").values():
            assert ids(answer) == [theirs]
    finally:
        fleet.key = key
    assert ids(fleet.request("GET", "/v2/sandboxes")) == [mine]


def test_the_unix_socket_shows_its_node_alone(fleet):
    made = {node: fleet.create(node)["sandboxID"] for node in NODES}
    for name, node in fleet.nodes.items():
        assert ids(node.request("GET", "/v2/sandboxes")) == [made[name]]


def test_a_request_of_a_peer_is_answered_alone(fleet):
    made = {node: fleet.create(node)["sandboxID"] for node in NODES}
    for name, node in fleet.nodes.items():
        answer = fleet.request("GET", "/v2/sandboxes", headers={"Cubby-Peer": "z"}, port=node.port)
        assert ids(answer) == [made[name]]


# ---- a peer that fails
class Peer(http.server.BaseHTTPRequestHandler):
    mode, heads, node = "ok", [], None

    def do_GET(self):
        Peer.heads.append((self.path, dict(self.headers)))
        if Peer.mode == "silent":
            Peer.over.wait(30)
            return
        status, body = {"ok": (200, b"[]"), "error": (500, b"[]"), "redirect": (302, b""), "html": (200, b"<html>"),
                        "other": (200, b'{"a": 1}'), "huge": (200, b"[" + b" " * (17 << 20) + b"]")}[Peer.mode]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if Peer.node:
            self.send_header("Cubby-Node", Peer.node)
        if Peer.mode == "redirect":
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def pair():
    """A fleet of one daemon, a peer that is a test's program, and one that does not run."""
    Peer.over, Peer.heads, Peer.node = threading.Event(), [], None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    fleet = Fleet("a")
    (gone,) = free_ports(1)
    fleet.nodes_file.write_text(fleet.nodes_file.read_text() + f"p http://127.0.0.1:{server.server_port}\n"
                                f"gone http://127.0.0.1:{gone}\nold http://127.0.0.1:{gone} moved=a\n")
    fleet.start_proxy = lambda: None
    with fleet:
        yield fleet
    Peer.over.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("mode, missing", [("ok", "gone"), ("error", "gone,p"), ("redirect", "gone,p"),
                                           ("html", "gone,p"), ("huge", "gone,p"), ("silent", "gone,p")])
def test_a_peer_that_fails_is_named(pair, mode, missing):
    Peer.mode = mode
    sandbox = pair.create("a")["sandboxID"]
    answer = pair.request("GET", "/v2/sandboxes", port=pair.nodes["a"].port)
    assert ids(answer) == [sandbox]
    assert ",".join(sorted(answer.headers["Cubby-Missing-Nodes"].split(","))) == missing
    assert "peers.missing node=gone" in pair.nodes["a"].log.read_text()
    path, headers = Peer.heads[0]
    assert path == "/v2/sandboxes" and len(Peer.heads) == 1  # no redirect is followed
    assert headers["X-API-KEY"] == pair.key and headers["Cubby-Peer"] == "a"


def test_a_peer_that_is_another_node_is_missing(pair):
    """And is logged once, as it stays so until the list is mended."""
    Peer.mode, Peer.node = "ok", "other"
    for _ in range(2):
        answer = pair.request("GET", "/v2/sandboxes", port=pair.nodes["a"].port)
        assert sorted(answer.headers["Cubby-Missing-Nodes"].split(",")) == ["gone", "p"]
    log = pair.nodes["a"].log.read_text()
    assert log.count("peers.missing node=p ") == 1 and 'is node "other"' in log
    Peer.node = "p"
    assert pair.request("GET", "/v2/sandboxes", port=pair.nodes["a"].port).headers["Cubby-Missing-Nodes"] == "gone"


def test_a_node_tells_its_peers_its_name(fleet):
    for name, node in fleet.nodes.items():
        answer = fleet.request("GET", "/v2/sandboxes", headers={"Cubby-Peer": "z"}, port=node.port)
        assert answer.headers["Cubby-Node"] == name


def test_an_answer_of_another_form_adds_nothing(pair):
    Peer.mode = "other"
    sandbox = pair.create("a")["sandboxID"]
    for path in ("/v2/sandboxes", "/snapshots", "/templates", "/sandboxes/metrics", "/sandboxes/stats"):
        assert pair.request("GET", path, port=pair.nodes["a"].port).status == 200
    assert ids(pair.request("GET", "/sandboxes", port=pair.nodes["a"].port)) == [sandbox]


def test_a_client_that_goes_first_leaves_nothing(pair):
    node = pair.nodes["a"]
    Peer.mode = "ok"
    assert pair.request("GET", "/v2/sandboxes", port=node.port).status == 200  # loads what it needs
    Peer.mode = "silent"
    before = node.fds()
    with pytest.raises(OSError):
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=0.3)
        try:
            connection.request("GET", "/v2/sandboxes", headers={"X-API-KEY": pair.key})
            connection.getresponse()
        finally:
            connection.close()
    Peer.over.set()
    wait_for(lambda: node.fds() <= before, 30, "its connections are closed")
    assert node.request("GET", "/health").status == 200


def test_the_list_of_nodes_may_change(pair):
    Peer.mode = "ok"
    port = pair.nodes["a"].port
    lines = pair.nodes_file.read_text().splitlines()
    pair.nodes_file.write_text("nonsense\n")
    assert "gone" in pair.request("GET", "/templates", port=port).headers["Cubby-Missing-Nodes"]
    assert "peers.unreadable" in pair.nodes["a"].log.read_text()
    pair.nodes_file.write_text("\n".join(lines[:2]) + "\n")
    assert "Cubby-Missing-Nodes" not in pair.request("GET", "/templates", port=port).headers


@pytest.mark.parametrize("words, nodes, why", [
    (["--peers", "FILE"], "a http://127.0.0.1:1\n", "--peers needs --node"),
    (["--peers", "FILE", "--node", "b"], "a http://127.0.0.1:1\n", 'does not name this node, "b"'),
    (["--peers", "FILE", "--node", "a"], "a http://127.0.0.1:1\nb http://10.0.0.1:1\n", "keys would travel unencrypted"),
    (["--peers", "FILE", "--node", "a"], "a x\n", "line 1"),
    (["--peers", "FILE", "--node", "a"], "a http://127.0.0.1:1\nb http://127.0.0.1:1/\n", "have the same URL"),
    (["--peers", "FILE", "--node", "a", "--peers-ca", "/nope"], "a http://127.0.0.1:1\n", "--peers-ca does not exist"),
    (["--keys", "/nope/keys.json"], "", "the directory of --keys does not exist"),
    (["--domain", "bad domain"], "", "is not a domain"),
    (["--peers", "FILE/x", "--node", "a"], "", "FILE/x")])
def test_options_are_checked(tmp_path, words, nodes, why):
    file = tmp_path / "nodes"
    file.write_text(nodes)
    ran = subprocess.run([PROGRAM, *(w.replace("FILE", str(file)) for w in words)], capture_output=True, text=True,
                         env={"CUBBY_HOME": str(tmp_path / "home")}, timeout=60)
    assert ran.returncode == 2 and why.replace("FILE", str(file)) in ran.stderr


# ---- clients
def test_cubby_sees_one_service(fleet):
    made = sorted(fleet.create(node)["sandboxID"] for node in NODES)
    env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_")}
    env.update(CUBBY_HOME=str(fleet.where / "client"), CUBBY_BACKEND=fleet.url, E2B_API_KEY=fleet.key)

    def cubby(*words):
        ran = subprocess.run([BIN / "cubby", *words], env=env, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout
    assert sorted(one["sandboxID"] for one in json.loads(cubby("ps", "--json"))) == made
    assert len(cubby("create").strip()) == 21
    cubby("kill", made[0][:8])  # the beginning of an id is found in the whole list
    assert made[0] not in cubby("ps")

