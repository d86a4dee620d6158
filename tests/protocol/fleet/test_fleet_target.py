# SPDX-License-Identifier: Apache-2.0
"""cubby fleet drain chooses the node that gets the sandboxes, brings the list to the proxy, and names what stays."""

import contextlib
import http.server
import json
import os
import subprocess
import threading

import pytest

from cubbyd import wait_for
from fleet import CUBBY, DrainNode, Fleet, free_ports


class Peer:
    """A node of which only the answer to GET /health is there."""

    def __init__(self, name, load, **more):
        answer = json.dumps({"status": "ok", "server": "cubbyd", "node": name, "load": load, "room": True, "draining": False, **more})

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                assert "X-API-KEY" not in self.headers
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.line = f"{name} http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def peers():
    with contextlib.ExitStack() as stack:
        def make(*words, **more):
            peer = Peer(*words, **more)
            stack.callback(peer.close)
            return peer.line
        yield make


@pytest.fixture(scope="module")
def fleet():
    with Fleet("a", "b", "c", kind=DrainNode) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_stays(request):
    yield
    if "fleet" not in request.fixturenames:
        return
    fleet = request.getfixturevalue("fleet")
    for node in fleet.nodes.values():
        node.request("DELETE", "/drain")
        for sandbox in node.directories():
            node.request("DELETE", f"/sandboxes/{sandbox}/move")
            node.kill(sandbox)


def drain(fleet, nodes, *words, status=0, **more):
    done = subprocess.run([CUBBY, "fleet", "drain", *words, "a", nodes], env=fleet.nodes["a"].env, capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == status, done
    return done


def serves(fleet):
    with contextlib.suppress(OSError):
        return fleet.request("GET", "/health").status == 200


def is_drained(fleet):
    return fleet.nodes["a"].request("GET", "/health").json["draining"]


def test_the_node_with_most_room_is_chosen(fleet, peers, tmp_path):
    """Of those that answer, have room, and are what the list says. The list keeps its other lines and its comments."""
    nodes = tmp_path / "nodes"
    nodes.symlink_to("list")
    lines = ["# our nodes", "a   http://127.0.0.1:1  agent=127.0.0.1:2   # rack 1", peers("b", 80), peers("c", 30) + " # rack 2",
             peers("d", 1, room=False), f"e http://127.0.0.1:{free_ports(1)[0]}", peers("g", 2).replace("g ", "f ", 1),
             peers("h", 3) + " moved=b", peers("i", 4) + " then=b", ""]
    nodes.write_text("\n".join(lines))
    nodes.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(nodes, 4321, 1234)
    before = nodes.stat()
    made = fleet.create("a")["sandboxID"]
    said = drain(fleet, nodes, status=1)
    assert "Node c has most room (load 30 %)" in said.stderr and "--reload" in said.stderr and said.stdout == ""
    lines[1] = "a   http://127.0.0.1:1  agent=127.0.0.1:2 then=c  # rack 1"
    assert nodes.read_text().split("\n") == lines and nodes.stat().st_mode & 0o777 == 0o640
    assert nodes.is_symlink() and (before.st_uid, before.st_gid) == (nodes.stat().st_uid, nodes.stat().st_gid)
    assert not is_drained(fleet) and fleet.nodes["a"].directories() == [made]


@pytest.mark.parametrize("words, expected", [(["--to", "b,d"], "Node b has"), (["--to", "d"], "d: it is full"), (["--to", "x"], 'has no node "x"')])
def test_only_these_nodes(fleet, peers, tmp_path, words, expected):
    nodes = tmp_path / "nodes"
    nodes.write_text(f"a http://127.0.0.1:1\n{peers('b', 80)}\n{peers('c', 30)}\n{peers('d', 1, room=False)}\n")
    before = nodes.read_text()
    assert expected in drain(fleet, nodes, *words, status=1).stderr
    assert ("then=b" in nodes.read_text()) == expected.startswith("Node b") and (nodes.read_text() == before or "Node b" in expected)


def test_the_whole_way_in_one_command(tmp_path):
    """The proxy gets the list before the first sandbox is moved, and again at the end."""
    with Fleet("a", "c", kind=DrainNode) as fleet:
        made = fleet.create("a")
        ask = f"curl -s --unix-socket {fleet.nodes['a'].home}/cubbyd.sock http://x/v2/sandboxes"
        reload = f"{{ grep ^a {fleet.nodes_file}; {ask}; echo; }} >>{tmp_path}/lists"
        said = drain(fleet, fleet.nodes_file, "--reload", reload, "--via", fleet.via("c"))
        assert said.stdout == f"{made['sandboxID']} moved\n" and "can be stopped" in said.stderr
        first, there, last, gone = (tmp_path / "lists").read_text().splitlines()
        assert first.endswith(" then=c") and made["sandboxID"] in there and last.endswith(" moved=c") and gone == "[]"
        fleet.stop_proxy()
        fleet.nodes["a"].stop()
        fleet.answers = lambda: fleet.proxy.poll() is None and serves(fleet)
        fleet.start_proxy()
        assert fleet.through(made["sandboxID"]).status == 204
        fleet.nodes["a"].start()


def test_a_node_to_which_another_was_moved():
    """Ids of the first node are found at the last one. Other lines and comments stay."""
    with Fleet("a", "b", "c", kind=DrainNode) as fleet:
        fleet.list_nodes(a="moved=b  # rack 1, moved=b", b="then=c")
        kept = f"old http://127.0.0.1:1 moved=c # gone\nolder http://127.0.0.1:2\tmoved=b# moved=b"
        fleet.nodes_file.write_text(fleet.nodes_file.read_text() + kept)
        made = fleet.create("b")["sandboxID"]
        before = fleet.nodes_file.read_text()
        command = [CUBBY, "fleet", "drain", "--via", fleet.via("c"), "--reload", "true", "b", fleet.nodes_file]
        done = subprocess.run(command, env=fleet.nodes["b"].env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and done.stdout == f"{made} moved\n", done
        expected = before.replace(" then=c", " moved=c").replace("moved=b  #", "moved=c  #").replace("\tmoved=b#", "\tmoved=c#")
        assert fleet.nodes_file.read_text() == expected
        fleet.stop_proxy()
        fleet.answers = lambda: fleet.proxy.poll() is None and serves(fleet)
        fleet.start_proxy()
        assert fleet.through(made).status == 204
        gone = fleet.request("GET", "/sandboxes/a" + "x" * 20)  # node c is asked
        assert (gone.status, gone.json["error_code"]) == (421, "wrong_node"), gone.body


def test_a_reload_that_fails_moves_nothing(fleet):
    fleet.list_nodes()
    made = fleet.create("a")["sandboxID"]
    said = drain(fleet, fleet.nodes_file, "--to", "c", "--reload", "exit 3", "--via", fleet.via("c"), status=1)
    assert "--reload" in said.stderr and not is_drained(fleet) and fleet.nodes["a"].directories() == [made]


def test_snapshots_and_volumes_are_named_with_what_copies_them(fleet, tmp_path):
    fleet.list_nodes(a="then=b")
    made = fleet.create("a")["sandboxID"]
    snapshot = fleet.request("POST", f"/sandboxes/{made}/snapshots", {"name": "kept"}).json["snapshotID"].partition(":")[0]
    volume = fleet.request("POST", "/volumes", {"name": "files"}, port=fleet.nodes["a"].port).json["volumeID"]
    said = drain(fleet, fleet.nodes_file, "--via", fleet.via("b"), "--reload", "true", status=1)
    lines = dict(line.split(" ", 1) for line in said.stdout.splitlines())
    assert lines.keys() == {made, snapshot, volume} and lines[made] == "moved"
    assert "2 stay" in said.stderr and "then=b" in fleet.nodes_file.read_text(), "the proxy still asks node a for them"
    command = lines[snapshot].partition("copy it with: ")[2]
    (tmp_path / "cubby").symlink_to(CUBBY)
    copied = subprocess.run(command, shell=True, env={**fleet.nodes["a"].env, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, cwd=tmp_path,
                            capture_output=True, text=True, check=True, timeout=60).stdout.split()[-1]
    assert copied in [one["snapshotID"].partition(":")[0] for one in fleet.nodes["b"].request("GET", "/snapshots").json]
    assert f"tar --xattrs -C '{fleet.nodes['a'].home}/volumes' -cf - " in lines[volume]
    for node, one in ("a", snapshot), ("b", copied):
        assert fleet.nodes[node].request("DELETE", f"/templates/{one}").status == 204
    assert fleet.nodes["a"].request("DELETE", f"/volumes/{volume}").status in (200, 204)


def test_templates_and_builds_of_the_api_are_named(fleet):
    """A list shows them, so a drain that says that nothing stays would lose them."""
    node = fleet.nodes["a"]
    fleet.list_nodes(a="then=b")
    made = node.request("POST", "/v3/templates", {"name": "app"}).json
    build = made["buildID"]
    said = drain(fleet, fleet.nodes_file, "--via", fleet.via("b"), "--reload", "true", status=1)
    assert said.stdout.startswith(f"{build} stays: template app is being built here") and "1 stay" in said.stderr
    assert "Webhooks, secrets" in said.stderr and "of node a alone" in said.stderr
    assert node.request("DELETE", "/drain").status == 204
    started = node.request("POST", f"/v2/templates/app/builds/{build}", {"fromTemplate": "default", "steps": [], "force": False})
    assert started.status == 202, started.body
    wait_for(lambda: node.request("GET", f"/templates/app/builds/{build}/status").json["status"] == "ready", 30, "it is built")
    said = drain(fleet, fleet.nodes_file, "--via", fleet.via("b"), "--reload", "true", status=1)
    directory = next(path.name for path in (node.home / "templates").iterdir() if path.name.startswith("app@"))
    words = f"cubby template export {directory} app.cubby && {fleet.via('b')} template import --name app /dev/stdin <app.cubby"
    assert said.stdout == f"app stays: a template built through the API is of one node; copy it with: {words}\n"
    assert "moved=" not in fleet.nodes_file.read_text()
    fleet.list_nodes(a="moved=b")  # somebody did not heed it
    for _ in range(2):
        listed = fleet.request("GET", "/templates", port=fleet.nodes["b"].port)
        assert "app" in [one["templateID"] for one in listed.json] and "Cubby-Missing-Nodes" not in listed.headers
    assert node.request("DELETE", "/templates/app").status in (200, 204)
    fleet.list_nodes()
