# SPDX-License-Identifier: Apache-2.0
"""Real sandboxes of the pool: usable at once, no two alike, and with no trace of use."""

import json
import os
import re
import signal
import time

import pytest

from cubbyd import Shipped, wait_for
from tiers import tier  # noqa: F401

# The pool fills itself when the host has nothing else to do, which takes minutes on a busy one.
pytestmark = pytest.mark.timeout(1200)

KERNEL = 49999
# What would tell that something was run before: files of users, and processes (but ps itself).
TRACES = ("find /home/user /root /tmp /var/tmp /dev/shm -printf '%p %s\\n' | sort; "
          "ps -e -o user=,args= | grep -v 'ps -e\\|grep\\|kworker\\|/bin/sh\\|sort$' | sort")


class Pool(Shipped):
    def __init__(self, plan, tier):  # noqa: F811
        super().__init__("--pool", plan, tier=tier)

    def shelf(self):
        return self.request("GET", "/pool").json["templates"][0]

    def await_ready(self, count):
        wait_for(lambda: self.shelf()["ready"] >= count, 500, f"{count} are ready")

    def python(self, made, code):
        """A cell's result as text."""
        answer = self.through(made["sandboxID"], "POST", "/execute",
                              json.dumps({"code": code}).encode(), KERNEL,
                              {"Content-Type": "application/json"}, made["envdAccessToken"], 120)
        assert answer.status == 200, answer.body
        lines = [json.loads(line) for line in answer.body.splitlines()]
        return next((x["text"] for x in lines if x["type"] == "result"), lines)


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with Pool("2", tier) as d:
        d.await_ready(2)
        yield d


@pytest.fixture(scope="module")
def made(daemon):
    """Two sandboxes out of the pool, and one that was made on request."""
    pooled = [daemon.create(envVars={"WHO": "first"}), daemon.create()]
    first = [daemon.command(m, "hostname; echo ${WHO:-nobody}") for m in pooled]
    daemon.await_ready(1)
    assert daemon.shelf()["handedOut"] == 2
    assert first == [(0, f"{pooled[0]['sandboxID']}\nfirst\n".encode()),
                     (0, f"{pooled[1]['sandboxID']}\nnobody\n".encode())]
    yield pooled
    for one in pooled:
        daemon.kill(one["sandboxID"])


def test_no_two_are_alike(daemon, made):
    for what in ["cat /etc/machine-id", "cat /proc/sys/kernel/random/boot_id", "hostname",
                 "head -c 16 /dev/urandom | od -An -tx1"]:
        code, said = zip(*(daemon.command(m, what) for m in made))
        assert code == (0, 0) and len(set(said)) == 2, what
    numbers = [daemon.python(m, "import random, numpy, uuid\n"
                                "(random.random(), numpy.random.rand(), uuid.uuid4())") for m in made]
    assert numbers[0] != numbers[1]
    clocks = [daemon.command(m, "date +%s.%N")[1] for m in made]
    assert all(abs(float(c) - time.time()) < 60 for c in clocks)


def test_nothing_tells_that_they_were_warmed(daemon, made):
    """The same questions get the same answers from a sandbox of the pool and from one that never
    was in it."""
    daemon.await_ready(1)
    before = daemon.shelf()["handedOut"]
    other = daemon.create()
    assert daemon.shelf()["handedOut"] == before + 1
    plain = Pool("off", daemon.tier)
    try:
        plain.start()
        cold = plain.create()
        expected = plain.command(cold, TRACES, user="root")[1]
        ids = re.compile(rb"\b\d{3,}\b")  # pids in names, sizes of what holds the id
        got = daemon.command(other, TRACES, user="root")[1]
        assert ids.sub(b"#", got) == ids.sub(b"#", expected)
        assert plain.python(cold, "len(In), [n for n in dir() if n[0] != '_']") \
            == daemon.python(other, "len(In), [n for n in dir() if n[0] != '_']")
    finally:
        plain.close()
        daemon.kill(other["sandboxID"])


def test_one_that_dies_as_it_is_handed_out(daemon):
    """Its guest stands still from before the hand-out, so it has not answered when it is killed."""
    daemon.await_ready(1)
    guests = {}
    for name in daemon.directories():
        try:
            record = daemon.record(name)
        except FileNotFoundError:
            continue
        if record["state"] == "pooled":
            guests[name] = record["machine"]["qemu" if daemon.tier == "microvm" else "sentry"]["pid"]
    for pid in guests.values():
        os.kill(pid, signal.SIGSTOP)
    other = daemon.create(envVars={"WHO": "it"})
    pid = guests.pop(other["sandboxID"])
    os.kill(pid, signal.SIGKILL)
    for still in guests.values():
        os.kill(still, signal.SIGCONT)
    assert daemon.command(other, "hostname; echo $WHO") == (0, f"{other['sandboxID']}\nit\n".encode())
    assert daemon.guest_pid(other) != pid and f"pool.replaced id={other['sandboxID']}" in daemon.log.read_text()
    daemon.kill(other["sandboxID"])
