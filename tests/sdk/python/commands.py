# SPDX-License-Identifier: Apache-2.0
"""Commands: run, run in the background, given input, found again, killed, limited."""

from e2b import (AuthenticationException, CommandExitException, InvalidArgumentException,
                 NotFoundException, SandboxException, TimeoutException)
from world import OLD, fails, until

NO_PID = 1_999_999_999


def run(world):
    done = world.sandbox().commands.run("echo out; echo err >&2")
    assert (done.exit_code, done.stdout, done.stderr, done.error or None) == (0, "out\n", "err\n", None)


def callbacks(world):
    sandbox, path = world.place()
    out, err = [], []

    def on_stdout(text):
        if not out:  # it still waits for this
            sandbox.files.write(f"{path}/go", "")
        out.append(text)

    done = sandbox.commands.run("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; echo bad >&2",
                                cwd=path, on_stdout=on_stdout, on_stderr=err.append)
    assert out[0] == "one\n" and "".join(out) == done.stdout == "one\ntwo\n"
    assert "".join(err) == done.stderr == "bad\n"


def background(world):
    sandbox = world.sandbox()
    handle = sandbox.commands.run("echo begun; sleep 0.1; echo done", background=True)
    assert handle.pid > 0
    seen = [out for out, _, _ in handle if out is not None]
    assert "".join(seen) == "begun\ndone\n"
    assert handle.wait().exit_code == 0


def stdin(world):
    sandbox = world.sandbox()
    options = {} if OLD else {"stdin": True}
    handle = sandbox.commands.run('read a; echo "got $a"; read b; echo "and $b"', background=True, **options)
    sandbox.commands.send_stdin(handle.pid, "first\n")
    sandbox.commands.send_stdin(handle.pid, "gö\n")
    assert handle.wait().stdout == "got first\nand gö\n"


def stdin_closed(world):
    sandbox = world.sandbox()
    handle = sandbox.commands.run("cat; echo closed; sleep 600", background=True, stdin=True)
    handle.send_stdin(b"bytes\n")
    handle.close_stdin()
    seen = ""
    for out, _, _ in handle:
        seen += out or ""
        if "closed" in seen:
            break
    assert seen == "bytes\nclosed\n"
    sandbox.commands.close_stdin(handle.pid)  # again is no error
    assert sandbox.commands.kill(handle.pid) is True


def stdin_streamed(world):
    sandbox = world.sandbox()
    handle = sandbox.commands.run("head -c 300000 | sha256sum", background=True, stdin=True)
    sandbox.commands.stream_input(handle.pid, ["x" * 100_000, b"x" * 100_000, "x" * 100_000])
    here = sandbox.commands.run("head -c 300000 /dev/zero | tr '\\0' x | sha256sum")
    assert handle.wait().stdout == here.stdout
    with fails(NotFoundException):
        sandbox.commands.stream_input(NO_PID, ["x"])


def stdin_off(world):
    sandbox = world.sandbox()
    if not OLD:
        handle = sandbox.commands.run("sleep 600", background=True)
        with fails(SandboxException):
            sandbox.commands.send_stdin(handle.pid, "x")
        assert handle.kill() is True
    with fails(NotFoundException, str(NO_PID)):
        sandbox.commands.send_stdin(NO_PID, "x")


def connect(world):
    sandbox = world.sandbox()
    options = {} if OLD else {"stdin": True}
    first = sandbox.commands.run('while read line; do echo "$line"; exit 4; done', background=True, **options)
    second = sandbox.commands.connect(first.pid)
    assert second.pid == first.pid
    first.disconnect()  # the command goes on
    sandbox.commands.send_stdin(first.pid, "hello\n")
    with fails(CommandExitException) as failed:
        second.wait()
    assert (failed.error.exit_code, failed.error.stdout) == (4, "hello\n")
    with fails(NotFoundException):
        sandbox.commands.connect(NO_PID)


def kill(world):
    sandbox = world.sandbox()
    handle = sandbox.commands.run("sleep 600", background=True)
    assert sandbox.commands.kill(handle.pid) is True
    with fails(CommandExitException) as failed:
        handle.wait()
    assert failed.error.exit_code == -1 and failed.error.error == "signal: killed"
    until(lambda: handle.pid not in [p.pid for p in sandbox.commands.list()], "it leaves the list")
    assert sandbox.commands.kill(handle.pid) is False


def listed(world):
    sandbox = world.sandbox()
    handle = sandbox.commands.run("sleep 600", background=True, envs={"A": "b"}, cwd="/tmp")
    found, = [p for p in sandbox.commands.list() if p.pid == handle.pid]
    assert (found.cmd, found.args) == ("/bin/bash", ["-l", "-c", "sleep 600"])
    assert (found.envs["A"], found.cwd) == ("b", "/tmp")
    handle.kill()


def timeout(world):
    sandbox = world.sandbox()
    with fails(TimeoutException):
        sandbox.commands.run("sleep 600 # times out", timeout=1)
    until(lambda: not any("times out" in " ".join(p.args) for p in sandbox.commands.list()),
          "what timed out is ended")
    assert sandbox.commands.run("echo free", timeout=0).stdout == "free\n"


def environment(world):
    sandbox = world.sandbox()
    done = sandbox.commands.run('echo "$SHARED|$OWN|$E2B_SANDBOX|$E2B_SANDBOX_ID|$HOME|$USER"',
                                envs={"OWN": 'sp ace "é"\n2'})
    assert done.stdout == f'yes|sp ace "é"\n2|true|{sandbox.sandbox_id}|/home/user|user\n'
    assert sandbox.commands.run("echo $SHARED", envs={"SHARED": "no"}).stdout == "no\n"


def cwd(world):
    sandbox, path = world.place()
    assert sandbox.commands.run("pwd").stdout == "/home/user\n"
    assert sandbox.commands.run("pwd", cwd=path).stdout == f"{path}\n"
    with fails(InvalidArgumentException, "cwd '/nope' does not exist"):
        sandbox.commands.run("pwd", cwd="/nope")


def user(world):
    sandbox = world.sandbox()
    assert sandbox.commands.run("echo $(id -un) $HOME").stdout == "user /home/user\n"
    assert sandbox.commands.run("echo $(id -un) $HOME", user="root").stdout == "root /root\n"
    with fails(AuthenticationException):
        sandbox.commands.run("id", user="nobody-here")


def exit_error(world):
    sandbox = world.sandbox()
    with fails(CommandExitException) as failed:
        sandbox.commands.run("echo o; echo e >&2; exit 3")
    e = failed.error
    assert (e.exit_code, e.stdout, e.stderr, e.error) == (3, "o\n", "e\n", "exit status 3")
    with fails(CommandExitException) as failed:
        sandbox.commands.run("no-such-command-here")
    assert failed.error.exit_code == 127


def output(world):
    done = world.sandbox().commands.run("seq 1 200000; printf 'é%.0s' $(seq 1 20000)")
    assert done.stdout == "".join(f"{i}\n" for i in range(1, 200_001)) + "é" * 20000


ALL = {"commands_" + name: scenario for name, scenario in {
    "run": run, "callbacks": callbacks, "background": background, "stdin": stdin,
    "stdin_closed": stdin_closed, "stdin_streamed": stdin_streamed, "stdin_off": stdin_off,
    "connect": connect, "kill": kill, "list": listed, "timeout": timeout, "environment": environment,
    "cwd": cwd, "user": user, "exit_error": exit_error, "output": output}.items()}
