# SPDX-License-Identifier: Apache-2.0
"""A sandbox's network as its owner sees it: policies by mode, and netd's counts and refusals. The
test writes the file of the counters, because the daemon does not trust the process that writes it.
"""

import json
import os
import time

import pytest

from cubbyd import Daemon
from cubbyd_fixtures import *  # noqa: F401,F403
from network_files import MAGIC, contact, policy, refusal, write

def network(daemon, sandbox, since=None):
    query = "" if since is None else f"?since={since}"
    return daemon.request("GET", f"/sandboxes/{sandbox}/network{query}")


def put(daemon, sandbox, body):
    return daemon.request("PUT", f"/sandboxes/{sandbox}/network", body)


def test_modes_at_creation(daemon):
    made = daemon.create(network={"mode": "allow", "allow": ["example.com:443", "*.example.org", "9.0.0.0/8"],
                                  "deny": ["bad.example.org"], "limits": {"connections": 10}})
    assert policy(daemon, made["sandboxID"]) == {
        "internet": False, "special": False, "denyWins": True, "limits": {"connections": 10},
        "allowOut": ["example.com:443", "*.example.org", "9.0.0.0/8"], "denyOut": ["bad.example.org"]}
    told = network(daemon, made["sandboxID"]).json
    assert told["policy"] == {
        "mode": "allow", "allow": ["example.com:443", "*.example.org", "9.0.0.0/8"],
        "deny": ["bad.example.org"], "denyWins": True, "limits": {"connections": 10}}
    assert daemon.get(made["sandboxID"]).json["allowInternetAccess"] is False
    none = daemon.create(network={"mode": "none"})["sandboxID"]
    assert network(daemon, none).json["policy"]["mode"] == "none"
    assert network(daemon, daemon.create()["sandboxID"]).json["policy"] == {
        "mode": "public", "allow": [], "deny": [], "denyWins": False, "limits": {}}


def test_put_by_mode_and_by_lists(daemon, sandbox):
    assert put(daemon, sandbox, {"mode": "public", "deny": ["9.9.9.9", "tcp://8.8.0.0/16:25"]}).status == 204
    assert network(daemon, sandbox).json["policy"] == {
        "mode": "public", "allow": [], "deny": ["9.9.9.9/32", "tcp://8.8.0.0/16:25"], "denyWins": True,
        "limits": {}}
    assert put(daemon, sandbox, {"allowOut": ["a.example"], "denyOut": ["0.0.0.0/0"]}).status == 204
    assert network(daemon, sandbox).json["policy"] == {
        "mode": "allow", "allow": ["a.example"], "deny": [], "denyWins": False, "limits": {}}
    assert put(daemon, sandbox, {"mode": "none"}).status == 204
    assert network(daemon, sandbox).json["policy"]["mode"] == "none"


def test_an_empty_allow_list_opens_nothing(daemon, sandbox):
    """It is the mode none, and shown as such; the way back is a PUT with an entry or another mode."""
    closed = {"mode": "none", "allow": [], "deny": [], "denyWins": True, "limits": {}}
    for empty in ({"mode": "allow", "allow": []}, {"mode": "allow"}, {"mode": "allow", "allow": None}):
        assert put(daemon, sandbox, {"mode": "public"}).status == 204
        assert put(daemon, sandbox, empty).status == 204
        assert network(daemon, sandbox).json["policy"] == closed
        assert daemon.get(sandbox).json["allowInternetAccess"] is False
        made = daemon.create(network=empty)["sandboxID"]
        assert network(daemon, made).json["policy"] == closed
    assert put(daemon, sandbox, {"mode": "allow", "allow": ["a.example"]}).status == 204
    assert network(daemon, sandbox).json["policy"]["allow"] == ["a.example"]


def test_nothing_at_all_is_no_policy(daemon, sandbox):
    """A forgotten body must not open a closed network; the control is {}, by which E2B means an open one."""
    assert put(daemon, sandbox, {"mode": "none"}).status == 204
    for headers in ({}, {"Content-Type": "application/json"}):
        answer = daemon.request("PUT", f"/sandboxes/{sandbox}/network", None, headers)
        assert answer.status == 400 and "the body is missing" in answer.json["message"], answer.body
    assert network(daemon, sandbox).json["policy"]["mode"] == "none"
    assert put(daemon, sandbox, {}).status == 204
    assert network(daemon, sandbox).json["policy"]["mode"] == "public"


@pytest.mark.parametrize("body, what", [
    ({"mode": "open"}, "none, public or allow"), ({"mode": 1}, "mode must be a string"),
    ({"allow": ["1.1.1.1"]}, "need mode"), ({"deny": ["1.1.1.1"]}, "need mode"),
    ({"mode": "allow", "allowOut": ["1.1.1.1"]}, "mode and allowOut cannot be used together"),
    ({"mode": "public", "allow_internet_access": False}, "cannot be used together"),
    ({"mode": "allow", "allow": ["*.com"]}, "two labels"), ({"mode": "allow", "allow": ["*"]}, "two labels"),
    ({"allowOut": ["*.com"], "denyOut": ["0.0.0.0/0"]}, "two labels"),
    ({"mode": "allow", "allow": ["a.example:99999"]}, "a.example:99999"),
    ({"mode": "public", "deny": ["a.example"]}, "cannot be denied"),
    ({"mode": "allow", "allow": ["10.0.0.1:80"]}, "10.0.0.1:80"),
    ({"mode": "public", "limits": {"connections": 513}}, "from 1 to 512"),
    ({"mode": "public", "limits": {"x": 1}}, "limits has no"), ({"limits": []}, "limits must be"),
    ({"Mode": "none"}, "mode")])
def test_what_is_refused(daemon, sandbox, body, what):
    before = policy(daemon, sandbox)
    answer = put(daemon, sandbox, body)
    assert answer.status == 400 and what in answer.json["message"], answer.json
    assert policy(daemon, sandbox) == before
    fields = {k: v for k, v in body.items() if k != "allow_internet_access"}
    outer = {k: v for k, v in body.items() if k == "allow_internet_access"}
    assert daemon.request("POST", "/v2/sandboxes", {"templateID": "base", "network": fields, **outer}).status == 400


def test_every_name_by_e2bs_lists(daemon):
    made = daemon.create(network={"allowOut": ["*"], "denyOut": ["0.0.0.0/0"]})
    assert policy(daemon, made["sandboxID"])["allowOut"] == ["*"]


def test_policies_of_older_daemons_are_read():
    """Without fields that came later, and with a name that is no longer accepted."""
    with Daemon() as daemon:
        sandbox = daemon.create(timeout=600)["sandboxID"]
        daemon.stop(9)
        path = daemon.directory(sandbox) / "sandbox.json"
        record = json.loads(path.read_text())
        record["policy"] = {"internet": True, "special": False, "allowOut": ["*.com"], "denyOut": ["0.0.0.0/0"]}
        path.write_text(json.dumps(record))
        daemon.start()
        assert policy(daemon, sandbox)["allowOut"] == ["*.com"]
        assert network(daemon, sandbox).json["policy"]["mode"] == "allow"


def test_counters_and_refusals(daemon, sandbox):
    told = network(daemon, sandbox).json
    assert told["counters"] is None and told["sequence"] == 0 and told["refusals"] == []
    write(daemon, sandbox, [refusal(3, count=2), refusal(2, b"a name that is not allowed", "0.0.0.0", 53, 17, b"x.example")],
          [(2, b"private"), (1, b"a name that is not allowed")], refused=3)
    told = network(daemon, sandbox).json
    assert told["counters"] == {
        "receivedBytes": 100, "receivedPackets": 2, "sentBytes": 200, "sentPackets": 4, "allowed": 0, "refused": 3,
        "refusedByReason": {"private": 2, "a name that is not allowed": 1}}
    first, second = told["refusals"]
    assert {k: first[k] for k in first if k != "timestamp"} == {
        "sequence": 3, "count": 2, "protocol": "tcp", "address": "10.0.0.1", "port": 5432, "name": "",
        "reason": "private"}
    assert (second["name"], second["address"], second["protocol"]) == ("x.example", "", "udp")
    assert [r["sequence"] for r in network(daemon, sandbox, 2).json["refusals"]] == [3]
    assert network(daemon, sandbox, 3).json["refusals"] == []
    assert network(daemon, sandbox, "x").status == 400 and network(daemon, sandbox, -1).status == 400


def test_refusals_stand_in_the_log_once(daemon, sandbox):
    def lines():
        logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?search=refused").json["logs"]
        return sorted(line["message"] for line in logs if line["message"].startswith("network:"))

    write(daemon, sandbox, [refusal(1)])
    assert lines() == ["network: refused tcp to 10.0.0.1 port 5432: private (1)"]
    assert len(lines()) == 1, "asking again adds none"
    write(daemon, sandbox, [refusal(1), refusal(2, b"not an allowed name", name=b"evil.example", port=443)])
    assert len(lines()) == 2 and "10.0.0.1 evil.example port 443: not an allowed name" in lines()[0]


def test_the_log_says_no_more_than_is_known(daemon, sandbox):
    write(daemon, sandbox, [refusal(4, b"unknown ethertype", "0.0.0.0", 0, 0), refusal(3, b"IPv4 options", "8.8.8.8", 0, 47),
                            refusal(2, b"ICMP to an address other than the gateway", "8.8.8.8", 0, 1),
                            refusal(1, b"a name that is not allowed", "0.0.0.0", 53, 17, b"x.example")])
    logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?search=refused").json["logs"]
    assert sorted(line["message"] for line in logs if line["message"].startswith("network:")) == [
        "network: refused a frame: unknown ethertype (1)",
        "network: refused icmp to 8.8.8.8: ICMP to an address other than the gateway (1)",
        "network: refused other to 8.8.8.8: IPv4 options (1)",
        "network: refused udp to x.example port 53: a name that is not allowed (1)"]


def test_reached_hosts(daemon, sandbox):
    assert network(daemon, sandbox).json["allowed"] == []
    write(daemon, sandbox, reached=[contact(1, b"a.example"), contact(3, address="1.1.1.1", port=53, proto=17, count=2)],
          allowed=3)
    told = network(daemon, sandbox).json
    assert told["counters"]["allowed"] == 3 and told["refusals"] == [] and told["sequence"] == 0
    assert [{k: one[k] for k in one if k != "timestamp"} for one in told["allowed"]] == [
        {"sequence": 3, "count": 2, "protocol": "udp", "address": "1.1.1.1", "port": 53, "name": ""},
        {"sequence": 1, "count": 1, "protocol": "tcp", "address": "93.184.216.34", "port": 443, "name": "a.example"}]
    write(daemon, sandbox, [refusal(1)], reached=None)
    told = network(daemon, sandbox).json
    assert told["allowed"] == [] and told["sequence"] == 1, "an older netd, which a newer daemon adopted"


def test_reached_hosts_are_not_believed(daemon, sandbox):
    big = (1 << 64) - 1
    write(daemon, sandbox, reached=[contact(big), contact(9), contact(2, b"\x1b]0;y\x07\xff" + b"n" * 252, count=big, at=-1)],
          allowed=3)
    told = network(daemon, sandbox).json
    one, = told["allowed"]
    assert one["sequence"] == 2 and one["name"].startswith("?]0;y??n") and one["timestamp"].startswith("20")
    assert one["count"] == (1 << 63) - 1 and told["counters"]["allowed"] == 3


def test_what_was_refused_for_the_sake_of_secrets(daemon, sandbox):
    """cubby-egress has a statistics file of its own; its refusals stand beside netd's, and in the log."""
    now = time.time_ns()
    mine = refusal(2, b"secret KEY: not for this host", "9.9.9.9", 443, 6, b"evil.example", count=2, at=now - 10)
    write(daemon, sandbox, [mine], [(2, b"secret KEY: not for this host")], refused=2, counters=(0,) * 4,
          name="egress.stats")
    told = network(daemon, sandbox).json
    assert [r["name"] for r in told["refusals"]] == ["evil.example"] and told["sequence"] == 2, "alone"
    write(daemon, sandbox, [refusal(1, at=now - 20), refusal(2, port=1, at=now)], [(2, b"private")])
    told = network(daemon, sandbox).json
    assert told["counters"] == {
        "receivedBytes": 100, "receivedPackets": 2, "sentBytes": 200, "sentPackets": 4, "allowed": 0, "refused": 4,
        "refusedByReason": {"private": 2, "secret KEY: not for this host": 2}}
    assert [(r["sequence"], r["reason"], r["count"]) for r in told["refusals"]] == [
        (4, "private", 1), (3, "secret KEY: not for this host", 2), (2, "private", 1)]
    assert [r["port"] for r in network(daemon, sandbox, 3).json["refusals"]] == [1]

    def lines():
        logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?search=refused").json["logs"]
        return [line["message"] for line in logs if line["message"].startswith("network:")]

    for _ in range(2):
        assert sorted(lines()) == [
            "network: refused tcp to 10.0.0.1 port 1: private (1)",
            "network: refused tcp to 10.0.0.1 port 5432: private (1)",
            "network: refused tcp to 9.9.9.9 evil.example port 443: secret KEY: not for this host (2)"]
    write(daemon, sandbox, [mine, refusal(3, b"\x1b[2J\n\xff", name=b"\x1b]0;y\x07")], [(3, b"\x1b\n")], refused=3,
          name="egress.stats")
    assert "\x1b" not in json.dumps(network(daemon, sandbox).json, ensure_ascii=False) and "\x1b" not in "".join(lines())
    assert len(lines()) == 4
    os.truncate(daemon.directory(sandbox) / "egress.stats", 10)
    assert network(daemon, sandbox).json["sequence"] == 2, "what cannot be read is nothing"


def test_figures_of_the_network(daemon, sandbox):
    write(daemon, sandbox, counters=(123456, 2, 654321, 4))
    one = daemon.request("GET", f"/sandboxes/stats?sandboxID={sandbox}").json["sandboxes"][0]
    assert (one["netInBytes"], one["netOutBytes"]) == (123456, 654321)


@pytest.mark.parametrize("spoil", ["magic", "short", "empty", "fifo", "link", "numbers", "text", "order"])
def test_what_netd_writes_is_not_believed(daemon, sandbox, spoil):
    """A netd that its guest has taken over writes the file: the daemon does not end, does not wait,
    and does not show its bytes."""
    path = daemon.directory(sandbox) / "net.stats"
    write(daemon, sandbox, [refusal(1)], [(1, b"private")])
    assert network(daemon, sandbox).json["sequence"] == 1, "the control"
    if spoil == "magic":
        write(daemon, sandbox, magic=1)
    elif spoil in ("short", "empty"):
        os.truncate(path, 100 if spoil == "short" else 0)
    elif spoil == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif spoil == "link":
        path.unlink()
        path.symlink_to("/dev/zero")
    elif spoil == "numbers":
        big = (1 << 64) - 1
        write(daemon, sandbox, [refusal(big, count=big, at=-1), refusal(5, at=(1 << 63) - 1)], [(big, b"x")], refused=big,
              counters=(big,) * 4)
    elif spoil == "text":
        write(daemon, sandbox, [refusal(1, b"\x1b[2Jevil\n\xff" + b"x" * 37, name=b"\x1b]0;y\x07" + b"n" * 250)],
              [(1, b"\x1b\n\xff" + b"y" * 45)])
    elif spoil == "order":
        write(daemon, sandbox, [refusal(9), refusal(1), refusal(7), refusal(8)], refused=8)
    answer = network(daemon, sandbox)
    assert answer.status == 200
    told = answer.json
    if spoil in ("magic", "short", "empty", "fifo", "link"):
        assert told["counters"] is None and told["refusals"] == []
    elif spoil == "numbers":
        most = (1 << 63) - 1
        assert told["counters"]["receivedBytes"] == most and told["sequence"] == most
        assert [r["sequence"] for r in told["refusals"]] == [5] and told["refusals"][0]["timestamp"].startswith("20")
    elif spoil == "text":
        assert told["refusals"][0]["reason"].startswith("?[2Jevil??x") and len(told["refusals"][0]["reason"]) == 47
        assert told["refusals"][0]["name"].startswith("?]0;y?n")
        assert list(told["counters"]["refusedByReason"])[0].startswith("???yyy")
    else:
        assert [r["sequence"] for r in told["refusals"]] == [8, 7, 1], "what cannot be is left out"
    logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").json["logs"]
    assert all("\x1b" not in line["message"] for line in logs)
