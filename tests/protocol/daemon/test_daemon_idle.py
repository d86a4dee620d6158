# SPDX-License-Identifier: Apache-2.0
"""Idle sandboxes are put to sleep without a visible effect: what counts as use, what wakes a
sandbox, and how its time to live goes on.
"""

import concurrent.futures
import json
import signal

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import daemon, made, sandbox  # noqa: F401

SHORT = {"freeze": 1, "hibernate": 0}
DEEP = {"freeze": 1, "hibernate": 2}


@pytest.fixture(scope="module")
def shared():
    with Daemon("--freeze-after", "0", "--hibernate-after", "0") as d:
        yield d


def view(daemon, sandbox):
    return daemon.get(sandbox).json


def depth(daemon, sandbox):
    return view(daemon, sandbox).get("depth")


def asleep(daemon, sandbox, how="freeze"):
    wait_for(lambda: depth(daemon, sandbox) == how, 60, f"it sleeps: {how}")
    assert view(daemon, sandbox)["state"] == "running"
    assert daemon.record(sandbox)["asleep"] is True


def whoami(daemon, made):
    return daemon.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"])


def slept(daemon, sandbox):
    logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs?limit=1000").json["logs"]
    return sum("put to sleep" in entry["message"] for entry in logs)


def wait_looked(daemon, sandbox, why):
    """Waits until the daemon has looked at the sandbox and found it in use."""
    def found():
        return f"id={sandbox} used={why}" in daemon.log.read_text(errors="replace")
    wait_for(found, 60, f"it is found in use: {why}")


def test_any_request_wakes_it(daemon):
    made = daemon.create(idle=SHORT)
    sandbox = made["sandboxID"]
    asleep(daemon, sandbox)
    assert whoami(daemon, made).body == b"envd"
    assert depth(daemon, sandbox) is None and daemon.record(sandbox)["state"] == "running"
    asleep(daemon, sandbox)
    assert slept(daemon, sandbox) == 2


def test_unknown_usage_counts_as_use(daemon):
    """A driver that cannot read the usage of a machine does not make the daemon ask again and
    again: the next look is as far away as after a request."""
    made = daemon.create(idle={"freeze": 4, "hibernate": 0})
    sandbox = made["sandboxID"]
    (daemon.directory(sandbox) / "usage-fails").touch()

    def failures():
        return daemon.log.read_text(errors="replace").count(f"id={sandbox} error=")

    wait_for(failures, 60, "a look fails")
    for _ in range(50):  # the loop of the daemon turns for each
        daemon.request("GET", "/health")
    assert failures() <= 3


def test_changes_wake_it(daemon):
    sandbox = daemon.create(idle=SHORT, timeout=300)["sandboxID"]
    for method, what, body, status in (
            ("POST", "timeout", {"timeout": 200}, 204), ("POST", "refreshes", {}, 204),
            ("PUT", "network", {}, 204), ("POST", "connect", {"timeout": 300}, 200)):
        asleep(daemon, sandbox)
        answer = daemon.request(method, f"/sandboxes/{sandbox}/{what}", body)
        assert answer.status == status, answer.body
        assert daemon.record(sandbox)["asleep"] is False
    asleep(daemon, sandbox)
    assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    assert view(daemon, sandbox)["state"] == "paused"


def test_who_only_looks_is_no_use(daemon):
    made = daemon.create(idle=SHORT)
    sandbox = made["sandboxID"]
    asleep(daemon, sandbox)
    assert daemon.through(sandbox).status == 204  # /health
    assert daemon.request("GET", f"/sandboxes/{sandbox}/metrics").status == 200
    assert daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").status == 200
    listed = daemon.request("GET", "/v2/sandboxes?state=running").json
    assert sandbox in [s["sandboxID"] for s in listed]
    assert depth(daemon, sandbox) == "freeze"


def test_deeper_after_longer(daemon):
    made = daemon.create(idle=DEEP)
    sandbox = made["sandboxID"]
    asleep(daemon, sandbox, "hibernate")
    assert daemon.machines() == []
    assert daemon.through(sandbox).status == 204
    assert whoami(daemon, made).body == b"envd"
    assert depth(daemon, sandbox) is None


def test_only_deep(daemon):
    sandbox = daemon.create(idle={"freeze": 0, "hibernate": 1})["sandboxID"]
    asleep(daemon, sandbox, "hibernate")


def test_a_paused_one_goes_deeper(daemon):
    sandbox = daemon.create(idle={"hibernate": 1, "freeze": 0})["sandboxID"]
    assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    wait_for(lambda: depth(daemon, sandbox) == "hibernate", 60, "it hibernates")
    assert view(daemon, sandbox)["state"] == "paused"


def test_a_failure_is_tried_again_later(daemon):
    daemon.template("default", save="fail")
    try:
        made = daemon.create(idle={"freeze": 0, "hibernate": 1})
        sandbox = made["sandboxID"]
        logs = f"/v2/sandboxes/{sandbox}/logs"
        wait_for(lambda: any("next try in 30 s" in e["message"]
                             for e in daemon.request("GET", logs).json["logs"]), 60, "it has failed")
        assert depth(daemon, sandbox) == "freeze"
        assert whoami(daemon, made).body == b"envd"
    finally:
        daemon.template("default")


# ---- use
def test_an_open_request_is_use(daemon):
    made = daemon.create(idle=SHORT)
    sandbox = made["sandboxID"]
    with daemon.open(sandbox, 49983, "GET /hang HTTP/1.1",
                     f"X-Access-Token: {made['envdAccessToken']}\r\n"):
        wait_for(lambda: (daemon.directory(sandbox) / "hanging").exists(), 30, "it is there")
        other = daemon.create(idle=SHORT)["sandboxID"]  # made later
        asleep(daemon, other)
        assert depth(daemon, sandbox) is None and slept(daemon, sandbox) == 0
    asleep(daemon, sandbox)


def test_a_watch_is_none_and_goes_on(daemon):
    made = daemon.create(idle=DEEP)
    sandbox = made["sandboxID"]
    with daemon.open(sandbox, 49983, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                     f"X-Access-Token: {made['envdAccessToken']}\r\nContent-Length: 0\r\n") as watch:
        head = b""
        while b"armed" not in head:
            head += watch.recv(4096)
        asleep(daemon, sandbox)
        assert whoami(daemon, made).body == b"envd"  # the watch was not cut: it is still one of two
        asleep(daemon, sandbox)
        watch.setblocking(False)
        with pytest.raises(BlockingIOError):
            watch.recv(1)
        watch.setblocking(True)
    asleep(daemon, sandbox, "hibernate")


def test_what_runs_inside_is_use(daemon):
    made = daemon.create(idle=SHORT)
    sandbox = made["sandboxID"]
    running = daemon.directory(sandbox) / "processes"
    running.write_text(json.dumps([{"pid": 7}]))
    wait_looked(daemon, sandbox, "command")
    assert depth(daemon, sandbox) is None
    running.unlink()
    asleep(daemon, sandbox)


def test_a_busy_machine_is_used(daemon):
    made = daemon.create(idle=SHORT)
    sandbox = made["sandboxID"]
    answer = daemon.through(sandbox, "POST", "/spin", token=made["envdAccessToken"])
    assert answer.status == 204, answer.body
    wait_looked(daemon, sandbox, "machine")
    assert depth(daemon, sandbox) is None
    daemon.through(sandbox, "DELETE", "/spin", token=made["envdAccessToken"])
    asleep(daemon, sandbox)


# ---- its end
def test_its_end_comes(daemon):
    sandbox = daemon.create(idle=SHORT, timeout=4)["sandboxID"]
    asleep(daemon, sandbox)
    wait_for(lambda: daemon.get(sandbox).status == 404, 60, "it has ended")
    assert "expired" in daemon.get(sandbox).body.decode() or "created for 4 s" in daemon.get(sandbox).body.decode()


def test_its_pause_comes(daemon):
    made = daemon.create(idle=SHORT, timeout=4, autoPause=True)
    sandbox = made["sandboxID"]
    asleep(daemon, sandbox)
    wait_for(lambda: view(daemon, sandbox)["state"] == "paused", 60, "it is paused")
    assert daemon.record(sandbox)["asleep"] is False
    assert whoami(daemon, made).json["error_code"] == "sandbox_paused"


# ---- how it is asked for
@pytest.mark.parametrize("idle", [{"freeze": -1}, {"freeze": "soon"}, {"frezee": 1}, [1],
                                  {"hibernate": 10**12}])
def test_what_it_may_not_be(daemon, idle):
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default", "idle": idle})
    assert answer.status == 400 and "idle" in answer.json["message"]


def test_the_daemon_says_what_it_is():
    with Daemon("--freeze-after", "1", "--hibernate-after", "7") as daemon:
        made = daemon.create()
        assert view(daemon, made["sandboxID"])["idle"] == {"freeze": 1, "hibernate": 7}
        awake = daemon.create(idle={"freeze": 0, "hibernate": 0})["sandboxID"]
        asleep(daemon, made["sandboxID"])
        assert slept(daemon, awake) == 0
        # One that sleeps is found asleep, and its time goes on.
        daemon.stop(signal.SIGKILL)
        daemon.start()
        asleep(daemon, made["sandboxID"])
        assert whoami(daemon, made).body == b"envd"


def test_many_at_once_wake_it_once(daemon):
    made = daemon.create(idle={"freeze": 1, "hibernate": 1})
    for _ in range(2):
        asleep(daemon, made["sandboxID"], "hibernate")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: whoami(daemon, made).body, range(8)))
        assert answers == [b"envd"] * 8
