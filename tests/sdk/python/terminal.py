# SPDX-License-Identifier: Apache-2.0
"""Terminals: opened, typed into, resized, found again, killed."""

from e2b import CommandExitException, PtySize
from world import fails, until


def shows(handle, *words):
    """Reads until all of the text was on the screen."""
    screen = b""
    for _, _, data in handle:
        screen += data or b""
        if all(word.encode() in screen for word in words):
            return
    raise AssertionError(f"it ended, and had shown {screen}")


def opened(sandbox, **options):
    """A terminal with a shell that has asked for input."""
    handle = sandbox.pty.create(PtySize(rows=24, cols=80), timeout=0, **options)
    shows(handle, "$ ")
    return handle


def typed(world):
    sandbox, path = world.place()
    handle = opened(sandbox, cwd=path, envs={"OWN": "mine"})
    sandbox.pty.send_stdin(handle.pid, b'stty size; echo "$OWN-$TERM-$PWD-$(tty | cut -c1-9)"\n')
    shows(handle, "24 80", f"mine-xterm-256color-{path}-/dev/pts/")
    sandbox.pty.send_stdin(handle.pid, b"exit 5\n")
    with fails(CommandExitException) as failed:
        handle.wait()
    assert failed.error.exit_code == 5


def resize(world):
    sandbox = world.sandbox()
    handle = opened(sandbox)
    sandbox.pty.resize(handle.pid, PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(handle.pid, b"stty size\n")
    shows(handle, "30 100")
    assert sandbox.pty.kill(handle.pid) is True


def kill(world):
    sandbox = world.sandbox()
    handle = opened(sandbox)
    assert sandbox.pty.kill(handle.pid) is True
    with fails(CommandExitException) as failed:
        handle.wait()
    assert failed.error.exit_code == -1
    until(lambda: sandbox.pty.kill(handle.pid) is False, "it is gone")


def connect(world):
    sandbox = world.sandbox()
    first = opened(sandbox)
    second = sandbox.pty.connect(first.pid, timeout=0)
    assert second.pid == first.pid
    first.disconnect()
    sandbox.pty.send_stdin(first.pid, b"echo again-$((40 + 2))\n")
    shows(second, "again-42")
    assert second.kill() is True


ALL = {"pty_input": typed, "pty_resize": resize, "pty_kill": kill, "pty_connect": connect}
