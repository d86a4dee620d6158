# SPDX-License-Identifier: Apache-2.0
"""The kernel: interrupts, restarts, ends of all kinds, clients that disconnect."""

import os
import signal
import subprocess
import threading

import pytest

import kernel_peer
from harness import process_exists, wait_for
from kernel_fixtures import bash, kernel, python  # noqa: F401
from kernel_peer import started

FOREVER = "import time\nprint('on')\nwhile True: time.sleep(0.01)"


# ---- interrupt
@pytest.mark.parametrize("code", [
    "print('on')\nimport time; time.sleep(600)",
    "print('on')\nwhile True: pass",
    "print('on')\nimport asyncio; await asyncio.sleep(600)",
    "print('on')\nimport subprocess; subprocess.run(['sleep', '600'])",
    "!echo on; sleep 600",
    "print('on')\nwhile True:\n    try: f()\n    except NameError: pass",
    "print('on')\nwhile True: print('x' * 1000)",
    "print('on')\nwhile True: display('x')",
])
def test_an_interrupt_ends_the_run(python, code):
    python.run("kept = 1")
    stream = python.start(code)
    stream.until("stdout", "on")
    reader = python.kernel.later(stream.rest)
    python.interrupt()
    lines = reader.join()
    # The shell that waits for a command gives its status back instead.
    if not code.startswith("!"):
        assert lines.error["name"] == "KeyboardInterrupt"
        assert "KeyboardInterrupt" in lines.error["traceback"].splitlines()[-1]
    assert lines.types[-1] == "end_of_execution"
    assert python.run("kept").text == "1"


def test_an_interrupt_reaches_children(python):
    stream = python.start("import subprocess, os\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid)\np.wait()")
    pid = int(stream.until("stdout")["text"])
    python.interrupt()
    assert stream.rest().error["name"] == "KeyboardInterrupt"
    python.run("p.wait()")
    assert not process_exists(pid)


@pytest.mark.parametrize("language", ["python", "bash"])
def test_an_interrupt_at_any_moment(kernel, language):
    """As early as possible, and again and again: each interrupt hits its own run or none, and later
    runs are not disturbed."""
    context = kernel.context(language=language)
    ended = []
    for i in range(30):
        code = "sleep 600" if language == "bash" else "import time; time.sleep(600)"
        stream = context.start(f"# {'x' * 1000 * i}\n{code}")
        if i % 3:
            stream.line()
        context.interrupt()
        reader = kernel.later(stream.rest)
        while reader.is_alive():
            reader_done = kernel.later(lambda r=reader: threading.Thread.join(r, 0.5))
            reader_done.join()
            context.interrupt()
        ended.append(reader.value.error["name"])
        assert context.run("echo $((40 + 2))" if language == "bash" else "print(42)").stdout == "42\n"
    assert set(ended) == {"KeyboardInterrupt"}
    context.delete()


def test_an_interrupt_without_a_run_does_nothing(python):
    python.interrupt()
    python.run("a = 1")
    python.interrupt()
    assert python.run("a").text == "1"


def test_an_interrupt_of_bash(bash):
    bash.run("kept=1")
    for code in ("echo on; sleep 600; echo never", "echo on; while :; do :; done"):
        stream = bash.start(code)
        stream.until("stdout", "on")
        bash.interrupt()
        lines = stream.rest()
        assert lines.error["name"] == "KeyboardInterrupt" and "never" not in lines.stdout
    assert bash.run("echo $kept").stdout == "1\n"


def test_an_interrupt_before_the_run_has_begun(python):
    """The code is long, so that its worker still reads it."""
    python.run("kept = 1")
    for _ in range(5):
        stream = python.start("#" + "x" * 4_000_000 + "\nimport time\nwhile True: time.sleep(0.01)")
        python.interrupt()
        assert stream.rest().error["name"] == "KeyboardInterrupt"
    for _ in range(5):
        python.start(FOREVER).close()
    assert python.run("kept").text == "1"


@pytest.mark.parametrize("language", ["python", "bash"])
def test_an_interrupt_while_the_process_is_made(kernel, language):
    for _ in range(5):
        context = kernel.context(language=language)
        # Not one long sleep: Python may miss a signal that comes as it begins.
        stream = context.start("import time\nwhile True: time.sleep(0.01)" if language == "python" else "sleep 600")
        context.interrupt()
        assert stream.rest().error["name"] == "KeyboardInterrupt"
        context.delete()


def test_an_interrupt_before_the_code_begins_is_not_lost(python, tmp_path):
    """IPython calls functions that were registered to run before a cell, and swallows their exceptions."""
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    python.run(f"""
import os, time
def before():
    open({str(begun)!r}, "w").close()
    while not os.path.exists({str(gate)!r}): time.sleep(0.01)
get_ipython().events.register("pre_execute", before)""")
    stream = python.start("ran = True\nwhile True: time.sleep(0.01)")
    wait_for(begun.exists, what="the callback")
    python.interrupt()
    gate.touch()
    assert stream.rest().error["name"] == "KeyboardInterrupt"
    assert python.run("'ran' in globals()").text == "False"


def test_an_interrupt_of_bash_leaves_nothing_to_the_next_run(bash):
    for i in range(10):
        stream = bash.start("echo on; sleep 600", env_vars={"LEAK": str(i)})
        stream.until("stdout", "on")
        bash.interrupt()
        bash.interrupt()
        assert stream.rest().error["name"] == "KeyboardInterrupt"
        lines = bash.run("echo ${LEAK-none}")
        assert (lines.stdout, lines.stderr, lines.error) == ("none\n", "", None)


# ---- restart, death
def test_a_restart_starts_clean(python):
    before = python.pid()
    python.run("x = 1")
    python.restart()
    lines = python.run("x")
    assert lines[0]["execution_count"] == 1 and lines.error["name"] == "NameError"
    assert python.pid() != before and not process_exists(before)


def test_a_restart_ends_a_run_and_what_it_started(python):
    stream = python.start("import subprocess\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid, flush=True)\n" + FOREVER)
    child = int(stream.until("stdout")["text"].split()[0])
    python.restart()
    lines = stream.rest()
    assert lines.error["name"] == "KernelRestarted" and "unexpected_end_of_execution" in lines.types
    wait_for(lambda: not process_exists(child), 30, "the child is ended, too")
    assert python.run("1").text == "1"


@pytest.mark.parametrize("what", ["restart", "delete"])
def test_a_client_that_does_not_read_does_not_keep_the_context(kernel, what):
    context = kernel.context()
    stream = started(context.start("while True: print('x' * 1000)"))
    pid = None
    waiting = context.start("6 * 7")
    getattr(context, what)()
    lines = waiting.rest()
    if what == "restart":
        assert lines.text == "42"
        pid = context.pid()
        context.delete()
    else:
        assert lines.error["name"] == "ContextDeleted"
    stream.close()
    assert pid is None or not process_exists(pid)


@pytest.mark.parametrize("language", ["python", "bash"])
def test_a_context_deleted_or_restarted_while_its_process_is_made(language):
    own = kernel_peer.Kernel()
    try:
        own.run("1", language=language)
        children = lambda: own.run("import os; len(os.popen(f'ps -o pid= --ppid {os.getppid()}').read().split())").text  # noqa: E731
        before = children()
        before = children()
        for _ in range(10):
            context = own.context(language=language)
            stream = context.start("import time; time.sleep(600)" if language == "python" else "sleep 600")
            context.delete()
            assert stream.rest().error["name"] == "ContextDeleted"
            context = own.context(language=language)
            stream = context.start("import time; time.sleep(600)" if language == "python" else "sleep 600")
            context.restart()
            assert stream.rest().error["name"] == "KernelRestarted"
            context.delete()
        wait_for(lambda: children() == before, 30, "no process is left")
    finally:
        own.stop()


def test_a_process_that_ends_as_it_is_made():
    """The server learns of its end together with its start."""
    script = """if True:
        import asyncio, socket, sys
        sys.path.insert(0, sys.argv[1])
        from cubby_kernel import nursery, process
        async def main():
            n = nursery.Nursery()
            n._sock, theirs = socket.socketpair()
            forking = asyncio.ensure_future(n.fork("bash"))
            while not n._pending:
                await asyncio.sleep(0)
            for message in ({"forked": next(iter(n._pending)), "pid": 2 ** 22 + 1}, {"exited": 2 ** 22 + 1, "status": {"code": 3}}):
                n._hear(message)
            made = await forking
            try:
                while True:
                    print(await made.more())
            except process.ProcessEnded as e:
                print(e)
        asyncio.run(main())
    """
    out = subprocess.run([kernel_peer.PYTHON, "-B", "-c", script, kernel_peer.SOURCES], capture_output=True, text=True,
                         timeout=120, check=True).stdout
    assert out == "ended itself with status 3\n"


@pytest.mark.parametrize("code, said", [
    ("import os; print('x'); os._exit(3)", "ended itself with status 3"),
    ("import os; print('x'); os.kill(os.getpid(), 9)", "SIGKILL"),
    ("print('x'); import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ("print('x'); import os; os.abort()", "SIGABRT"),
])
def test_a_process_that_dies_is_made_anew(python, code, said):
    python.run("v = 1")
    lines = python.run(code)
    assert lines.error["name"] == "KernelDied" and said in lines.error["value"]
    assert "the next run starts clean" in lines.error["value"]
    assert lines.stdout == "x\n" and lines.types[-2:] == ["unexpected_end_of_execution", "end_of_execution"]
    assert python.run("'v' in globals()").text == "False"


def test_a_process_that_dies_between_runs_is_made_anew(python):
    python.run("v = 1")
    pid = python.pid()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not process_exists(pid), 30, "its end")
    lines = python.run("1")
    if lines.error:  # its end was not known yet when the run came
        assert lines.error["name"] == "KernelDied"
        lines = python.run("1")
    assert lines.text == "1" and lines[0]["execution_count"] <= 2


def test_bash_that_exits_is_made_anew(bash):
    bash.run("v=1")
    lines = bash.run("echo out; exit 7")
    assert (lines.error["name"], lines.error["value"]) == ("ExitStatus", "7")
    assert "starts clean" in lines.error["traceback"] and lines.stdout == "out\n" and lines.stderr == ""
    lines = bash.run("echo [$v]")
    assert lines.stdout == "[]\n" and lines[0]["execution_count"] == 1


def test_the_zygote_may_die(kernel, python):
    own = kernel_peer.Kernel()
    try:
        context = own.context()
        context.run("x = 1")
        zygote = int(context.run("import os; os.getppid()").text)
        os.kill(zygote, signal.SIGKILL)
        wait_for(lambda: not process_exists(zygote), 30, "its end")
        lines = context.run("'x' in globals()")
        if lines.error:
            lines = context.run("'x' in globals()")
        assert lines.text == "False"
        assert own.context().run("1").text == "1"
        pids = [own.process.pid, int(context.run("import os; os.getppid()").text), context.pid()]
    finally:
        own.stop()
    wait_for(lambda: not any(process_exists(p) for p in pids), 30, "no process is left")


def test_a_deleted_context_ends_its_runs(kernel):
    context = kernel.context()
    stream = context.start(FOREVER)
    stream.until("stdout", "on")
    waiting = context.start("1")
    context.delete()
    assert stream.rest().error["name"] == "ContextDeleted"
    assert waiting.rest().error["name"] == "ContextDeleted"


# ---- disconnection
def test_a_client_that_goes_away_interrupts(python):
    python.run("v = 1")
    stream = python.start(FOREVER)
    stream.until("stdout", "on")
    stream.close()
    assert python.run("v").text == "1"


def test_a_client_that_goes_away_from_much_output(python):
    python.run("v = 1")
    stream = started(python.start("while True: print('x' * 1000)"))
    stream.close()
    assert python.run("v").text == "1"


def test_a_run_that_ignores_the_interrupt_is_killed(python):
    python.run("v = 1")
    stream = python.start("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + FOREVER)
    stream.until("stdout", "on")
    stream.close()
    assert python.run("'v' in globals()").text == "False"


def test_a_client_that_goes_away_while_it_waits(python, tmp_path):
    gate = tmp_path / "gate"
    first = python.start(f"import os, time\nprint('on')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    first.until("stdout", "on")
    waiting = python.start("ran = True")
    waiting.close()
    gate.touch()
    first.rest()
    assert python.run("'ran' in globals()").text == "False"


def test_an_idle_run_is_kept_alive(python):
    stream = python.start(FOREVER)
    stream.until("keepalive")
    stream.until("keepalive")
    python.interrupt()
    assert stream.rest().error["name"] == "KeyboardInterrupt"
