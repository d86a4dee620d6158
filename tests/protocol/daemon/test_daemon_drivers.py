# SPDX-License-Identifier: Apache-2.0
"""Several drivers in one daemon: the template picks one, and the API promises only what it can do."""

import json
import signal

import pytest

from cubbyd import BIN, Daemon, wait_for

# Requests that the driver "plain" cannot serve, and what the error says that it cannot do.
CANNOT = [
    ("POST", "pause", {}, "pause a sandbox"),
    ("POST", "pause", {"depth": "hibernate"}, "pause a sandbox"),
    ("POST", "snapshots", {}, "save a sandbox's state"),
    ("POST", "fork", {}, "save a sandbox's state"),
    ("PUT", "network", {"mode": "none"}, "change the network policy of a running sandbox"),
]


class Both(Daemon):
    def templates(self):
        self.template("default")
        self.template("plain", driver="plain")


@pytest.fixture(scope="module")
def both():
    with Both() as daemon:
        yield daemon


@pytest.fixture
def plain(both):
    sandbox = both.create(templateID="plain")["sandboxID"]
    yield sandbox
    both.kill(sandbox)


def post(daemon, sandbox, what):
    return daemon.request("POST", f"/sandboxes/{sandbox}/{what}", {})


def assert_cannot(answer, what):
    assert answer.status == 501, answer.body
    assert answer.json["message"] == f"driver 'plain' cannot {what}"


@pytest.mark.parametrize("method, path, body, what", CANNOT)
def test_a_driver_that_cannot(both, plain, method, path, body, what):
    assert_cannot(both.request(method, f"/sandboxes/{plain}/{path}", body), what)
    assert both.get(plain).json["state"] == "running"
    assert both.through(plain).status in (200, 204)


@pytest.mark.parametrize("fields, what", [
    ({"autoPause": True}, "pause a sandbox"),
    ({"cpuCount": 1}, "give a sandbox another size than its template's"),
])
def test_nothing_is_promised_for_it_at_a_create(both, fields, what):
    assert_cannot(both.request("POST", "/v2/sandboxes", {"templateID": "plain", **fields}), what)


def test_its_idle_sandboxes_do_not_sleep(both, plain):
    assert both.get(plain).json["idle"] == {"freeze": 0, "hibernate": 0}
    sleeper = both.create()["sandboxID"]
    assert both.get(sleeper).json["idle"]["freeze"] > 0
    both.kill(sleeper)


def test_it_is_not_pooled():
    with Both("--pool", "plain=1:1") as daemon:
        wait_for(lambda: daemon.request("GET", "/pool").json["templates"][0]["error"], 30, "the pool says why")
        (shelf,) = daemon.request("GET", "/pool").json["templates"]
        assert shelf["error"] == "driver 'plain' cannot pause a sandbox"


def test_each_is_adopted_by_its_own_driver():
    with Both() as daemon:
        one = daemon.create()["sandboxID"]
        other = daemon.create(templateID="plain")["sandboxID"]
        daemon.stop(signal.SIGKILL)
        assert [daemon.record(s)["facts"]["driver"] for s in (one, other)] == ["process", "plain"]
        daemon.start()
        assert post(daemon, one, "pause").status == 204
        assert_cannot(post(daemon, other, "pause"), "pause a sandbox")


def test_a_template_of_an_unknown_driver(both):
    both.template("strange", driver="none such")
    answer = both.request("POST", "/v2/sandboxes", {"templateID": "strange"})
    assert answer.status == 400
    assert "this cubbyd has no driver 'none such', which" in answer.json["message"]


def test_a_rollback_stays_with_its_driver():
    """A template can be of several drivers at different times, but a machine cannot change its driver."""
    with Both() as daemon:
        sandbox = daemon.create()["sandboxID"]
        snapshot = post(daemon, sandbox, "snapshots").json["snapshotID"]
        daemon.stop(signal.SIGKILL)
        path = daemon.home / "snapshots" / snapshot / "snapshot.json"
        text = json.loads(path.read_text())
        text["facts"]["driver"] = "plain"
        path.write_text(json.dumps(text))
        daemon.start()
        machine = daemon.machine(sandbox)
        answer = daemon.request("POST", f"/sandboxes/{sandbox}/rollback", {"snapshotID": snapshot})
        assert answer.status == 400, answer.body
        assert answer.json["message"] == (
            f"snapshot '{snapshot}' was made with driver 'plain', and sandbox '{sandbox}' runs with "
            "'process'; create a sandbox from it instead")
        assert daemon.machine(sandbox) == machine and daemon.get(sandbox).json["state"] == "running"


def test_a_sandbox_of_an_unknown_driver_is_lost():
    with Both() as daemon:
        sandbox = daemon.create()["sandboxID"]
        daemon.stop(signal.SIGKILL)
        record = daemon.record(sandbox)
        record["facts"]["driver"] = "none such"
        (daemon.directory(sandbox) / "sandbox.json").write_text(json.dumps(record))
        daemon.start()
        assert daemon.get(sandbox).status in (404, 410)
        assert not daemon.machines()
        assert "this cubbyd has no driver 'none such'" in daemon.log.read_text()


def test_the_shipped_daemon_has_no_driver_of_the_tests():
    daemon = Daemon(program=BIN / "cubbyd")
    with daemon:
        answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
        assert answer.status == 400
        assert "this cubbyd has no driver 'process', which" in answer.json["message"]
