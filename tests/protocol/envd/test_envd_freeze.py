# SPDX-License-Identifier: Apache-2.0
"""POST /freeze and /unfreeze: which processes stand still, which requests wait, and what makes them
go on.
"""

import os
import pathlib
import subprocess
import threading

import pytest

from envd_peer import Envd, Result, alive, error, wait_for
from test_envd_process_control import cgroup2

needs_cgroups = pytest.mark.skipif(not cgroup2(), reason="no writable cgroup2 here; the guest has one")
COUNT = "i=0; while :; do i=$((i+1)); echo $i >$0.new; mv $0.new $0; sleep 0.002; done"


class Frozen:
    """An envd with control groups, and a process in the one that PID 1 makes for the Python kernel."""

    def __init__(self, tmp_path, *args):
        self.root = cgroup2() / f"envd-freeze-{os.getpid()}"
        self.kernel_count, self.count = tmp_path / "kernel", tmp_path / "command"
        (self.root / "kernel").mkdir(parents=True)
        self.kernel = subprocess.Popen(
            ["sh", "-c", f"echo 0 >{self.root}/kernel/cgroup.procs; " + COUNT, self.kernel_count])
        self.envd = Envd("--cgroup", str(self.root), *args)
        self.stream = self.envd.begin("/bin/sh", "-c", COUNT, str(self.count))
        self.runs()

    def counts(self):
        return [int(f.read_text()) if f.exists() else 0 for f in (self.kernel_count, self.count)]

    def runs(self):
        before = self.counts()
        wait_for(lambda: all(b > a for a, b in zip(before, self.counts())), what="both count")

    def is_still(self):
        """Whether the kernel reports the whole group frozen, and its counts are unchanged some
        requests later."""
        events = [(self.root / g / "cgroup.events").read_text() for g in ("kernel", "commands")]
        if not all("frozen 1" in text for text in events):
            return False
        before = self.counts()
        for _ in range(50):
            assert self.envd.request("GET", "/health")[0] == 204, "envd itself goes on"
        return self.counts() == before

    def post(self, path):
        return self.envd.request("POST", path)[0]

    def freeze(self):
        """Repeats /freeze until 204. A process that the host does not run at the moment stops late,
        and then the answer is 200."""
        def all_stopped():
            status = self.post("/freeze")
            assert status in (200, 204), status
            return status == 204
        wait_for(all_stopped, what="all have stopped")

    def close(self):
        self.kernel.kill()
        self.kernel.wait()
        (self.root / "commands" / "cgroup.kill").write_text("1")  # also those of an envd before
        self.envd.close()
        wait_for(lambda: "populated 0" in (self.root / "cgroup.events").read_text(), what="nothing runs")
        for p in sorted((p for p in self.root.rglob("*") if p.is_dir()), reverse=True):
            p.rmdir()
        self.root.rmdir()


@pytest.fixture
def frozen(tmp_path, request):
    f = Frozen(tmp_path, *getattr(request, "param", ()))
    yield f
    f.close()


@needs_cgroups
def test_freeze_and_unfreeze(frozen):
    for _ in range(3):
        frozen.freeze()
        assert frozen.is_still()
        frozen.freeze()  # again is fine
        assert frozen.is_still()
        assert frozen.post("/unfreeze") == 204
        frozen.runs()
    assert frozen.post("/unfreeze") == 204


@needs_cgroups
def test_init_thaws(frozen):
    frozen.freeze()
    assert frozen.envd.init(hostname=5)[0] == 400
    assert frozen.is_still(), "an /init that is refused does not"
    assert frozen.envd.init()[0] == 204
    frozen.runs()


@needs_cgroups
def test_a_command_waits(frozen):
    """A command waits while envd is frozen: its child would stop before its program, and envd with it."""
    frozen.freeze()
    results = []
    thread = threading.Thread(target=lambda: results.append(frozen.envd.sh("echo here")))
    thread.start()
    gone = frozen.envd.connect()  # one that leaves meanwhile
    gone.close()
    assert frozen.is_still() and not results
    assert frozen.post("/unfreeze") == 204
    thread.join(30)
    assert results[0].stdout == b"here\n" and results[0].code == 0


@needs_cgroups
def test_a_command_that_waits_is_not_started_by_another_sandbox(frozen):
    def ask():
        """The answer to a command that had most likely arrived before /init."""
        frozen.freeze()
        results = []
        thread = threading.Thread(target=lambda: results.append(frozen.envd.sh("echo here")))
        thread.start()
        assert frozen.is_still()
        assert frozen.envd.init()[0] == 204
        thread.join(30)
        return results[0]

    for _ in range(50):
        answer = ask()
        if answer.error:
            break
        assert answer.stdout == b"here\n", "it came after /init"
    assert answer.error["code"] == "unavailable" and not answer.stdout


@needs_cgroups
def test_a_frozen_command_can_be_killed(frozen):
    frozen.freeze()
    frozen.envd.proc("SendSignal", process={"pid": frozen.stream.pid}, signal="SIGNAL_SIGKILL")
    assert Result(frozen.stream).end["status"] == "signal: killed"
    assert not alive(frozen.stream.pid)


@needs_cgroups
@pytest.mark.parametrize("frozen", [("--freeze-max", "300")], indirect=True)
def test_nobody_thaws(frozen):
    frozen.freeze()
    frozen.runs()
    assert "quiesce.guard" in (frozen.envd.dir / "log").read_text()


@needs_cgroups
def test_an_envd_that_died_meanwhile(frozen):
    frozen.freeze()
    frozen.envd.process.kill()
    frozen.envd.process.wait()
    frozen.envd.start()
    before = frozen.counts()
    wait_for(lambda: frozen.counts()[0] > before[0], what="the one after it thaws")


@needs_cgroups
def test_needs_the_token(frozen):
    assert frozen.envd.init(accessToken="secret")[0] == 204
    for path in ("/freeze", "/unfreeze"):
        assert frozen.post(path) == 401
    frozen.runs()
    frozen.envd.token = "secret"
    frozen.freeze()
    assert frozen.is_still()
    assert frozen.post("/unfreeze") == 204


def test_without_control_groups():
    e = Envd()
    status, message = error(e.request("POST", "/freeze"))
    assert status == 503 and "cgroup" in message
    assert e.request("POST", "/unfreeze")[0] == 204
    assert e.request("GET", "/freeze")[0] == 405
    assert e.sh("echo on").stdout == b"on\n"
    e.close()
