# SPDX-License-Identifier: Apache-2.0
"""cubby stats, top and ps: how they show what sandboxes use."""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios

import pytest

from cubbyd import Daemon, wait_for
from harness import BIN

CUBBY = BIN / "cubby"


@pytest.fixture
def daemon():
    with Daemon(env={"CUBBY_POOL": "off"}) as d:
        yield d


def cubby(daemon, *args):
    done = subprocess.run([CUBBY, *args], env=daemon.env, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text):
    """The table's lines as lists of cells, by the sandbox's id."""
    lines = text.split("\n\n")[-1].splitlines()
    assert lines[0].split()[0] == "ID", text
    return {line.split()[0]: line.split() for line in lines[1:]}


def test_stats(daemon):
    made = daemon.create()["sandboxID"]
    text = cubby(daemon, "stats")
    assert "available, reserve" in text and "1 running, 0 frozen" in text
    row = rows(text)[made]
    assert row[1] == "default" and row[2] == "running"
    assert float(row[3]) >= 0  # it was looked at twice


def test_stats_as_json(daemon):
    made = daemon.create()["sandboxID"]
    daemon.create()
    got = json.loads(cubby(daemon, "stats", "--json", made[:8]))
    assert [s["sandboxID"] for s in got["sandboxes"]] == [made]
    assert got["sandboxes"][0]["cpuPercent"] is not None and got["host"]["running"] == 2


def test_states(daemon):
    ids = [daemon.create()["sandboxID"] for _ in range(3)]
    assert daemon.request("POST", f"/sandboxes/{ids[1]}/pause", {}).status == 204
    assert daemon.request("POST", f"/sandboxes/{ids[2]}/pause", {"depth": "hibernate"}).status == 204
    for verb in ("top", "stats", "ps"):
        shown = cubby(daemon, verb)
        words = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
        for sandbox, state in zip(ids, ("running", "frozen", "hibernated")):
            assert f" {state} " in words[sandbox], shown


def test_a_hibernated_one_takes_up_its_image(daemon):
    made = daemon.create()
    sandbox = made["sandboxID"]
    for size in (300_000, 700_000):
        text = b"x" * size
        assert daemon.through(sandbox, "PUT", "/disk/note", text, token=made["envdAccessToken"]).status == 204
        assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": "hibernate"}).status == 204
        row = rows(cubby(daemon, "stats"))[sandbox]
        assert row[2:6] == ["hibernated", "0.0", "-", "0"] and row[7:9] == ["-", "-"], row
        image = sum(f.stat().st_blocks * 512 for f in (daemon.directory(sandbox) / "image").rglob("*") if f.is_file())
        (got,) = json.loads(cubby(daemon, "stats", "--json"))["sandboxes"]
        assert got["diskBytes"] == image > size
        assert daemon.request("POST", f"/sandboxes/{sandbox}/resume", {}).status == 201


def test_a_disk_that_failed(daemon):
    good, bad = [daemon.create()["sandboxID"] for _ in range(2)]
    assert "could not" not in cubby(daemon, "stats")
    (daemon.directory(bad) / "disk-failed").touch()
    shown = wait_for(lambda: found if "may be lost" in (found := cubby(daemon, "stats")) else None, 60, "it is told")
    assert f"\n{bad}: the host could not" in shown and f"\n{good}: " not in shown
    got = json.loads(cubby(daemon, "stats", "--json"))
    assert {s["sandboxID"]: s.get("diskError") for s in got["sandboxes"]} == {good: None, bad: True}


def test_a_disk_without_room_on_the_host(daemon):
    """stats and top say why the sandbox stands still, and stop saying so when it goes on."""
    good, held = [daemon.create()["sandboxID"] for _ in range(2)]
    mark = daemon.directory(held) / "disk-full"
    assert "stands still" not in cubby(daemon, "stats")
    mark.touch()
    for verb in ("stats", "top"):
        shown = wait_for(lambda: found if "stands still" in (found := cubby(daemon, verb)) else None, 60, "it is told")
        assert f"\n{held}: it stands still because the host's disk is full" in shown and f"\n{good}: " not in shown
    got = json.loads(cubby(daemon, "stats", "--json"))
    assert {s["sandboxID"]: s.get("diskFull") for s in got["sandboxes"]} == {good: None, held: True}
    mark.unlink()
    wait_for(lambda: "stands still" not in cubby(daemon, "stats"), 60, "it goes on")


def test_one_that_there_is_not(daemon):
    done = subprocess.run([CUBBY, "stats", "zzzz"], env=daemon.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "zzzz" in done.stderr
    done = subprocess.run([CUBBY, "top", "zzzz"], env=daemon.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no operand" in done.stderr


def test_without_a_daemon(tmp_path_factory):
    env = dict(os.environ, CUBBY_HOME=str(tmp_path_factory.mktemp("h")))
    for verb in ("top", "stats"):
        done = subprocess.run([CUBBY, verb], env=env, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and done.stdout.startswith("ID "), done


def test_doctor_says_what_is_left(daemon):
    """Shows the leftovers, whatever else this machine lacks."""
    daemon.create()
    done = subprocess.run([CUBBY, "doctor", "--json"], env=daemon.env, capture_output=True, text=True, timeout=60)
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert "reserve of" in found["room"]["text"] and "0 pooled" in found["room"]["text"]
    assert found["memory"]["text"].endswith("MB available")


def gvisor_findings(home, **env):
    done = subprocess.run([CUBBY, "doctor", "--json"], env={**os.environ, "CUBBY_HOME": str(home), **env},
                          capture_output=True, text=True, timeout=60)
    return {one["name"]: one for one in json.loads(done.stdout) if one["name"] in ("runsc", "gvisor")}


def test_doctor_refuses_another_runsc(tmp_path):
    """Cubby uses one build of gVisor: a program with the right name or in the right place is not enough."""
    found = gvisor_findings(tmp_path, CUBBY_RUNSC="/bin/true")
    assert list(found) == ["runsc"] and found["runsc"]["level"] == "note", "sandboxes work without it"
    assert "/bin/true is not the build of runsc that Cubby needs" in found["runsc"]["text"]
    assert found["runsc"]["remedy"] == "make runsc, then make install"


@pytest.mark.skipif(not (BIN / "runsc").exists(), reason="runsc is not built: make runsc")
def test_doctor_refuses_runsc_under_another_name(tmp_path):
    """A driver finds its left-over processes by the name of the program, which the kernel shows without symbolic links."""
    other, link, alias = tmp_path / "gvisor", tmp_path / "runsc", tmp_path / "sentry"
    shutil.copy(BIN / "runsc", other)
    link.symlink_to(other)
    alias.symlink_to(BIN / "runsc")
    for path in (other, link):
        found = gvisor_findings(tmp_path, CUBBY_RUNSC=str(path))
        assert found["runsc"]["level"] == "note"
        assert f"{path} is the right build of runsc, but the file is named gvisor" in found["runsc"]["text"]
    assert gvisor_findings(tmp_path, CUBBY_RUNSC=str(alias))["runsc"]["level"] == "ok"


@pytest.mark.skipif(not (BIN / "runsc").exists(), reason="runsc is not built: make runsc")
def test_doctor_tells_of_runsc_and_of_the_template(tmp_path):
    assert "gvisor" not in gvisor_findings(tmp_path), "without a template the line of the template says all"
    template, build = tmp_path / "templates/default", tmp_path / "templates/.build-default-01234567"
    for directory in (template, build, tmp_path / "templates/.build-default-x-01234567"):
        directory.mkdir(parents=True)
    (template / "template.json").write_text("{}")
    found = gvisor_findings(tmp_path)
    assert found["runsc"]["level"] == "ok" and "version" in found["runsc"]["text"]
    assert found["gvisor"]["level"] == "note" and found["gvisor"]["remedy"] == "cubby template finish default"
    lock = os.open(build, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    found = gvisor_findings(tmp_path)["gvisor"]
    os.close(lock)
    assert found["level"] == "note" and "is being made" in found["text"] and "remedy" not in found, found


# ---- top on a terminal
class Terminal:
    def __init__(self, daemon, rows=30, columns=120):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([CUBBY, "top"], env=daemon.env, stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.text = b""

    def read(self, timeout=0):
        while select.select([self.master], [], [], timeout)[0]:
            self.text += os.read(self.master, 65536)
            timeout = 0
        return self.text

    def shows(self, word, since=0):
        wait_for(lambda: word in self.read(0.1)[since:], 30, f"it shows {word}")

    def key(self, text):
        self.read()
        since = len(self.text)
        os.write(self.master, text)
        return since

    def is_put_back(self):
        self.read()
        last = self.text.rindex(b"\x1b[?1049l")
        return (b"\x1b[?1049h" not in self.text[last:] and b"\x1b[?25h" in self.text
                and termios.tcgetattr(self.slave) == self.before)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(daemon):
    t = Terminal(daemon)
    yield t
    t.close()


def test_top_is_live(daemon, terminal):
    terminal.shows(b"q quit")
    assert b"\x1b[?1049h" in terminal.text and termios.tcgetattr(terminal.slave) != terminal.before
    made = daemon.create()["sandboxID"]
    terminal.shows(made.encode())
    terminal.key(b"q")
    assert terminal.process.wait(30) == 0
    assert terminal.is_put_back()


def test_top_is_ordered_by_keys(daemon, terminal):
    first = daemon.create()["sandboxID"].encode()
    second = daemon.create()["sandboxID"].encode()
    terminal.shows(second)
    since = terminal.key(b"a")
    terminal.shows(b"q quit", since)
    picture = terminal.text[since:]
    assert picture.index(first) < picture.index(second)  # the older one
    terminal.key(b"m")
    terminal.key(b"c")
    terminal.key(b"q")
    assert terminal.process.wait(30) == 0


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_top_puts_the_terminal_back(terminal, number, status):
    terminal.shows(b"q quit")
    terminal.process.send_signal(number)
    assert terminal.process.wait(30) == status
    assert terminal.is_put_back()


def test_top_ends_with_control_c(terminal):
    terminal.shows(b"q quit")
    terminal.key(b"\x03")
    assert terminal.process.wait(30) == 0
    assert terminal.is_put_back()


def test_top_tells_why_it_ends(daemon, terminal):
    terminal.shows(b"q quit")
    assert daemon.stop() == 0
    assert terminal.process.wait(60) == 1
    assert terminal.is_put_back() and b"cubby: " in terminal.text


def test_top_in_a_small_terminal(daemon):
    for _ in range(6):
        daemon.create()
    terminal = Terminal(daemon, rows=5, columns=20)
    try:
        terminal.shows(b"\x1b[J")
        picture = terminal.text[terminal.text.index(b"\x1b[H"):].split(b"\x1b[J")[0]
        lines = picture.replace(b"\x1b[H", b"").split(b"\x1b[K\r\n")
        assert len(lines) == 5 and lines[-1] == b""
        assert all(len(line) <= 20 for line in lines)
    finally:
        terminal.close()
