# SPDX-License-Identifier: Apache-2.0
"""network.egressProxy of the API: what is accepted, shown, kept and changed. tests/e2e/test_secrets.py uses
a real proxy."""

import json
import signal

import pytest

from cubbyd import Daemon
from cubbyd_fixtures import *  # noqa: F401,F403
from egress_peer import Authority
from sdk import OnTcp, both_sdks, runs_to_its_end

PASSWORD = "proxy-password-0123456789"
PROXY = {"address": "proxy.example.com:1080", "username": "me", "password": PASSWORD}
SHOWN = {"address": "proxy.example.com:1080", "username": "me"}
RULES = {"api.example.com": [{"transform": {"headers": {"X": "y"}}}]}


class Tcp(OnTcp, Daemon):
    """A daemon that also listens on TCP."""


def put(daemon, sandbox, **body):
    return daemon.request("PUT", f"/sandboxes/{sandbox}/network", body)


def shown(daemon, sandbox):
    return daemon.get(sandbox).json["network"].get("egressProxy")


def egress_of(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "egress.json").read_text())


def test_a_sandbox_with_a_proxy(daemon):
    sandbox = daemon.create(network={"egressProxy": PROXY})["sandboxID"]
    assert shown(daemon, sandbox) == SHOWN
    for answer in (daemon.get(sandbox), daemon.request("GET", "/v2/sandboxes"),
                   daemon.request("GET", f"/sandboxes/{sandbox}/network"),
                   daemon.request("GET", f"/sandboxes/{sandbox}/record")):
        assert PASSWORD not in answer.body.decode()
    assert PASSWORD not in (daemon.directory(sandbox) / "init.json").read_text() and PASSWORD not in daemon.log.read_text()
    assert daemon.record(sandbox)["secrets"]["proxy"] == PROXY
    assert (daemon.directory(sandbox) / "sandbox.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("proxy, word", [
    ("proxy:1080", "object"), ({}, "address"), ({"address": "proxy"}, "address"), ({"address": ":1080"}, "address"),
    ({"address": "proxy:0"}, "address"), ({"address": "proxy:65536"}, "address"), ({"address": "a b:1"}, "address"),
    ({"address": "socks5://proxy:1080"}, "address"), ({"address": "::1:1080"}, "address"), ({"address": 1}, "address"),
    ({"address": "[proxy.example]:1080"}, "address"),
    ({"address": "proxy:1", "password": "x"}, "needs a username"), ({"address": "proxy:1", "username": ""}, "255"),
    ({"address": "proxy:1", "username": "x" * 256}, "255"), ({"address": "p:1", "username": "x", "password": "y" * 256}, "255"),
    ({"address": "proxy:1", "tls": {"enabled": 1}}, "enabled"), ({"address": "proxy:1", "tls": {"serverName": "x"}}, "enabled"),
    ({"address": "proxy:1", "tls": True}, "tls"), ({"address": "proxy:1", "tls": {"enabled": True, "name": "x"}}, "tls.name"),
    ({"address": "proxy:1", "tls": {"enabled": True, "serverName": "a b"}}, "serverName"),
    ({"address": "proxy:1", "tls": {"enabled": True, "caCert": "x"}}, "caCert"),
    ({"address": "proxy:1", "tls": {"enabled": True, "caCert": "-----BEGIN CERTIFICATE-----\nx"}}, "caCert"),
    ({"address": "proxy:1", "user": "x"}, "network.egressProxy.user"),
    ({"address": "127.0.0.1:1080"}, "not a public address"), ({"address": "10.1.2.3:1080"}, "not a public address"),
    ({"address": "[::1]:1080"}, "not a public address"), ({"address": "[fd00::1]:1080"}, "not a public address")])
def test_a_wrong_proxy_is_refused(daemon, proxy, word):
    sandbox = daemon.create()["sandboxID"]
    for answer in (daemon.request("POST", "/v2/sandboxes", {"templateID": "default", "network": {"egressProxy": proxy}}),
                   put(daemon, sandbox, egressProxy=proxy)):
        assert answer.status == 400 and word in answer.json["message"], answer.body
    assert shown(daemon, sandbox) is None


@pytest.mark.parametrize("proxy", [
    {"address": "9.9.9.9:65535"}, {"address": "[2620:fe::9]:1080"},
    {"address": "proxy.example:1080", "tls": {"enabled": False}}, {"address": "proxy.example:1080", "username": "x"}])
def test_forms_of_a_proxy(daemon, proxy):
    sandbox = daemon.create(network={"egressProxy": proxy})["sandboxID"]
    assert shown(daemon, sandbox)["address"] == proxy["address"]


def test_tls(daemon, tmp_path):
    tls = {"enabled": True, "serverName": "name.example", "caCert": Authority(tmp_path, "proxy").pem()}
    sandbox = daemon.create()["sandboxID"]
    assert put(daemon, sandbox, egressProxy={"address": "proxy.example:1", "tls": tls}).status == 204
    assert shown(daemon, sandbox) == {"address": "proxy.example:1", "tls": {"enabled": True, "serverName": "name.example"}}
    assert egress_of(daemon, sandbox)["proxy"]["tls"] == {"name": "name.example", "ca": tls["caCert"]}
    assert put(daemon, sandbox, egressProxy={"address": "proxy.example:1", "tls": {"enabled": True}}).status == 204
    assert egress_of(daemon, sandbox)["proxy"]["tls"] == {}


def test_a_private_proxy_is_the_operators_to_allow():
    with Daemon("--allow-private-network") as daemon:
        sandbox = daemon.create(network={"egressProxy": {"address": "127.0.0.1:1080"}})["sandboxID"]
        assert put(daemon, sandbox, egressProxy={"address": "[::1]:1080"}).status == 204
        assert egress_of(daemon, sandbox)["proxy"] == {"host": "::1", "port": 1080, "special": True}


def test_it_changes_while_the_sandbox_lives(daemon):
    """E2B's form clears it, Cubby's own keeps it; rules and proxy are independent."""
    sandbox = daemon.create()["sandboxID"]
    assert put(daemon, sandbox, egressProxy=PROXY).status == 204
    config = egress_of(daemon, sandbox)
    assert config["proxy"] == {"host": "proxy.example.com", "port": 1080, "username": "me", "password": PASSWORD,
                               "special": False}
    assert config["secrets"] == [] and config["rules"] == []
    assert put(daemon, sandbox, egressProxy=PROXY, rules=RULES).status == 204
    assert egress_of(daemon, sandbox)["rules"] and shown(daemon, sandbox) == SHOWN
    (daemon.directory(sandbox) / "egress.json").unlink()
    assert put(daemon, sandbox, mode="none").status == 204 and shown(daemon, sandbox) == SHOWN
    assert put(daemon, sandbox, egressProxy=PROXY, rules=RULES, denyOut=["1.2.3.4"]).status == 204
    assert not (daemon.directory(sandbox) / "egress.json").exists(), "neither is a change of the proxy"
    assert put(daemon, sandbox, egressProxy={"address": "other.example:1"}, rules=RULES).status == 204
    assert shown(daemon, sandbox) == {"address": "other.example:1"}
    assert put(daemon, sandbox, rules=RULES).status == 204 and shown(daemon, sandbox) is None
    assert "proxy" not in egress_of(daemon, sandbox)
    assert put(daemon, sandbox, egressProxy=None).status == 204 and egress_of(daemon, sandbox) is None


def test_it_outlives_hibernation_fork_and_the_daemon_and_not_a_snapshot():
    with Daemon() as daemon:
        sandbox = daemon.create(network={"egressProxy": PROXY})["sandboxID"]
        assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": "hibernate"}).status == 204
        assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}).status == 201
        child = daemon.request("POST", f"/sandboxes/{sandbox}/fork", {}).json[0]["sandbox"]["sandboxID"]
        snapshot = daemon.request("POST", f"/sandboxes/{sandbox}/snapshots", {}).json["snapshotID"]
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert shown(daemon, sandbox) == shown(daemon, child) == SHOWN
        assert shown(daemon, daemon.create(templateID=snapshot)["sandboxID"]) is None
        assert not any(PASSWORD.encode() in p.read_bytes() for p in (daemon.home / "snapshots").rglob("*") if p.is_file())


PYTHON_PROGRAM = """
from e2b import Sandbox
proxy = {"address": "proxy.example.com:1080", "username": "me", "password": "of-the-proxy-1234"}
sandbox = Sandbox.create("default", network={"egress_proxy": proxy})
assert sandbox.get_info().network["egress_proxy"] == {"address": "proxy.example.com:1080", "username": "me"}
sandbox.update_network({"egress_proxy": {"address": "other.example.com:1080", "tls": {"server_name": "x.example"}}})
assert sandbox.get_info().network["egress_proxy"] == {"address": "other.example.com:1080",
                                                      "tls": {"server_name": "x.example"}}
sandbox.update_network({"deny_out": ["1.2.3.4"]})
assert "egress_proxy" not in sandbox.get_info().network
assert sandbox.kill()
print("done")
"""

JS_PROGRAM = """
import { createRequire } from 'node:module'
import assert from 'node:assert/strict'
const { Sandbox } = createRequire(process.env.CLIENTS + '/')('e2b')
const egressProxy = { address: 'proxy.example.com:1080', username: 'me', password: 'of-the-proxy-1234' }
const sandbox = await Sandbox.create('default', { network: { egressProxy } })
const shown = async () => (await sandbox.getInfo()).network.egressProxy
assert.deepEqual(await shown(), { address: 'proxy.example.com:1080', username: 'me' })
await sandbox.updateNetwork({ egressProxy: { address: 'other.example.com:1080' } })
assert.deepEqual(await shown(), { address: 'other.example.com:1080' })
await sandbox.updateNetwork({ denyOut: ['1.2.3.4'] })
assert.equal(await shown(), undefined)
assert.equal(await sandbox.kill(), true)
console.log('done')
"""


@both_sdks(PYTHON_PROGRAM, JS_PROGRAM)
def test_sdks(words):
    with Tcp() as daemon:
        runs_to_its_end(words, daemon)
