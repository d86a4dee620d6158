# SPDX-License-Identifier: Apache-2.0
"""Named shells that start late, are killed or lose their files: which calls run, and what is told."""

import fcntl
import os
import pathlib
import shutil
import signal
import time

from harness import wait_for
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_shells import children, exists, failure, keepers, kill_tree, nap, place, run, server, sleeping, streams  # noqa: F401
from proc import parent

WAIT4 = 61  # the system call
NOT_RUN = ("session_lost: the shell of session 'main' was killed, or its files were removed, before the command began, so the command was "
           "not run")


# ---- shells that end
def test_a_keeper_that_is_killed(run, real):  # noqa: F811
    shell = run("A=1; echo $$")[0]["stdout"].strip()
    os.kill(keepers(real)["main"], signal.SIGKILL)
    wait_for(lambda: not pathlib.Path(f"/proc/{keepers(real)['main']}/fd/3").exists())
    wait_for(lambda: not pathlib.Path(f"/proc/{shell}").exists(), what="its shell ends, too")
    o, _ = run("echo \"<$A>\"")
    assert o["stdout"] == "<>\n" and o["session"]["new"]


def test_a_shell_of_a_killed_keeper_meets_no_other_keeper(server, sandbox, run, real, tmp_path):  # noqa: F811
    """It ends with its command, rather than take the calls of the next shell."""
    old = run("echo $$")[0]["stdout"].strip()
    server.start_tool("run_command", sandbox_id=sandbox, session="main",
                      command=f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    wait_for((tmp_path / "began").exists)
    keeper = keepers(real)["main"]
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not pathlib.Path(f"/proc/{keeper}/fd/3").exists())
    new, _ = run("A=new; echo $$")
    assert new["session"]["new"] and new["stdout"].strip() != old
    (tmp_path / "go").touch()
    wait_for(lambda: not pathlib.Path(f"/proc/{old}").exists(), what="the old shell ends")
    for _ in range(3):
        assert run("echo $A $$")[0]["stdout"] == "new " + new["stdout"]


def test_a_place_that_is_removed(run, real):  # noqa: F811
    """As by `rm -rf /tmp/.cubby`: the shell and its keeper end, rather than start again for ever."""
    run("true")
    keeper = keepers(real)["main"]
    o, text = run(f"rm -rf {real.commands}; echo out; (exit 7)")
    assert streams(o) == ("out\n", "", 7) and o["session"]["ended"] and o["session"]["sessions"] == []
    wait_for(lambda: not pathlib.Path(f"/proc/{keeper}/fd/3").exists(), what="the keeper ends")
    assert run("echo again")[0]["session"]["new"]


# ---- shells that start late or not at all
def test_a_start_that_takes_too_long(server, sandbox, run, real):  # noqa: F811
    run("true", session="other")
    with open(next(real.commands.glob("shells-*")) / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = server.error("run_command", sandbox_id=sandbox, session="main", command="true", timeout=1)
    assert said.startswith("timeout: the shell of session 'main' did not start in time, so the command was not run")
    assert run("echo ok")[0]["stdout"] == "ok\n"


def test_a_start_that_hangs(server, sandbox, run, real):  # noqa: F811
    """At another place than the lock: the keeper waits for a FIFO's reader."""
    run("true", session="other")
    lock = next(real.commands.glob("shells-*")) / ".lock"
    lock.unlink()
    os.mkfifo(lock)
    began = time.monotonic()
    said = server.error("run_command", sandbox_id=sandbox, session="main", command="true", timeout=1)
    assert said.startswith("timeout: the shell of session 'main' did not start in time, so the command was not run")
    assert time.monotonic() - began < 60
    lock.unlink()
    assert run("echo ok")[0]["stdout"] == "ok\n"


def profile(real, text):  # noqa: F811
    (real.files / ".bash_profile").write_text(text)


def test_a_profile_that_hangs(server, sandbox, run, real, tmp_path):  # noqa: F811
    """A call whose shell does not become ready is not run, and the shell that hangs is ended with the last call that waits for it."""
    profile(real, f"touch {tmp_path}/began; sleep {nap(7008)}")
    waiting = []
    for seconds in 6, 7:
        waiting.append(server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/ran", timeout=seconds))
        wait_for(lambda: list(real.commands.glob("shells-*/main/*.taken")), what="the keeper has the first call")
    for request in waiting:
        said = failure(server, request)
        assert said.startswith("timeout: the shell of session 'main' did not start in time, so the command was not run"), said
    wait_for(lambda: not sleeping(7008), what="the shell is ended")
    assert (tmp_path / "began").exists()
    profile(real, "A=1\n")
    o, _ = run("echo $A", timeout=20)
    assert streams(o) == ("1\n", "", 0) and o["session"]["new"] and not (tmp_path / "ran").exists()


def test_a_profile_that_is_slow(start, server, sandbox, run, real, tmp_path):  # noqa: F811
    """The command waits for it, and so does the next call, of another server."""
    other = start()
    profile(real, f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; A=1")
    first = server.start_tool("run_command", sandbox_id=sandbox, session="main", command="echo first $A", timeout=60)
    second = other.start_tool("run_command", sandbox_id=sandbox, session="main", command="echo second $A", timeout=60)
    wait_for(lambda: len(list(real.commands.glob("shells-*/main/*.key"))) == 2)
    (tmp_path / "go").touch()
    assert server.tool_result(first)["stdout"] == "first 1\n"
    assert other.tool_result(second)["stdout"] == "second 1\n"


def test_a_profile_that_ends_the_shell(server, sandbox, run, real, tmp_path):  # noqa: F811
    """Each call starts one shell, rather than the keeper starting shells for ever."""
    profile(real, f"echo x >>{tmp_path}/starts; exit 5")
    for _ in range(2):
        said = server.error("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/ran", timeout=20)
        assert said.startswith("failed: the shell of session 'main' ended with exit code 5 before the command began"), said
    assert 2 <= (tmp_path / "starts").read_text().count("x") <= 3
    profile(real, "")
    assert run("echo ok")[0]["stdout"] == "ok\n" and not (tmp_path / "ran").exists()


def open_of(file):
    """The processes, other than this one, that have the file open."""
    found = []
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(file):
                found.append(int(link.parts[2]))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


def test_a_call_right_after_a_late_start(server, sandbox, run, real, tmp_path):  # noqa: F811
    """It gets another shell, rather than the error of the shell that is being killed."""
    profile(real, f"echo $$ >{tmp_path}/pid; exec sleep {nap(7009)}")
    first = server.start_tool("run_command", sandbox_id=sandbox, session="main", command="true", timeout=6)
    pid = wait_for(lambda: exists(tmp_path / "pid")).strip()
    reporter = parent(pid)  # tells the keeper that the shell has ended
    os.kill(reporter, signal.SIGSTOP)
    assert failure(server, first).startswith("timeout: the shell of session 'main' did not start in time")
    wait_for(lambda: ") Z " in exists(pathlib.Path(f"/proc/{pid}/stat")), what="the shell is killed")
    profile(real, "")
    second = server.start_tool("run_command", sandbox_id=sandbox, session="main", command="echo ok", timeout=60)
    wait_for(lambda: list(real.commands.glob("shells-*/main/*.taken")), what="the keeper has the second call")
    os.kill(reporter, signal.SIGCONT)
    o = server.tool_result(second)
    assert streams(o) == ("ok\n", "", 0) and o["session"]["new"] and not o["session"]["ended"]


def test_another_process_with_the_pid_of_the_keeper(run, real):  # noqa: F811
    run("A=1")
    file = next(real.commands.glob("shells-*/main/keeper"))
    os.kill(keepers(real)["main"], signal.SIGKILL)
    wait_for(lambda: not pathlib.Path(f"/proc/{keepers(real)['main']}/fd/3").exists())
    file.write_text(f"{os.getpid()} {file.read_text().split()[1]}\n")
    o, _ = run("echo \"<$A>\"", timeout=10)
    assert o["stdout"] == "<>\n" and o["session"]["new"]


def test_a_call_that_is_taken_does_not_run_again(server, sandbox, run, real, tmp_path):  # noqa: F811
    """The keeper takes the call and dies before the shell has it."""
    run("true")
    wait_for(lambda: not list(real.commands.glob("shells-*/main/*.command")), what="the keeper removes what is left")
    keeper = keepers(real)["main"]
    os.kill(keeper, signal.SIGSTOP)
    request = server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"echo x >>{tmp_path}/ran", timeout=30)
    file = wait_for(lambda: [f for f in real.commands.glob("shells-*/main/*.command") if exists(f).endswith("ran\n")])[0]
    file.with_suffix(".taken").touch()
    os.kill(keeper, signal.SIGKILL)
    said = failure(server, request)
    assert said.startswith(NOT_RUN), said
    assert not (tmp_path / "ran").exists()
    assert run("echo ok")[0]["stdout"] == "ok\n"


def test_a_call_that_begins_late_is_not_called_not_run(server, sandbox, run, real, tmp_path):  # noqa: F811
    """The test is the keeper. It says that it gives the command to the shell, and has not opened the streams."""
    run("true")
    wait_for(lambda: not list(real.commands.glob("shells-*/main/*.command")), what="the keeper removes what is left")
    os.kill(keepers(real)["main"], signal.SIGSTOP)
    request = server.start_tool("run_command", sandbox_id=sandbox, session="main", command="true", timeout=60)
    file = wait_for(lambda: list(real.commands.glob("shells-*/main/*.command")))[0]
    wait_for(lambda: open_of(file.with_suffix(".begun")), what="the client holds it")
    begun = os.open(file.with_suffix(".begun"), os.O_RDWR)
    os.write(begun, b"begun\n")
    file.with_suffix(".taken").touch()
    client = open_of(file.with_suffix(".alive"))[0]
    wait_for(lambda: exists(pathlib.Path(f"/proc/{client}/syscall")).startswith(f"{WAIT4} ") or not file.exists(),
             what="the client waits for the end, or gives up")
    for stream in ".out", ".err":  # opened, and closed without the key
        os.close(os.open(file.with_suffix(stream), os.O_WRONLY))
    os.close(begun)
    os.kill(keepers(real)["main"], signal.SIGKILL)
    said = failure(server, request)
    assert said.startswith("session_lost: the shell of session 'main' was killed. The command may have run in part"), said


def test_a_call_whose_keeper_is_killed_before_its_shell_is_ready(server, sandbox, run, real, tmp_path):  # noqa: F811
    """The keeper has the call and its FIFOs, but no shell has it."""
    profile(real, f"touch {tmp_path}/began; sleep {nap(7010)}")
    request = server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"echo x >>{tmp_path}/ran", timeout=60)
    wait_for((tmp_path / "began").exists)
    wait_for(lambda: list(real.commands.glob("shells-*/main/*.taken")))
    kill_tree(keepers(real)["main"], children())
    assert failure(server, request).startswith(NOT_RUN)
    profile(real, "")
    assert run("echo ok")[0]["stdout"] == "ok\n" and not (tmp_path / "ran").exists()


def test_a_call_that_has_begun_when_its_keeper_is_killed(server, sandbox, run, real, tmp_path):  # noqa: F811
    run("true")
    request = server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f": >{tmp_path}/began; while :; do :; done", timeout=60)
    wait_for((tmp_path / "began").exists)
    kill_tree(keepers(real)["main"], children())
    said = failure(server, request)
    assert said.startswith("session_lost: the shell of session 'main' was killed. The command may have run in part"), said


def test_a_call_that_nobody_has_taken_is_run_by_the_next_keeper(server, sandbox, run, real, tmp_path):  # noqa: F811
    run("true")
    wait_for(lambda: not list(real.commands.glob("shells-*/main/*.command")), what="the keeper removes what is left")
    keeper = keepers(real)["main"]
    os.kill(keeper, signal.SIGSTOP)
    request = server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"echo x >>{tmp_path}/ran; echo ok", timeout=30)
    wait_for(lambda: list(real.commands.glob("shells-*/main/*.command")))
    os.kill(keeper, signal.SIGKILL)
    o = server.tool_result(request)
    assert o["stdout"] == "ok\n" and o["session"]["new"] and (tmp_path / "ran").read_text() == "x\n"


def test_a_call_that_waits_when_the_place_is_removed(start, server, sandbox, run, real, tmp_path):  # noqa: F811
    run("true")
    other = start()
    first = server.start_tool("run_command", sandbox_id=sandbox, session="main",
                              command=f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    wait_for((tmp_path / "began").exists)
    second = other.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/ran", timeout=100)
    wait_for(lambda: [f for f in real.commands.glob("shells-*/main/*.command") if exists(f) == f"touch {tmp_path}/ran\n"])
    began = time.monotonic()
    # The keeper may make a file meanwhile.
    wait_for(lambda: shutil.rmtree(real.commands, ignore_errors=True) or not real.commands.exists())
    said = failure(other, second)
    assert said.startswith(NOT_RUN), said
    assert time.monotonic() - began < 60
    (tmp_path / "go").touch()
    assert server.tool_result(first)["exit_code"] == 0
    assert run("echo again")[0]["session"]["new"] and not (tmp_path / "ran").exists()
