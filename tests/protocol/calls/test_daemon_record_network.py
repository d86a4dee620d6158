# SPDX-License-Identifier: Apache-2.0
"""The call log: which hosts a sandbox reached."""

from cubbyd import wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from network_files import contact, write
from records import record


def test_which_hosts_were_reached(daemon):
    """A line for each host that was reached since the last one. The end of a call writes them at once."""
    sandbox = daemon.create()["sandboxID"]
    write(daemon, sandbox, reached=[contact(1, b"a.example"), contact(2, port=53, proto=17, address="1.1.1.1")])
    lines = record(daemon, sandbox, "allowed")
    assert [(r.get("name"), r["address"], r["port"], r["protocol"], r["count"]) for r in lines] == [
        ("a.example", "93.184.216.34", 443, "tcp", 1), (None, "1.1.1.1", 53, "udp", 1)]
    assert len(record(daemon, sandbox, "allowed")) == 2, "once"
    write(daemon, sandbox, reached=[contact(3, b"a.example", count=2), contact(2, port=53, proto=17, address="1.1.1.1")], allowed=3)
    assert len(record(daemon, sandbox, "allowed")) == 2, "a reader alone makes no line soon after the last"
    daemon.through(sandbox, "POST", "/files?path=/x", b"")
    wait_for(lambda: len(record(daemon, sandbox, "allowed")) == 3, what="the line of the call")
    assert record(daemon, sandbox, "allowed")[-1]["count"] == 2
    assert not any(r.get("others") for r in record(daemon, sandbox, "allowed"))
    daemon.kill(sandbox)


def test_more_hosts_than_are_kept(daemon):
    sandbox = daemon.create()["sandboxID"]
    write(daemon, sandbox, reached=[contact(n, port=n) for n in range(9, 41)], allowed=40)
    lines = record(daemon, sandbox, "allowed")
    assert [r["port"] for r in lines] == list(range(9, 41))
    assert [r["port"] for r in lines if r.get("others")] == [40]
    daemon.kill(sandbox)


def test_names_of_hosts_are_hidden(daemon):
    """A guest could bring a secret into a name."""
    sandbox = daemon.create(envVars={"K": "planted-secret.example"})["sandboxID"]
    write(daemon, sandbox, reached=[contact(1, b"planted-secret.example")])
    line, = record(daemon, sandbox, "allowed")
    assert set(line["name"]) == {"*"}
    daemon.kill(sandbox)
