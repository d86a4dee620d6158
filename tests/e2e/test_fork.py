# SPDX-License-Identifier: Apache-2.0
"""A real sandbox is forked and kept as a snapshot: its processes and variables go on in each child,
and no two children share random state or identities that have to be new.
"""

import json
import re
import struct
import time
import urllib.parse

import pytest

from cubbyd import Shipped, events, wait_for
from tiers import tier  # noqa: F401

KERNEL = 49999
COUNTER = "i=0; while :; do i=$((i+1)); echo $i >/dev/shm/n; mv /dev/shm/n /dev/shm/count; sleep 0.02; done"
# The clock before each draw: what is drawn while two go on from one state has another time in each.
DRAWER = ("import os, struct, sys, time\n"
          "f = open(sys.argv[1], 'ab', 1 << 12)\n"
          "while not os.path.exists('/dev/shm/stop'):\n"
          "    for _ in range(256):\n"
          "        at = time.monotonic_ns()\n"
          "        f.write(struct.pack('<q8s', at, os.urandom(8)))\n"
          "f.close()\n"
          "os.rename(sys.argv[1], sys.argv[1] + '.whole')\n")
IDENTITY = ("od -An -N16 -tx1 /dev/urandom | tr -d ' '; cat /proc/sys/kernel/random/uuid "
            "/proc/sys/kernel/random/boot_id /etc/machine-id; hostname; echo $E2B_SANDBOX_ID")
DRAWN = ("import os, random, uuid\n"
         "import numpy as np\n"
         "print(os.urandom(8).hex(), random.random(), np.random.random(), uuid.uuid4(), uuid.uuid1())")


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with Shipped(tier=tier) as d:
        yield d


@pytest.fixture(scope="module")
def parent(daemon):
    """A sandbox with a process that counts and a kernel that has variables."""
    made = daemon.create(timeout=900, envVars={"MINE": "inherited"}, metadata={"a": "b"})
    s = daemon.open_command(made, COUNTER)
    data = b""
    while not [e for e in events(data) if "start" in e]:
        data += s.recv(65536)
    counted(daemon, made, 0)
    assert daemon.command(made, "echo before >~/note; sync")[0] == 0
    python(daemon, made, "import random\nx = list(range(5))\nrandom.seed(1)")
    yield made
    s.close()


def counted(daemon, made, more_than):
    def look():
        code, text = daemon.command(made, "cat /dev/shm/count")
        return int(text) if code == 0 and int(text) > more_than else None
    return wait_for(look, 60, "it counts")


def python(daemon, made, code):
    """The printed text of a cell."""
    answer = daemon.through(made["sandboxID"], "POST", "/execute", json.dumps({"code": code}).encode(),
                            port=KERNEL, headers={"Content-Type": "application/json"},
                            token=made["envdAccessToken"], timeout=60)
    assert answer.status == 200, answer.body
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert not [line for line in lines if line["type"] == "error"], lines
    return "".join(line["text"] for line in lines if line["type"] == "stdout")


def identity(daemon, made):
    code, text = daemon.command(made, IDENTITY)
    assert code == 0
    return text.decode().split()


def clock_is_right(daemon, made):
    before = time.time()
    code, text = daemon.command(made, "date +%s.%N")
    return code == 0 and before - 1 <= float(text) <= time.time() + 1


def test_fork(daemon, parent):
    answer = daemon.request("POST", f"/sandboxes/{parent['sandboxID']}/fork",
                            {"count": 3, "timeout": 600}, timeout=120)
    assert answer.status == 201, answer.body
    children = [result["sandbox"] for result in answer.json]
    family = [parent, *children]
    at = counted(daemon, parent, 0)
    try:
        assert counted(daemon, parent, at), "the parent goes on"
        for child in children:
            here = counted(daemon, child, 0)
            assert counted(daemon, child, here), "the parent's process goes on in each"
            assert daemon.command(child, "cat ~/note; echo $MINE") == (0, b"before\ninherited\n")
            assert python(daemon, child, "print(x)") == "[0, 1, 2, 3, 4]\n"
            assert clock_is_right(daemon, child)
            assert daemon.get(child["sandboxID"]).json["metadata"] == {"a": "b"}
        for what in zip(*[identity(daemon, m) for m in family], strict=True):
            assert len(set(what)) == len(family), what
        for what in zip(*[python(daemon, m, DRAWN).split() for m in family], strict=True):
            assert len(set(what)) == len(family), what
        assert identity(daemon, children[0])[-2:] == [children[0]["sandboxID"]] * 2
        assert re.fullmatch("[0-9a-f-]{36}", identity(daemon, children[0])[2])
        assert daemon.command(children[0], "echo after >~/note")[0] == 0
        assert daemon.command(children[1], "cat ~/note") == (0, b"before\n")
        old = daemon.through(children[0]["sandboxID"], path="/envs", token=parent["envdAccessToken"])
        assert old.status == 401, "the parent's token is not the child's"
    finally:
        for child in children:
            daemon.kill(child["sandboxID"])


def drawn(daemon, made, name):
    """The random values that a sandbox has drawn: value -> time."""
    path = urllib.parse.quote(f"/dev/shm/{name}.whole")
    wait_for(lambda: daemon.command(made, f"test -e /dev/shm/{name}.whole")[0] == 0, 60, "it has ended")
    answer = daemon.through(made["sandboxID"], path=f"/files?path={path}&username=user",
                            token=made["envdAccessToken"], timeout=60)
    assert answer.status == 200, answer.body
    values = {value: at for at, value in struct.iter_unpack("<q8s", answer.body)}
    assert len(values) == len(answer.body) // 16, "none twice in one"
    return values


def test_no_two_draw_the_same(daemon, parent):
    """A command and the Python kernel draw random bytes all the time; no two forks draw the same
    ones after the fork."""
    assert daemon.command(parent, f"cat >/dev/shm/drawer.py <<'END'\n{DRAWER}END")[0] == 0
    assert daemon.command(parent, "(python3 /dev/shm/drawer.py /dev/shm/command >/dev/null 2>&1 &)")[0] == 0
    python(daemon, parent, "import subprocess\n"
                           "s = subprocess.Popen(['python3', '/dev/shm/drawer.py', '/dev/shm/kernel'])")
    wait_for(lambda: daemon.command(parent, "test -s /dev/shm/command -a -s /dev/shm/kernel")[0] == 0, 60)
    answer = daemon.request("POST", f"/sandboxes/{parent['sandboxID']}/fork",
                            {"count": 3, "timeout": 600}, timeout=120)
    assert answer.status == 201, answer.body
    children = [result["sandbox"] for result in answer.json]
    family = [parent, *children]
    try:
        for made in family:
            assert daemon.command(made, "touch /dev/shm/stop")[0] == 0
        for name in ("command", "kernel"):
            everybody = [drawn(daemon, made, name) for made in family]
            for i, one in enumerate(everybody):
                for other in everybody[i + 1:]:
                    common = one.keys() & other.keys()
                    assert common, "they have drawn before the fork"
                    assert len(common) < min(len(one), len(other)), "and after it"
                    assert not [v for v in common if one[v] != other[v]], "the same, each by itself"
    finally:
        daemon.command(parent, "rm -f /dev/shm/stop /dev/shm/*.whole")
        for child in children:
            daemon.kill(child["sandboxID"])


def test_snapshot(daemon, parent):
    at = counted(daemon, parent, 0)
    answer = daemon.request("POST", f"/sandboxes/{parent['sandboxID']}/snapshots", {"name": "counting"},
                            timeout=60)
    assert answer.status == 201, answer.body
    snapshot = answer.json["snapshotID"]
    assert counted(daemon, parent, at)
    others = [daemon.create(templateID=name, timeout=600, envVars={"YOURS": "too"})
              for name in (snapshot, "counting")]
    kept = daemon.request("DELETE", "/templates/default")
    assert kept.status == 409 and snapshot in kept.json["message"]
    assert daemon.request("DELETE", f"/templates/{snapshot}").status == 204
    for other in others:
        here = counted(daemon, other, at)
        assert counted(daemon, other, here)
        assert daemon.command(other, "cat ~/note; echo $MINE $YOURS") == (0, b"before\ninherited too\n")
        assert python(daemon, other, "print(x)") == "[0, 1, 2, 3, 4]\n"
        assert clock_is_right(daemon, other)
    for what in zip(*[identity(daemon, m) for m in (parent, *others)], strict=True):
        assert len(set(what)) == 3, what
    for other in others:
        daemon.kill(other["sandboxID"])
