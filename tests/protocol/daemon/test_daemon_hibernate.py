# SPDX-License-Identifier: Apache-2.0
"""Hibernation: the machine ends and its state comes back later; requests that wait for another,
failures, and a daemon that dies in between.
"""

import json
import os
import pathlib
import random
import re
import signal
import threading
import time

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from harness import Later


def post(daemon, sandbox, what, body=None):
    return daemon.request("POST", f"/sandboxes/{sandbox}/{what}", body or {})


def hibernate(daemon, sandbox):
    answer = post(daemon, sandbox, "pause", {"depth": "hibernate"})
    assert answer.status == 204, answer.body


def view(daemon, sandbox):
    return daemon.get(sandbox).json


def whoami(daemon, made):
    return daemon.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"])


def count(daemon, made, method="GET"):
    answer = daemon.through(made["sandboxID"], method, "/count", token=made["envdAccessToken"])
    assert answer.status == 200, answer.body
    return answer.json


def put(daemon, made, name, text):
    answer = daemon.through(made["sandboxID"], "PUT", f"/disk/{name}", text,
                            token=made["envdAccessToken"])
    assert answer.status == 204, answer.body


def get(daemon, made, name):
    answer = daemon.through(made["sandboxID"], path=f"/disk/{name}", token=made["envdAccessToken"])
    return answer.body if answer.status == 200 else None


def files(daemon, sandbox):
    return sorted(p.name for p in daemon.directory(sandbox).iterdir())


def template(daemon, **facts):
    """Changes how all machines of the template behave from now on."""
    daemon.template("default", **facts)


@pytest.fixture
def behaves(daemon):
    yield lambda **facts: template(daemon, **facts)
    template(daemon)


def test_everything_comes_back(daemon, made):
    sandbox = made["sandboxID"]
    before = count(daemon, made, "POST")
    wait_for(lambda: count(daemon, made)["count"] > before["count"], 30, "it counts")
    put(daemon, made, "note", b"kept")
    reached = count(daemon, made)["count"]
    hibernate(daemon, sandbox)
    assert daemon.machines() == []
    assert files(daemon, sandbox) == ["image", "sandbox.json"]
    assert view(daemon, sandbox)["state"] == "paused" and view(daemon, sandbox)["depth"] == "hibernate"
    record = daemon.record(sandbox)
    assert record["state"] == "paused" and record["image"] == "" and record["machine"] is None
    woken = post(daemon, sandbox, "connect", {"timeout": 60})
    assert woken.status == 201 and woken.json["envdAccessToken"] == made["envdAccessToken"]
    after = count(daemon, made)
    assert after["boot"] == before["boot"] and after["count"] >= reached
    wait_for(lambda: count(daemon, made)["count"] > after["count"], 30, "it counts on")
    assert get(daemon, made, "note") == b"kept"
    assert view(daemon, sandbox)["state"] == "running" and "depth" not in view(daemon, sandbox)
    record = daemon.record(sandbox)
    assert record["state"] == "running" and record["image"] is None
    wait_for(lambda: "image" not in files(daemon, sandbox), 30, "what was used up is gone")


def test_deeper(daemon, made):
    sandbox = made["sandboxID"]
    assert post(daemon, sandbox, "pause").status == 204
    assert view(daemon, sandbox)["depth"] == "freeze" and daemon.machines()
    hibernate(daemon, sandbox)
    assert view(daemon, sandbox)["depth"] == "hibernate" and daemon.machines() == []
    for depth in ("freeze", "hibernate"):
        assert post(daemon, sandbox, "pause", {"depth": depth}).status == 409
    assert post(daemon, sandbox, "resume", {"timeout": 60}).status == 201
    assert whoami(daemon, made).body == b"envd"


@pytest.mark.parametrize("body", [{"depth": "sleep"}, {"depth": 1}, {"dept": "freeze"}])
def test_depths_that_there_are_not(daemon, sandbox, body):
    assert post(daemon, sandbox, "pause", body).status == 400
    assert view(daemon, sandbox)["state"] == "running"


def test_without_a_machine_everything_is_answered(daemon, made):
    sandbox = made["sandboxID"]
    hibernate(daemon, sandbox)
    assert whoami(daemon, made).json["error_code"] == "sandbox_paused"
    assert daemon.through(sandbox).status == 502
    assert daemon.request("GET", f"/sandboxes/{sandbox}/metrics").json == []
    assert daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").status == 200
    assert daemon.request("GET", "/sandboxes/metrics").status == 200
    assert post(daemon, sandbox, "timeout", {"timeout": 60}).status == 409
    assert daemon.request("PUT", f"/sandboxes/{sandbox}/network", {}).status == 409
    assert [s["sandboxID"] for s in daemon.request("GET", "/v2/sandboxes?state=paused").json] == [sandbox]
    assert daemon.kill(sandbox) == 204
    assert daemon.directories() == [] and daemon.get(sandbox).status == 404


def test_it_takes_no_memory():
    with Daemon("--max-memory", "600M", "--create-wait", "0") as daemon:  # for one of 512
        made = daemon.create()
        hibernate(daemon, made["sandboxID"])
        other = daemon.create()
        refused = post(daemon, made["sandboxID"], "connect", {"timeout": 60})
        assert refused.status == 503 and "--max-memory" in refused.json["message"]
        assert refused.headers["Retry-After"]
        assert view(daemon, made["sandboxID"])["depth"] == "hibernate"
        daemon.kill(other["sandboxID"])
        assert post(daemon, made["sandboxID"], "connect", {"timeout": 60}).status == 201
        assert whoami(daemon, made).body == b"envd"


# ---- who waits
def test_requests_wake_it(daemon):
    made = daemon.create(autoResume={"enabled": True})
    hibernate(daemon, made["sandboxID"])
    assert whoami(daemon, made).body == b"envd"


def test_who_asks_while_it_hibernates_waits_and_wakes_it(daemon, behaves):
    behaves(save="held")
    made = daemon.create(autoResume={"enabled": True})
    sandbox = made["sandboxID"]
    answers = []
    asking = threading.Thread(target=lambda: answers.append(
        post(daemon, sandbox, "pause", {"depth": "hibernate"})))
    asking.start()
    wait_for(lambda: (daemon.directory(sandbox) / "image.tmp").exists(), 30, "it is being saved")
    connected = threading.Thread(target=lambda: answers.append(
        post(daemon, sandbox, "connect", {"timeout": 60})))
    connected.start()
    used = Later(lambda: whoami(daemon, made))
    behaves()
    assert used.join().body == b"envd"
    asking.join()
    connected.join()
    assert sorted(a.status for a in answers) == [201, 204]
    assert view(daemon, sandbox)["state"] == "running"


# ---- failures
def test_it_cannot_be_saved(daemon, made, behaves):
    sandbox = made["sandboxID"]
    behaves(save="fail")
    answer = post(daemon, sandbox, "pause", {"depth": "hibernate"})
    assert answer.status >= 400 and "hibernate" in answer.json["message"]
    assert view(daemon, sandbox)["state"] == "paused" and view(daemon, sandbox)["depth"] == "freeze"
    assert "image" not in files(daemon, sandbox) and "image.tmp" not in files(daemon, sandbox)
    logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").json["logs"]
    assert any("could not be hibernated" in entry["message"] for entry in logs)
    assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
    assert whoami(daemon, made).body == b"envd"
    behaves()
    hibernate(daemon, sandbox)


def test_it_cannot_be_woken(daemon, made, behaves):
    sandbox = made["sandboxID"]
    put(daemon, made, "note", b"kept")
    hibernate(daemon, sandbox)
    for broken in ({"restore": "fail"}, {"init": "refuse"}, {"init": "die"}):
        behaves(**broken)
        answer = post(daemon, sandbox, "connect", {"timeout": 60})
        assert answer.status >= 500, answer.body
        assert view(daemon, sandbox)["depth"] == "hibernate"
        wait_for(lambda: daemon.machines() == [], 30, "its machine is gone")
        assert daemon.record(sandbox)["image"] == ""
    behaves()
    assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
    assert get(daemon, made, "note") == b"kept"


def test_it_is_killed_on_the_way(daemon, behaves):
    """At every stage: nothing is left, and no request waits for ever."""
    for what in ("pause", "connect") * 3:
        made = daemon.create()
        sandbox = made["sandboxID"]
        if what == "connect":
            hibernate(daemon, sandbox)
        behaves(save="held", restore="held")
        answers = []
        body = {"depth": "hibernate"} if what == "pause" else {"timeout": 60}
        asking = threading.Thread(target=lambda: answers.append(post(daemon, sandbox, what, body)))
        asking.start()
        on_its_way = (daemon.directory(sandbox) / "image.tmp").exists if what == "pause" else daemon.machines
        wait_for(on_its_way, 30, f"{what}: it is on its way")
        killing = Later(lambda: daemon.kill(sandbox))
        wait_for(lambda: daemon.get(sandbox).status == 404, 30, "it is being killed")
        behaves()
        assert killing.join() == 204
        asking.join()
        assert answers[0].status == 404, answers[0].body
        assert not daemon.directory(sandbox).exists()
        wait_for(lambda: daemon.machines() == [], 30, "its machine is gone")


def test_at_random(daemon):
    """Pauses, wakes and kills in any order: each request is answered, and the remaining state is right."""
    rng = random.Random(5)
    made = [daemon.create(autoResume={"enabled": True}) for _ in range(4)]
    for m in made:
        put(daemon, m, "who", m["sandboxID"].encode())

    def worker(seed):
        mine = random.Random(seed)
        for _ in range(25):
            m = mine.choice(made)
            what = mine.choice(["pause", "hibernate", "connect", "use"])
            if what == "use":
                assert daemon.through(m["sandboxID"], path="/whoami",
                                      token=m["envdAccessToken"]).status in (200, 409, 502)
            elif what == "connect":
                assert post(daemon, m["sandboxID"], "connect", {"timeout": 60}).status in (200, 201, 409)
            else:
                depth = {"depth": "hibernate" if what == "hibernate" else "freeze"}
                assert post(daemon, m["sandboxID"], "pause", depth).status in (204, 409)

    threads = [threading.Thread(target=worker, args=(rng.random(),)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for m in made:
        wait_for(lambda: post(daemon, m["sandboxID"], "connect", {"timeout": 60}).status in (200, 201), 30,
                 "it runs")
        assert get(daemon, m, "who") == m["sandboxID"].encode()


# ---- daemons that die
def test_the_next_daemon_has_it():
    with Daemon() as daemon:
        made = daemon.create()
        sandbox = made["sandboxID"]
        put(daemon, made, "note", b"kept")
        hibernate(daemon, sandbox)
        daemon.stop(signal.SIGKILL)
        (daemon.directory(sandbox) / "image.tmp").mkdir()
        daemon.start()
        assert view(daemon, sandbox)["state"] == "paused"
        assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
        assert get(daemon, made, "note") == b"kept"


def of_another_boot(daemon, sandbox, **changes):
    """Makes the record of a stopped daemon one from before a reboot of the host, whose monotonic clock was far ahead."""
    path = daemon.directory(sandbox) / "sandbox.json"
    record = json.loads(path.read_text())
    day = 24 * 3600 * 1000
    record |= {"boot_id": "of-another-boot", "end_ms": record["end_ms"] + day, "used_ms": record["used_ms"] + day, **changes}
    path.write_text(json.dumps(record))


def test_the_end_time_is_right_after_a_reboot_of_the_host():
    """A sandbox that is asleep ends at its time, and one that is paused stays."""
    with Daemon() as daemon:
        over, asleep = (daemon.create(timeout=600, idle={"freeze": 0, "hibernate": 1})["sandboxID"]
                        for _ in range(2))
        for sandbox in over, asleep:
            wait_for(lambda: daemon.record(sandbox)["image"] == "", 60, "it sleeps")
        end = view(daemon, asleep)["endAt"]
        daemon.stop(signal.SIGKILL)
        of_another_boot(daemon, asleep)
        of_another_boot(daemon, over, end_ns=time.time_ns() - 1_000_000_000)
        daemon.start()
        wait_for(lambda: view(daemon, over).get("error_code") == "sandbox_ended", 30, "its time is over")
        assert view(daemon, asleep)["endAt"] == end
        (left,) = re.findall(rf"sandbox.adopted id={asleep} .*left_ms=(\d+)", daemon.log.read_text())
        assert 0 < int(left) <= 600_000
        assert post(daemon, asleep, "timeout", {"timeout": 300}).status == 204
        assert daemon.record(asleep)["boot_id"] == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_an_image_that_is_not_the_records_goes():
    with Daemon() as daemon:
        made = daemon.create()
        where = daemon.directory(made["sandboxID"])
        daemon.stop(signal.SIGKILL)
        for name in ("image", "image.tmp"):
            (where / name).mkdir()
            (where / name / "memory").write_text("half")
        daemon.start()
        assert whoami(daemon, made).body == b"envd"
        wait_for(lambda: not (where / "image").exists() and not (where / "image.tmp").exists(), 30,
                 "they are gone")


def test_a_machine_beside_an_image_is_killed():
    with Daemon() as daemon:
        made = daemon.create()
        sandbox = made["sandboxID"]
        hibernate(daemon, sandbox)
        image = daemon.directory(sandbox) / "image"
        kept = {p.name: p.read_bytes() for p in image.iterdir() if p.is_file()}
        record = daemon.record(sandbox)
        assert post(daemon, sandbox, "connect", {"timeout": 60}).status == 201
        wait_for(lambda: not image.exists(), 30, "it is used up")
        machine = daemon.machine(sandbox)
        daemon.stop(signal.SIGKILL)
        # As it is when the daemon dies before the record knows the machine.
        image.mkdir()
        for name, data in kept.items():
            (image / name).write_bytes(data)
        (daemon.directory(sandbox) / "sandbox.json").write_text(json.dumps(record))
        daemon.start()
        assert not os.path.exists(f"/proc/{machine}") or daemon.machines() == []
        assert view(daemon, sandbox)["depth"] == "hibernate"


def test_a_record_of_the_format_before():
    """After an upgrade in place the daemon reads the records of the earlier version."""
    with Daemon() as daemon:
        made = daemon.create(timeout=600)
        paused = daemon.create()
        post(daemon, paused["sandboxID"], "pause")
        daemon.stop(signal.SIGKILL)
        for sandbox, still in ((made["sandboxID"], False), (paused["sandboxID"], True)):
            path = daemon.directory(sandbox) / "sandbox.json"
            record = json.loads(path.read_text())
            old = {key: record[key] for key in (
                "id", "template", "token", "owner", "metadata", "policy", "facts", "auto_pause",
                "auto_resume", "sliding", "traffic_token", "mask_request_host", "timeout_ms",
                "started_ns", "end_ms", "end_ns", "machine")}
            path.write_text(json.dumps({"format": 2, "paused": still, **old}))
        daemon.start()
        assert whoami(daemon, made).body == b"envd"
        assert view(daemon, paused["sandboxID"])["state"] == "paused"
        assert post(daemon, paused["sandboxID"], "connect", {"timeout": 60}).status == 201


def test_a_daemon_that_stops_ends_it():
    with Daemon() as daemon:
        hibernate(daemon, daemon.create()["sandboxID"])
        assert daemon.stop() == 0
        assert daemon.directories() == []


def test_a_daemon_that_leaves_keeps_it():
    with Daemon() as daemon:
        made = daemon.create()
        hibernate(daemon, made["sandboxID"])
        assert daemon.stop(signal.SIGUSR1) == 0
        daemon.start()
        assert post(daemon, made["sandboxID"], "connect", {"timeout": 60}).status == 201
