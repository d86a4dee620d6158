# SPDX-License-Identifier: Apache-2.0
"""Named shells: what lasts from call to call, exit codes and streams, interrupts, calls at once."""

import os
import pathlib
import signal
import threading
import time

import pytest
from harness import wait_for
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_schemas import checked
from mcp_shells import exists, nap, place, run, server, sleeping, streams  # noqa: F401


# ---- what lasts
def test_the_shell_lasts(run, tmp_path):  # noqa: F811
    o, text = run(f"cd {tmp_path}; A=1; export B='2 3'; f() {{ echo \"f $A $B\"; }}; alias ll='echo aliased'; set -o pipefail")
    assert streams(o) == ("", "", 0) and o["session"] == {"name": "main", "new": True, "ended": False, "sessions": ["main"]}
    assert text.endswith("\n[session main: a new shell]")
    o, text = run("pwd; f; env | grep ^B=; false | true")
    assert streams(o) == (f"{tmp_path}\nf 1 2 3\nB=2 3\n", "", 1) and not o["session"]["new"]
    assert text.endswith(f"\n[exit code 1, {o['duration_ms']} ms]")


def test_without_a_session_nothing_lasts(server, sandbox, run):  # noqa: F811
    run("cd /usr; A=1")
    o = checked(server, "run_command", sandbox_id=sandbox, command="echo $A; pwd")[0]
    assert o["stdout"].startswith("\n") and "/usr\n" not in o["stdout"] and "session" not in o


def test_sessions_are_separate_and_listed(run):  # noqa: F811
    run("A=1", session="one")
    o, text = run("echo \"<$A>\"", session="two.b-c_d")
    assert o["stdout"] == "<>\n" and o["session"]["sessions"] == ["one", "two.b-c_d"]
    assert text.endswith("[session two.b-c_d: a new shell; other sessions: one]")


def test_streams_and_exit_codes_are_exact(run):  # noqa: F811
    for code in 0, 1, 7, 126, 255:
        assert streams(run(f"printf out; printf err >&2; (exit {code})")[0]) == ("out", "err", code)
    assert run("kill -9 $BASHPID & wait $!")[0]["exit_code"] == 137
    assert run(r"printf '\1cubby \2'")[0]["stdout"] == "\1cubby \2"
    assert run("if; then")[0]["exit_code"] == 2
    assert run("read x; echo $?")[0]["stdout"] == "1\n", "stdin is empty"


def test_envs_that_are_too_long(server, sandbox, run):  # noqa: F811
    """Nothing is started, and the session goes on."""
    run("kept=1")
    most = 131_071 - len(": && export -- 'B='")
    o, _ = run("echo ${#B} $kept", envs=["B=" + "x" * most])
    assert o["stdout"] == f"{most} 1\n"
    for envs in ["B=" + "x" * (most + 1)], ["B=" + "x" * 200_000], ["B=" + "x" * 70_000, "C=" + "x" * 70_000]:
        said = server.error("run_command", sandbox_id=sandbox, command="kept=2", session="main", envs=envs)
        assert said.startswith("invalid_argument: in a session, all of envs and cwd together take 1") or "variable B has 200002" in said
        assert "at most 131071 can be passed; put the value" in said
    assert streams(run("echo ${#B} $kept")[0])[0] == f"{most} 1\n"


def test_cwd_and_envs_last(run, tmp_path):  # noqa: F811
    odd = tmp_path / "it's a \"dir\" $x"
    odd.mkdir()
    assert run("pwd; echo \"$A\"", cwd=str(odd), envs=["A=b 'c' $d"])[0]["stdout"] == f"{odd}\nb 'c' $d\n"
    assert run("pwd; printenv A")[0]["stdout"] == f"{odd}\nb 'c' $d\n"
    o, _ = run("echo not run", cwd="/nowhere")
    assert o["stdout"] == "" and o["exit_code"] == 1 and "/nowhere: No such file" in o["stderr"]
    assert run("pwd")[0]["stdout"] == f"{odd}\n"
    assert run("pwd; echo $HOME", cwd="~")[0]["stdout"].split("\n")[0] == run("echo $HOME")[0]["stdout"].strip()


@pytest.mark.parametrize("end, code", [("exit 3", 3), ("set -e; false; echo not", 1), ("set -u; echo $nothing; echo not", 127),
                                       ("echo ${nothing?}; echo not", 127), ("exec false", 1)])
def test_an_end_of_the_command_is_not_one_of_the_session(run, end, code):  # noqa: F811
    run("cd /usr; A=1; B=(1 '2 3'); export C=4; f() { echo f; }; sleep 100 & P=$!")
    o, text = run(f"echo before; {end}")
    assert o["stdout"] == "before\n"
    if end.startswith("exec"):  # then the shell was another program
        assert o["session"]["ended"] and "its shell has ended; the next call gets a new shell" in text
        assert run("echo $A")[0]["session"]["new"]
        return
    assert o["exit_code"] == code and not o["session"]["ended"]
    o, _ = run("pwd; echo $A ${B[1]}; printenv C; f; kill $P; echo $?; set +o | grep errexit")
    assert o["stdout"] == "/usr\n1 2 3\n4\nf\n0\nset +o errexit\n" and not o["session"]["new"]


def test_traps_last_for_their_call(run, tmp_path):  # noqa: F811
    """docs/tools.md says so; the shell's own traps stand in their place before the next call."""
    for name in "EXIT", "HUP", "INT", "TERM", "PIPE":
        run(f"trap 'echo mine' {name}")
        o, _ = run(f"trap -p {name}")
        assert o["stdout"] and "mine" not in o["stdout"] and not o["session"]["new"]
    o, _ = run(f"trap 'touch {tmp_path}/ran; echo lost' EXIT; exit 3")
    assert streams(o) == ("", "", 3) and o["session"]["ended"] and (tmp_path / "ran").exists()


def test_a_shell_that_is_killed(run):  # noqa: F811
    assert run("kill -9 $$; echo not")[0]["session"]["ended"]
    o, text = run("echo again")
    assert o["stdout"] == "again\n" and o["session"]["new"] and "a new shell" in text


@pytest.mark.parametrize("name, code", [("TERM", 143), ("HUP", 129)])
def test_a_shell_that_is_signalled(run, name, code):  # noqa: F811
    run("A=1")
    o, _ = run(f"echo before; kill -{name} $$; echo not")
    assert streams(o) == ("before\n", "", code) and not o["session"]["ended"]
    assert run("echo $A")[0]["stdout"] == "1\n"


def test_a_break_is_not_one_of_the_shell(run):  # noqa: F811
    run("A=1")
    for command in "break", "continue", "break 2", "continue 2", "for i in 1; do continue 3; done":
        o, _ = run(f"echo before; {command}", timeout=20)
        assert streams(o) == ("before\n", "", 0) and not o["session"]["ended"], command
        assert run("echo $A")[0]["stdout"] == "1\n"


def test_errors_name_the_lines_of_the_command(run):
    for _ in range(2):
        assert run("no_such_program")[0]["stderr"] == "bash: line 1: no_such_program: command not found\n"
        assert run("\n:\ncd /nowhere")[0]["stderr"].startswith("bash: line 3: cd: /nowhere")
        assert run("echo $LINENO\necho $LINENO")[0]["stdout"] == "1\n2\n"
        run("exit 3")


def test_a_command_may_redefine_what_the_shell_uses(run):  # noqa: F811
    names = "echo", "read", "trap", "eval", "exec", "exit", "declare", "printf", "set", "cd", "[", ":"
    run("".join(f"{name}() {{ command -p true; }}; " for name in names) + "A=1")
    for _ in range(2):
        assert streams(run("builtin printf '<%s>' $A; false")[0]) == ("<1>", "", 1)
        assert run("builtin cd /usr; builtin exit 3")[0]["exit_code"] == 3
        o, _ = run("type -t read; pwd")
        assert o["stdout"] == "function\n/usr\n" and not o["session"]["new"]


def test_the_state_after_an_end(run):  # noqa: F811
    """Functions may need an option to be read; noclobber must not keep the state; aliases do not change functions."""
    run("shopt -s extglob expand_aliases\nf() { case $1 in +([0-9])) echo digits;; *) echo other;; esac; }")
    run("g() { echo g; }; alias echo='echo aliased' while=false")
    for i in range(3):
        assert run(f"set -C; A={i}; exit 3")[0]["exit_code"] == 3
        o, _ = run("f 12; f x; g; printf '%s\\n' $A")
        assert streams(o) == (f"digits\nother\ng\n{i}\n", "", 0)


def test_a_state_that_cannot_be_written_is_told(run, real):  # noqa: F811
    run("A=1")
    (next(real.commands.glob("shells-*")) / "main/state").mkdir()
    o, _ = run("exit 3")
    assert o["exit_code"] == 3 and not o["session"]["ended"]
    assert o["stderr"].startswith("cubby: not all variables and functions of this session last, because") and "Is the disk full?" in o["stderr"]
    assert run("echo \"<$A>\"")[0]["stdout"] == "<>\n"


# ---- background jobs
def test_background_jobs_last_and_write_into_no_other_call(run, tmp_path):  # noqa: F811
    run(f"(while [ ! -e {tmp_path}/stop ]; do echo noise; echo noise >&2; sleep 0.01; done; echo end >{tmp_path}/end) &")
    for i in range(20):
        assert streams(run(f"echo {i}; echo e{i} >&2; sleep 0.05")[0]) == (f"{i}\n", f"e{i}\n", 0)
    assert "Running" in run("jobs")[0]["stdout"]
    (tmp_path / "stop").touch()
    assert run("wait; echo $?")[0]["stdout"] == "0\n"
    assert (tmp_path / "end").read_text() == "end\n", "it was not killed by SIGPIPE"


# ---- interrupts
def test_a_timeout_interrupts_and_the_session_lives_on(run):  # noqa: F811
    run(f"A=1; cd /usr; sleep {nap(7001)} & sleep 0")
    o, text = run(f"echo so far; echo err >&2; sleep {nap(7002)}; echo not", timeout=1)
    assert streams(o) == ("so far\n", "err\n", 130) and o["timed_out"] and not o["session"]["ended"]
    assert "timed out and interrupted after" in text and "session main is kept, with its variables and directory" in text
    assert not sleeping(7002) and len(sleeping(7001)) == 1, "background jobs are not interrupted"
    assert run("echo $A; pwd; kill %% 2>/dev/null || kill $!")[0]["stdout"].startswith("1\n/usr\n")


@pytest.mark.parametrize("command, ended", [
    ("while :; do :; done", False), ("trap '' INT; sleep 7003", False), ("(trap '' INT; sleep 7003; sleep 7003) | cat", False),
    ("nohup sh -c 'sleep 7003; true'; :", False), ("trap '' INT; while :; do :; done", True)])
def test_what_does_not_want_to_end(run, command, ended):  # noqa: F811
    run(f"A=1; sleep {nap(7004)} &")
    o, _ = run(command.replace("7003", nap(7003)), timeout=0.5)
    assert o["timed_out"] and o["session"]["ended"] is ended and not sleeping(7003) and o["duration_ms"] < 15000
    assert run("echo $A")[0]["stdout"] == ("\n" if ended else "1\n")
    assert sleeping(7004)
    for path in sleeping(7004):
        os.kill(int(path.parent.name), signal.SIGKILL)


def test_output_on_the_interrupt_is_not_lost(run):  # noqa: F811
    o, _ = run("python3 -c 'import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: print(\"caught\", \"x\" * 100000)'", timeout=2)
    assert o["stdout"].startswith("caught x") and o["stdout_bytes"] == 100008


def test_a_cancelled_call_is_interrupted(server, sandbox, run, tmp_path):  # noqa: F811
    run("A=1")
    request = server.start_tool("run_command", sandbox_id=sandbox, session="main",
                                command=f"touch {tmp_path}/began; while :; do echo x; sleep 0.01; done")
    wait_for((tmp_path / "began").exists)
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    o, _ = run("echo $A")
    assert o["stdout"] == "1\n" and not o["session"]["new"]


def test_a_server_that_ends_interrupts_its_command(start, sandbox, run, tmp_path):  # noqa: F811
    run("A=1")
    other = start()
    other.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/began; sleep {nap(7005)}")
    wait_for((tmp_path / "began").exists)
    other.finish()
    o, _ = run("echo $A")
    assert o["stdout"] == "1\n" and not sleeping(7005)


# ---- calls at once
def test_calls_of_one_session_wait_for_each_other(server, sandbox, run):  # noqa: F811
    run("N=0")
    requests = [server.start_tool("run_command", sandbox_id=sandbox, session="main", command="M=$N; sleep 0.02; N=$((M + 1)); echo $N")
                for _ in range(12)]
    results = [server.tool_result(r) for r in requests]
    assert sorted(int(r["stdout"]) for r in results) == list(range(1, 13))


def test_a_call_that_waits_too_long_is_not_run(server, sandbox, run, real, tmp_path):  # noqa: F811
    run("true")
    first = server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/began; sleep 3")
    wait_for((tmp_path / "began").exists)
    said = server.error("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/ran", timeout=1)
    assert said.startswith("session_busy: session 'main' still runs an earlier command") and "another session" in said
    taken = list(real.commands.glob("shells-*/main/*.taken"))
    assert len(taken) == 2, "the keeper cannot take the second any more"
    assert server.tool_result(first)["exit_code"] == 0
    wait_for(lambda: not any(t.exists() for t in taken), what="the keeper removes what is left")
    assert run("echo next")[0]["stdout"] == "next\n" and not (tmp_path / "ran").exists()


def test_two_servers_make_one_shell(start, sandbox, place, real):  # noqa: F811
    servers = [start() for _ in range(4)]
    requests = [s.start_tool("run_command", sandbox_id=sandbox, session="main", command="echo $$") for s in servers]
    results = [s.tool_result(r) for s, r in zip(servers, requests)]
    assert len({r["stdout"] for r in results}) == 1 and [r["session"]["new"] for r in results].count(True) == 1


def test_a_hundred_in_a_row(run):  # noqa: F811
    lost = 0
    for i in range(100):
        o, _ = run(f"printf 'out {i} '; seq {i} 500; echo err {i} >&2; (exit {i})")
        want = f"out {i} " + "".join(f"{k}\n" for k in range(i, 501))
        lost += streams(o) != (want, f"err {i}\n", i)
    assert lost == 0


def test_a_hundred_at_once_in_ten_sessions(start, sandbox, place):  # noqa: F811
    """Over several servers, as clients that start one for each call."""
    servers = [start() for _ in range(4)]
    requests = [(servers[i % 4], servers[i % 4].start_tool(
        "run_command", sandbox_id=sandbox, session=f"s{i % 10}", timeout=200,
        command=f"printf 'out {i} '; seq {i} 1000; echo err {i} >&2; (exit {i})")) for i in range(100)]
    got = {}

    def collect(server):
        for i, (of, request) in enumerate(requests):
            if of is server:
                got[i] = server.tool_result(request)
    threads = [threading.Thread(target=collect, args=(s,)) for s in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(100):
        want = f"out {i} " + "".join(f"{k}\n" for k in range(i, 1001))
        assert streams(got[i]) == (want, f"err {i}\n", i), i


def test_long_output_is_whole(run):  # noqa: F811
    o, _ = run("head -c 3000000 /dev/zero | tr '\\0' x; head -c 200000 /dev/zero | tr '\\0' y >&2")
    assert (o["stdout_bytes"], o["stderr_bytes"], o["truncated"]) == (3000000, 200000, True)
    whole = pathlib.Path(o["stdout_path"])
    assert whole.read_text() == "x" * 3000000
    whole.unlink()
    pathlib.Path(o["stderr_path"]).unlink()


def test_a_forged_end(server, sandbox, run, real):  # noqa: F811
    """A command can find its call's key. A mark without the end of its line ends the call at once."""
    run("A=1")
    began = time.monotonic()
    said = server.error("run_command", sandbox_id=sandbox, session="main", timeout=40,
                        command=f"printf '\\1cubby %s ' $(cat {real.commands}/shells-*/main/*.key); head -c 8192 /dev/zero; sleep {nap(7007)}")
    assert said.startswith("failed: session 'main' returned no exit code") and time.monotonic() - began < 20
    assert run("echo $A")[0]["stdout"] == "1\n" and not sleeping(7007)


def test_a_session_named_exit_is_kept(server, sandbox, run, real):  # noqa: F811
    """Each start of a background command removes old ones, which are known by a file `exit`."""
    run("A=1", session="exit")
    shells = next(real.commands.glob("shells-*"))
    os.utime(shells, (0, 0))
    for i in range(22):
        old = real.commands / f"{i:08x}"
        old.mkdir()
        (old / "exit").write_text("0\n")
    server.result("start_command", sandbox_id=sandbox, command="true")
    wait_for(lambda: len(list(real.commands.glob("0*"))) < 22, what="old commands are removed")
    o, _ = run("echo $A", session="exit")
    assert o["stdout"] == "1\n" and not o["session"]["new"]


# ---- what is refused
@pytest.mark.parametrize("name", ["../x", "a/b", ".a", "-a", "a b", "x" * 33, "é"])
def test_bad_names(server, sandbox, name):  # noqa: F811
    assert "argument 'session'" in server.error("run_command", sandbox_id=sandbox, session=name, command="true")


def test_too_many_sessions(server, sandbox, run, real):  # noqa: F811
    run("true")
    for i in range(31):
        (next(real.commands.glob("shells-*")) / f"x{i}").mkdir()
    assert server.error("run_command", sandbox_id=sandbox, session="more", command="true").startswith("limit_reached: session 'more' cannot be started")
    assert run("echo ok")[0]["stdout"] == "ok\n"


def test_files_that_cannot_be_made(server, sandbox, real):  # noqa: F811
    real.commands.write_text("a file")
    said = server.error("run_command", sandbox_id=sandbox, session="main", command="true")
    assert said.startswith("failed: the shell of session 'main' cannot be started, because its files cannot be made (")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_places_of_another_user(server, sandbox, run, real):  # noqa: F811
    """Root takes over the place of all commands, and uses no shells of another user."""
    real.commands.mkdir(mode=0o755)
    os.chown(real.commands, 65534, 65534)
    assert run("echo ok")[0]["stdout"] == "ok\n"
    assert (real.commands.stat().st_uid, real.commands.stat().st_mode & 0o7777) == (0, 0o1777)
    shells = next(real.commands.glob("shells-*"))
    os.chown(shells, 65534, 65534)
    try:
        said = server.error("run_command", sandbox_id=sandbox, session="main", command="true")
    finally:
        os.chown(shells, 0, 0)
    assert said.startswith("failed: the shell of session 'main' cannot be started") and "is another user's)" in said
