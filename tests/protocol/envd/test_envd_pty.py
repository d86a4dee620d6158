# SPDX-License-Identifier: Apache-2.0
"""Commands in a pseudo terminal: its size, its session, input, output, ends."""

import base64
import os
import pathlib
import re
import signal

import pytest

from envd_peer import IS_ROOT, Envd, Result, alive, basic, wait_for

PYTHON = "/usr/bin/python3"


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


class Terminal:
    """A command in a terminal, and its output so far."""

    def __init__(self, envd, cmd, *args, cols=80, rows=24, headers=None, pty=None, **config):
        self.envd = envd
        self.said = bytearray()
        self.end = None
        self.stream = envd.stream("Start", {
            "process": {"cmd": cmd, "args": args, **config},
            "pty": {"size": {"cols": cols, "rows": rows}} if pty is None else pty}, headers)
        self.pid = self.stream.event()["start"]["pid"]
        self.selector = {"pid": self.pid}

    def _take(self):
        event = self.stream.event()
        if "end" in event:
            self.end = event["end"]
        elif "data" in event:
            assert list(event["data"]) == ["pty"]
            chunk = base64.b64decode(event["data"]["pty"])
            assert 0 < len(chunk) <= 16384
            self.said += chunk

    def until(self, text):
        """Return and remove the output up to and with `text`."""
        text = text.encode()
        while text not in self.said:
            assert self.end is None, (text, self.said)
            self._take()
        before, found, self.said = self.said.partition(text)
        return (before + found).decode()

    def rest(self):
        """Everything up to the end."""
        while self.end is None:
            self._take()
        assert list(self.stream) == [] and self.stream.end == {}
        self.stream.close()
        return self.said.decode()

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        return self.envd.proc("SendInput", process=self.selector, input={"pty": base64.b64encode(data).decode()})

    def resize(self, cols, rows):
        return self.envd.proc("Update", process=self.selector, pty={"size": {"cols": cols, "rows": rows}})

    def signal(self, number):
        return self.envd.proc("SendSignal", process=self.selector, signal=number)


def script(envd, text, **more):
    return Terminal(envd, "/bin/sh", "-c", text, **more)


def test_size_and_resize(envd):
    t = script(envd, "stty size; read x; stty size", cols=80, rows=24)
    t.until("24 80\r\n")
    assert t.resize(100, 30) == (200, {})
    assert t.type("\n") == (200, {})
    assert t.rest() == "\r\n30 100\r\n"
    assert t.end == {"exited": True, "status": "exit status 0"}


def test_resize_is_told_to_who_is_in_the_foreground(envd):
    t = Terminal(envd, PYTHON, "-u", "-c", "import os, signal\n"
                 "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
                 "print('ready')\n"
                 "for _ in range(2):\n"
                 "    signal.sigwait([signal.SIGWINCH])\n"
                 "    print(*os.get_terminal_size(1))\n")
    t.until("ready\r\n")
    t.resize(101, 31)
    t.until("101 31\r\n")
    t.resize(102, 32)
    t.until("102 32\r\n")
    assert t.rest() == ""


def test_sizes_that_are_none(envd):
    t = script(envd, "stty size; read x", pty={})
    t.until("0 0\r\n")
    assert envd.proc("Update", process=t.selector, pty={})[0] == 200
    assert envd.proc("Update", process=t.selector)[0] == 200
    status, answer = t.resize(70000, 1)
    assert (status, answer["code"]) == (400, "invalid_argument") and "65535" in answer["message"]
    status, answer = t.resize(-1, 1)
    assert status == 400
    t.signal(9)
    t.rest()
    r = Result(envd.stream("Start", {"process": {"cmd": "/bin/true"}, "pty": {"size": {"cols": 65536}}}))
    assert r.error["code"] == "invalid_argument"
    assert envd.list() == []


def test_it_is_the_controlling_terminal_of_a_session_of_its_own(envd):
    t = Terminal(envd, PYTHON, "-c", "import os\n"
                 "print(os.getpid() == os.getsid(0) == os.getpgrp() == os.tcgetpgrp(0))\n"
                 "print(all(map(os.isatty, (0, 1, 2))), os.ttyname(0) == os.ttyname(1) == os.ttyname(2))\n"
                 "print(os.stat(os.ttyname(0)).st_uid == os.getuid())\n"
                 "open('/dev/tty', 'w').write('by its name\\n')\n"
                 "print(sorted(os.listdir('/proc/self/fd'))[:4])\n")
    assert t.rest().split("\r\n") == ["True", "True True", "True", "by its name", "['0', '1', '2', '3']", ""]


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_the_terminal_is_the_users(envd):
    t = Terminal(envd, PYTHON, "-c", "import os; s = os.stat(0); print(s.st_uid == os.getuid() != 0); "
                 "open(os.ttyname(0), 'w').write('again\\n')", headers=basic("daemon"), cwd="/")
    assert t.rest() == "True\r\nagain\r\n"


def test_environment_is_the_requests(envd):
    t = script(envd, "echo $TERM $LANG", envs={"TERM": "xterm-256color", "LANG": "C.UTF-8"})
    assert t.rest() == "xterm-256color C.UTF-8\r\n"


def test_an_interactive_shell(envd):
    t = Terminal(envd, "/bin/bash", "--norc", "--noprofile", "-i", cwd="/usr",
                 envs={"PS1": "ready> ", "HISTFILE": "/dev/null", "TERM": "dumb"})
    t.until("ready> ")
    t.type("echo $((6 * 7)); pwd\n")
    assert "42\r\n/usr\r\n" in t.until("/usr\r\nready> ")
    t.type("sleep 60\n")
    children = pathlib.Path(f"/proc/{t.pid}/task/{t.pid}/children")

    def in_foreground():
        pids = children.read_text().split()
        stat = pathlib.Path(f"/proc/{t.pid}/stat").read_text().rpartition(")")[2].split()
        return pids and stat[5] == pids[0] and pathlib.Path(f"/proc/{pids[0]}/comm").read_text() == "sleep\n"
    wait_for(in_foreground, what="sleep has the terminal")
    t.type(b"\x03")
    t.until("^C")
    t.until("ready> ")
    t.type("exit 7\n")
    t.rest()
    assert t.end["exitCode"] == 7


def test_end_of_file_is_a_character(envd):
    t = Terminal(envd, "/bin/cat")
    t.type("line\n")
    t.until("line\r\nline\r\n")
    status, answer = envd.proc("CloseStdin", process=t.selector)
    assert (status, answer["code"]) == (500, "unknown") and "Ctrl+D (0x04)" in answer["message"]
    t.type(b"\x04")
    t.rest()
    assert t.end == {"exited": True, "status": "exit status 0"}


def test_input_of_the_other_kind(envd):
    t = Terminal(envd, "/bin/cat")
    status, answer = envd.proc("SendInput", process=t.selector, input={"stdin": "eA=="})
    assert (status, answer["code"]) == (500, "internal")
    assert answer["message"].startswith("tty assigned to process")
    t.signal(9)
    t.rest()
    assert t.end["status"] == "signal: killed"


def test_much_output_is_whole_and_in_order(envd):
    lines = 60000
    t = Terminal(envd, PYTHON, "-c", f"for i in range({lines}): print(i)")
    assert t.rest() == "".join(f"{i}\r\n" for i in range(lines))


@pytest.mark.parametrize("slow", [False, True], ids=["reads on", "reads late"])
def test_the_last_output_comes_before_the_end(envd, slow, tmp_path):
    # The end of a session may hang up its terminal; what was written must come all the same.
    for size in (1, 4095, 4096, 30000):
        t = script(envd, f"head -c {size} /dev/zero | tr '\\0' x; : > {tmp_path}/{size}; exit 5")
        if slow:
            wait_for((tmp_path / str(size)).exists, what="all is written")
        assert t.rest() == "x" * size
        assert t.end["exitCode"] == 5


def test_it_is_drained_when_nobody_reads(envd, tmp_path):
    t = script(envd, f"head -c 3000000 /dev/zero; : > {tmp_path}/done; read x; echo late")
    t.stream.close()
    wait_for((tmp_path / "done").exists, what="its output is thrown away")
    again = envd.stream("Connect", {"process": t.selector})
    assert again.event() == {"start": {"pid": t.pid}}
    t.type("\n")
    said = b""
    for message in again:
        said += base64.b64decode(message["event"].get("data", {}).get("pty", ""))
    assert said.endswith(b"late\r\n")
    again.close()


def test_a_slow_reader_stops_the_command(envd, tmp_path):
    t = script(envd, f"head -c 20000000 /dev/zero; : > {tmp_path}/done")

    child = int(wait_for(lambda: pathlib.Path(f"/proc/{t.pid}/task/{t.pid}/children").read_text().split())[0])
    seen = []

    def stands_still():
        io = pathlib.Path(f"/proc/{child}/io").read_text()
        seen.append(int(re.search(r"wchar: (\d+)", io)[1]))
        return seen[-1] > 0 and seen[-100:].count(seen[-1]) == 100
    wait_for(stands_still, what="the command waits for its terminal", seconds=60)
    assert 0 < seen[-1] < 20000000 and not (tmp_path / "done").exists()
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 16 << 10
    assert len(t.rest()) == 20000000
    assert (tmp_path / "done").exists()


def test_signals(envd):
    t = script(envd, "trap 'echo terminated; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    t.until("ready\r\n")
    assert t.signal("SIGNAL_SIGTERM") == (200, {})
    assert "terminated\r\n" in t.rest()
    assert t.end["exitCode"] == 3


def test_what_is_left_in_the_background_does_not_hold_the_end(envd, tmp_path):
    t = script(envd, f"(trap '' HUP; : > {tmp_path}/deaf; exec sleep 60) & echo $! > {tmp_path}/pid;"
               f"while [ ! -e {tmp_path}/deaf ]; do sleep 0.01; done; exit 4")
    t.rest()
    assert t.end["exitCode"] == 4
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid), "what ignores the hang-up goes on"
    os.kill(pid, signal.SIGKILL)


def test_the_client_that_leaves_does_not_hang_up(envd):
    t = script(envd, "read x; exit 6")
    t.stream.close()
    again = envd.stream("Connect", {"process": t.selector})
    assert again.event() == {"start": {"pid": t.pid}}
    t.type("\n")
    assert Result(again).end["exitCode"] == 6


def test_deadline_and_unknown_command(envd):
    stream = envd.stream("Start", {"process": {"cmd": "/bin/sleep", "args": ["60"]}, "pty": {}},
                         {"Connect-Timeout-Ms": "300"})
    r = Result(stream)
    assert r.error["code"] == "deadline_exceeded" and not alive(r.pid)
    t = Terminal(envd, "no-such-command")
    assert "no-such-command: not found" in t.rest() and t.end["exitCode"] == 127


def test_nothing_is_left(envd):
    def descriptors():
        return len(os.listdir(f"/proc/{envd.process.pid}/fd"))
    script(envd, "exit").rest()
    before = descriptors()
    for _ in range(30):
        script(envd, "echo x").rest()
    wait_for(lambda: descriptors() <= before, what="descriptors are closed")
