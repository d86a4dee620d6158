# SPDX-License-Identifier: Apache-2.0
"""cubby selftest: every step passes on this host, in a state directory of its own; failures are told."""

import getpass
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from harness import BIN, Home, wait_for

ROOT = pathlib.Path(__file__).parents[2]
STEPS = ["daemon", "create", "exec", "files", "python", "pause", "network", "walls", "hibernate", "wake", "snapshot",
         "rollback", "fork", "burst", "adopt", "pool", "end"]


@pytest.fixture
def home():
    state = Home()
    yield state
    state.close()


@pytest.fixture
def installed(tmp_path):
    """The directory of the programs of an installation, where they are in two places."""
    made = subprocess.run(["make", "-C", ROOT, "install", f"BUILD={BIN.parent}", f"DESTDIR={tmp_path}", "PREFIX=/usr/local"],
                          capture_output=True, text=True, timeout=170)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    return tmp_path / "usr/local/bin"


def selftest(home, *options, programs=BIN, **env):
    return subprocess.run([programs / "cubby", "selftest", *options], env={**home.env, **env}, capture_output=True, text=True, timeout=170)


def left(home):
    """What a test leaves in the state directory, and processes that use such a directory."""
    names = [f.name for f in home.path.iterdir() if f.name.startswith("test.")]
    pids = [p for p in os.listdir("/proc") if p.isdigit() and str(home.path / "test.") in cmdline(p)]
    return names + pids


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def test_every_step_passes_and_nothing_is_left(home, installed):
    done = selftest(home, "--json", programs=installed)
    report = json.loads(done.stdout)
    bad = [step for step in report["steps"] if step["result"] == "FAILED"]
    assert done.returncode == 0 and report["passed"] and not bad, bad
    assert [step["step"] for step in report["steps"]] == STEPS
    assert all(step["text"] and step["ms"] >= 0 for step in report["steps"])
    times = report["timeToFirstCommand"]
    assert len(times["sequentialMs"]) == len(times["burstMs"]) == 4 and len(times["forkMs"]) == 3
    assert report["createMs"] > report["bareQemuMs"] > 0
    assert report["processor"] and report["kernel"] and report["qemu"] and report["tier"]
    assert not left(home)


def test_a_user_s_sandboxes_are_untouched_and_the_report_has_no_names(home):
    def cubby(*words):
        return subprocess.run([BIN / "cubby", *words], env=home.env, capture_output=True, text=True, timeout=120, check=True).stdout
    mine = cubby("create").strip()
    done = selftest(home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert cubby("exec", mine, "--", "echo", "here") == "here\n"
    assert [row["sandboxID"] for row in json.loads(cubby("ps", "--json"))] == [mine]
    words = re.findall(r"[\w.~/-]+", done.stdout)
    for name in socket.gethostname(), str(home.path), getpass.getuser():
        assert name not in words
    assert not re.search(r"\d+\.\d+\.\d+\.\d+", done.stdout)
    assert "passed" in done.stdout.splitlines()[-1] and not left(home)


def test_a_missing_template_fails_with_a_reason(home):
    done = selftest(home, "--template", "no-such-one", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["passed"]
    create = next(step for step in report["steps"] if step["step"] == "create")
    assert create["result"] == "FAILED" and "cubby template build no-such-one" in create["text"]
    assert [step["step"] for step in report["steps"]] == ["daemon", "create", "end"]
    assert not left(home)


def test_an_interrupted_test_ends_its_daemon(home):
    process = subprocess.Popen([BIN / "cubby", "selftest"], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: any(home.path.glob("test.*/cubbyd.sock")))
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    process.communicate()
    assert not left(home)
