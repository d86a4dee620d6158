# SPDX-License-Identifier: Apache-2.0
"""The call log: which hosts a sandbox reached."""

import signal
import time

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from network_files import contact, refusal, write
from records import record


def call(daemon, made):
    daemon.through(made["sandboxID"], path="/files?path=/x", token=made["envdAccessToken"])


def test_which_hosts_were_reached(daemon):
    """A line for each host that was reached since the last one. The end of a call writes them at once."""
    made = daemon.create()
    sandbox = made["sandboxID"]
    write(daemon, sandbox, reached=[contact(1, b"a.example"), contact(2, port=53, proto=17, address="1.1.1.1")])
    lines = record(daemon, sandbox, "allowed")
    assert [(r.get("name"), r["address"], r["port"], r["protocol"], r["count"]) for r in lines] == [
        ("a.example", "93.184.216.34", 443, "tcp", 1), (None, "1.1.1.1", 53, "udp", 1)]
    assert len(record(daemon, sandbox, "allowed")) == 2, "once"
    write(daemon, sandbox, reached=[contact(3, b"a.example", count=2), contact(2, port=53, proto=17, address="1.1.1.1")], allowed=3)
    call(daemon, made)
    wait_for(lambda: len(record(daemon, sandbox, "allowed")) == 3, what="the line of the call")
    assert record(daemon, sandbox, "allowed")[-1]["count"] == 2
    assert not any(r.get("others") for r in record(daemon, sandbox, "allowed"))
    daemon.kill(sandbox)


def test_more_hosts_than_are_kept(daemon):
    sandbox = daemon.create()["sandboxID"]
    write(daemon, sandbox, reached=[contact(n, port=n) for n in range(9, 41)], allowed=40)
    lines = record(daemon, sandbox, "allowed")
    assert [r["port"] for r in lines] == list(range(9, 41))
    assert [(r["port"], r["connections"]) for r in lines if r.get("others")] == [(40, 40)]
    daemon.kill(sandbox)


def test_one_that_was_being_written_comes_later(daemon):
    """A reader does not see the element that netd writes, but its number."""
    made = daemon.create()
    sandbox = made["sandboxID"]
    write(daemon, sandbox, [refusal(1)], refused=2, reached=[contact(1)], allowed=2)
    assert len(record(daemon, sandbox, "allowed", "refused")) == 2
    write(daemon, sandbox, [refusal(1), refusal(2, port=2)], reached=[contact(1), contact(2, port=2)])
    call(daemon, made)
    wait_for(lambda: {(r["kind"], r["port"]) for r in record(daemon, sandbox, "allowed", "refused")} == {
        ("allowed", 443), ("refused", 5432), ("allowed", 2), ("refused", 2)}, what="both lines")
    daemon.kill(sandbox)


def test_hosts_do_not_push_out_the_record(daemon):
    """Their lines are limited. Connections beyond are counted, and the end of the sandbox names the last ones."""
    made = daemon.create()
    sandbox = made["sandboxID"]
    began = time.monotonic()
    for i in range(1, 13):
        write(daemon, sandbox, reached=[contact(i * 32 - n, port=n + 1) for n in range(32)], allowed=i * 32)
        call(daemon, made)
    lines = record(daemon, sandbox, "allowed")
    assert len(lines) <= 256 + (time.monotonic() - began) / 7.5
    write(daemon, sandbox, reached=[contact(400, b"last.example")], allowed=400)
    daemon.kill(sandbox)
    wait_for(lambda: record(daemon, sandbox, "allowed")[-1].get("name") == "last.example", what="the last one")


def test_refusals_do_not_push_out_the_record(daemon):
    """Lines of a guest that floods are limited. What has none is counted in the next line, at the latest in the last one."""
    made = daemon.create()
    sandbox = made["sandboxID"]
    began = time.monotonic()
    for i in range(1, 41):
        write(daemon, sandbox, [refusal(i * 100 - n, port=n + 1) for n in range(16)], refused=i * 100)
        lines = record(daemon, sandbox, "refused")
    assert len(lines) <= 256 + (time.monotonic() - began) / 7.5
    assert [r["connections"] for r in lines if r.get("others")] == [100] * (len(lines) // 16)
    write(daemon, sandbox, [refusal(5000, name=b"last.example"), *(refusal(5000 - n, port=n) for n in range(1, 16))], refused=5000)
    told = sum(r["connections"] for r in lines if r.get("others"))
    daemon.kill(sandbox)
    wait_for(lambda: record(daemon, sandbox, "refused")[-1].get("name") == "last.example", what="the last one")
    last = record(daemon, sandbox, "refused")[-1]
    assert (last["others"], last["connections"]) == (True, 5000 - told)


def hibernate(daemon, sandbox):
    for depth in ("freeze", "hibernate"):
        assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": depth}).status in (200, 204)


def roll_back(daemon, sandbox, snapshot):
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/rollback", {"snapshotID": snapshot})
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("how", ["wake", "rollback"])
def test_another_machine_counts_anew(daemon, how):
    """Hosts that work in the background reached are noted before the machine goes. The next one begins at 1."""
    made = daemon.create()
    sandbox = made["sandboxID"]
    snapshot = daemon.request("POST", f"/sandboxes/{sandbox}/snapshots", {}).json["snapshotID"]
    write(daemon, sandbox, reached=[contact(1, b"first.example")])
    assert [r["name"] for r in record(daemon, sandbox, "allowed")] == ["first.example"]
    write(daemon, sandbox, [refusal(1)], reached=[contact(1, b"first.example"), contact(2, b"pypi.example")])
    if how == "wake":
        hibernate(daemon, sandbox)
        assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}).status in (200, 201)
    else:
        roll_back(daemon, sandbox, snapshot)
    write(daemon, sandbox, [refusal(1, port=1)], reached=[contact(1, b"evil.example"), contact(2, b"more.example")])
    call(daemon, made)
    wait_for(lambda: len(record(daemon, sandbox, "allowed")) == 4, what="the lines of the call")
    assert [r["name"] for r in record(daemon, sandbox, "allowed")] == [
        "first.example", "pypi.example", "evil.example", "more.example"]
    assert [r["port"] for r in record(daemon, sandbox, "refused")] == [5432, 1]
    daemon.kill(sandbox)


def test_a_rollback_that_fails(daemon):
    """The machine from before goes on, and so does its count."""
    made = daemon.create()
    sandbox = made["sandboxID"]
    snapshot = daemon.request("POST", f"/sandboxes/{sandbox}/snapshots", {}).json["snapshotID"]
    write(daemon, sandbox, reached=[contact(1, b"first.example")])
    daemon.template("default", init="refuse")
    try:
        answer = daemon.request("POST", f"/sandboxes/{sandbox}/rollback", {"snapshotID": snapshot})
        assert answer.status >= 500, answer.body
    finally:
        daemon.template("default")
    write(daemon, sandbox, reached=[contact(1, b"first.example"), contact(2, b"second.example")])
    call(daemon, made)
    wait_for(lambda: len(record(daemon, sandbox, "allowed")) >= 2, what="the line of the call")
    assert [r["name"] for r in record(daemon, sandbox, "allowed")] == ["first.example", "second.example"]
    daemon.kill(sandbox)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGKILL])
def test_a_restarted_daemon_knows_what_was_noted(number):
    with Daemon() as daemon:
        sandbox = daemon.create()["sandboxID"]
        reached = [contact(n, port=n) for n in range(9, 41)]
        write(daemon, sandbox, [refusal(1)], reached=reached, allowed=40)
        assert len(record(daemon, sandbox, "allowed")) == 32
        if number == signal.SIGUSR1:  # the daemon notes the last ones itself
            reached[0] = contact(41, port=41)
            write(daemon, sandbox, [refusal(1)], reached=reached, allowed=41)
        daemon.stop(number)
        daemon.start()
        ports = list(range(9, 42 if number == signal.SIGUSR1 else 41))
        assert [r["port"] for r in record(daemon, sandbox, "allowed")] == ports
        assert len(record(daemon, sandbox, "refused")) == 1
        reached[1] = contact(42, port=42)
        write(daemon, sandbox, [refusal(1), refusal(2)], reached=reached, allowed=42)
        assert [r["port"] for r in record(daemon, sandbox, "allowed")] == ports + [42]
        assert [bool(r.get("others")) for r in record(daemon, sandbox, "allowed")].count(True) == 1
        assert len(record(daemon, sandbox, "refused")) == 2
        daemon.kill(sandbox)


def test_names_of_hosts_are_hidden(daemon):
    """A guest could bring a secret into a name."""
    sandbox = daemon.create(envVars={"K": "planted-secret.example"})["sandboxID"]
    write(daemon, sandbox, reached=[contact(1, b"planted-secret.example")])
    line, = record(daemon, sandbox, "allowed")
    assert set(line["name"]) == {"*"}
    daemon.kill(sandbox)
