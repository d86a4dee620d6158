# SPDX-License-Identifier: Apache-2.0
"""cubby fleet drain: the sandboxes of node a go to node b, with their memory, and their ids work on through the proxy,
also after node a is switched off. Interrupted at any step and run again, nothing is lost and nothing is there twice.
"""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import threading
import time

import pytest

from crash import MOVES
from cubbyd import Guest, read_head, wait_for
from drain_fixtures import *  # noqa: F401,F403
from fleet import CUBBY, LOST, DrainFleet, DrainNode, Fleet

FAULTS = pathlib.Path(os.environ["TEST"]) / "faults" / "cubbyd-process"


def answers(fleet):
    """The proxy serves."""
    with contextlib.suppress(OSError):
        return fleet.request("GET", "/health").status == 200


def test_the_memory_goes_with_it_and_the_id_stays(fleet):
    made = fleet.create("a", metadata={"name": "one"}, timeout=600)
    sandbox = made["sandboxID"]
    fleet.count(made, "POST")
    before = fleet.count(made)
    end = fleet.request("GET", f"/sandboxes/{sandbox}").json["endAt"]
    assert fleet.drain() == {sandbox: "moved"}
    assert "moved=b" in fleet.said
    assert fleet.here("a") == set() and fleet.here("b") == {sandbox}
    assert fleet.nodes["a"].directories() == []
    after = fleet.count(made)
    assert after["boot"] == before["boot"] and after["count"] >= before["count"]
    wait_for(lambda: fleet.count(made)["count"] > after["count"], 30, "its program goes on")
    shown = fleet.request("GET", f"/sandboxes/{sandbox}").json
    assert shown["metadata"] == {"name": "one"} and shown["endAt"] == end and shown["state"] == "running"
    direct = fleet.request("GET", f"/sandboxes/{sandbox}", port=fleet.nodes["a"].port)
    assert (direct.status, direct.json["error_code"], direct.headers["Cubby-Node"]) == (425, "sandbox_moved", "b")
    assert fleet.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 700}).status == 204
    assert fleet.request("DELETE", f"/sandboxes/{sandbox}").status == 204
    gone = fleet.request("GET", f"/sandboxes/{sandbox}")
    assert (gone.status, gone.json["error_code"]) == (404, "sandbox_ended")


def test_a_body_without_a_length_reaches_the_other_node(fleet):
    """The bodies of E2B's SDKs are such."""
    sandbox = fleet.create("a")["sandboxID"]
    assert fleet.drain() == {sandbox: "moved"}
    for _ in range(3):
        answer = fleet.in_parts("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 700})
        assert answer.status == 204, answer.body


def test_paused_asleep_and_running_ones_stay_what_they_are(fleet):
    running, paused, frozen = (fleet.create("a") for _ in range(3))
    for made, depth in ((paused, "hibernate"), (frozen, "freeze")):
        body = {"depth": depth}
        assert fleet.request("POST", f"/sandboxes/{made['sandboxID']}/pause", body).status == 204
    fleet.drain()
    states = {one["sandboxID"]: one["state"] for one in fleet.request("GET", "/v2/sandboxes").json}
    assert states == {running["sandboxID"]: "running", paused["sandboxID"]: "paused", frozen["sandboxID"]: "paused"}
    assert fleet.through(paused["sandboxID"]).status == 502
    assert fleet.request("POST", f"/v2/sandboxes/{paused['sandboxID']}/connect", {"timeout": 60}).status == 201
    assert fleet.through(paused["sandboxID"]).status == 204


def test_the_old_node_may_be_switched_off():
    with DrainFleet() as fleet:
        made = fleet.create("a")
        fleet.count(made, "POST")
        fleet.drain()
        fleet.nodes["a"].stop()
        wait_for(lambda: fleet.through(made["sandboxID"]).status == 204, 30, "the proxy asks node b")
        assert fleet.count(made)["count"] >= 0
        unknown = fleet.request("GET", "/sandboxes/a" + "x" * 20)
        assert (unknown.status, unknown.json["error_code"]) == (503, "node_unavailable")
        fleet.list_nodes(a="moved=b")
        fleet.stop_proxy()
        fleet.answers = lambda: answers(fleet)
        fleet.start_proxy()
        assert fleet.through(made["sandboxID"]).status == 204
        assert "Cubby-Missing-Nodes" not in fleet.request("GET", "/v2/sandboxes").headers


def test_a_drained_node_refuses_creates_and_wakes_also_after_a_restart(fleet):
    node = fleet.nodes["a"]
    made = fleet.create("a", autoResume={"enabled": True})
    sandbox = made["sandboxID"]
    assert fleet.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    assert node.request("POST", "/drain?wakes=off").status == 204
    for _ in range(2):
        refused = fleet.request("POST", "/v2/sandboxes", {"templateID": "default"}, port=node.port)
        assert refused.status == 503 and refused.headers["Retry-After"]
        assert "node a is being drained" in refused.json["message"] and "DELETE" not in refused.json["message"]
        for answer in (fleet.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}),
                       fleet.through(sandbox, path="/whoami", headers={"X-Access-Token": made["envdAccessToken"]})):
            assert answer.status == 503 and "another node" in answer.json["message"], answer.body
        assert fleet.create()["sandboxID"].startswith("b")
        node.stop(signal.SIGUSR1)
        node.start()
    assert node.request("POST", "/drain").status == 204
    assert fleet.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}).status == 201


# ---- clients meanwhile
class Gate:
    """A command for --via that stops before or after `cubby fleet receive`, until the test opens it."""

    def __init__(self, fleet, where, before):
        self.reached, self.opened = where / "reached", where / "opened"
        os.mkfifo(self.opened)
        wait = f"touch {self.reached}; read line <{self.opened}"
        run = f'{fleet.via("b")} "$@"'
        script = where / "via"
        check = f'case "$*" in *--check*) exec {run};; esac'
        script.write_text(f"#!/bin/sh\n{check}\n{wait}\nexec {run}\n" if before else
                          f"#!/bin/sh\n{check}\nanswer=$({run})\n{wait}\necho \"$answer\"\n")
        script.chmod(0o755)
        self.via = str(script)

    def wait(self):
        wait_for(self.reached.exists, 60, "the gate is reached")

    def open(self):
        self.opened.write_text("go\n")


def while_it_moves(fleet, sandbox, where, requests):
    """Sends the requests, {name: (method, path, body, headers)}, when node a has begun to move the sandbox, and lets it
    go on when they wait there. Returns {name: status}."""
    gate = Gate(fleet, where, before=True)
    process = fleet.begin(via=gate.via)
    gate.wait()
    got = {}

    def ask(name, *words):
        got[name] = fleet.request(*words).status
    asks = [threading.Thread(target=ask, args=(name, *words)) for name, words in requests.items()]
    for one in asks:
        one.start()
    log = fleet.nodes["a"].log
    wait_for(lambda: log.read_text().count(f"sandbox.waits id={sandbox}") == len(asks), 30, "they wait at node a")
    gate.open()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    for one in asks:
        one.join()
    return got


def test_requests_wait_for_the_end_of_the_move(fleet, tmp_path):
    made = fleet.create("a")
    sandbox = made["sandboxID"]
    fleet.count(made, "POST")
    routed = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49983", "X-Access-Token": made["envdAccessToken"]}
    got = while_it_moves(fleet, sandbox, tmp_path, {
        "count": ("GET", "/count", None, routed), "file": ("PUT", "/disk/f", b"x" * 50000, routed),
        "timeout": ("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 60})})
    assert got == {"count": 200, "file": 204, "timeout": 204}
    assert fleet.here("b") == {sandbox}


@pytest.mark.parametrize("method, path, status", [("DELETE", "", 204), ("POST", "/connect", 201), ("PUT", "/network", 409)])
def test_requests_for_a_paused_one_wait_too(fleet, tmp_path, method, path, status):
    sandbox = fleet.create("a")["sandboxID"]
    assert fleet.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    body = None if method == "DELETE" else {"timeout": 60} if path == "/connect" else {}
    got = while_it_moves(fleet, sandbox, tmp_path, {"it": (method, f"/sandboxes/{sandbox}{path}", body)})
    assert got["it"] in (status, 204), got
    assert fleet.here("b") == (set() if method == "DELETE" else {sandbox})


def test_one_that_was_being_created_is_moved_too(fleet, tmp_path):
    """It is not in the first list."""
    first = fleet.create("a")["sandboxID"]
    gate = Gate(fleet, tmp_path, before=True)
    process = fleet.begin(via=gate.via)
    gate.wait()
    node = fleet.nodes["a"]
    assert node.request("DELETE", "/drain").status == 204
    second = fleet.create("a")["sandboxID"]
    gate.reached.unlink()
    gate.open()
    gate.wait()  # with the second one
    gate.open()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.split() == [first, "moved", second, "moved"], out + err


# ---- what stays
def test_those_that_stay_are_named_and_work_on(fleet):
    node = fleet.nodes["a"]
    node.template("elsewhere", driver="process")
    plain = fleet.create("a", templateID="elsewhere")
    good = fleet.create("a")
    fleet.count(plain, "POST")
    said = fleet.drain(status=1)
    assert said[good["sandboxID"]] == "moved"
    assert "does not have template" in said[plain["sandboxID"]] and said[plain["sandboxID"]].startswith("stays: ")
    wait_for(lambda: node.record(plain["sandboxID"])["state"] == "running", 30, "it runs again by itself")
    assert fleet.count(plain)["count"] >= 0 and fleet.through(good["sandboxID"]).status == 204
    assert fleet.here("a") == {plain["sandboxID"]} and fleet.here("b") == {good["sandboxID"]}
    assert fleet.request("DELETE", f"/sandboxes/{plain['sandboxID']}").status == 204


def test_a_damaged_archive_is_refused(fleet, tmp_path):
    made = fleet.create("a")
    fleet.count(made, "POST")
    script = tmp_path / "via"
    for damage, why in (("head -c 400", "damaged"), ("head -c -1", "damaged"), ("cat - /etc/hostname", "damaged")):
        script.write_text(f'#!/bin/sh\n{damage} | {fleet.via("b")} "$@"\n')
        script.chmod(0o755)
        said = fleet.drain(via=str(script), status=1)
        assert said[made["sandboxID"]].startswith("stays: ") and why in said[made["sandboxID"]], said
        assert fleet.count(made)["count"] >= 0
    assert fleet.nodes["b"].directories() == [] and not list((fleet.nodes["b"].home / "cache").glob("import-*"))


def test_a_key_that_the_other_node_does_not_know():
    with DrainFleet() as fleet:
        other = fleet.where / "other.json"
        other.write_text('{"tokens": []}')
        node = fleet.nodes["b"]
        node.stop()
        node.args[node.args.index(str(fleet.keys))] = str(other)
        node.start()
        made = fleet.create("a")
        said = fleet.drain(status=1)
        assert "does not know the API key \"tester\"" in said[made["sandboxID"]]
        assert fleet.through(made["sandboxID"]).status == 204


def test_a_full_node_takes_none():
    with DrainFleet(args=("--max-sandboxes", "1")) as fleet:
        there, made = fleet.create("b"), fleet.create("a")
        assert "maximum of 1 sandboxes" in fleet.drain(status=1)[made["sandboxID"]]
        assert fleet.through(made["sandboxID"]).status == fleet.through(there["sandboxID"]).status == 204


def test_secrets_must_be_at_the_other_node(tmp_path):
    """Their values do not travel."""
    value = "sk-" + secrets.token_hex(16)
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"PAID": {"env": "CUBBY_TEST_PAID", "hosts": ["paid.example"], "keys": ["tester"]}}))
    fleet = DrainFleet(args=("--secrets", str(path)))
    there = fleet.nodes["b"]
    fleet.nodes["a"].env["CUBBY_TEST_PAID"] = value
    with fleet:
        made = fleet.create("a", secrets=["PAID"])
        sandbox = made["sandboxID"]
        placeholders = fleet.nodes["a"].record(sandbox)["secrets"]["given"]
        said = fleet.drain(status=1)[sandbox]
        assert said.startswith("stays: ") and "node b refused it: " in said and "PAID cannot be used now" in said and value not in said
        assert fleet.through(sandbox).status == 204
        wait_for(lambda: there.directories() == [], 30, "nothing is left of it at node b")
        there.stop(signal.SIGUSR1)
        there.env["CUBBY_TEST_PAID"] = value
        there.start()
        assert fleet.drain() == {sandbox: "moved"}
        assert there.record(sandbox)["secrets"]["given"] == placeholders
        wait_for(lambda: there.record(sandbox)["state"] == "running", 30, "it is woken")
        wait_for(lambda: not (there.directory(sandbox) / "image").exists(), 30, "its image is removed")
        for path in there.home.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # its image is being removed
                assert not path.is_file() or value.encode() not in path.read_bytes(), path


def test_exposed_ports_are_opened_at_the_other_node(fleet):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
    with Guest(serve) as guest:
        sandbox = fleet.create("a")["sandboxID"]
        exposed = fleet.request("POST", f"/sandboxes/{sandbox}/ports", {"port": guest.port})
        assert exposed.status == 201, exposed.body
        fleet.drain()
        (port,) = fleet.request("GET", f"/sandboxes/{sandbox}/ports").json
        assert port["port"] == guest.port
        assert fleet.request("GET", "/", port=port["hostPort"]).body == b"hi"


def test_a_request_gets_its_answer_before_the_move(fleet):
    """It takes longer than streams have."""
    began = threading.Event()

    def serve(connection):
        read_head(connection)
        began.set()
        time.sleep(4)  # it works
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
    with Guest(serve) as guest:
        sandbox = fleet.create("a")["sandboxID"]
        slow = fleet.connection()
        slow.request("GET", "/", headers={"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(guest.port)})
        assert began.wait(30)
        assert fleet.drain() == {sandbox: "moved"}
        answer = slow.getresponse()
        assert (answer.status, answer.read()) == (200, b"hi")
        slow.close()


def test_streams_are_cut_and_the_end_time_comes_there(fleet):
    made = fleet.create("a", timeout=600)
    hangs = fleet.connection()
    hangs.request("POST", "/hang", headers={"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983",
                                            "X-Access-Token": made["envdAccessToken"],
                                            "Content-Type": "application/connect+json"})
    wait_for((fleet.nodes["a"].directory(made["sandboxID"]) / "hanging").exists, 30, "it is not answered")
    assert fleet.drain() == {made["sandboxID"]: "moved"}
    assert hangs.getresponse().status == 502  # it may have acted on it
    hangs.close()
    assert fleet.request("POST", f"/sandboxes/{made['sandboxID']}/timeout", {"timeout": 1}).status == 204
    wait_for(lambda: fleet.here("b") == set(), 60, "its end time comes")
    gone = fleet.request("GET", f"/sandboxes/{made['sandboxID']}")
    assert (gone.status, gone.json["error_code"]) == (404, "sandbox_ended") and "time to live" in gone.json["message"]
    assert fleet.drain() == {}


@pytest.mark.parametrize("words, why", [(["--to", "a,c"], "--to a: that is the node to be drained"), (["--to", "c"], 'has no node "c"'), ([], "not node")])
def test_what_cannot_begin(fleet, words, why):
    if words:
        fleet.drain(*words, status=1)
    else:
        ran = subprocess.run([CUBBY, "fleet", "drain", "a", fleet.nodes_file], env=fleet.nodes["b"].env,
                             capture_output=True, text=True, timeout=60)
        assert ran.returncode == 1
        fleet.said = ran.stderr
    assert why in fleet.said
    assert not fleet.nodes["a"].request("GET", "/health").json["draining"]


def test_only_the_unix_socket_moves(fleet):
    sandbox = fleet.create("a")["sandboxID"]
    for method, path in (("POST", f"/sandboxes/{sandbox}/move?to=b"), ("DELETE", f"/sandboxes/{sandbox}/move"),
                         ("POST", f"/sandboxes/{sandbox}/moved"), ("POST", f"/arrivals/{sandbox}?dir=import-1")):
        answer = fleet.request(method, path, port=fleet.nodes["a"].port)
        assert (answer.status, answer.json["error_code"]) == (403, "unix_socket_only")
    for query in ("", "?to=A", "?to=a"):
        assert fleet.nodes["a"].request("POST", f"/sandboxes/{sandbox}/move{query}").status == 400
    for name in ("x", "import-/../..", "import-none"):
        arrived = fleet.nodes["b"].request("POST", f"/arrivals/{sandbox}?dir={name}")
        assert arrived.status >= 400 and fleet.nodes["b"].directories() == []


def test_a_change_during_a_move_is_refused_by_its_own_name(fleet):
    """Not as on a full host, where an agent would be told to end another sandbox."""
    sandbox, node = fleet.create("a")["sandboxID"], fleet.nodes["a"]
    assert node.request("POST", f"/sandboxes/{sandbox}/move?to=b").status < 300
    for path in "ports", "mounts?target=/project":
        refused = node.request("DELETE", f"/sandboxes/{sandbox}/{path}")
        assert (refused.status, refused.json["error_code"]) == (503, "sandbox_moving"), refused.body
        assert refused.headers["Retry-After"] == "2" and "is being moved to node b" in refused.json["message"]
    assert node.request("DELETE", f"/sandboxes/{sandbox}/move").status == 204
    assert node.request("DELETE", f"/sandboxes/{sandbox}/ports").status == 204


# ---- interrupted
def check_whole(fleet, made, before):
    """The sandbox is at node b alone, and its program goes on."""
    assert fleet.here("a") == set() and fleet.here("b") == {made["sandboxID"]}
    wait_for(lambda: fleet.nodes["a"].directories() == [], 30, "nothing is left at node a")
    after = fleet.count(made)
    assert after["boot"] == before["boot"] and after["count"] >= before["count"]
    wait_for(lambda: fleet.count(made)["count"] > after["count"], 30, "its program goes on")
    for node in fleet.nodes.values():
        assert not list((node.home / "cache").glob("*.cubby*"))


@pytest.mark.parametrize("point", MOVES)
def test_a_daemon_that_is_killed(point):
    fleet = DrainFleet()
    node = fleet.nodes["a" if point.startswith("move.") else "b"]
    node.program, fault = FAULTS, node.home / "fault"
    node.env["CUBBY_FAULT"] = str(fault)
    with fleet:
        made = fleet.create("a")
        fleet.count(made, "POST")
        before = fleet.count(made)
        fault.write_text(f"{point}:1")
        fleet.drain(status=1)
        assert node.process.wait(30) == -signal.SIGKILL
        fault.unlink()
        node.start()
        fleet.drain()
        wait_for(lambda: fleet.through(made["sandboxID"]).status == 204, 30, "the proxy knows that it is back")
        check_whole(fleet, made, before)


@pytest.mark.parametrize("before_it", [True, False], ids=["before-it-is-taken", "after-it-was-taken"])
@pytest.mark.parametrize("killed", ["command", "daemon-a", "daemon-b"])
def test_killed_in_the_middle(tmp_path, killed, before_it):
    with DrainFleet() as fleet:
        made = fleet.create("a")
        fleet.count(made, "POST")
        before = fleet.count(made)
        gate = Gate(fleet, tmp_path, before_it)
        process = fleet.begin(via=gate.via)
        gate.wait()
        assert (fleet.nodes["a"].home / "cache/drain.cubby").stat().st_mode & 0o777 == 0o600
        if killed == "command":
            process.kill()
            process.communicate(timeout=60)
        else:
            node = fleet.nodes[killed[-1]]
            node.process.kill()
            node.process.wait()
            gate.open()
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 1 or not before_it, out
            node.start()
        fleet.drain()
        wait_for(lambda: fleet.through(made["sandboxID"]).status == 204, 30, "the proxy knows that all are back")
        check_whole(fleet, made, before)


def test_a_second_drain_waits_for_none(fleet, tmp_path):
    made = fleet.create("a")
    gate = Gate(fleet, tmp_path, before=True)
    process = fleet.begin(via=gate.via)
    gate.wait()
    fleet.drain(status=1)
    assert "another cubby fleet drain runs here" in fleet.said
    gate.open()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and f"{made['sandboxID']} moved" in out, out + err


def ends(process):
    """(status, {sandbox: what was said}, stderr)"""
    out, err = process.communicate(timeout=120)
    return process.returncode, dict(line.split(" ", 1) for line in out.splitlines()), err


def test_two_drains_of_one_node_at_once(fleet):
    """One of them moves the sandboxes. The other one is refused, or comes when all are moved."""
    made = [fleet.create("a") for _ in range(6)]
    for one in made:
        fleet.count(one, "POST")
    before = [fleet.count(one) for one in made]
    told = {}
    for status, said, err in map(ends, [fleet.begin(), fleet.begin()]):
        assert status == 0 or "another cubby fleet drain runs here" in err, err
        assert not told.keys() & said.keys()
        told |= said
    assert told == {one["sandboxID"]: "moved" for one in made}
    assert fleet.here("a") == set() and fleet.here("b") == told.keys()
    for one, was in zip(made, before):
        now = fleet.count(one)
        assert now["boot"] == was["boot"] and now["count"] >= was["count"]


def test_two_nodes_are_drained_to_a_third_at_once():
    with Fleet("a", "b", "c", kind=DrainNode) as fleet:
        fleet.list_nodes(a="then=c", b="then=c")
        fleet.stop_proxy()
        fleet.start_proxy()
        made = [fleet.create(node) for node in "abab"]
        for status, said, err in map(ends, [fleet.start_drain(node, "c") for node in "ab"]):
            assert status == 0 and set(said.values()) == {"moved"}, err
        assert fleet.here("a") == fleet.here("b") == set()
        assert fleet.here("c") == {one["sandboxID"] for one in made}
        assert {fleet.through(one["sandboxID"]).status for one in made} == {204}


def test_two_nodes_to_each_other_at_once():
    """Each would choose the other one. One of them is drained, the other one is not, and the list stays valid."""
    with Fleet("a", "b", kind=DrainNode) as fleet:
        made = [fleet.create(node) for node in "abab"]
        results = list(map(ends, [fleet.start_drain(node, other, "--reload", "true") for node, other in ("ab", "ba")]))
        (drained,) = (node for node, (status, _, _) in zip("ab", results) if status == 0)
        other = "ba"["ab".index(drained)]
        status, said, err = results["ab".index(other)]
        assert status == 1 and said == {}, (said, err)
        assert "cannot be written" in err or "no other node" in err or "it is being drained itself" in err, err
        assert not fleet.nodes[other].request("GET", "/health").json["draining"]
        words = {line.split()[0]: line.split()[3:] for line in fleet.nodes_file.read_text().splitlines()}
        assert words == {drained: [f"moved={other}"], other: []}
        assert fleet.here(drained) == set() and fleet.here(other) == {one["sandboxID"] for one in made}
        fleet.stop_proxy()
        fleet.answers = lambda: answers(fleet)
        fleet.start_proxy()
        assert {fleet.through(one["sandboxID"]).status for one in made} == {204}


def test_a_node_that_gets_sandboxes_is_not_drained():
    """The proxy would have to ask three nodes. The list stays as it is."""
    with Fleet("a", "b", "c", kind=DrainNode) as fleet:
        fleet.list_nodes(a="then=b")
        before = fleet.nodes_file.read_text()
        status, said, err = ends(fleet.start_drain("b", "c", "--reload", "true"))
        assert status == 1 and said == {} and 'then=c for node "b" cannot be written' in err, err
        assert fleet.nodes_file.read_text() == before


def test_a_list_that_loses_its_word_ends_the_drain(fleet, tmp_path):
    """The --reload of another drain may have brought its list here. The proxy would not find the next sandboxes."""
    made = {fleet.create("a")["sandboxID"] for _ in range(2)}
    gate = Gate(fleet, tmp_path, before=True)
    process = fleet.begin(via=gate.via)
    gate.wait()
    fleet.list_nodes()
    gate.open()
    status, said, err = ends(process)
    assert status == 1 and list(said.values()) == ["moved"] and "has lost its then=b" in err, err
    assert fleet.here("a") == made - said.keys()
    fleet.list_nodes(a="then=b")
    assert fleet.drain() == dict.fromkeys(made - said.keys(), "moved")
    assert fleet.here("b") == made


def test_a_daemon_that_is_stopped_keeps_what_is_being_moved(fleet, tmp_path):
    made = fleet.create("a")
    fleet.count(made, "POST")
    before = fleet.count(made)
    fleet.drain(via=fleet.breaks(tmp_path, LOST), status=1)
    node = fleet.nodes["a"]
    node.stop()
    assert node.directories() == [made["sandboxID"]]
    node.start()
    fleet.drain()
    wait_for(lambda: fleet.through(made["sandboxID"]).status == 204, 30, "the proxy knows that it is back")
    check_whole(fleet, made, before)


def test_the_list_shows_it_once_while_both_have_it(fleet, tmp_path):
    made = fleet.create("a")
    gate = Gate(fleet, tmp_path, before=False)
    process = fleet.begin(via=gate.via)
    gate.wait()
    assert [one["sandboxID"] for one in fleet.request("GET", "/v2/sandboxes").json] == [made["sandboxID"]]
    gate.open()
    process.communicate(timeout=60)
    assert [one["sandboxID"] for one in fleet.request("GET", "/v2/sandboxes").json] == [made["sandboxID"]]
