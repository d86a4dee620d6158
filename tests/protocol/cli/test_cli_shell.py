# SPDX-License-Identifier: Apache-2.0
"""cubby shell and cubby run: a real terminal pair here, and a real envd with its own there."""

import errno
import fcntl
import os
import pathlib
import pwd
import re
import signal
import struct
import subprocess
import termios
import threading
import tty

import pytest

from fake_cubbyd import ID, wait_for
from fake_fixtures import *  # noqa: F401,F403

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"
ME = pwd.getpwuid(os.getuid()).pw_name
SECONDS = 30


class Terminal:
    """A person's terminal with `cubby` in it, as the leader of its session."""

    def __init__(self, fake, *words, columns=100, rows=40):
        self.ours, theirs = os.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.ours)
        self.screen = b""
        self.grew = threading.Condition()

        def claim():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.cubby = subprocess.Popen([CUBBY, *words], env={**fake.env, "TERM": "xterm"}, stdin=theirs, stdout=theirs,
                                      stderr=theirs, preexec_fn=claim)
        os.close(theirs)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while True:
            try:
                data = os.read(self.ours, 65536)
            except OSError as error:
                assert error.errno in (errno.EIO, errno.EBADF)
                return
            with self.grew:
                self.screen += data
                self.grew.notify_all()

    def resize(self, columns, rows):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.ours, text.encode())

    def shows(self, pattern):
        """Waits until the screen has the pattern. Returns the match and forgets the screen up to its end."""
        found = []

        def look():
            found[:] = [m for m in [re.search(pattern.encode(), self.screen)] if m]
            return bool(found)

        with self.grew:
            assert self.grew.wait_for(look, SECONDS), self.screen[-2000:]
            self.screen = self.screen[found[0].end():]
        return found[0]

    def end(self):
        status = self.cubby.wait(SECONDS)
        self.reader.join(0.2)
        return status

    def close(self):
        if self.cubby.poll() is None:
            self.cubby.kill()
            self.cubby.wait()
        os.close(self.ours)


@pytest.fixture
def open_terminal(fake):
    opened = []

    def open_one(*words, **options):
        opened.append(Terminal(fake, *words, **options))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


def shell(open_terminal, *options, command=("sh", "-i"), **more):
    return open_terminal("shell", "--user", ME, "--env", "PS1=ready> ", *options, ID, "--", *command, **more)


def test_a_shell_has_a_terminal(open_terminal):
    terminal = shell(open_terminal)
    terminal.shows("ready> ")
    terminal.type("tty; stty size; echo $TERM $LANG\n")
    terminal.shows(r"/dev/pts/\d+\r\n40 100\r\nxterm C.UTF-8\r\n")
    terminal.type("exit 7\n")
    assert terminal.end() == 7
    assert termios.tcgetattr(terminal.ours)[3] == terminal.before[3]  # as it was: echo, lines, signals


def test_a_login_shell_without_a_command(fake, open_terminal):
    terminal = open_terminal("shell", "--user", ME, ID)
    terminal.type("shopt login_shell; echo $-\n")
    terminal.shows(r"login_shell\s+on\r\n")
    terminal.shows(r"\w*i\w*\r\n")
    terminal.type("exit\n")
    assert terminal.end() == 0


def test_keys_reach_the_program(open_terminal):
    terminal = shell(open_terminal, command=(
        "sh", "-c", "trap 'echo interrupted; hit=1' INT; echo go; until [ $hit ]; do sleep 0.05; done; echo after"))
    terminal.shows("go\r\n")
    terminal.type("\x03")
    terminal.shows("interrupted\r\n")
    terminal.shows("after\r\n")
    assert terminal.end() == 0


def test_bytes_are_not_changed(open_terminal):
    """Raw keys there, raw bytes back: what a full-screen program and its user need."""
    terminal = shell(open_terminal, command=("sh", "-c", "stty raw -echo; echo on; head -c 256 | od -An -v -tx1"))
    tty.setraw(terminal.ours)
    terminal.shows("on\n")
    os.write(terminal.ours, b"x" + bytes(i for i in range(256) if i != ord("~")))
    shown = terminal.shows(r"(?s)((?: [0-9a-f]{2}){16}\n){16}").group(0)
    expected = b"x" + bytes(i for i in range(256) if i != ord("~"))
    assert bytes.fromhex(shown.decode()) == expected
    assert terminal.end() == 0


def test_a_new_size_is_told(open_terminal):
    terminal = shell(open_terminal, command=("sh", "-c", "trap 'stty size' WINCH; echo go; while :; do sleep 0.05; done"))
    terminal.shows("go\r\n")
    terminal.resize(132, 50)
    terminal.shows("50 132\r\n")
    terminal.resize(70, 20)
    terminal.shows("20 70\r\n")


def test_leave_and_return(fake, open_terminal):
    terminal = shell(open_terminal)
    terminal.shows("ready> ")
    terminal.type("kept=here\n")
    terminal.shows("ready> ")
    terminal.type("~?")
    terminal.shows("~. leaves the shell")
    terminal.type("~.")
    name = terminal.shows(rf"cubby shell --name (shell-[0-9a-f]{{4}}) {ID}").group(1).decode()
    assert terminal.end() == 0 and len(fake.processes()) == 1
    back = shell(open_terminal, "--name", name, columns=90, rows=30)
    back.type("echo $kept; until [ \"$(stty size)\" = '30 90' ]; do :; done; echo si''zed\n")
    back.shows("here\r\nsized\r\n")
    back.type("echo ~~ ~.; exit\n")  # within a line a tilde is a tilde
    back.shows(r"~~ ~\.\r\n")
    assert back.end() == 0


def test_a_tilde_at_the_beginning_of_a_line(open_terminal):
    terminal = shell(open_terminal, command=("sh", "-c", "stty -echo; echo go; head -n 2 | od -c"))
    terminal.shows("go\r\n")
    terminal.type("~~a\n~b\n")
    terminal.shows(r"~   a  .n   ~   b  .n")


def test_a_named_shell_is_joined_by_two(open_terminal):
    first = shell(open_terminal, "--name", "pair")
    first.shows("ready> ")
    second = shell(open_terminal, "--name", "pair")
    second.type("echo to-$((1 + 1))-both\n")
    first.shows("to-2-both")
    second.shows("to-2-both")
    first.type("exit 3\n")
    assert first.end() == 3 and second.end() == 3


def test_a_connection_that_breaks_is_made_again(fake, open_terminal):
    terminal = shell(open_terminal)
    terminal.shows("ready> ")
    for turn in range(3):
        fake.cut_streams()
        terminal.shows("the connection broke; trying again")
        terminal.shows("connected again")
        terminal.type(f"echo turn $(({turn} + 1))\n")
        terminal.shows(f"turn {turn + 1}\r\n")
    terminal.type("exit 4\n")
    assert terminal.end() == 4


def test_a_shell_that_ended_while_the_connection_was_broken(fake, open_terminal):
    terminal = shell(open_terminal)
    terminal.shows("ready> ")
    fake.kill_envd()
    terminal.shows("the connection broke")
    fake.ended[ID] = 'Sandbox "x" has ended: killed'
    del fake.sandboxes[ID]
    terminal.shows("cubby: ")
    assert terminal.end() == 125


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_that_is_gone(fake, open_terminal, number):
    terminal = shell(open_terminal)
    terminal.shows("ready> ")
    terminal.cubby.send_signal(number)
    assert terminal.end() == 128 + number
    wait_for(lambda: not fake.processes())


def test_a_named_shell_outlives_its_terminal(fake, open_terminal):
    terminal = shell(open_terminal, "--name", "stays")
    terminal.shows("ready> ")
    terminal.cubby.send_signal(signal.SIGHUP)
    assert terminal.end() == 128 + signal.SIGHUP
    assert len(fake.processes()) == 1
    back = shell(open_terminal, "--name", "stays")
    back.type("exit 9\n")
    assert back.end() == 9


@pytest.mark.parametrize("words, said", [
    (["shell"], "shell takes the id"), (["shell", ID], "not a terminal"), (["run", "--tty", "true"], "not a terminal"),
    (["run"], "run takes a command"), (["run", "--env", "X", "true"], "--env"),
    (["run", "--no-internet", "--allow", "a.example", "true"], "--no-internet cannot be combined")])
def test_mistakes(fake, words, said):
    done = subprocess.run([CUBBY, *words], env=fake.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 125 and said.encode() in done.stderr and fake.seen == []


# ---- run
def run(fake, *words, **options):
    return subprocess.run([CUBBY, "run", "--user", ME, *words], env=fake.env, capture_output=True, timeout=60, **options)


def test_run(fake):
    fake.sandboxes.clear()
    done = run(fake, "--metadata", "a=b", "--", "sh", "-c", "tr a-z A-Z; echo e >&2; exit 5", input=b"hello")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"HELLO", b"e\n")
    assert fake.ended == {ID: "killed"} and not fake.sandboxes


def test_run_keeps(fake):
    fake.sandboxes.clear()
    done = run(fake, "--keep", "echo", "a")
    assert (done.returncode, done.stdout) == (0, b"a\n") and b"cubby kill " + ID.encode() in done.stderr
    assert ID in fake.sandboxes


def test_run_in_a_terminal(fake, open_terminal):
    fake.sandboxes.clear()
    terminal = open_terminal("run", "--user", ME, "--tty", "--", "sh", "-c", "stty size; exit 6")
    terminal.shows("40 100\r\n")
    assert terminal.end() == 6 and fake.ended == {ID: "killed"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_that_is_interrupted(fake, number):
    fake.sandboxes.clear()
    cubby = subprocess.Popen([CUBBY, "run", "--user", ME, "--", "sh", "-c", "echo go; sleep 60"], env=fake.env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert cubby.stdout.readline() == b"go\n"
    cubby.send_signal(number)
    assert cubby.wait(SECONDS) == 128 + number
    assert fake.ended == {ID: "killed"} and not fake.processes()
    cubby.stdout.close()
