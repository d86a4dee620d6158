# SPDX-License-Identifier: Apache-2.0
"""The kernel: streams, environments, contexts, queues."""

import json
import os
import pathlib
import subprocess

import pytest

import kernel_peer
from harness import wait_for
from kernel_fixtures import bash, kernel, python  # noqa: F401
from kernel_peer import started


def memory_kb(pid, what="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1])
    raise AssertionError(f"{pid} has no {what}")


# ---- streams
def test_output_comes_while_it_is_written(python, tmp_path):
    gate = tmp_path / "gate"
    stream = python.start(f"import os, time\nprint('first')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
                          "print('second')")
    assert stream.until("stdout")["text"] == "first\n"
    gate.touch()
    assert stream.until("stdout")["text"] == "second\n"
    assert stream.rest().types[-1] == "end_of_execution"


def test_what_ends_no_line_comes_too(python, tmp_path):
    gate = tmp_path / "gate"
    stream = python.start(f"import os, time\nprint('dot', end='')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    assert stream.until("stdout")["text"] == "dot"
    gate.touch()
    assert stream.rest().stdout == "dot"


def test_a_print_is_one_line(python):
    (line,) = python.run("print('a', 1, 'b')").of("stdout")
    assert line["text"] == "a 1 b\n"


def test_children_and_descriptors_are_heard(python):
    lines = python.run("import os, subprocess, sys\nprint('py')\nos.write(1, b'fd\\n')\nos.system('echo sh; echo er >&2')\n"
                       "subprocess.run(['printf', '%s', 'pf'])\nprint('err', file=sys.stderr)")
    assert lines.stdout == "py\nfd\nsh\npf" and lines.stderr == "er\nerr\n"


def test_all_is_delivered_before_the_end(python):
    for _ in range(20):
        assert python.run("import os\nfor i in range(50): os.write(1 + i % 2, b'x' * 1000)").stdout == "x" * 25000


def test_a_character_in_two_parts_is_one(python):
    lines = python.run("import os, time\nfor b in 'ä€😀'.encode(): os.write(1, bytes([b])); time.sleep(0.01)\n"
                       "os.write(2, b'\\xff!')")
    assert lines.stdout == "ä€😀" and lines.stderr == "\ufffd!"


def test_much_output_without_a_newline(python):
    lines = python.run("import sys\nn = sys.stdout.write('é' * 3_000_000)")
    assert lines.stdout == "é" * 3_000_000


def test_a_slow_reader_makes_the_writer_wait(kernel, python):
    pathlib.Path(f"/proc/{kernel.process.pid}/clear_refs").write_text("5")  # the peak that other tests left
    before = memory_kb(kernel.process.pid)
    stream = started(python.start("import os\nfor i in range(400): os.write(1, b'y' * 100_000)\nopen('/proc/self/comm').read()"))
    pid_file = f"/proc/{kernel.process.pid}/io"
    read = lambda: int(pathlib.Path(pid_file).read_text().split()[1])  # noqa: E731
    seen = [read()]

    def still():
        seen.append(read())
        return seen[-1] == seen[-2] and len(seen) > 10

    wait_for(still, 60, "the server stops reading")
    assert seen[-1] - seen[0] < 30_000_000
    lines = stream.rest()
    assert len(lines.stdout) == 40_000_000 and lines.text
    assert memory_kb(kernel.process.pid, "VmHWM") - before < 20_000


def test_a_child_that_holds_the_pipe_does_not_hold_the_run(python):
    lines = python.run("import subprocess\np = subprocess.Popen(['sleep', '600'])\nprint('done')")
    assert lines.stdout == "done\n"
    python.run("p.kill(); p.wait()")


def test_output_between_runs_belongs_to_the_next(python, tmp_path):
    gate, done = tmp_path / "gate", tmp_path / "done"
    python.run("import subprocess\np = subprocess.Popen(['sh', '-c', 'while [ ! -e " + str(gate) + " ]; do sleep 0.02; done; "
               "echo late; touch " + str(done) + "'])")
    gate.touch()
    wait_for(done.exists, 30, "the child's end")
    assert python.run("print('now')").stdout == "late\nnow\n"


def test_of_much_output_between_runs_the_last_is_kept(python, tmp_path):
    done = tmp_path / "done"
    python.run("import subprocess\np = subprocess.Popen(['sh', '-c', 'head -c 5000000 /dev/zero | tr \"\\\\0\" z; echo end; "
               "touch " + str(done) + "'])")
    wait_for(done.exists, 30, "the child is not blocked")
    out = python.run("p.wait()").stdout
    assert "bytes that were written between two runs are left out]\n" in out[:100]
    assert out.endswith("zzzend\n") and len(out) < 70_000


def test_a_forked_child_does_not_disturb(python):
    lines = python.run("import os, multiprocessing as m\ndef f(q):\n    print('child'); display(1); q.put(2)\n"
                       "q = m.get_context('fork').Queue(); p = m.get_context('fork').Process(target=f, args=(q,))\n"
                       "p.start(); v = q.get(); p.join(); v")
    assert lines.text == "2" and "child" in lines.stdout


@pytest.mark.parametrize("end, status", [("pass", 0), ("sys.exit(3)", 3), ("1 / 0", 1)])
def test_a_forked_child_that_comes_to_the_end_of_the_cell_ends(python, end, status):
    lines = python.run(f"import os, sys\npid = os.fork()\nif pid == 0:\n    print('child')\n    {end}\n"
                       "else:\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
    assert lines.stdout == f"child\n{status}\n" and not lines.error
    assert ("ZeroDivisionError" in lines.stderr) == (end == "1 / 0")
    for i in range(5):
        assert python.run(f"{i} + 1").text == str(i + 1)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("language, code", [
    ("python", "import os, pathlib, time\nos.close(2)\nwhile not os.path.exists({gate!r}): time.sleep(0.01)"),
    ("bash", "exec >/dev/null 2>&1; while [ ! -e {gate} ]; do sleep 0.02; done"),
])
def test_a_closed_stream_costs_the_server_nothing(kernel, tmp_path, language, code):
    context, gate = kernel.context(language=language), tmp_path / "gate"
    stream = started(context.start(code.format(gate=str(gate))))
    for _ in range(2):
        stream.until("keepalive")
    before = cpu_seconds(kernel.process.pid)
    for _ in range(4):  # a line of no output a second
        stream.until("keepalive")
    assert cpu_seconds(kernel.process.pid) - before < 1
    gate.touch()
    assert stream.rest().types[-1] == "end_of_execution"
    context.delete()


@pytest.mark.parametrize("language, code", [
    ("python", "import os\nos.write(1, b'y' * 40_000_000)"), ("bash", "head -c 40000000 /dev/zero | tr '\\0' y"),
])
def test_a_client_that_does_not_read_costs_the_server_nothing(kernel, tmp_path, language, code):
    gate = tmp_path / "gate"
    stalled, other = kernel.context(language=language), kernel.context(language="bash")
    unread = started(stalled.start(code))
    beats = started(other.start(f"while [ ! -e {gate} ]; do sleep 0.1; done"))
    for _ in range(2):
        beats.until("keepalive")
    before = cpu_seconds(kernel.process.pid)
    for _ in range(4):  # a line of no output a second
        beats.until("keepalive")
    assert cpu_seconds(kernel.process.pid) - before < 0.5
    gate.touch()
    beats.rest()
    assert len(unread.rest().stdout) == 40_000_000
    for context in (stalled, other):
        context.delete()


@pytest.mark.parametrize("language, code", [
    ("python", "import os; n = os.system('ls -l /proc/self/fd')"), ("bash", "ls -l /proc/self/fd"),
])
def test_a_command_does_not_have_the_channel(kernel, language, code):
    context = kernel.context(language=language)
    assert "socket:" not in context.run("true" if language == "bash" else "1").stdout
    lines = context.run(code)
    assert "pipe:" in lines.stdout and "socket:" not in lines.stdout
    context.delete()


def test_what_is_displayed_between_runs_comes_after_the_start_of_the_next(python, tmp_path):
    gate, done = tmp_path / "gate", tmp_path / "done"
    python.run("import pathlib, threading, time\n"
               f"def late():\n    while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\n"
               f"    display('late'); pathlib.Path({str(done)!r}).touch()\n"
               "thread = threading.Thread(target=late); thread.start()")
    gate.touch()
    wait_for(done.exists, 30, "the thread's display")
    lines = python.run("thread.join()\nfor i in range(20): display(i); print(i)")
    assert lines.types == ["number_of_executions", "result", *["result", "stdout"] * 20, "end_of_execution"]
    assert lines.results[0]["text"] == "late"


def test_threads_may_display(python):
    lines = python.run("import threading\nts = [threading.Thread(target=lambda i=i: display(i)) for i in range(5)]\n"
                       "[t.start() for t in ts]; [t.join() for t in ts]; 'end'")
    assert sorted(r["text"] for r in lines.results) == ["0", "1", "2", "3", "4", "end"]


# ---- environment
def test_variables_of_one_run(python):
    lines = python.run("import os; os.environ['A'], os.environ['PATH'] != ''", env_vars={"A": "ä b", "B": ""})
    assert lines.text == "('ä b', True)"
    assert python.run("os.environ.get('A'), os.environ.get('B')").text == "(None, None)"
    python.run("os.environ['A'] = 'own'")
    assert python.run("os.environ['A']", env_vars={"A": "run"}).text == "run"
    assert python.run("os.environ['A']").text == "own"
    assert python.run("!echo $A", env_vars={"A": "child"}).stdout == "child\n"


def test_variables_of_one_run_of_bash(bash):
    assert bash.run("echo \"$A\"; env | grep ^A=", env_vars={"A": "a 'b' \"c\" $d\n`e`"}).stdout.startswith("a 'b' \"c\" $d\n`e`\nA=a")
    bash.run("export B=own")
    assert bash.run("echo [$A] $B", env_vars={"B": "run"}).stdout == "[] run\n"
    assert bash.run("echo $B; A=2").stdout == "own\n"
    assert bash.run("false; echo $?; false", env_vars={"Z": "1"}).error["value"] == "1"


def test_a_shell_variable_that_a_run_shadowed_is_as_before(bash):
    bash.run("A=shell; export B=exported")
    assert bash.run("env | grep -c '^[AB]=run'", env_vars={"A": "run", "B": "run"}).stdout == "2\n"
    assert bash.run("echo $A; env | grep '^[AB]='").stdout == "shell\nB=exported\n"


def test_bash_users_may_trace_and_redefine(bash):
    bash.run("set -x")
    lines = bash.run("echo hi", env_vars={"A": "1"})
    assert (lines.stdout, lines.stderr) == ("hi\n", "++ echo hi\n")
    assert bash.run("set +x").stderr == "++ set +x\n"
    assert bash.run("echo hi").stderr == ""
    bash.run("printf() { :; }; set -u")
    assert bash.run("echo still", env_vars={"NEVER_SET": "1"}).stdout == "still\n"


def test_bash_users_may_ask_for_the_lines_as_they_are_read(bash):
    lines = bash.run("set -v; echo on", env_vars={"A": "1"})
    assert (lines.stdout, lines.stderr, lines.error) == ("on\n", "", None)
    lines = bash.run("echo hi\necho $((1 + 1))", env_vars={"A": "2"})
    assert lines.stdout == "hi\n2\n" and "cubby" not in lines.stderr
    assert "v" in bash.run("echo $-").stdout
    bash.run("set +v -x")
    assert bash.run("echo $-; set +x").stdout.count("v") == 0
    assert bash.run("echo hi").stderr == ""


@pytest.mark.parametrize("how", ["{name}() {{ echo mine; }}", "alias {name}='echo mine'"], ids=["functions", "aliases"])
def test_functions_and_aliases_of_bash_users_do_not_disturb_it(bash, how):
    names = ("builtin", "eval", "unset", "export", "set", "printf", "exec", "test", ":", "command", "shopt")
    lines = bash.run("\n".join(how.format(name=name) for name in names), env_vars={"A": "1"})
    assert (lines.stdout, lines.stderr, lines.error) == ("", "", None)
    lines = bash.run("echo $A $B; printf; (exit 3)", env_vars={"B": "b"})
    assert (lines.stdout, lines.stderr, lines.error["value"]) == ("b\nmine\n", "", "3")
    stream = bash.start("echo on; sleep 600")
    stream.until("stdout")
    bash.interrupt()
    assert stream.rest().error["name"] == "KeyboardInterrupt"
    lines = bash.run("echo [$B]; \\builtin shopt inherit_errexit; \\builtin shopt -o posix")
    assert lines.stdout.split() == ["[]", "inherit_errexit", "off", "posix", "off"]


def test_the_global_environment(kernel):
    try:
        kernel.environment({"G": "one", "H": "h"})
        for language, code, shown in (("python", "import os\nprint(os.environ.get('G'), os.environ.get('H'))", "{} {}\n"),
                                      ("bash", "echo ${G-None} ${H-None}", "{} {}\n")):
            kernel.environment({"G": "one", "H": "h"})
            context = kernel.context(language=language)
            assert context.run(code).stdout == shown.format("one", "h")
            kernel.environment({"G": "two"})
            assert context.run(code).stdout == shown.format("two", None)
            assert context.run(code, env_vars={"G": "run"}).stdout == shown.format("run", None)
            assert context.run(code).stdout == shown.format("two", None)
            context.delete()
    finally:
        (kernel.run_dir / "environment.json").unlink()


@pytest.mark.parametrize("broken", ["{", "[]", '{"G": "' + "x" * 7_000_000 + '"}'])
def test_a_global_environment_that_cannot_be_read_stays_what_it_was(kernel, python, broken):
    code = "import os; os.environ.get('G')"
    try:
        kernel.environment({"G": "one"})
        assert python.run(code).text == "one"
        (kernel.run_dir / "environment.json").write_text(broken)
        assert python.run(code).text == "one"
        kernel.environment({"G": "two", "H": "h" * 3_000_000})
        assert python.run(code).text == "two"
    finally:
        (kernel.run_dir / "environment.json").unlink()


# ---- contexts
def test_contexts_are_apart(kernel, tmp_path):
    a, b = kernel.context(cwd=str(tmp_path)), kernel.context()
    assert a.facts == {"id": a.id, "language": "python", "cwd": str(tmp_path)} and a.id != b.id
    a.run("x = 1")
    assert a.run("import os; os.getcwd()").text == str(tmp_path)
    assert b.run("import os; os.getcwd()").text == str(kernel.home)
    assert b.run("'x' in globals()").text == "False"
    (tmp_path / "mod.py").write_text("Y = 5")
    assert a.run("import mod; mod.Y").text == "5"
    ids = [c["id"] for c in json.loads(kernel.request("GET", "/contexts")[2])]
    assert a.id in ids and b.id in ids
    a.delete()
    b.delete()
    assert kernel.refused(code="1", context_id=a.id) == (404, f"Context {a.id} not found")


def test_the_default_context_is_listed_before_its_first_run(kernel):
    kernel.request("DELETE", "/contexts/default")
    listed = json.loads(kernel.request("GET", "/contexts")[2])
    assert [c for c in listed if c["id"] == "default"] == [
        {"id": "default", "language": "python", "cwd": str(kernel.home)}]
    kernel.run("1")
    assert [c["id"] for c in json.loads(kernel.request("GET", "/contexts")[2])].count("default") == 1


def test_contexts_run_beside_each_other(kernel, tmp_path):
    a, b = kernel.context(), kernel.context()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = started(a.start(f"open({str(fifo)!r}).read()"))
    b.run(f"f = open({str(fifo)!r}, 'w'); f.write('met'); f.close()")
    assert reader.rest().text == "met"
    a.delete()
    b.delete()


def test_runs_of_a_context_wait_in_order(python, tmp_path):
    gate = tmp_path / "gate"
    first = python.start(f"import os, time\norder = []\nprint('on')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    first.until("stdout", "on")
    streams = [python.start(f"order.append({i})") for i in range(5)]
    gate.touch()
    first.rest()
    for stream in streams:
        assert stream.rest().error is None
    assert python.run("order").text == "[0, 1, 2, 3, 4]"


def test_as_many_as_may_wait(python, tmp_path):
    gate = tmp_path / "gate"
    first = python.start(f"import os, time\nprint('on')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    first.until("stdout", "on")
    streams = [python.start("1") for _ in range(31)]
    status, text = python.kernel.refused(code="1", context_id=python.id)
    assert (status, "runs wait" in text) == (429, True)
    gate.touch()
    for stream in [first, *streams]:
        assert stream.rest().error is None


def test_defaults(kernel):
    kernel.run("d = 1")
    assert kernel.run("d", language="python").text == "1"
    assert kernel.run("d", context_id="default").text == "1"
    assert kernel.run("d", language=" Python ").text == "1"
    kernel.run("d=2", language="bash")
    assert kernel.run("echo $d", language="bash").stdout == "2\n"
    kernel.request("POST", "/contexts/default/restart")
    assert kernel.run("'d' in globals()").text == "False"


def test_as_many_contexts_as_there_may_be(kernel):
    made = []
    try:
        while True:
            status, _, text = kernel.request("POST", "/contexts", {})
            if status != 200:
                break
            made.append(kernel_peer.Context(kernel, json.loads(text)))
        assert (status, "delete one" in text) == (429, True) and 10 <= len(made) <= 16
        assert made[0].run("1").text == "1"
    finally:
        for context in made:
            context.delete()


def test_random_numbers_differ(kernel):
    code = "import random, numpy, uuid, tempfile\nrandom.random(), numpy.random.rand(), str(uuid.uuid4())"
    a, b = kernel.context(), kernel.context()
    assert a.run(code).text != b.run(code).text
    a.run("random.seed(1); numpy.random.seed(1)")
    assert a.run("random.random(), numpy.random.rand()").text == "(0.13436424411240122, 0.417022004702574)"
    a.delete()
    b.delete()


def test_a_copied_machine_draws_new_numbers():
    """The worker alone, with a shell that draws numbers at each message: a new identity in the
    message means that the machine was copied."""
    script = """if True:
        import random, socket, sys
        sys.path.insert(0, sys.argv[1])
        import numpy
        from cubby_kernel import frames, worker
        class Shell:
            execution_count = 1
            def run_cell(self, code, store_history):
                print(random.random(), numpy.random.rand())
                return type("Outcome", (), {"error_before_exec": None, "error_in_exec": None})
        ours, theirs = socket.socketpair()
        w = worker.Worker(frames.Channel(theirs), Shell())
        for identity in "aab":
            random.seed(1); numpy.random.seed(1)
            w._run({"op": "run", "code": "", "changed": {}, "variables": {}, "quotes": False, "identity": identity})
    """
    out = subprocess.run([kernel_peer.PYTHON, "-B", "-c", script, kernel_peer.SOURCES], capture_output=True, text=True,
                         timeout=120, check=True).stdout.split()
    assert out[:2] == out[2:4] == ["0.13436424411240122", "0.417022004702574"]
    assert not set(out[:2]) & set(out[4:])


def test_pandas_is_there_at_once(python):
    assert python.run("import sys\nall(m in sys.modules for m in ('numpy', 'pandas', 'matplotlib.pyplot'))").text == "True"
    assert python.run("import threading; threading.active_count()").text == "1"
