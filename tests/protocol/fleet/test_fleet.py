# SPDX-License-Identifier: Apache-2.0
"""Three daemons behind Debian's haproxy: each request reaches the node that its id names, creates go where room is,
and streams come through at once.
"""

import socket
import subprocess
import threading

import pytest

from cubbyd import Guest, read_head, wait_for
from fleet import HAPROXY, Fleet
from harness import BIN

NODES = ("a", "b", "c1")


@pytest.fixture(scope="module")
def fleet():
    with Fleet(*NODES, args=("--allow-builds",), peers=False) as f:
        yield f


@pytest.fixture(autouse=True)
def no_sandbox_stays(request):
    yield
    if "fleet" in request.fixturenames:
        fleet = request.getfixturevalue("fleet")
        for node in fleet.nodes.values():
            for one in node.request("GET", "/v2/sandboxes").json:
                node.kill(one["sandboxID"])


def node_of(sandbox):
    return sandbox[:-20]


# ---- ids
def test_creates_are_spread(fleet):
    made = [fleet.create()["sandboxID"] for _ in range(9)]
    assert {node_of(s) for s in made} == set(NODES)


@pytest.mark.parametrize("node", NODES)
def test_every_form_of_an_id_reaches_its_node(fleet, node):
    sandbox = fleet.create(node)["sandboxID"]
    assert node_of(sandbox) == node
    for path in (f"/sandboxes/{sandbox}", f"/v2/sandboxes/{sandbox}/logs", f"/sandboxes/{sandbox}-client/metrics"):
        assert fleet.request("GET", path).status == 200, path
    assert fleet.through(sandbox).status == 204
    assert fleet.through(sandbox + "-client").status == 204
    by_host = fleet.request("GET", "/health", headers={"Host": f"49983-{sandbox}.localhost:{fleet.port}"})
    by_path = fleet.request("GET", f"/sandboxes/router/{sandbox}/49983/health")
    assert (by_host.status, by_path.status) == (204, 204)
    assert fleet.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    assert fleet.request("POST", f"/v2/sandboxes/{sandbox}/connect", {"timeout": 60}).status in (200, 201)
    assert fleet.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 60}).status == 204
    assert fleet.request("DELETE", f"/sandboxes/{sandbox}").status == 204


def test_the_header_wins_over_the_host_and_the_path(fleet):
    first, second = fleet.create("a")["sandboxID"], fleet.create("b")["sandboxID"]
    assert fleet.through(first, path=f"/sandboxes/{second}", headers={"Host": f"1-{second}.x"}).status != 421
    fleet.nodes["a"].kill(first)
    answer = fleet.through(first, headers={"Host": f"1-{second}.x"})
    assert (answer.status, answer.json["error_code"]) == (502, "sandbox_ended")  # node a knows that


@pytest.mark.parametrize("node", NODES)
def test_snapshots_and_forks_stay_on_their_node(fleet, node):
    sandbox = fleet.create(node)["sandboxID"]
    snapshot = fleet.request("POST", f"/sandboxes/{sandbox}/snapshots", {}).json["snapshotID"]
    for _ in range(4):  # a create from a snapshot must not be balanced
        assert node_of(fleet.create(templateID=snapshot)["sandboxID"]) == node
    children = fleet.request("POST", f"/sandboxes/{sandbox}/fork", {"count": 2}).json
    assert all(node_of(child["sandbox"]["sandboxID"]) == node for child in children)
    assert all(fleet.through(child["sandbox"]["sandboxID"]).status == 204 for child in children)
    assert fleet.request("GET", f"/templates/{snapshot}").status == 200
    assert fleet.request("DELETE", f"/templates/{snapshot}").status == 204


def test_a_create_with_a_large_body(fleet):
    env = {f"V{i}": "x" * 1000 for i in range(90)}
    assert fleet.create(envVars=env)["sandboxID"]
    sandbox = fleet.create("b")["sandboxID"]
    snapshot = fleet.request("POST", f"/sandboxes/{sandbox}/snapshots", {}).json["snapshotID"]
    assert all(node_of(fleet.create(envVars=env, templateID=snapshot)["sandboxID"]) == "b" for _ in range(3))
    assert fleet.request("DELETE", f"/templates/{snapshot}").status == 204


def test_ids_without_a_node_go_to_the_first(fleet):
    for _ in range(3):
        answer = fleet.request("GET", "/sandboxes/" + "x" * 20)
        assert (answer.status, answer.json["error_code"]) == (404, "sandbox_not_found")


def test_an_unknown_node_is_told(fleet):
    answer = fleet.request("GET", "/sandboxes/zz" + "x" * 20)
    assert answer.status == 421 and 'of node "zz"' in answer.json["message"]


# ---- volumes
def test_a_volume_is_found_by_its_id_and_its_name(fleet):
    made = [fleet.request("POST", "/volumes", {"name": f"files-{i}"}).json for i in range(6)]
    assert len({node_of(volume["volumeID"]) for volume in made}) > 1, "all are at one node"
    for volume in made:
        assert fleet.request("POST", "/volumes", {"name": volume["name"]}).status == 409
        assert fleet.request("GET", f"/volumes/{volume['volumeID']}").json == volume
        file = f"/volumecontent/{volume['volumeID']}/file?path=/f"
        bearer = {"Authorization": "Bearer " + volume["token"]}
        assert fleet.request("PUT", file, volume["name"].encode(), bearer).status == 201
        assert fleet.request("GET", file, headers=bearer).body == volume["name"].encode()
        # The tests' driver has no mounts, which only the node with the volume says.
        create = {"templateID": "default", "volumeMounts": [{"name": volume["name"], "path": "/files"}]}
        refused = fleet.request("POST", "/v2/sandboxes", create)
        assert refused.status != 404 and "not found" not in refused.json["message"], refused.body
    for volume in made:
        assert fleet.request("DELETE", f"/volumes/{volume['volumeID']}").status == 204
    unknown = fleet.request("POST", "/v2/sandboxes", {**create, "volumeMounts": [{"name": "none", "path": "/f"}]})
    assert (unknown.status, unknown.json["error_code"]) == (404, "volume_not_found")
    assert "volume 'none' not found" in unknown.json["message"]


def test_a_volume_is_found_by_its_name_at_each_node(fleet):
    """Whichever node the name stands for, as after changes of the list."""
    for name, node in fleet.nodes.items():
        for i in range(4):
            volume = fleet.request("POST", "/volumes", {"name": f"{name}-{i}"}, port=node.port).json["volumeID"]
            create = {"templateID": "default", "volumeMounts": [{"name": f"{name}-{i}", "path": "/files"}]}
            refused = fleet.request("POST", "/v2/sandboxes", create)
            assert refused.status != 404 and "not found" not in refused.json["message"], refused.body
            assert fleet.request("DELETE", f"/volumes/{volume}").status == 204


# ---- templates and builds
def test_a_template_that_one_node_has(fleet):
    fleet.nodes["c1"].template("rare")
    for _ in range(4):
        assert node_of(fleet.create(templateID="rare")["sandboxID"]) == "c1"
        assert fleet.request("GET", "/templates/rare").status == 200
    assert fleet.request("POST", "/v2/sandboxes", {"templateID": "nowhere"}).status == 404


def test_a_body_without_a_length_is_tried_at_each_node(fleet):
    made = fleet.request("POST", "/secrets", {"name": "only-one-has-it", "value": "value-of-a-secret"},
                         port=fleet.nodes["b"].port).json
    for number in range(4):
        answer = fleet.in_parts("POST", f"/secrets/{made['secretID']}", {"value": f"value-number-{number}"})
        assert answer.status < 300, answer.body
    assert fleet.request("DELETE", f"/secrets/{made['secretID']}").status == 204


def test_all_requests_of_a_build_reach_one_node(fleet):
    build = fleet.request("POST", "/v3/templates", {"name": "Built:v1"}).json["buildID"]
    for _ in range(4):
        status = fleet.request("GET", f"/templates/built/builds/{build}/status")
        assert status.status == 200, status.body
        link = fleet.request("GET", f"/templates/built/files/{'0' * 64}")
        assert link.status == 201, link.body
    path = link.json["url"].partition("/uploads/")[2]
    assert path.startswith(build.partition("-")[0] + "-")
    assert fleet.request("PUT", f"/uploads/{path}", b"x").status != 404


# ---- room
def test_a_full_node_is_skipped(fleet):
    fleet.nodes["a"].request("POST", "/drain")
    try:
        made = [fleet.create()["sandboxID"] for _ in range(6)]
        assert {node_of(s) for s in made} == {"b", "c1"}
    finally:
        fleet.nodes["a"].request("DELETE", "/drain")
    wait_for(lambda: node_of(fleet.create()["sandboxID"]) == "a", 30, "the node gets creates again")


@pytest.mark.parametrize("drained", [["a"], ["a", "c1"], ["b"], ["c1"]])
def test_nothing_that_stays_is_made_at_a_drained_node(fleet, drained):
    """The next one by the hash makes it, and is found by the name."""
    before = fleet.request("POST", "/v3/templates", {"name": "begun"}).json
    build = f"/templates/begun/builds/{before['buildID']}"
    volumes, create = [], {"templateID": "default"}
    for name in drained:
        fleet.nodes[name].request("POST", "/drain")
    try:
        for name in drained:
            node = fleet.nodes[name]
            for path, body in ("/volumes", {"name": "direct"}), ("/v3/templates", {"name": "direct"}):
                for refused in node.request("POST", path, body), fleet.request("POST", path, body, port=node.port):
                    assert (refused.status, refused.json["error_code"]) == (503, "node_draining"), refused.body
                    assert refused.headers["Retry-After"] and f"node {name} is being drained" in refused.json["message"]
        first = fleet.request("POST", "/volumes", {"name": "first"})  # the proxy does not know of the drain yet
        assert first.status == 201, first.body
        volumes.append(first.json["volumeID"])
        assert node_of(volumes[-1]) not in drained
        wait_for(lambda: fleet.proxy_uses("makes") == set(NODES) - set(drained), 30, "the proxy knows")
        for i in range(6):
            made = fleet.request("POST", "/volumes", {"name": f"v{i}"})
            assert made.status == 201, made.body
            volumes.append(made.json["volumeID"])
            assert node_of(volumes[-1]) not in drained
            assert fleet.request("POST", "/volumes", {"name": f"v{i}"}).status == 409
            for naming in "name", "alias":
                made = fleet.request("POST", "/v3/templates", {naming: f"t{i}{naming}:v1"})
                assert made.status == 202, made.body
                assert made.json["buildID"].partition("-")[0] not in drained
                assert fleet.request("GET", f"/templates/t{i}{naming}/files/{'0' * 64}").status == 201
                ended = fleet.request("DELETE", f"/templates/t{i}{naming}/builds/{made.json['buildID']}")
                assert ended.status < 300, ended.body
            create["volumeMounts"] = [{"name": f"v{i}", "path": "/files"}]
            found = fleet.request("POST", "/v2/sandboxes", create)  # the tests' driver has no mounts
            assert found.status != 404 and "not found" not in found.json["message"], found.body
        assert fleet.request("GET", f"{build}/status").json["status"] == "waiting"  # those that have begun go on
        assert fleet.request("GET", f"/templates/begun/files/{'0' * 64}").status == 201
        assert fleet.request("POST", f"/v2{build}", {"fromTemplate": "default", "steps": []}).status == 202
        assert fleet.request("DELETE", build).status < 300
    finally:
        for name in drained:
            fleet.nodes[name].request("DELETE", "/drain")
        for volume in volumes:
            fleet.request("DELETE", f"/volumes/{volume}")
    wait_for(lambda: fleet.proxy_uses("creates") == fleet.proxy_uses("makes") == set(NODES), 30, "all are used again")


def test_when_no_node_has_room_the_answer_says_so(fleet):
    for node in fleet.nodes.values():
        node.request("POST", "/drain")
    try:
        for known in False, True:
            answer = fleet.request("POST", "/v2/sandboxes", {"templateID": "default"})
            assert (answer.status, answer.json["error_code"]) == (503, "host_full") and answer.headers["Retry-After"]
            if not known:
                wait_for(lambda: not fleet.proxy_uses("creates") | fleet.proxy_uses("makes"), 30, "the proxy knows")
        assert answer.json["message"].startswith("no node has room for a new sandbox: all are full, are drained or")
        assert answer.headers["Content-Type"] == "application/json" and answer.json["code"] == 503
        volume = fleet.request("POST", "/volumes", {"name": "nowhere"})
        assert (volume.status, volume.json["error_code"]) == (503, "node_unavailable")
        assert "all are drained" in volume.json["message"]
        assert fleet.request("GET", "/sandboxes/" + "x" * 20).status == 404
    finally:
        for node in fleet.nodes.values():
            node.request("DELETE", "/drain")
    wait_for(lambda: fleet.proxy_uses("creates") == fleet.proxy_uses("makes") == set(NODES), 30, "all are used again")
    assert {node_of(fleet.create()["sandboxID"]) for _ in range(6)} == set(NODES)


# ---- streams
def test_a_stream_comes_as_it_is_written(fleet):
    """Server-sent events with silence between them, as MCP's and envd's streams are."""
    more = threading.Event()

    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"8\r\ndata: 1\n\r\n")
        more.wait(30)
        connection.sendall(b"8\r\ndata: 2\n\r\n0\r\n\r\n")
    with Guest(serve) as guest:
        sandbox = fleet.create("b")["sandboxID"]
        connection = fleet.connection()
        connection.request("GET", "/events", headers={"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(guest.port)})
        answer = connection.getresponse()
        assert answer.readline() == b"data: 1\n"  # before the program goes on
        more.set()
        assert answer.read() == b"data: 2\n"
        connection.close()


def test_a_protocol_upgrade(fleet):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        connection.sendall(connection.recv(100))
    with Guest(serve) as guest, socket.create_connection(("127.0.0.1", fleet.port), 30) as s:
        sandbox = fleet.create("c1")["sandboxID"]
        s.sendall(f"GET / HTTP/1.1\r\nHost: {guest.port}-{sandbox}.localhost\r\nConnection: Upgrade\r\n"
                  "Upgrade: echo\r\n\r\n".encode())
        head, _ = read_head(s)
        assert " 101 " in head
        s.sendall(b"hello")
        assert s.recv(100) == b"hello"


# ---- a node that is gone
def test_a_dead_node_is_told_and_the_others_go_on(fleet):
    sandbox, other = fleet.create("a")["sandboxID"], fleet.create("b")["sandboxID"]
    node = fleet.nodes["a"]
    node.process.kill()
    node.process.wait()
    wait_for(lambda: fleet.request("GET", f"/sandboxes/{sandbox}").status == 503, 30, "the proxy knows")
    answer = fleet.through(sandbox)
    assert answer.status == 503 and answer.json["error_code"] == "node_unavailable"
    assert answer.headers["Retry-After"]
    assert fleet.through(other).status == 204
    assert {node_of(fleet.create()["sandboxID"]) for _ in range(6)} == {"b", "c1"}
    node.start()  # and adopts its sandbox
    wait_for(lambda: fleet.through(sandbox).status == 204, 30, "the node is back")


# ---- the configuration
def config(tmp_path, text, *options):
    (tmp_path / "nodes").write_text(text)
    return subprocess.run([BIN / "cubby", "fleet", "config", *options, tmp_path / "nodes"], capture_output=True,
                          text=True, timeout=60)


def test_a_node_that_is_drained_has_two_servers(tmp_path):
    """Also under the name of a node that was moved to it before. haproxy takes it."""
    made = config(tmp_path, "a http://127.0.0.1:1 then=b\nb http://127.0.0.1:2\nold http://127.0.0.1:3 moved=a\n")
    for backend in ("node_a", "node_old"):
        part = made.stdout.partition(f"backend {backend}\n")[2].partition("\nbackend")[0]
        servers = [line.split()[1] for line in part.splitlines() if line.split()[:1] == ["server"]]
        assert servers == ["a", "b"] and "retry-on conn-failure 425" in part, part
    assert "425" not in made.stdout.partition("backend node_b\n")[2].partition("\nbackend")[0]
    (tmp_path / "cfg").write_text(made.stdout)
    checked = subprocess.run([HAPROXY, "-c", "-f", tmp_path / "cfg"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0 and "WARNING" not in checked.stderr, checked.stderr


@pytest.mark.parametrize("text, why", [
    ("", "it names no node"), ("a", "line 1: a line is: NAME URL"), ("A http://x:1", "is not a node's name"),
    ("a ftp://x:1", "does not begin with http"), ("a http://x", "not of the form HOST:PORT"),
    ("a http://x:1/y z", "not of the form HOST:PORT"), ("a http://x';:1", "not of the form HOST:PORT"),
    ("a http://x:0", "not of the form HOST:PORT"), ("a http://x:1\na http://y:1", "line 2: node \"a\" is there twice"),
    ("a http://x:1\nb http://X:1/", 'line 2: nodes "a" and "b" have the same URL'),
    ("a http://x:1 agent=1", "not of the form HOST:PORT"), ("a http://x:1 moved=b", "does not name another node"),
    ("a http://x:1 moved=a", "does not name another node"), ("a http://x:1 weight=2", "is not agent=HOST:PORT"),
    ("a http://x:1 then=b then=c", "line 1: the word then= is given twice"),
    ("a http://x:1 moved=b moved=b", "the word moved= is given twice"),
    ("a http://x:1 agent=x:2 agent=x:3", "the word agent= is given twice"),
    *((f"a http://{host}:1", "the host is not a host name, an IPv4 address or [IPv6 address]")
      for host in ("h..", "h.", ".h", "a..b", "a]b", "[a", "[::1", "::1", "[]", "[1.2.3.4]", "[x]", "a:2")),
    ("a http://x:1 agent=h..:2", "the host is not"),
    ("a http://x:1 then=b", "then=b of node \"a\" does not name another node"),
    ("a http://x:1 then=b moved=b\nb http://y:1", "has both then= and moved="),
    ("a http://x:1 then=b\nb http://y:1 moved=c\nc http://z:1", "does not name another node that was not moved"),
    ("a http://x:1 then=b\nb http://y:1 then=c\nc http://z:1", "names a node that has a then= itself")])
def test_a_wrong_list_of_nodes_is_told(tmp_path, text, why):
    ran = config(tmp_path, text)
    assert ran.returncode == 1 and why in ran.stderr and ran.stdout == ""


def test_hosts_that_are_right(tmp_path):
    hosts = ("[::1]", "[fe80::1:2]", "10.0.0.1", "a-b.example", "x_1")
    made = config(tmp_path, "".join(f"n{i} https://{host}:1 agent={host}:2\n" for i, host in enumerate(hosts)))
    assert made.returncode == 0 and all(f" {host}:1 " in made.stdout for host in hosts), made.stderr


def test_nodes_by_name_with_tls(tmp_path):
    """haproxy takes it although nobody knows these names."""
    made = config(tmp_path, "a https://a.invalid:3000 agent=a.invalid:3001\nb https://b.invalid:3000 moved=a\n")
    (tmp_path / "cfg").write_text(made.stdout)
    checked = subprocess.run([HAPROXY, "-c", "-f", tmp_path / "cfg"], capture_output=True, text=True, timeout=60)
    warnings = [line for line in checked.stderr.splitlines() if "WARNING" in line]
    assert checked.returncode == 0 and all("could not resolve" in line for line in warnings), checked.stderr
    moved = made.stdout.partition("backend node_b\n")[2].partition("backend")[0]
    assert "server a a.invalid:3000 ssl verify required" in moved and "b.invalid" not in moved


def test_an_address_is_told_to_be_in_the_common_name(tmp_path):
    made = config(tmp_path, "a https://10.0.0.1:3000\nb https://b.invalid:3000\n")
    assert made.returncode == 0 and made.stderr.count("common name") == 1 and '"a": HAProxy looks for 10.0.0.1' in made.stderr
    assert "verifyhost 10.0.0.1\n" in made.stdout and "verifyhost b.invalid sni str(b.invalid)" in made.stdout


def test_options_are_checked(tmp_path):
    nodes = "a http://127.0.0.1:1 # the only one\n"
    assert "would travel unencrypted" in config(tmp_path, nodes, "--listen", "0.0.0.0:80").stderr
    assert config(tmp_path, nodes, "--listen", "0.0.0.0:80", "--allow-plaintext-network").returncode == 0
    assert "a quote" in config(tmp_path, nodes, "--cert", "a'b").stderr
    assert config(tmp_path, nodes, "--listen", "80").returncode == 1

    for port in ("x", "", "0", "65536"):
        assert "not of the form HOST:PORT" in config(tmp_path, nodes, "--listen", f"127.0.0.1:{port}").stderr


def test_what_may_be_right_elsewhere_is_a_warning(tmp_path):
    made = config(tmp_path, "a http://127.0.0.1:1\nb http://10.0.0.1:1\n", "--cert", "/nope.pem", "--ca", "/none.pem")
    assert made.returncode == 0 and "frontend fleet" in made.stdout and "warning" not in made.stdout
    assert "--cert is not on this host: /nope.pem" in made.stderr and "--ca is not on this host: /none.pem" in made.stderr
    assert 'node "b" is not https' in made.stderr and '"a"' not in made.stderr
    assert config(tmp_path, "a http://127.0.0.1:1\nb https://b.invalid:1\n").stderr == ""
    agents = "a https://a.invalid:1 agent=A.invalid:2\nb https://b.invalid:1 agent=10.0.0.1:2\nc https://c.invalid:1 agent=d.invalid:2\n"
    made = config(tmp_path, agents)
    assert made.stderr.count("warning") == 1 and '"c": HAProxy does not start while the name d.invalid of agent=' in made.stderr
    (tmp_path / "cfg").write_text(made.stdout.replace("agent-addr d.invalid ", ""))
    checked = subprocess.run([HAPROXY, "-c", "-f", tmp_path / "cfg"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
