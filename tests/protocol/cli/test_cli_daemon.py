# SPDX-License-Identifier: Apache-2.0
"""cubby against the daemon itself: the requests it allows, whether it runs, and how it is stopped.
"""

import ctypes
import fcntl
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from cubbyd import Daemon
from harness import BIN

CUBBY = BIN / "cubby"
IN_CLOSE_NOWRITE = 0x10  # inotify(7): a file that was open for reading was closed
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def daemon():
    with Daemon(env={"CUBBY_POOL": "off"}) as d:
        yield d


def cubby(daemon, *words):
    return subprocess.run([CUBBY, *words], env=daemon.env, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


# ---- what it allows
def test_a_time_to_live_is_the_daemons_to_limit(daemon):
    """A day, unless the daemon has another limit; the help and the refusal both say so."""
    made = cubby(daemon, "create", "--timeout", "86400").stdout.strip()
    assert made in daemon.directories()
    for words in (["create"], ["fork", made], ["resume", made]):
        verb, *ids = words
        answer = cubby(daemon, verb, "--timeout", "86401", *ids)
        assert answer.returncode == 1 and answer.stdout == "" and "24 hours (86400 s)" in answer.stderr, answer
        assert "at most 86400, unless cubbyd --max-timeout" in cubby(daemon, verb, "--help").stdout
    assert daemon.directories() == [made]
    daemon.stop()
    daemon.start("--max-timeout", "200000")
    assert cubby(daemon, "create", "--timeout", "200000").returncode == 0


# ---- whether it runs
def status(daemon):
    answer = cubby(daemon, "daemon", "status")
    assert answer.stderr == ""
    return answer.returncode, answer.stdout.splitlines()[0]


def doctor(daemon):
    return {f["name"]: f for f in json.loads(cubby(daemon, "doctor", "--json").stdout)}["daemon"]


def held(daemon, text):
    """Holds the lock, as a daemon does that does not listen."""
    lock = open(daemon.home / "cubbyd.lock", "w", encoding="ascii")
    lock.write(text)
    lock.flush()
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_status():
    daemon = Daemon(env={"CUBBY_POOL": "off"})
    assert status(daemon) == (1, "does not run")
    daemon.start()
    daemon.create()
    answer = cubby(daemon, "daemon", "status")
    assert answer.returncode == 0 and answer.stdout.splitlines() == [
        "runs", f"socket: {daemon.home}/cubbyd.sock", "url: none (set with cubbyd --listen)", "sandboxes: 1"]
    assert cubby(daemon, "daemon", "status", "x").returncode == 2
    pid = daemon.process.pid
    assert (daemon.home / "cubbyd.lock").read_text() == f"{pid}\n"
    daemon.stop()
    assert (daemon.home / "cubbyd.lock").read_text() == f"{pid}\nstopping\n"
    assert status(daemon) == (1, "does not run"), "what it has left is no daemon"
    daemon.close()


@pytest.mark.parametrize("text, said", [("17\nstopping\n", "is stopping"), ("17\n", "is starting"), ("", "is starting")])
def test_status_of_one_that_does_not_listen(text, said):
    """A daemon that does not listen is starting or stopping; without a daemon the text says so."""
    daemon = Daemon()
    with held(daemon, text):
        assert status(daemon) == (1, said) and doctor(daemon)["text"].startswith(said)
    assert status(daemon) == (1, "does not run") and doctor(daemon)["text"].startswith("does not run")
    daemon.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_status_of_another_users():
    with tempfile.TemporaryDirectory(dir="/tmp") as home, Daemon(env={"CUBBY_POOL": "off"}) as daemon:
        program = shutil.copy(CUBBY, home)
        os.chmod(home, 0o755)
        os.chmod(daemon.home, 0o755)
        for words in (["status"], ["stop"]):
            answer = subprocess.run([program, "daemon", *words], env=daemon.env, user=65534, group=65534, extra_groups=[],
                                    cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            assert answer.returncode == 1 and answer.stdout == "" and str(daemon.home) in answer.stderr, answer
        daemon.stop()
        daemon.start()
        for name, mode in (("cubbyd.lock", 0o644), ("cubbyd.sock", 0o600)):
            os.chmod(daemon.home / name, mode)  # the phase can be read, the daemon not asked
        for words in (["status"], ["stop"]):
            answer = subprocess.run([program, "daemon", *words], env=daemon.env, user=65534, group=65534, extra_groups=[],
                                    cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
            assert answer.returncode == 1 and answer.stdout == "" and "permission denied" in answer.stderr, answer
        assert status(daemon) == (0, "runs")


# ---- its end
def test_stop():
    daemon = Daemon().start()
    daemon.create()
    answer = cubby(daemon, "daemon", "stop")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "stopped\n", "")
    assert daemon.process.wait(30) == 0 and daemon.machines() == [] and daemon.directories() == []
    daemon.process = None
    answer = cubby(daemon, "daemon", "stop")
    assert (answer.returncode, answer.stdout) == (0, "does not run\n")
    daemon.close()


def test_stop_that_keeps_the_sandboxes():
    daemon = Daemon(env={"CUBBY_POOL": "off"}).start()
    made = daemon.create()
    machines = daemon.machines()
    assert cubby(daemon, "daemon", "stop", "--keep").returncode == 0
    assert daemon.process.wait(30) == 0 and daemon.machines() == machines != []
    daemon.start()
    assert daemon.through(made["sandboxID"], token=made["envdAccessToken"]).status == 204
    daemon.close()


def test_stop_of_one_that_stops_already():
    """`stop` waits for the end of a daemon that is already stopping."""
    daemon = Daemon()
    lock = held(daemon, "17\nstopping\n")
    watch = libc.inotify_init1(os.O_CLOEXEC)
    assert libc.inotify_add_watch(watch, os.fsencode(daemon.home / "cubbyd.lock"), IN_CLOSE_NOWRITE) >= 0
    stopping = subprocess.Popen([CUBBY, "daemon", "stop"], env=daemon.env, stdout=subprocess.PIPE)
    os.read(watch, 4096)  # it has looked at the lock
    os.close(watch)
    assert stopping.poll() is None
    lock.close()
    assert stopping.communicate(timeout=60)[0] == b"stopped\n" and stopping.returncode == 0
    daemon.close()


def test_help():
    for words in (["--help"], ["-h"]):
        answer = subprocess.run([CUBBY, "daemon", *words], capture_output=True, text=True, timeout=60)
        assert answer.returncode == 0 and "cubby daemon stop [--keep]" in answer.stdout
        assert "--max-sandboxes" in answer.stdout
    answer = subprocess.run([CUBBY, "daemon", "stop", "--help"], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0 and "--keep" in answer.stdout
