# SPDX-License-Identifier: Apache-2.0
"""cubbyd reports what the sandboxes use of the host, as JSON and as text for Prometheus."""

import http.client
import json
import re
import subprocess

import pytest

from cubbyd import Daemon, wait_for
from harness import BIN

HOST = {"memoryTotalBytes", "memoryAvailableBytes", "memoryReserveBytes", "memoryExpectedBytes",
        "memoryFreeBytes", "promisedBytes", "maxPromisedBytes", "sandboxes", "maxSandboxes", "running",
        "frozen", "hibernated", "pooled", "waiting", "refused", "cpuCount"}
ONE = {"sandboxID": str, "templateID": str, "state": str, "metadata": dict, "cpuCount": int,
       "memoryMB": int, "ageSeconds": float, "memoryBytes": int, "cpuSeconds": float,
       "diskBytes": int, "netInBytes": int, "netOutBytes": int}


@pytest.fixture
def daemon():
    with Daemon(env={"CUBBY_POOL": "off"}) as d:
        yield d


def stats(daemon, query=""):
    answer = daemon.request("GET", "/sandboxes/stats" + query)
    assert answer.status == 200, answer.body
    return answer.json


def test_nothing(daemon):
    got = stats(daemon)
    assert got["sandboxes"] == [] and set(got["host"]) == HOST
    host = got["host"]
    assert 0 < host["memoryAvailableBytes"] <= host["memoryTotalBytes"]
    assert host["memoryReserveBytes"] == host["memoryTotalBytes"] // 100 * 10
    assert host["sandboxes"] == host["promisedBytes"] == host["waiting"] == 0
    assert host["cpuCount"] >= 1 and host["maxSandboxes"] == 1000


def test_of_each(daemon):
    first = daemon.create(metadata={"a": "b"})["sandboxID"]
    second = daemon.create()["sandboxID"]
    got = stats(daemon)
    assert [s["sandboxID"] for s in got["sandboxes"]] == [first, second]
    for one in got["sandboxes"]:
        for member, kind in ONE.items():
            assert isinstance(one[member], kind), member
        assert one["state"] == "running" and "depth" not in one
        assert one["memoryBytes"] > 0 and one["ageSeconds"] >= 0
        assert one["cpuPercent"] is None or one["cpuPercent"] >= 0
    assert got["sandboxes"][0]["metadata"] == {"a": "b"}
    assert got["host"]["running"] == 2 and got["host"]["promisedBytes"] == 2 * 512 << 20
    # Two that are new may come to 64 MB each.
    assert 0 < got["host"]["memoryExpectedBytes"] <= 2 * 64 << 20


def test_of_one(daemon):
    first = daemon.create()["sandboxID"]
    daemon.create()
    assert [s["sandboxID"] for s in stats(daemon, f"?sandboxID={first}")["sandboxes"]] == [first]
    assert daemon.request("GET", "/sandboxes/stats?sandboxID=" + "a" * 20).status == 404


def test_a_processor_that_is_busy(daemon):
    """A load is reported after two samples."""
    made = daemon.create()["sandboxID"]
    stats(daemon)
    one = wait_for(lambda: next((s for s in stats(daemon)["sandboxes"] if s["cpuPercent"] is not None),
                                None), 30, "it was looked at twice")
    assert one["sandboxID"] == made and one["cpuPercent"] >= 0


def test_depths(daemon):
    made = daemon.create()["sandboxID"]
    assert daemon.request("POST", f"/sandboxes/{made}/pause", {}).status == 204
    got = stats(daemon)
    one = got["sandboxes"][0]
    assert (one["state"], one["depth"], one["cpuPercent"]) == ("paused", "freeze", 0)
    assert one["memoryBytes"] > 0 and got["host"]["frozen"] == 1
    assert daemon.request("POST", f"/sandboxes/{made}/pause", {"depth": "hibernate"}).status == 204
    got = stats(daemon)
    one = got["sandboxes"][0]
    assert (one["state"], one["depth"], one["memoryBytes"]) == ("paused", "hibernate", 0)
    assert got["host"]["hibernated"] == 1 and got["host"]["promisedBytes"] == 0


def test_prometheus(daemon):
    made = daemon.create()["sandboxID"]
    answer = daemon.request("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    values, kinds = {}, {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            kinds[name] = kind
        elif not line.startswith("#"):
            found = re.fullmatch(r'([a-z_]+)(?:\{sandbox="([a-z0-9]+)",template="default"\})? (\S+)', line)
            assert found, line
            values[found[1], found[2]] = float(found[3])
            assert found[1] in kinds, line
    assert values["cubby_host_memory_available_bytes", None] > 0
    assert values["cubby_sandboxes_running", None] == 1
    assert values["cubby_sandbox_memory_bytes", made] > 0
    assert kinds["cubby_sandbox_cpu_seconds_total"] == "counter"
    assert all(kind == "counter" for name, kind in kinds.items() if name.endswith("_total"))


def test_a_key_sees_its_own():
    with Daemon("--listen", "127.0.0.1:0", env={"CUBBY_POOL": "off"}) as daemon:
        key = subprocess.run([BIN / "cubby", "key", "new", "--plain", "me"], env=daemon.env, timeout=60,
                             capture_output=True, text=True, check=True).stdout.strip()
        url = (daemon.home / "cubbyd.url").read_text().strip().partition("//")[2]
        local = daemon.create()["sandboxID"]
        wanted = json.dumps({"templateID": "default"})

        def get(path, method="GET", body=None, **headers):
            connection = http.client.HTTPConnection(url, timeout=60)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, body
        wait_for(lambda: get("/teams", **{"X-API-KEY": key})[0] == 200, 30, "the key is known")
        for path in ("/sandboxes/stats", "/metrics"):
            assert get(path)[0] == 401
            status, body = get(path, **{"X-API-KEY": key})
            assert status == 200 and local.encode() not in body
        assert get(f"/sandboxes/stats?sandboxID={local}", **{"X-API-KEY": key})[0] == 404
        status, made = get("/v2/sandboxes", "POST", wanted, **{"X-API-KEY": key})
        assert status == 201, made
        # What the machine does for everybody is the unix socket's.
        mine = json.loads(get("/sandboxes/stats", **{"X-API-KEY": key})[1])
        assert mine["host"] == {} and [s["sandboxID"] for s in mine["sandboxes"]] == [json.loads(made)["sandboxID"]]
        text = get("/metrics", **{"X-API-KEY": key})[1].decode()
        assert json.loads(made)["sandboxID"] in text
        assert "cubby_sandboxes" not in text and "cubby_host" not in text
        status, refused = get("/pool", **{"X-API-KEY": key})
        assert status == 403 and "unix socket" in json.loads(refused)["message"]
        assert daemon.request("GET", "/pool").status == 200
        assert set(stats(daemon)["host"]) == HOST and stats(daemon)["host"]["sandboxes"] == 2


def test_many(daemon):
    """A sweep over many sandboxes is made in slices; all requests meanwhile are answered."""
    for _ in range(20):
        daemon.create()
    got = stats(daemon)["sandboxes"]
    assert len(got) == 20 and all(s["memoryBytes"] > 0 for s in got)
