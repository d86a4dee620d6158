# SPDX-License-Identifier: Apache-2.0
"""Metrics of a team, as E2B's API has them, from the event log."""

import datetime
import json
import time

import pytest

from cubbyd import Daemon
from cubbyd_fixtures import *  # noqa: F401,F403
from tenants import Tenants


def get(daemon, query="", team="cubby"):
    answer = daemon.request("GET", f"/teams/{team}/metrics{query}")
    assert answer.status == 200, answer.body
    return answer.json


def write_log(daemon, events):
    """Write the log of a stopped daemon: (seconds since 1970, sandbox, word) of each event."""
    lines = [json.dumps({"type": f"sandbox.lifecycle.{word}", "sandboxId": sandbox, "timestamp": datetime.datetime.
                         fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")})
             for at, sandbox, word in events]
    (daemon.home / "events.jsonl").write_text("\n" + "\n".join(lines))


def test_what_runs_now(daemon):
    made = [daemon.create()["sandboxID"] for _ in range(3)]
    daemon.request("POST", f"/sandboxes/{made[0]}/pause")
    daemon.kill(made[1])
    told = get(daemon)
    assert set(told[-1]) == {"timestamp", "timestampUnix", "concurrentSandboxes", "sandboxStartRate"}
    assert [one["timestampUnix"] for one in told] == sorted(one["timestampUnix"] for one in told)
    assert max(one["concurrentSandboxes"] for one in told) == 3
    step = told[1]["timestampUnix"] - told[0]["timestampUnix"]
    assert round(sum(one["sandboxStartRate"] for one in told) * step) == 3
    highest = daemon.request("GET", "/teams/cubby/metrics/max?metric=concurrent_sandboxes").json
    assert highest["value"] == 3 and highest["timestampUnix"] in [one["timestampUnix"] for one in told]
    rate = daemon.request("GET", "/teams/cubby/metrics/max?metric=sandbox_start_rate").json
    assert rate["value"] == max(one["sandboxStartRate"] for one in told)
    for sandbox in (made[0], made[2]):
        daemon.kill(sandbox)


def test_counts_of_the_past():
    """The log begins in the middle: "old" ran already, "slept" was paused."""
    now = int(time.time())
    at = now - 3000
    with Daemon() as daemon:
        daemon.stop()
        write_log(daemon, [(at, "a", "created"), (at, "b", "created"), (at + 600, "old", "killed"),
                           (at + 1200, "slept", "resumed"), (at + 1200, "a", "updated"), (at + 1800, "b", "paused"),
                           (at + 1860, "b", "killed"), (at + 2400, "slept", "killed"), (at + 2400, "a", "killed")])
        daemon.start()
        told = {one["timestampUnix"]: one for one in get(daemon, f"?start={at - 60}&end={now}")}
        assert len(told) <= 101

        def running(when):
            return told[max(t for t in told if t <= when)]["concurrentSandboxes"]

        assert [running(at + s) for s in (-30, 300, 900, 1500, 2100, 2700)] == [1, 3, 2, 3, 2, 0]
        part = get(daemon, f"?start={at + 700}&end={at + 730}")
        assert [one["concurrentSandboxes"] for one in part] == [2, 2, 2]
        assert [one["timestampUnix"] for one in part] == [at + 700, at + 715, at + 730]
        assert part[0]["sandboxStartRate"] == 0


@pytest.mark.parametrize("query, word", [("?start=x", "start"), ("?end=-1", "end"), ("?start=9&end=8", "after")])
def test_a_wrong_span_is_refused(daemon, query, word):
    answer = daemon.request("GET", "/teams/cubby/metrics" + query)
    assert answer.status == 400 and word in answer.json["message"]


def test_other_wrong_requests(daemon):
    assert daemon.request("GET", "/teams/nobody/metrics").status == 404
    for query in ("", "?metric=x"):
        answer = daemon.request("GET", "/teams/cubby/metrics/max" + query)
        assert answer.status == 400 and "concurrent_sandboxes" in answer.json["message"]
    # A span before the log has no steps of interest, and one in the future has none.
    assert get(daemon, f"?start={int(time.time()) + 100}&end={int(time.time()) + 200}") == []
    assert all(one["concurrentSandboxes"] == 0 for one in get(daemon, "?start=0&end=1000"))


def test_a_key_sees_its_own_team():
    with Tenants() as daemon:
        daemon.ask(0, "POST", "/sandboxes", {"templateID": "default"})
        for key, most in ((0, 1), (1, 0)):
            for team in ("cubby", f"key{key}"):
                status, told = daemon.ask(key, "GET", f"/teams/{team}/metrics")
                assert status == 200 and max(one["concurrentSandboxes"] for one in told) == most
            assert daemon.ask(key, "GET", f"/teams/key{1 - key}/metrics")[0] == 404
        assert max(one["concurrentSandboxes"] for one in get(daemon)) == 1
