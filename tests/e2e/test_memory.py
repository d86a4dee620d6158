# SPDX-License-Identifier: Apache-2.0
"""A sandbox's memory runs out: the process that took it is ended and its caller is told, and
everything else goes on. Memory that the sandbox has freed goes back to the host.
"""

import json

import pytest

from cubbyd import Shipped, events, read_all
from harness import wait_for
from machine_fixtures import shells  # noqa: F401
from machine_peer import TEMPLATE, output_of
from tiers import tier  # noqa: F401

KERNEL = 49999
PYTHON = "import os\nx = []\nwhile True: x.append(os.urandom(1 << 16) * 64)\n"
HOG = f"python3 -c '{PYTHON}'"
# Under gVisor nothing tells envd that the host ended a process for its memory (/proc/vmstat).
NOTE = {"microvm": " (out of memory)", "gvisor": ""}
# Each is a tenth of what a context is. When one of them was ended the others go, by what is there already:
# a machine without memory takes minutes to start anything else.
MANY = """exec python3 -c '
import os, signal, time
made = []
for _ in range(60):
    made.append(os.fork())
    if made[-1] == 0:
        x = os.urandom(1 << 16) * 160
        time.sleep(600)
ended, status = os.wait()
made.remove(ended)
for pid in made:
    os.kill(pid, signal.SIGKILL)
raise SystemExit(os.waitstatus_to_exitcode(status) != -9)'"""


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with Shipped(tier=tier) as running:
        yield running


@pytest.fixture
def made(daemon):
    sandbox = daemon.create()
    yield sandbox
    daemon.kill(sandbox["sandboxID"])


def run(daemon, made, code):
    """The lines of a Python run."""
    answer = daemon.through(made["sandboxID"], "POST", "/execute", json.dumps({"code": code}).encode(), port=KERNEL,
                            headers={"Content-Type": "application/json"}, token=made["envdAccessToken"], timeout=170)
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


def value(daemon, made, code):
    (result,) = [line["text"] for line in run(daemon, made, code) if line["type"] == "result"]
    return result


def end_of(daemon, made, command):
    s = daemon.open_command(made, command)
    s.settimeout(170)
    (end,) = [event["end"] for event in events(read_all(s)) if "end" in event]
    s.close()
    return end


def kept(daemon, made):
    """The processes that must outlive all others, by kind."""
    script = "for p in /proc/[0-9]*; do echo $(cat $p/oom_score_adj) $(basename $p); done 2>/dev/null | grep -E '^-[59]'"
    code, out = daemon.command(made, script)
    assert code == 0
    scores = sorted(line.split() for line in out.decode().splitlines())
    assert [score for score, _ in scores] == ["-500", "-500", "-900"], scores  # zygote, kernel, envd
    return scores


@pytest.mark.parametrize("command, status", [
    ("exec " + HOG, "signal: killed"),
    (HOG + "; exit $?", "exit status 137"),
], ids=["itself", "by-a-shell"])
def test_a_command_that_takes_all(daemon, made, command, status):
    run(daemon, made, "kept = 42")
    before = kept(daemon, made)
    waiting = daemon.open_command(made, "sleep 600")
    end = end_of(daemon, made, command)
    assert (end["status"], end["error"]) == (status + NOTE[daemon.tier],) * 2
    assert value(daemon, made, "kept") == "42"
    assert kept(daemon, made) == before
    assert daemon.command(made, "pgrep -x sleep")[0] == 0
    waiting.close()
    # Only what was ended by it is said to be.
    assert end_of(daemon, made, "kill -9 $$")["status"] == "signal: killed"


@pytest.mark.only_in("microvm", reason="under gVisor the host ends any process of the sandbox, also the Python "
                                       "kernel or init (docs/security.md)")
def test_many_small_ones(daemon, made):
    run(daemon, made, "kept = 42")
    before = kept(daemon, made)
    assert end_of(daemon, made, MANY)["status"] == "exit status 0"
    assert value(daemon, made, "kept") == "42"
    assert kept(daemon, made) == before


def test_a_context_that_takes_all(daemon, made):
    before = kept(daemon, made)
    waiting = daemon.open_command(made, "sleep 600")
    lines = run(daemon, made, PYTHON)
    (error,) = [line for line in lines if line["type"] in ("error", "unexpected_end_of_execution") and "value" in line]
    assert "out of memory" in error["value"], lines
    assert value(daemon, made, "1 + 1") == "2"
    assert kept(daemon, made) == before
    assert daemon.command(made, "pgrep -x sleep")[0] == 0
    waiting.close()


# ---- memory that a guest has freed

def test_freed_memory_goes_back_to_the_host(shells):
    facts = json.loads((TEMPLATE / "template.json").read_text())
    assert facts.get("gives_back"), "this template's guest cannot: build it again"
    shell = shells()
    vmnet = shell.create()["vmnet"]

    def used_mb(of=shell):
        return of.ask("usage", "usage")["memory"] >> 20

    # What is to stay: random bytes, so that no page of it is one that the template has.
    kept = output_of(vmnet, "mount -t tmpfs -o size=400m none /mnt; head -c 30000000 /dev/urandom >/mnt/kept; "
                            "md5sum /mnt/kept")
    before = used_mb()
    fill = "dd if=/dev/zero of=/mnt/big bs=1M count=160 2>/dev/null"
    output_of(vmnet, fill)
    full = used_mb()
    assert full - before >= 150, "the control: what the guest takes is the host's to give"
    output_of(vmnet, "rm /mnt/big")
    wait_for(lambda: used_mb() < full - 100, 90, "the guest gives it back")
    assert output_of(vmnet, "md5sum /mnt/kept") == kept
    # Given back, the pages are neither in an image nor missed in what is made from it, and may be used again.
    image = shells.place / "image"
    image.mkdir()
    saved = shell.ask("saved", "save", image)
    assert saved["bytes"] < (full - before - 50) << 20
    child = shells("child")
    of_child = child.create(image=image)["vmnet"]
    for name in (of_child, vmnet):
        assert output_of(name, fill + "; tr -d '\\0' </mnt/big | wc -c; md5sum /mnt/kept") == "0\n" + kept
    assert used_mb(child) >= before
    for machine in (child, shell):
        machine.ask("gone", "kill")
