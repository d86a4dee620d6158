# SPDX-License-Identifier: Apache-2.0
"""Commands in the background, in a real envd. Their output is kept in a directory of the test."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from harness import process_exists, wait_for
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401
from mcp_schemas import checked

SEGMENT = 8388608


class Commands:
    """The tools, for one server and sandbox."""

    def __init__(self, server, sandbox, real):
        self.server = server
        self.sandbox = sandbox
        self.place = real.commands
        self.started = []

    def start(self, command, **more):
        o, self.text, _ = checked(self.server, "start_command", sandbox_id=self.sandbox, command=command, **more)
        self.started.append(o["command_id"])
        return o

    def call(self, name, command, **more):
        o, self.text, _ = checked(self.server, name, sandbox_id=self.sandbox, command_id=command, **more)
        return o

    def read(self, command, cursor=0, wait=20, **more):
        return self.call("read_output", command, cursor=cursor, wait_seconds=wait, **more)

    def until(self, command, done, cursor=0):
        """Reads all output from the cursor on, until `done(output, page)`."""
        output = ""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            page = self.read(command, cursor, wait=10)
            output += page["output"]
            cursor = page["next_cursor"]
            if done(output, page):
                return output, page
        raise AssertionError(f"not done: {output[-500:]!r}")

    def end(self, command, cursor=0):
        return self.until(command, lambda o, p: not p["running"] and p["next_cursor"] == p["total_bytes"], cursor)

    def group_of(self, command):
        return int((self.place / command / "pid").read_text().split()[0])

    def error(self, name, **more):
        return self.server.error(name, sandbox_id=self.sandbox, **more)


@pytest.fixture
def commands(server, sandbox, real):  # noqa: F811
    c = Commands(server, sandbox, real)
    yield c
    for command in c.started:
        c.call("stop_command", command, signal="KILL")


def test_a_server_in_the_background(commands):
    o = commands.start("echo up; while read -r line; do echo got $line; done; echo bye; exit 3")
    assert o["running"] and "exit_code" not in o
    command = o["command_id"]
    assert commands.text.endswith(f"[command {command}: running; next cursor {o['next_cursor']}]")
    output, page = commands.until(command, lambda o, p: o == "up\n")
    assert commands.call("send_input", command, text="a b\n")["bytes"] == 4
    output, page = commands.until(command, lambda o, p: o == "got a b\n", page["next_cursor"])
    o = commands.call("send_input", command, text="c\n", close_stdin=True)
    assert o["closed"] and commands.text == f"2 bytes sent to command {command}, its stdin is closed"
    output, page = commands.end(command, page["next_cursor"])
    assert output == "got c\nbye\n" and page["exit_code"] == 3
    assert commands.text.endswith(f"[command {command}: exit code 3; next cursor {page['total_bytes']}]")
    assert commands.read(command)["output"] == "up\ngot a b\ngot c\nbye\n", "it is kept"


def test_what_ends_at_once_is_told_at_once(commands):
    o = commands.start("echo out; echo err >&2; nonsense-command")
    output, page = commands.end(o["command_id"])
    assert page["exit_code"] == 127 and output.startswith("out\nerr\n") and "nonsense-command" in output


def test_where_as_whom_with_what(commands, tmp_path):
    (tmp_path / "sub").mkdir()
    o = commands.start("pwd; echo $X; umask; [ -t 0 ] || echo no tty", cwd=str(tmp_path / "sub"), envs={"X": "a  b"})
    output, _ = commands.end(o["command_id"])
    lines = output.splitlines()
    assert lines[:2] == [str(tmp_path / "sub"), "a b"] and lines[3] == "no tty"
    assert "does not exist" in commands.error("start_command", command="true", cwd=str(tmp_path / "no"))


def test_it_outlives_the_server(start, real, sandbox):  # noqa: F811
    one = Commands(start(), sandbox, real)
    command = one.start("echo a; read x; echo b$x; read -r never")["command_id"]
    one.until(command, lambda o, p: o == "a\n")
    one.server.finish()
    two = Commands(start(), sandbox, real)
    two.call("send_input", command, text="c\n")
    assert two.until(command, lambda o, p: "b" in o)[0] == "a\nbc\n"
    o = two.call("stop_command", command)
    assert o["was_running"] and not o["killed"] and o["exit_code"] == 143


def test_stop_takes_the_whole_group(commands):
    o = commands.start("trap '' TERM; sleep 1000 & sleep 1001 & echo $!; wait; wait")
    output, _ = commands.until(o["command_id"], lambda o, p: o.endswith("\n"))
    child = int(output)
    assert process_exists(child)
    stopped = commands.call("stop_command", o["command_id"], grace_seconds=0.5)
    assert stopped["was_running"]
    assert not process_exists(child) and not process_exists(commands.group_of(o["command_id"]))


def test_stop_escalates(commands):
    o = commands.start("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    commands.until(o["command_id"], lambda o, p: "ready" in o)
    stopped = commands.call("stop_command", o["command_id"], grace_seconds=0.3)
    assert stopped["killed"] and stopped["exit_code"] == 137
    assert commands.text == f"Command {o['command_id']} stopped, by KILL (exit code 137)"


def test_stop_by_a_signal_that_is_handled(commands):
    o = commands.start("exec python3 -uc 'import time\ntry:\n  print(1); time.sleep(99)\nexcept KeyboardInterrupt:\n  print(2); raise SystemExit(7)'")
    commands.until(o["command_id"], lambda o, p: o == "1\n")
    stopped = commands.call("stop_command", o["command_id"], signal="INT", grace_seconds=10)
    assert not stopped["killed"] and stopped["exit_code"] == 7
    assert commands.read(o["command_id"])["output"] == "1\n2\n"


def test_stop_what_has_ended(commands):
    command = commands.start("exit 4")["command_id"]
    commands.end(command)
    o = commands.call("stop_command", command)
    assert (o["was_running"], o["killed"], o["exit_code"]) == (False, False, 4)
    assert "had already ended" in commands.text


def test_what_a_command_leaves_behind(commands):
    """A grandchild that holds its output does not hide the end of the command."""
    o = commands.start("setsid sleep 30 & echo started; exit 5")
    output, page = commands.end(o["command_id"])
    assert (output, page["exit_code"]) == ("started\n", 5)


def test_waiting(commands):
    o = commands.start("sleep 1; echo one; sleep 600")
    page = commands.read(o["command_id"], o["next_cursor"], wait=300)  # longer than an answer is waited for
    assert page["output"] == "one\n" and page["running"]
    before = time.monotonic()
    page = commands.read(o["command_id"], page["next_cursor"], wait=0.5)
    assert page["output"] == "" and page["running"] and time.monotonic() - before > 0.4
    assert commands.text.startswith(f"[command {o['command_id']}: running")


def test_cursors(commands):
    command = commands.start("printf 0123456789")["command_id"]
    commands.end(command)
    page = commands.read(command, 4, max_bytes=3)
    assert (page["output"], page["cursor"], page["next_cursor"], page["total_bytes"]) == ("456", 4, 7, 10)
    assert "3 more bytes" in commands.text
    assert commands.read(command, -2)["output"] == "89"
    assert commands.read(command, -99)["output"] == "0123456789"
    page = commands.read(command, 99)
    assert (page["output"], page["next_cursor"]) == ("", 10)


def test_characters_are_not_torn(commands):
    command = commands.start("printf 'aü€😀'")["command_id"]
    commands.end(command)
    got, cursor = "", 0
    for _ in range(9):
        page = commands.read(command, cursor, max_bytes=4)
        got += page["output"]
        cursor = page["next_cursor"]
    assert got == "aü€😀"


def test_a_page_of_less_than_a_character(commands):
    command = commands.start("printf 'aü€😀'")["command_id"]
    commands.end(command)
    got, cursor = [], 0
    while cursor < 10:
        page = commands.read(command, cursor, max_bytes=1)
        assert page["next_cursor"] > cursor, "it goes on"
        got.append(page["output"])
        cursor = page["next_cursor"]
    assert got == ["a", "ü", "€", "😀"]


def test_the_rest_of_a_character_is_waited_for(commands):
    command = commands.start(r"printf 'x\xe2\x82'; read -r a; printf '\xac'; read -r b; printf '\xf0\x9f'; read -r c")["command_id"]
    page = commands.read(command)
    assert (page["output"], page["next_cursor"]) == ("x", 1)
    before = time.monotonic()
    page = commands.read(command, 1, wait=1)
    assert (page["output"], page["next_cursor"], page["total_bytes"]) == ("\ufffd\ufffd", 3, 3), "nothing came"
    assert time.monotonic() - before > 0.8
    request = {"name": "read_output", "arguments": {
        "sandbox_id": commands.sandbox, "command_id": command, "cursor": 1, "wait_seconds": 20}}
    commands.server.send({"jsonrpc": "2.0", "id": 7071, "method": "tools/call", "params": request})
    other = {"name": "send_input", "arguments": {"sandbox_id": commands.sandbox, "command_id": command, "text": "\n"}}
    commands.server.send({"jsonrpc": "2.0", "id": 7072, "method": "tools/call", "params": other})
    answers = {m["id"]: m for m in (commands.server.line(), commands.server.line())}
    assert answers[7071]["result"]["structuredContent"]["output"] == "€"
    commands.call("send_input", command, text="\n", close_stdin=True)
    output, page = commands.end(command, 4)
    assert output == "\ufffd\ufffd" and page["next_cursor"] == page["total_bytes"] == 6


def test_a_segment_that_is_removed_while_it_is_looked_for(real, start, sandbox, tmp_path):  # noqa: F811
    """A cursor always stands for the same output, whichever side is faster: each byte of it names
    its segment."""
    place = real.commands / "0123abcd"
    place.mkdir(parents=True)
    (place / "command").write_text("x\n")
    (place / "pid").write_text(f"{os.getpid()} {os.getpid()}\n")
    (place / "out.000003").write_bytes(b"3" * SEGMENT)
    (place / "out.000004").write_bytes(b"4" * 1000)
    (tmp_path / "bin").mkdir()
    stat = tmp_path / "bin" / "stat"
    stat.write_text(f"""#!/bin/sh
        /usr/bin/stat "$@"
        [ ! -e {place}/out.000003 ] || {{
            rm {place}/out.000003
            head -c {SEGMENT} /dev/zero | tr '\\0' 4 >{place}/out.000004
            echo 5 >{place}/out.000005
        }}
        """)
    stat.chmod(0o755)
    assert real.envd.init(envVars={"CUBBY_COMMANDS": str(real.commands), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})[0] == 204
    page = start().result("read_output", sandbox_id=sandbox, command_id="0123abcd", cursor=3 * SEGMENT, max_bytes=100)
    assert not (place / "out.000003").exists()
    page = page["structuredContent"]
    assert (page["cursor"], page["output"]) == (4 * SEGMENT, "4" * 100)


def test_a_segment_that_is_new_and_empty(real, start, sandbox):  # noqa: F811
    """The cursor does not go back when the next segment is still empty."""
    place = real.commands / "0123abcd"
    place.mkdir(parents=True)
    (place / "command").write_text("x\n")
    (place / "pid").write_text(f"{os.getpid()} {os.getpid()}\n")
    (place / "out.000003").write_bytes(b"3" * SEGMENT)
    (place / "out.000004").touch()
    assert real.envd.init(envVars={"CUBBY_COMMANDS": str(real.commands)})[0] == 204
    server = start()

    def read(cursor):
        page = server.result("read_output", sandbox_id=sandbox, command_id="0123abcd", cursor=cursor)["structuredContent"]
        return page["cursor"], page["output"], page["next_cursor"], page["total_bytes"]

    assert read(4 * SEGMENT) == (4 * SEGMENT, "", 4 * SEGMENT, 4 * SEGMENT)
    assert read(4 * SEGMENT - 2) == (4 * SEGMENT - 2, "33", 4 * SEGMENT, 4 * SEGMENT)


def test_a_link_instead_of_the_place_is_not_followed(commands, tmp_path):
    (tmp_path / "etc").mkdir()
    commands.place.symlink_to(tmp_path / "etc")
    text = commands.error("start_command", command="true")
    assert text == ("failed: could not start the command: its output cannot be kept "
                    f"({commands.place} is a symbolic link)")
    assert not list((tmp_path / "etc").iterdir()) and (tmp_path / "etc").stat().st_mode & 0o7777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("full", ["inodes", "blocks"])
def test_a_full_disk_is_named(commands, full):
    """Neither the directory of all commands nor a file of this one can be made there."""
    size = {"inodes": "nr_inodes=2", "blocks": "size=64k"}[full]
    disk = commands.place.parent / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", disk], check=True)
    try:
        where = disk if full == "blocks" else disk / "commands"
        (disk / "big").write_bytes(b"x" * (65536 if full == "blocks" else 0))
        text = commands.error("start_command", command="true", envs={"CUBBY_COMMANDS": str(where)})
        assert text.startswith("failed: could not start the command: the disk of the sandbox is full, and the command's "
                               "output could not be kept. Delete files and try again (")
        assert "No space left on device)" in text and "\\x0a" not in text and "not a directory" not in text
        assert [f.name for f in disk.iterdir()] == ["big"], "nothing of the command is left"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_much_output_is_bounded(commands):
    """The last 8 to 16 MiB are kept, at unchanged cursors."""
    command = commands.start("seq 3200000")["command_id"]
    wait_for(lambda: not commands.read(command, -1, wait=1)["running"], 60, "its end")
    total = sum(len(str(i)) + 1 for i in range(1, 3200001))
    kept = sum(f.stat().st_size for f in (commands.place / command).glob("out.*"))
    assert SEGMENT <= kept <= 2 * SEGMENT < total
    page = commands.read(command, 0, max_bytes=1000)
    assert page["total_bytes"] == total and page["cursor"] == total - total % SEGMENT - SEGMENT
    # Over the edge of two files.
    edge = total - total % SEGMENT
    page = commands.read(command, edge - 500, max_bytes=1000)
    numbers = [int(n) for n in page["output"].split()[1:-1]]
    assert len(page["output"]) == 1000 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert commands.read(command, -8)["output"] == "3200000\n"


def test_ids_that_are_none(commands):
    assert commands.error("read_output", command_id="../../etc").startswith("invalid_command_id: '../../etc' is not")
    for bad in "", "0123abcd-", "0123abcd-a/b", "0123abcd0", "0123ABCD", "0123abcd-" + "a" * 33:
        assert commands.error("stop_command", command_id=bad).startswith("invalid_command_id")
    command = commands.start("echo hello; read x")["command_id"]
    for tool in "read_output", "stop_command", "send_input":
        more = {"text": "x"} if tool == "send_input" else {}
        text = commands.error(tool, command_id="0123abcd", **more)
        assert text.startswith("command_not_found: there is no command 0123abcd in this sandbox. Known commands: ")
        assert f"{command} (running): echo hello; read x" in text
    assert commands.error("read_output", command_id="0123abcd-nosuch") == \
        "command_not_found: there is no command 0123abcd-nosuch in this sandbox, and no user nosuch"


def test_input_that_cannot_be_sent(commands):
    command = commands.start("true")["command_id"]
    commands.end(command)
    assert commands.error("send_input", command_id=command, text="x").startswith("command_ended: ")
    assert commands.error("send_input", command_id=command).startswith("invalid_argument: give text")
    command = commands.start("read x; echo $x; read y; echo end; sleep 99")["command_id"]
    commands.call("send_input", command, text="a\n", close_stdin=True)
    commands.until(command, lambda o, p: o == "a\nend\n")
    assert commands.error("send_input", command_id=command, text="x").startswith("stdin_closed: ")


def test_arguments_are_checked(commands):
    assert commands.error("start_command", command="x" * 131072).startswith("invalid_argument: the command has 131072")
    assert "must match" in commands.error("start_command", command="true", user="a;b")
    assert 'must be one of' in commands.error("stop_command", command_id="0123abcd", signal="STOP")
    assert "from 0 to 300, not 301" in commands.error("read_output", command_id="0123abcd", wait_seconds=301)


def running(words):
    """The pids of processes with this command line."""
    found = []
    for one in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if one.joinpath("cmdline").read_bytes() == words.encode() and process_exists(one.name):
                found.append(int(one.name))
        except OSError:
            pass  # it has ended
    return found


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.06])
def test_a_start_that_is_cancelled_leaves_nothing(commands, delay):
    """Whenever it is cancelled, the command does not run on, because nobody knows its id."""
    seconds = 70000 + int(delay * 1000)
    call = {"name": "start_command", "arguments": {"sandbox_id": commands.sandbox, "command": f"sleep {seconds}"}}
    commands.server.send({"jsonrpc": "2.0", "id": 7070, "method": "tools/call", "params": call})
    time.sleep(delay)
    commands.server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7070}})
    commands.server.finish()  # waits for what it has begun
    wait_for(lambda: not running(f"sleep\0{seconds}\0"), what="it runs no more")


def test_what_nobody_waits_for_is_no_reason_to_wait(commands):
    """A zombie in the group does not count; its parent is in another group and lives on."""
    code = ("import os, signal, time\n"
            "ours = os.getpid()\n"
            "if os.fork() == 0:\n"
            "    os.setpgid(0, 0)\n"
            "    if os.fork() == 0:\n"
            "        os.setpgid(0, ours)\n"
            "        print('up', os.getppid(), flush=True)\n"
            "    time.sleep(99)\n"
            "time.sleep(99)\n")
    command = commands.start(f"exec python3 -c \"{code}\"")["command_id"]
    output, _ = commands.until(command, lambda o, p: o.endswith("\n"))
    stopped = commands.call("stop_command", command, grace_seconds=20)
    os.kill(int(output.split()[1]), signal.SIGKILL)
    assert not stopped["killed"], "as it would be after 20 s"


def test_only_some_of_what_ended_is_kept(commands):
    ids = []
    for i in range(23):
        ids.append(commands.start(f"echo {i}")["command_id"])
        commands.end(ids[-1])
    kept = wait_for(lambda: len(k := [i for i in ids if (commands.place / i).exists()]) <= 20 and k)
    assert kept == ids[-len(kept):] and len(kept) >= 18
    commands.started = kept
