# SPDX-License-Identifier: Apache-2.0
"""The rest of the control plane: network rules, traffic tokens, metrics, logs, templates; and how a
guest with the real envd behaves in a pause.

Assertions 9, 10, 11, 16, 17, 24, 30 (what the driver is told) and 31 of the reference, section 11.
"""

import base64
import datetime
import json
import os

import pytest

from cubbyd import Daemon, ENVD, events, read_all, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from sdk import Guests


def policy(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "policy.json").read_text())


def put(daemon, sandbox, body):
    return daemon.request("PUT", f"/sandboxes/{sandbox}/network", body)


# ---- network
def test_network_at_creation(daemon):
    made = daemon.create(network={"allowOut": ["1.1.1.1", "8.8.0.0/16"], "denyOut": ["0.0.0.0/0"]})
    told = policy(daemon, made["sandboxID"])
    assert told["allowOut"] == ["1.1.1.1/32", "8.8.0.0/16"] and told["denyOut"] == ["0.0.0.0/0"]
    detail = daemon.get(made["sandboxID"]).json
    assert detail["allowInternetAccess"] is False
    assert detail["network"]["allowOut"] == ["1.1.1.1", "8.8.0.0/16"]
    assert detail["network"]["allowPublicTraffic"] is True


def test_names_need_everything_else_denied(daemon):
    body = {"templateID": "base", "network": {"allowOut": ["example.com"]}}
    refused = daemon.request("POST", "/v2/sandboxes", body)
    assert refused.status == 400 and refused.json["code"] == 400
    body["network"]["denyOut"] = ["0.0.0.0/0"]
    made = daemon.request("POST", "/v2/sandboxes", body)
    assert made.status == 201
    assert policy(daemon, made.json["sandboxID"])["allowOut"] == ["example.com"]


def test_network_put_replaces_all(daemon):
    sandbox = daemon.create(network={"denyOut": ["1.2.3.4"]})["sandboxID"]
    assert put(daemon, sandbox, {"denyOut": ["0.0.0.0/0"]}).status == 204
    assert policy(daemon, sandbox)["denyOut"] == ["0.0.0.0/0"]
    assert daemon.get(sandbox).json["allowInternetAccess"] is False
    assert put(daemon, sandbox, {"allow_internet_access": False}).status == 204
    told = policy(daemon, sandbox)
    assert told["internet"] is False and told["denyOut"] == []
    assert put(daemon, sandbox, {}).status == 204
    assert policy(daemon, sandbox) == {"internet": True, "special": False, "denyWins": False,
                                       "allowOut": [], "denyOut": [], "limits": {}}
    assert daemon.get(sandbox).json["allowInternetAccess"] is True


@pytest.mark.parametrize("body, what", [
    ({"denyOut": ["example.com"]}, "denyOut"), ({"allowOut": ["10.0.0.1"]}, "10.0.0.1"),
    ({"rules": {"a.example": {}}}, "rules"), ({"egressProxy": {"address": "a"}}, "egressProxy"),
    ({"deny_out": []}, "denyOut"), ({"allow_internet_access": "no"}, "allow_internet_access"),
    ([], "object")])
def test_network_put_refuses(daemon, sandbox, body, what):
    before = policy(daemon, sandbox)
    answer = put(daemon, sandbox, body)
    assert answer.status == 400 and what in answer.json["message"]
    assert policy(daemon, sandbox) == before


@pytest.mark.parametrize("fields, what", [
    ({"cpuCount": 4096}, "cpuCount: 4096 is out of range"), ({"cpu_count": 2}, "cpuCount"),
    ({"memoryMB": 1 << 40}, "--max-sandbox-memory"), ({"memoryMB": "512"}, "memoryMB must be"),
    ({"lifecycle": {"onTimeout": "pause"}}, "lifecycle"), ({"snapshotID": "x"}, "snapshotID"),
    ({"network": {"denyAll": True}}, "network.denyAll"),
    ({"network": {"dnsServers": ["192.0.2.1"]}}, "network.dnsServers"),
    ({"iam": {"x": 1}}, "iam is not available"), ({"autoResume": {"enabled": True, "after": 5}}, "autoResume.after")])
def test_what_would_be_ignored_is_refused(daemon, fields, what):
    for path in ("/v2/sandboxes", "/sandboxes"):
        answer = daemon.request("POST", path, {"templateID": "default", **fields})
        assert answer.status == 400 and what in answer.json["message"]
    assert daemon.directories() == []


def test_what_asks_for_nothing_more_is_taken(daemon):
    made = daemon.create("v1", cpuCount=2, memoryMB=512, name="field")
    detail = daemon.get(made["sandboxID"]).json
    assert (detail["cpuCount"], detail["memoryMB"]) == (2, 512)
    assert daemon.create(lifecycle=None, snapshotID=None, cpuCount=None, rules=[])["sandboxID"]
    refused = put(daemon, made["sandboxID"], {"dnsServers": ["192.0.2.1"]})
    assert refused.status == 400 and "dnsServers" in refused.json["message"]


def test_network_outlives_the_daemon():
    with Daemon("--allow-private-network") as daemon:
        sandbox = daemon.create(network={"allowOut": ["10.0.0.1"], "denyOut": ["0.0.0.0/0"]},
                                timeout=600)["sandboxID"]
        before = daemon.get(sandbox).json
        daemon.stop(9)
        (daemon.directory(sandbox) / "policy.json").unlink()
        daemon.start()
        assert policy(daemon, sandbox)["allowOut"] == ["10.0.0.1/32"]
        assert daemon.get(sandbox).json == before


def test_traffic_token(daemon):
    made = daemon.create(network={"allowPublicTraffic": False, "maskRequestHost": "x:${PORT}"})
    assert len(made["trafficAccessToken"]) >= 32
    assert made["trafficAccessToken"] != made["envdAccessToken"]
    network = daemon.get(made["sandboxID"]).json["network"]
    assert network["allowPublicTraffic"] is False and network["maskRequestHost"] == "x:${PORT}"
    assert daemon.create()["trafficAccessToken"] is None
    open_one = daemon.request("POST", "/sandboxes", {
        "templateID": "base", "secure": False, "network": {"allowPublicTraffic": False}})
    assert open_one.status == 400 and "secure" in open_one.json["message"]


# ---- templates
def test_templates(daemon):
    detail = daemon.request("GET", "/templates/base")
    assert detail.status == 200 and detail.json["templateID"] == "default"
    assert detail.json["builds"][0]["status"] == "ready"
    assert daemon.request("GET", "/templates/nope").status == 404
    assert daemon.request("GET", "/templates/aliases/base").json["templateID"] == "default"
    assert daemon.request("GET", "/templates/aliases/nope").status == 404
    assert daemon.request("DELETE", "/templates/nope").status == 404
    kept = daemon.request("DELETE", "/templates/default")
    assert kept.status == 403 and "cubby template rm" in kept.json["message"]
    assert daemon.request("GET", "/snapshots").json == []
    assert daemon.request("GET", "/teams").json[0]["isDefault"] is True


def test_names_of_templates(daemon):
    file = daemon.home / "templates" / "aliases.json"
    daemon.template("big")
    for name in ("base", "code-interpreter-v1", "code-interpreter-v1:latest"):
        assert daemon.create(templateID=name)["templateID"] == "default"
    try:
        file.write_text(json.dumps({"base": "big", "other": "big", "lost": "nope"}))
        assert daemon.create(templateID="base")["templateID"] == "big"
        made = daemon.create(templateID="other:default")
        assert made["templateID"] == "big"
        found = daemon.request("GET", "/v2/sandboxes?template=other").json
        assert made["sandboxID"] in [s["sandboxID"] for s in found] and len(found) == 2
        for name, what in [("lost", "'lost'"), ("lost", "build it with: cubby template build nope"), ("other:v7", "has no such tag"), ("nope", "'nope'")]:
            answer = daemon.request("POST", "/v2/sandboxes", {"templateID": name})
            assert answer.status == 404 and answer.json["code"] == 404
            assert what in answer.json["message"]
    finally:
        file.unlink()


def test_the_default_template_is_made_by_setup(daemon):
    """An installed package has no program that builds templates, but may have the ready one."""
    default = daemon.home / "templates" / "default"
    default.rename(daemon.home / "away")
    try:
        for name in ("default", "base"):
            answer = daemon.request("POST", "/v2/sandboxes", {"templateID": name})
            assert answer.status == 404 and "make it with: cubby setup" in answer.json["message"]
    finally:
        (daemon.home / "away").rename(default)


# ---- logs
def test_what_the_driver_notes(daemon):
    daemon.template("noted", note="the host's disk is full")
    made = daemon.create(templateID="noted")["sandboxID"]
    logs = daemon.request("GET", f"/v2/sandboxes/{made}/logs").json["logs"]
    assert ("warn", "the host's disk is full") in [(e["level"], e["message"]) for e in logs]
    daemon.kill(made)


def test_logs(daemon, sandbox):
    daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 500})
    (daemon.directory(sandbox) / "console.log").write_bytes(b"[ 1.0] booted\r\nodd \xff byte\n")
    old = daemon.request("GET", f"/sandboxes/{sandbox}/logs").json
    told = [json.loads(line["line"]) for line in old["logs"]]  # E2B's command line parses each
    assert all(set(line) == {"level", "logger", "message", "timestamp"} for line in told)
    assert {line["logger"] for line in told} == {"cubbyd", "console"}
    lines = [line["message"] for line in told]
    assert lines[0].startswith("created from template default")
    assert "the end time was set to 500 s from now" in lines and "[ 1.0] booted" in lines
    assert [e["message"] for e in old["logEntries"]] == lines
    times = [e["timestamp"] for e in old["logEntries"]]
    assert times == sorted(times, key=datetime.datetime.fromisoformat)

    def new(query):
        answer = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?{query}")
        assert answer.status == 200
        return [e["message"] for e in answer.json["logs"]]
    assert new("") == lines[::-1] and new("direction=forward") == lines
    assert new("direction=forward&limit=1") == lines[:1]
    assert new("search=booted") == ["[ 1.0] booted"]
    assert new("level=info") == [line for line in lines[::-1] if "end time" in line or "crea" in line]
    assert new("cursor=1000") == [] and new("cursor=1000&direction=forward") == lines
    assert daemon.request("GET", f"/sandboxes/{sandbox}/logs?start=99999999999999").status == 400
    for query in ("direction=up", "level=loud", "limit=x", "limit=1001", "cursor=-1"):
        assert daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?{query}").status == 400
    assert daemon.request("GET", f"/v2/sandboxes/{'x' * 20}/logs").status == 404


def test_a_guest_cannot_hide_its_console(daemon, sandbox):
    (daemon.directory(sandbox) / "console.log").write_bytes(b"one\n\0two\nthree\n")
    entries = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").json["logs"]
    assert {e["message"] for e in entries if e["fields"]["source"] == "console"} == {
        "one", " two", "three"}


def test_logs_are_bounded(daemon, sandbox):
    for _ in range(210):
        daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 500})
    (daemon.directory(sandbox) / "console.log").write_bytes(b"x" * 1000000 + b"\nlast\n")
    entries = daemon.request("GET", f"/sandboxes/{sandbox}/logs").json["logEntries"]
    assert len([e for e in entries if e["fields"]["source"] == "cubbyd"]) == 200
    console = [e["message"] for e in entries if e["fields"]["source"] == "console"]
    assert console[-1] == "last" and sum(map(len, console)) <= 65536


# ---- with the real envd
@pytest.fixture(scope="module")
def guests():
    with Guests() as d:
        yield d


@pytest.fixture
def guest(guests):
    made = guests.create(templateID="bare", timeout=600)
    yield made
    guests.kill(made["sandboxID"])


NINE = {"timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache",
        "diskUsed", "diskTotal"}
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are root's")


@root_only
def test_metrics(guests, guest):
    sandbox = guest["sandboxID"]
    first = guests.request("GET", f"/sandboxes/{sandbox}/metrics")
    assert first.status == 200 and len(first.json) == 1 and set(first.json[0]) == NINE
    one = first.json[0]
    assert 0 < one["memUsed"] < one["memTotal"]
    assert one["cpuCount"] == guests.get(sandbox).json["cpuCount"] == 3, "the sandbox's, not the host's, which the guest sees"
    more = wait_for(lambda: (found := guests.request("GET", f"/sandboxes/{sandbox}/metrics").json)
                    and len(found) > 1 and found, 30, "a second sample")
    assert more[0] == one
    unix = one["timestampUnix"]
    for query, count in [(f"start={unix + 1000}", 0), (f"end={unix - 1}", 0),
                         (f"start={unix}&end={unix}", 1)]:
        found = guests.request("GET", f"/sandboxes/{sandbox}/metrics?{query}").json
        assert (len(found) >= 1) is bool(count), query
    assert guests.request("GET", f"/sandboxes/{sandbox}/metrics?start=x").status == 400
    every = guests.request("GET", f"/sandboxes/metrics?sandbox_ids={sandbox}").json["sandboxes"]
    assert set(every) == {sandbox} and set(every[sandbox]) == NINE
    assert guests.request("GET", f"/sandboxes/{'x' * 20}/metrics").status == 404


@root_only
def test_metrics_are_no_use(guests):
    made = guests.create(templateID="bare", timeout=600, sliding=True)
    before = guests.get(made["sandboxID"]).json["endAt"]
    guests.request("GET", f"/sandboxes/{made['sandboxID']}/metrics")
    assert guests.get(made["sandboxID"]).json["endAt"] == before
    guests.kill(made["sandboxID"])


def start(guests, made, command):
    """Opens a command's stream and reads up to its start event; returns (socket, pid)."""
    message = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", command]}}).encode()
    s = stream(guests, made, "Start", message)
    data = b""
    while not (seen := [e["start"]["pid"] for e in events(data) if "start" in e]):
        data += s.recv(65536)
    return s, seen[0]


def stream(guests, made, method, message):
    s = guests.open(made["sandboxID"], ENVD, f"POST /process.Process/{method} HTTP/1.1",
                    f"X-Access-Token: {made['envdAccessToken']}\r\nConnection: close\r\n"
                    f"Authorization: Basic {base64.b64encode(b'root:').decode()}\r\n"
                    "Content-Type: application/connect+json\r\n"
                    f"Content-Length: {len(message) + 5}\r\n", timeout=60)
    s.sendall(b"\0" + len(message).to_bytes(4, "big") + message)
    return s


@root_only
def test_processes_survive_a_pause(guests, guest):
    sandbox = guest["sandboxID"]
    s, pid = start(guests, guest, "exec sleep 1000")
    assert guests.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    assert b"\r\n0\r\n" not in read_all(s)
    s.close()
    assert guests.request("POST", f"/v2/sandboxes/{sandbox}/connect", {}).status == 201
    listed = guests.through(sandbox, "POST", "/process.Process/List", b"{}",
                            headers={"Content-Type": "application/json"},
                            token=guest["envdAccessToken"]).json
    assert pid in [p["pid"] for p in listed["processes"]]
    again = stream(guests, guest, "Connect", json.dumps({"process": {"pid": pid}}).encode())
    data = b""
    while not (seen := [e["start"]["pid"] for e in events(data) if "start" in e]):
        data += again.recv(65536)
    assert seen == [pid]
    again.close()
