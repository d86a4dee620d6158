# SPDX-License-Identifier: Apache-2.0
"""Snapshots: their contents, their owners, the sandboxes that need them, limits, and a daemon that
dies in between.
"""

import json
import shutil
import signal
import socket

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from key_holder import ask, new_key


@pytest.fixture(autouse=True)
def no_snapshot_is_left(shared):
    yield
    for snapshot in shared.request("GET", "/snapshots").json:
        shared.request("DELETE", f"/templates/{snapshot['snapshotID']}")


def take(daemon, sandbox, **body):
    return daemon.request("POST", f"/sandboxes/{sandbox}/snapshots", body)


def taken(daemon, sandbox, **body):
    answer = take(daemon, sandbox, **body)
    assert answer.status == 201, answer.body
    return answer.json["snapshotID"]


def ids(daemon, query=""):
    return [s["snapshotID"] for s in daemon.request("GET", f"/snapshots{query}").json]


def delete(daemon, snapshot):
    return daemon.request("DELETE", f"/templates/{snapshot}")


def entries(daemon):
    return sorted(p.name for p in (daemon.home / "snapshots").iterdir())


def in_guest(daemon, made, method, path, body=None):
    answer = daemon.through(made["sandboxID"], method, path, body, token=made.get("envdAccessToken"))
    assert answer.status in (200, 204), answer.body
    return answer.body.decode()


def write(daemon, made, name, text):
    in_guest(daemon, made, "PUT", f"/disk/{name}", text.encode())


def read(daemon, made, name):
    return in_guest(daemon, made, "GET", f"/disk/{name}")


def count(daemon, made, start=False):
    return json.loads(in_guest(daemon, made, "POST" if start else "GET", "/count"))["count"]


def wait_for_count(daemon, made, more_than):
    return wait_for(lambda: count(daemon, made) > more_than, 30, "the guest counts")


def init_of(daemon, made):
    return json.loads((daemon.directory(made["sandboxID"]) / "init.json").read_text())


def log_of(daemon, sandbox):
    return [line["message"] for line in daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").json["logs"]]


# ---- one, and what is made from it
def test_snapshot_and_create(daemon):
    made = daemon.create(metadata={"who": "parent"})
    write(daemon, made, "notes", "before")
    assert read(daemon, made, "notes") == "before"
    count(daemon, made, start=True)
    wait_for_count(daemon, made, 0)
    answer = take(daemon, made["sandboxID"])
    assert answer.status == 201 and answer.json["names"] == []
    snapshot = answer.json["snapshotID"]
    assert answer.json["sandboxID"] == made["sandboxID"] and answer.json["templateID"] == "default"
    assert answer.json["metadata"] == {"who": "parent"} and answer.json["bytes"] > 0
    at = count(daemon, made)
    wait_for_count(daemon, made, at)  # the parent goes on
    write(daemon, made, "notes", "after")

    others = [daemon.create(templateID=snapshot, envVars={"A": "1"}) for _ in range(2)]
    assert len({m["sandboxID"] for m in [made, *others]}) == 3
    assert len({m["envdAccessToken"] for m in [made, *others]}) == 3
    for other in others:
        assert other["templateID"] == snapshot
        assert daemon.get(other["sandboxID"]).json["templateID"] == snapshot
        assert daemon.get(other["sandboxID"]).json["metadata"] == {}
        assert read(daemon, other, "notes") == "before"
        wait_for_count(daemon, other, 0)  # its processes are alive
        init = init_of(daemon, other)
        assert init["hostname"] == other["sandboxID"] and init["accessToken"] == other["envdAccessToken"]
        assert init["inheritEnvVars"] is True and init["envVars"]["A"] == "1"
        assert init["envVars"]["E2B_TEMPLATE_ID"] == snapshot
    listed = daemon.request("GET", f"/v2/sandboxes?template={snapshot}").json
    assert {s["sandboxID"] for s in listed} == {m["sandboxID"] for m in others}
    write(daemon, others[0], "notes", "mine")
    assert read(daemon, others[1], "notes") == "before" and read(daemon, made, "notes") == "after"
    assert in_guest(daemon, others[0], "GET", "/random") != in_guest(daemon, others[1], "GET", "/random")
    assert len({init_of(daemon, m)["entropy"] for m in others}) == 2
    assert any(snapshot in line and "stood still" in line for line in log_of(daemon, made["sandboxID"]))

    assert delete(daemon, snapshot).status == 204, "those that were made from it need nothing of it"
    assert read(daemon, others[0], "notes") == "mine"
    assert delete(daemon, snapshot).status == 404
    gone = daemon.request("POST", "/v2/sandboxes", {"templateID": snapshot})
    assert gone.status == 404 and f"no snapshot '{snapshot}'; `cubby snapshot ls`" in gone.json["message"]
    wait_for(lambda: entries(daemon) == [], 30, "no file is left")


def test_it_outlives_its_sandbox(daemon, made):
    write(daemon, made, "notes", "kept")
    snapshot = taken(daemon, made["sandboxID"])
    daemon.kill(made["sandboxID"])
    other = daemon.create(templateID=f"{snapshot}:default")
    assert read(daemon, other, "notes") == "kept"
    again = taken(daemon, other["sandboxID"])
    daemon.kill(other["sandboxID"])
    assert delete(daemon, snapshot).status == 204
    assert read(daemon, daemon.create(templateID=again), "notes") == "kept", "no chain of images"


def test_one_without_a_token(daemon):
    made = daemon.create("v1", secure=False)
    snapshot = taken(daemon, made["sandboxID"])
    other = daemon.create(templateID=snapshot)
    assert daemon.through(other["sandboxID"], path="/whoami").status == 401
    assert daemon.through(other["sandboxID"], path="/whoami", token=other["envdAccessToken"]).status == 200


@pytest.mark.parametrize("depth", ["freeze", "hibernate"])
def test_of_a_paused_one(daemon, made, depth):
    write(daemon, made, "notes", "asleep")
    paused = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {"depth": depth})
    assert paused.status == 204, paused.body
    snapshot = taken(daemon, made["sandboxID"])
    assert daemon.get(made["sandboxID"]).json["state"] == "paused", "it stays so"
    assert read(daemon, daemon.create(templateID=snapshot), "notes") == "asleep"
    assert daemon.request("POST", f"/v2/sandboxes/{made['sandboxID']}/connect", {}).status == 201
    assert read(daemon, made, "notes") == "asleep"
    assert read(daemon, daemon.create(templateID=snapshot), "notes") == "asleep"


def test_traffic_goes_on(daemon, made):
    stream = daemon.open(made["sandboxID"], 49983, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                         f"X-Access-Token: {made['envdAccessToken']}\r\nContent-Length: 0\r\n")
    seen = b""
    while b"armed" not in seen:
        seen += stream.recv(4096)
    taken(daemon, made["sandboxID"])
    stream.settimeout(0.2)
    with pytest.raises(TimeoutError):
        stream.recv(1)  # it is open, and says nothing
    stream.close()


# ---- names
def test_names(daemon, made):
    first = take(daemon, made["sandboxID"], name="prepared").json
    assert first["names"] == ["prepared:default"]
    write(daemon, made, "notes", "second")
    second = take(daemon, made["sandboxID"], name="prepared").json
    assert second["names"] == ["prepared:default"] and second["snapshotID"] != first["snapshotID"]
    assert read(daemon, daemon.create(templateID="prepared"), "notes") == "second"
    assert ids(daemon, "?name=prepared") == [second["snapshotID"]], "the newest has the name"
    assert ids(daemon, "?name=prepared:default") == [second["snapshotID"]]
    assert ids(daemon, "?name=nothing") == []
    listed = {s["snapshotID"]: s["names"] for s in daemon.request("GET", "/snapshots").json}
    assert listed == {second["snapshotID"]: ["prepared:default"], first["snapshotID"]: []}
    assert delete(daemon, "prepared%3Adefault").status == 204
    assert ids(daemon, "?name=prepared") == [first["snapshotID"]]


def test_tags(daemon, made):
    """Snapshots of one name with two tags are found apart."""
    write(daemon, made, "notes", "one")
    first = take(daemon, made["sandboxID"], name="prepared:v1").json
    write(daemon, made, "notes", "two")
    second = take(daemon, made["sandboxID"], name="prepared:default").json
    assert (first["names"], second["names"]) == (["prepared:v1"], ["prepared:default"])
    assert read(daemon, daemon.create(templateID="prepared:v1"), "notes") == "one"
    assert read(daemon, daemon.create(templateID="prepared"), "notes") == "two"
    assert ids(daemon, "?name=prepared:v1") == [first["snapshotID"]]
    assert ids(daemon, "?name=prepared") == [second["snapshotID"]]
    assert daemon.request("POST", "/v2/sandboxes", {"templateID": "prepared:v2"}).status == 404


@pytest.mark.parametrize("name, status", [
    ("", 400), ("a/b", 400), ("..", 400), ("a b", 400), ("a:", 400), (":tag", 400), ("a:b:c", 400), ("a:b/c", 400),
    ("default:v1", 409), ("x" * 129, 400), (7, 400),
    ("default", 409), ("base", 409), ("snap-" + "a" * 20, 409)])
def test_bad_names(daemon, sandbox, name, status):
    answer = take(daemon, sandbox, name=name)
    assert answer.status == status and answer.json["code"] == status, answer.body
    assert ids(daemon) == [] and entries(daemon) == []


def test_list(daemon):
    first, second = daemon.create()["sandboxID"], daemon.create()["sandboxID"]
    all_of_them = [taken(daemon, s) for s in (first, second, first)]
    assert ids(daemon) == all_of_them[::-1]
    assert ids(daemon, f"?sandboxID={first}") == [all_of_them[2], all_of_them[0]]
    seen, query = [], "?limit=1"
    for left in (2, 1, 0):
        page = daemon.request("GET", f"/snapshots{query}")
        seen += [s["snapshotID"] for s in page.json]
        assert ("X-Next-Token" in page.headers) == bool(left)
        query = f"?limit=1&nextToken={page.headers.get('X-Next-Token')}"
    assert seen == all_of_them[::-1]
    for bad in ("?limit=0", "?limit=101", "?limit=x", "?nextToken=%21", "?nextToken=aGVsbG8"):
        assert daemon.request("GET", f"/snapshots{bad}").status == 400


def test_unknown(daemon):
    assert take(daemon, "x" * 20).status == 404
    for unknown in ("snap-" + "x" * 20, "nobody", "a%2Fb%3Adefault"):
        answer = delete(daemon, unknown)
        assert answer.status == 404 and answer.json["code"] == 404


# ---- who needs what
def policy(daemon, made):
    return daemon.request("GET", f"/sandboxes/{made['sandboxID']}/network").json["policy"]


def test_the_network_of_then():
    """A sandbox made from a snapshot gets the network policy of the saved sandbox, unless the
    create asks for another."""
    with Daemon() as d:
        made = d.create(network={"mode": "allow", "allow": ["a.example:443"], "limits": {"connections": 9}})
        was = policy(d, made)
        snapshot = taken(d, made["sandboxID"])
        assert d.request("PUT", f"/sandboxes/{made['sandboxID']}/network", {"mode": "public"}).status == 204
        opened = taken(d, made["sandboxID"])
        assert policy(d, d.create(templateID=opened))["mode"] == "public", "the control: of its own time"
        assert d.request("PUT", f"/sandboxes/{made['sandboxID']}/network", {"mode": "none"}).status == 204
        closed = taken(d, made["sandboxID"])
        d.stop()
        d.start()
        for said in ({}, {"network": {}}, {"network": None}, {"network": {"allowOut": []}},
                     {"allow_internet_access": True}):
            assert policy(d, d.create(templateID=snapshot, **said)) == was, said
        assert policy(d, d.create(templateID=closed))["mode"] == "none"
        assert policy(d, d.create(templateID=snapshot, network={"limits": {"connections": 5}})) == {
            **was, "limits": {"connections": 5}}
        for said, mode in (({"network": {"mode": "public"}}, "public"), ({"network": {"denyOut": ["9.9.9.9"]}}, "public"),
                           ({"allow_internet_access": False}, "none"), ({"network": {"mode": "none"}}, "none")):
            assert policy(d, d.create(templateID=snapshot, **said))["mode"] == mode, said


def test_a_key_does_not_widen_the_network_of_a_snapshot():
    """A program that always asks for a public network must not open the network for processes of a
    closed sandbox."""
    d = Daemon("--listen", "127.0.0.1:0")
    key = new_key(d, "one")
    with d:
        made = ask(d, "POST", "/v2/sandboxes", {
            "templateID": "default", "network": {"mode": "allow", "allow": ["a.example", "b.example"],
                                                 "limits": {"connections": 9}}}, key=key).json
        path = f"/sandboxes/{made['sandboxID']}/snapshots"
        snapshot = ask(d, "POST", path, {}, key=key).json["snapshotID"]
        opened = d.create(templateID=snapshot, network={"mode": "public"})
        assert policy(d, opened)["mode"] == "public", "the operator may"
        fewer = {"mode": "allow", "allow": ["b.example"], "limits": {"connections": 8}}
        for network, status in (({"mode": "public"}, 400), ({**fewer, "allow": ["c.example"]}, 400),
                                ({**fewer, "limits": {"connections": 10}}, 400), ({"limits": {"connections": 10}}, 400),
                                ({"denyOut": ["9.9.9.9"]}, 400),
                                (None, 201), ({"mode": "none"}, 201), (fewer, 201), ({"limits": {"connections": 8}}, 201)):
            fields = {"templateID": snapshot, "network": network}
            by_key = ask(d, "POST", "/v2/sandboxes", fields, key=key)
            asked = d.request("POST", "/v2/sandboxes", {**fields, "noWiderNetwork": True})
            assert by_key.status == asked.status == status, (network, by_key.body, asked.body)
            if status == 400:
                assert by_key.json == asked.json
                assert by_key.json["message"].startswith(
                    "network: this policy allows more than that of the snapshot's sandbox; leave network out to keep that policy")


def test_snapshots_of_older_daemons_say_no_network():
    with Daemon() as d:
        made = d.create(network={"mode": "none"})
        old, spoilt = taken(d, made["sandboxID"]), taken(d, made["sandboxID"])
        d.stop()
        for snapshot, change in ((old, lambda j: j.pop("policy")), (spoilt, lambda j: j.update(policy={"internet": 1}))):
            path = d.home / "snapshots" / snapshot / "snapshot.json"
            record = json.loads(path.read_text())
            change(record)
            path.write_text(json.dumps(record))
        d.start()
        assert policy(d, d.create(templateID=old))["mode"] == "public"
        assert d.request("POST", "/v2/sandboxes", {"templateID": spoilt}).status == 404, "nothing opens by mistake"


def test_private_addresses_of_a_snapshot_need_the_daemons_leave():
    with Daemon("--allow-private-network") as d:
        made = d.create(network={"mode": "allow", "allow": ["10.0.0.1:80"]})
        snapshot = taken(d, made["sandboxID"])
        assert policy(d, d.create(templateID=snapshot))["allow"] == ["10.0.0.1/32:80"]
        d.args = []
        d.stop()
        d.start()
        answer = d.request("POST", "/v2/sandboxes", {"templateID": snapshot})
        assert answer.status == 400 and "give another in network" in answer.json["message"], answer.body
        assert policy(d, d.create(templateID=snapshot, network={"mode": "none"}))["mode"] == "none"


def test_template_of_snapshots(daemon, sandbox):
    snapshot = taken(daemon, sandbox)
    kept = delete(daemon, "default")
    assert kept.status == 409 and snapshot in kept.json["message"]
    assert daemon.request("GET", f"/templates/{snapshot}").status == 200


def test_template_built_anew():
    d = Daemon()
    d.template("default", created_at="2026-01-01T00:00:00Z")
    with d:
        sandbox = d.create()["sandboxID"]
        snapshot = taken(d, sandbox)
        assert d.create(templateID=snapshot)["sandboxID"]
        d.template("default", created_at="2026-01-02T00:00:00Z")
        path = f"/sandboxes/{sandbox}/pause"
        deep = d.request("POST", path, {"depth": "hibernate"})
        assert deep.status >= 400 and "rebuilt" in deep.json["message"]
        assert d.request("POST", f"/v2/sandboxes/{sandbox}/connect", {}).status in (200, 201), "it is not lost"
        answer = d.request("POST", "/v2/sandboxes", {"templateID": snapshot})
        assert answer.status == 400 and "rebuilt" in answer.json["message"], answer.body
        for what in ("snapshots", "fork"):
            old = d.request("POST", f"/sandboxes/{sandbox}/{what}", {})
            assert old.status == 409 and "rebuilt" in old.json["message"]
        assert delete(d, snapshot).status == 204


def test_keys():
    d = Daemon("--listen", "127.0.0.1:0")
    one, two = new_key(d, "one"), new_key(d, "two")
    with d:
        made = [ask(d, "POST", "/v2/sandboxes", {"templateID": "default"}, key=k).json for k in (one, two)]
        path = f"/sandboxes/{made[0]['sandboxID']}/snapshots"
        assert ask(d, "POST", path, {}, key=two).status == 404
        snapshot = ask(d, "POST", path, {"name": "mine"}, key=one).json["snapshotID"]
        assert [s["snapshotID"] for s in ask(d, "GET", "/snapshots", key=one).json] == [snapshot]
        assert ask(d, "GET", "/snapshots", key=two).json == []
        for name in (snapshot, "mine"):
            assert ask(d, "POST", "/v2/sandboxes", {"templateID": name}, key=two).status == 404
            assert ask(d, "GET", f"/templates/{name}", key=two).status == 404
            assert ask(d, "DELETE", f"/templates/{name}", key=two).status == 404
        path = f"/sandboxes/{made[1]['sandboxID']}/snapshots"
        other = ask(d, "POST", path, {"name": "mine"}, key=two).json["snapshotID"]
        for key, mine in ((one, snapshot), (two, other)):
            from_it = ask(d, "POST", "/v2/sandboxes", {"templateID": "mine"}, key=key)
            assert from_it.status == 201 and from_it.json["templateID"] == mine
        assert sorted(ids(d)) == sorted([snapshot, other]), "the socket's owner sees all"
        assert ask(d, "DELETE", f"/templates/{snapshot}", key=one).status == 204


# ---- who asked goes away
def test_a_client_that_goes_away():
    """No client knows the snapshot's id: it is removed again, and the sandbox goes on."""
    d = Daemon()
    d.template("default", save="held")
    with d:
        made = d.create()
        body = b'{"name": "mine"}'
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(d.home / "cubbyd.sock"))
            s.sendall(f"POST /sandboxes/{made['sandboxID']}/snapshots HTTP/1.1\r\nHost: x\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_for(lambda: entries(d), 30, "it is being made")
        d.request("GET", "/health")  # before its answer the daemon has seen the end of the other
        d.template("default")
        wait_for(lambda: "snapshot.abandoned" in d.log.read_text(), 30, "it is given up")
        wait_for(lambda: entries(d) == [], 30, "no file is left")
        assert ids(d) == [] and daemon_goes_on(d, made)
        assert delete(d, taken(d, made["sandboxID"], name="mine")).status == 204


# ---- limits
def test_limits():
    with Daemon("--max-snapshots", "1") as d:
        sandbox = d.create()["sandboxID"]
        snapshot = taken(d, sandbox)
        full = take(d, sandbox)
        assert full.status == 429 and "--max-snapshots" in full.json["message"]
        assert delete(d, snapshot).status == 204
        assert take(d, sandbox).status == 201
    with Daemon("--max-snapshot-space", "1") as d:
        made = d.create()
        full = take(d, made["sandboxID"])
        assert full.status == 429 and "--max-snapshot-space" in full.json["message"]
        assert entries(d) == [] and daemon_goes_on(d, made)


def daemon_goes_on(d, made):
    write(d, made, "notes", "on")
    return read(d, made, "notes") == "on"


def test_a_full_disk(daemon, made):
    """The directory of snapshots cannot be written: nothing is left, and the sandbox goes on."""
    where = daemon.home / "snapshots"
    where.rmdir()
    where.write_text("in the way")
    try:
        answer = take(daemon, made["sandboxID"])
        assert answer.status >= 400 and answer.json["code"] == answer.status
    finally:
        where.unlink()
        where.mkdir()
    assert daemon_goes_on(daemon, made)
    assert any("the snapshot failed" in line for line in log_of(daemon, made["sandboxID"]))
    assert taken(daemon, made["sandboxID"])


# ---- a daemon that is restarted
def test_found_again():
    d = Daemon()
    try:
        d.start()
        made = d.create()
        write(d, made, "notes", "kept")
        snapshot = taken(d, made["sandboxID"], name="kept")
        d.stop(signal.SIGKILL)
        for hidden in (f".new-{snapshot}", ".gone-x", ".fork-y"):
            shutil.copytree(d.home / "snapshots" / snapshot, d.home / "snapshots" / hidden)
        bad, empty = "snap-" + "d" * 20, "snap-" + "e" * 20
        for damaged, text in ((bad, "{"), ("stranger", "{}"), (empty, None)):
            (d.home / "snapshots" / damaged).mkdir()
            if text:
                (d.home / "snapshots" / damaged / "snapshot.json").write_text(text)
        d.start()
        assert ids(d) == [snapshot]
        assert entries(d) == sorted([snapshot, bad, empty, "stranger"])
        lines = [line for line in d.log.read_text().splitlines() if "snapshots.damaged" in line]
        assert len(lines) == 3
        for name in (bad, empty):
            (line,) = [line for line in lines if name in line]
            assert line.count("snapshot.json") == 1, "it names the file once"
        assert read(d, d.create(templateID="kept"), "notes") == "kept"
        assert (d.home / "snapshots" / snapshot / "snapshot.json").stat().st_mode & 0o777 == 0o600
    finally:
        d.close()
