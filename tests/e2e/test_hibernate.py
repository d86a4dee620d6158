# SPDX-License-Identifier: Apache-2.0
"""A real sandbox is frozen, hibernated, woken and rolled back: its processes go on, with a correct
clock.
"""

import json
import os
import time

import pytest

from crash import spoil_image
from cubbyd import Shipped, wait_for
from tiers import tier  # noqa: F401

KERNEL = 49999
DAY_S = 86400


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with Shipped(tier=tier) as d:
        yield d


def post(daemon, made, what, body=None, status=None):
    answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/{what}", body or {}, timeout=120)
    assert status is None or answer.status == status, answer.body
    return answer


def run(daemon, made, command):
    code, text = daemon.command(made, command)
    assert code == 0, text
    return text.decode()


def python(daemon, made, code):
    answer = daemon.through(made["sandboxID"], "POST", "/execute", {"code": code}, port=KERNEL,
                            token=made["envdAccessToken"], timeout=120)
    assert answer.status == 200, answer.body
    events = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    return "".join(e.get("text", "") for e in events if e.get("type") == "stdout")


def view(daemon, made):
    return daemon.get(made["sandboxID"]).json


def counted(daemon, made):
    return int(run(daemon, made, "tail -n 1 /tmp/count"))


COUNTER = ("exec 7>/tmp/held; echo open >&7; i=0; while true; do i=$((i+1)); echo $i >>/tmp/count; "
           "echo $i >&7; sleep 0.05; done")


def test_what_runs_goes_on(daemon):
    made = daemon.create(timeout=3600)
    counter = daemon.open_command(made, COUNTER)
    counter.recv(1)  # it has begun
    counter.close()
    wait_for(lambda: daemon.command(made, "test -s /tmp/count")[0] == 0, 60, "it counts")
    python(daemon, made, "kept = [6 * 7]")
    before = run(daemon, made, "cat /proc/sys/kernel/random/boot_id")
    for depth in ("freeze", "hibernate", "hibernate"):
        reached = counted(daemon, made)
        run(daemon, made, "rm -f /tmp/held")  # the file is open, and has no name
        post(daemon, made, "pause", {"depth": depth}, 204)
        assert view(daemon, made)["depth"] == depth
        if depth == "hibernate":
            assert daemon.machines() == []
            assert sorted(os.listdir(daemon.directory(made["sandboxID"]))) == ["image", "sandbox.json"]
        post(daemon, made, "connect", {"timeout": 3600}, 201)
        assert counted(daemon, made) >= reached
        wait_for(lambda: counted(daemon, made) > reached + 3, 60, "it counts on")
        assert python(daemon, made, "print(kept[0])") == "42\n"
        assert run(daemon, made, "cat /proc/sys/kernel/random/boot_id") == before
        assert run(daemon, made, "ls -l /proc/[0-9]*/fd/7 2>/dev/null | grep -c 'held (deleted)'") >= "1"
    daemon.kill(made["sandboxID"])


def guest_clock_s(daemon, made):
    """How far the guest's clock is ahead of ours, and the uncertainty of that."""
    best = None
    for _ in range(10):
        before = time.time()
        guest = float(run(daemon, made, "date +%s.%N"))
        after = time.time()
        known = (after - before) / 2
        if best is None or known < best[1]:
            best = (guest - (before + after) / 2, known)
    return best


@pytest.mark.only_in("microvm", reason="gVisor shows the host's clock and lets nobody set it (test_gvisor.py)")
@pytest.mark.parametrize("depth", ["freeze", "hibernate"])
def test_the_clock_after_a_day(daemon, depth):
    """Before the pause the guest's clock is set back by a day, as if it had slept for one."""
    made = daemon.create(timeout=3600)
    assert daemon.command(made, f"date -s @$(($(date +%s) - {DAY_S})) >/dev/null", user="root")[0] == 0
    ahead, known = guest_clock_s(daemon, made)
    assert abs(ahead + DAY_S) < 2 + known
    post(daemon, made, "pause", {"depth": depth}, 204)
    post(daemon, made, "connect", {"timeout": 3600}, 201)
    ahead, known = guest_clock_s(daemon, made)
    print(f"{depth}: {ahead * 1000:.1f} ms ahead, known to {known * 1000:.1f} ms")
    assert abs(ahead) <= 0.05 + known
    daemon.kill(made["sandboxID"])


def test_rollback_undoes(daemon):
    made = daemon.create(timeout=3600)
    s = daemon.open_command(made, "echo $$ >/tmp/precious; exec sleep 100000")
    s.recv(1)
    s.close()
    wait_for(lambda: daemon.command(made, "test -s /tmp/precious")[0] == 0, 60, "it runs")
    pid = run(daemon, made, "cat /tmp/precious").strip()
    run(daemon, made, "mkdir -p /home/user/things && echo 1 >/home/user/things/a")
    python(daemon, made, "mode = 'before'")
    snap = post(daemon, made, "snapshots", {}, 201).json["snapshotID"]
    run(daemon, made, f"rm -rf /home/user/things; kill {pid}")
    python(daemon, made, "mode = 'after'")
    wait_for(lambda: daemon.command(made, f"kill -0 {pid} 2>&1")[0] == 1, 60, "it is gone")
    limits = daemon.record(made["sandboxID"])["machine"]["limits"]["holds"]
    post(daemon, made, "rollback", {"snapshotID": snap}, 200)
    assert run(daemon, made, "cat /home/user/things/a") == "1\n"
    assert daemon.command(made, f"kill -0 {pid}")[0] == 0
    assert python(daemon, made, "print(mode)") == "before\n"
    holds = daemon.record(made["sandboxID"])["machine"]["limits"]["holds"]
    assert holds == limits, "the machine that was made beside the other has groups of its own"
    # A snapshot of which a page has changed on the disk: what the sandbox was goes on.
    python(daemon, made, "mode = 'kept'")
    machine = daemon.record(made["sandboxID"])["machine"]["netd"]
    spoil_image(daemon, snap)
    answer = post(daemon, made, "rollback", {"snapshotID": snap}, 500)
    # The sentry refuses the page, or ends of it. That depends on what was in the page.
    found = {"microvm": "the image is damaged", "gvisor": "gVisor's sentry "}
    for words in ("keeps the state from before the rollback", found[daemon.tier]):
        assert words in answer.json["message"]
    assert view(daemon, made)["state"] == "running"
    assert python(daemon, made, "print(mode)") == "kept\n"
    assert daemon.record(made["sandboxID"])["machine"]["netd"] == machine
    assert daemon.command(made, f"kill -0 {pid}")[0] == 0
    daemon.kill(made["sandboxID"])


def test_asleep(daemon):
    made = daemon.create(timeout=3600, idle={"freeze": 1, "hibernate": 2})
    left_behind = "setsid sleep 100000 </dev/null >/dev/null 2>&1 &"
    run(daemon, made, left_behind)
    log = f"id={made['sandboxID']} used=command"
    wait_for(lambda: log in daemon.log.read_text(errors="replace"), 120, "what was left running is use")
    assert "depth" not in view(daemon, made)
    run(daemon, made, "pkill -x sleep; true")
    wait_for(lambda: view(daemon, made).get("depth") == "hibernate", 120, "it sleeps, deeply")
    assert view(daemon, made)["state"] == "running" and daemon.machines() == []
    assert run(daemon, made, "echo awake") == "awake\n"
    daemon.kill(made["sandboxID"])


@pytest.mark.only_in("microvm", reason="a container has its disk in memory")
def test_the_disk_alone_is_kept(daemon):
    """A guest boots from it, has its environment again, and can be saved with its memory afterwards."""
    made = daemon.create(timeout=3600, envVars={"COLOUR": "green"})
    run(daemon, made, "echo kept >/home/user/note; echo lost >/dev/shm/note; sleep 1000 & echo")
    boot = run(daemon, made, "cat /proc/sys/kernel/random/boot_id")
    post(daemon, made, "pause", {"memory": False}, 204)
    image = daemon.directory(made["sandboxID"]) / "image"
    assert sorted(p.name for p in image.iterdir()) == ["disk.qcow2", "image.json"]
    assert daemon.machines() == []
    post(daemon, made, "connect", {"timeout": 3600}, 201)
    assert run(daemon, made, "cat /home/user/note; echo $COLOUR; hostname; ls /dev/shm; pgrep sleep || true") == \
        f"kept\ngreen\n{made['sandboxID']}\n"
    assert run(daemon, made, "cat /proc/sys/kernel/random/boot_id") != boot
    wait_for(lambda: daemon.through(made["sandboxID"], path="/health", port=KERNEL,
                                    token=made["envdAccessToken"], timeout=60).status == 200, 120, "the kernel runs")
    assert python(daemon, made, "x = 6 * 7; print(x)") == "42\n"
    post(daemon, made, "pause", {"depth": "hibernate"}, 204)
    post(daemon, made, "connect", {"timeout": 3600}, 201)
    assert python(daemon, made, "print(x)") == "42\n"
    daemon.kill(made["sandboxID"])
