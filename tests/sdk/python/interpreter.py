# SPDX-License-Identifier: Apache-2.0
"""Running code: results of every kind, output meanwhile, errors, contexts, languages."""

import base64
import re

from e2b import InvalidArgumentException, NotFoundException, SandboxException, TimeoutException
from world import OLD, fails

SHOWN = '''
class Rich:
    def _repr_markdown_(self): return "**bold**"
    def _repr_javascript_(self): return "alert(1)"
    def _repr_html_(self): return "<b>bold</b>"
    def _repr_latex_(self): return "$x^2$"
    def _repr_svg_(self): return '<svg xmlns="http://www.w3.org/2000/svg"></svg>'
    def _repr_json_(self): return {"k": [1, 2]}
    def _repr_pdf_(self): return b"%PDF-1.4 pretend"
    def _repr_jpeg_(self): return bytes.fromhex("ffd8ffe0") + b" pretend"
    def _repr_mimebundle_(self, **kw): return {"application/x-own": "mine"}
Rich()'''
PLOT = '''
import matplotlib.pyplot as plt
plt.figure()
plt.plot([1, 2, 3], [4, 5, 6], label="rise")
plt.title("A line"); plt.xlabel("time (s)"); plt.ylabel("height (m)")
plt.show()'''
CHARTS = '''
import matplotlib.pyplot as plt
plt.figure(); plt.bar(["a", "b"], [3, 4]); plt.title("bars"); plt.show()
plt.figure(); plt.scatter([1, 2], [3, 4]); plt.title("dots"); plt.show()
plt.figure(); plt.pie([1, 3], labels=["x", "y"]); plt.title("pie"); plt.show()
plt.figure(); plt.boxplot([[1, 2, 3, 4, 100]]); plt.title("boxes"); plt.show()
fig, axes = plt.subplots(1, 2); axes[0].plot([1, 2], [3, 4]); axes[1].bar(["a"], [1]); plt.show()'''


def ran(sandbox, code, **options):
    """The execution, which must have no error."""
    execution = sandbox.run_code(code, **options)
    assert execution.error is None, execution.error
    return execution


def out(execution):
    return "".join(execution.logs.stdout)


def text(world):
    sandbox = world.sandbox()
    execution = ran(sandbox, "1 + 1")
    assert (execution.text, len(execution.results)) == ("2", 1)
    assert execution.results[0].is_main_result and execution.execution_count >= 1
    assert ran(sandbox, "'grüße \\U0001f680'").text == "grüße 🚀"
    assert ran(sandbox, "x = 1").text is None
    assert ran(sandbox, "import asyncio\nawait asyncio.sleep(0)\n'awaited'").text == "awaited"
    assert out(ran(sandbox, "%%bash\necho magic")) == "magic\n"


def state(world):
    sandbox = world.sandbox()
    first = ran(sandbox, "kept = 41\nimport math\ndef f(n): return n + 1")
    second = ran(sandbox, "f(kept) + math.floor(0.5)")
    assert (second.text, second.execution_count) == ("42", first.execution_count + 1)
    ran(sandbox, "open('of-code', 'w').write('seen')")
    assert sandbox.files.read("/home/user/of-code") == "seen"


def logs(world):
    execution = ran(world.sandbox(), "import sys, os\nprint('out €')\nprint('err', file=sys.stderr)\n"
                                     "os.system('echo child')\nNone")
    assert "out €\n" in out(execution) and "child\n" in out(execution)
    assert "".join(execution.logs.stderr) == "err\n" and execution.results == []


def callbacks(world):
    sandbox = world.sandbox()
    lines, bad, results, errors = [], [], [], []

    def on_stdout(message):
        if not lines:  # it still waits for this
            sandbox.files.write("/home/user/code-go", "")
        lines.append(message.line)

    sandbox.run_code("import sys, time, os\nprint('first')\n"
                     "while not os.path.exists('/home/user/code-go'): time.sleep(0.01)\n"
                     "print('e', file=sys.stderr)\ndisplay('shown')\n1/0",
                     on_stdout=on_stdout, on_stderr=lambda m: bad.append(m.line),
                     on_result=lambda r: results.append(r.text), on_error=lambda e: errors.append(e.name))
    sandbox.files.remove("/home/user/code-go")
    assert ("".join(lines), "".join(bad)) == ("first\n", "e\n")
    assert (results, errors) == (["shown"], ["ZeroDivisionError"])


def error(world):
    sandbox = world.sandbox()
    execution = sandbox.run_code("def g():\n    raise ValueError('bad … value')\ng()")
    assert (execution.error.name, execution.error.value) == ("ValueError", "bad … value")
    assert "ValueError" in execution.error.traceback
    assert sandbox.run_code("1 +").error.name == "SyntaxError"
    assert ran(sandbox, '"goes on"').text == "goes on"


def every_kind(world):
    result, = ran(world.sandbox(), SHOWN).results
    assert (result.markdown, result.javascript, result.html) == ("**bold**", "alert(1)", "<b>bold</b>")
    assert result.latex == "$x^2$" and result.svg.startswith("<svg") and result.json == {"k": [1, 2]}
    assert base64.b64decode(result.pdf) == b"%PDF-1.4 pretend"
    assert base64.b64decode(result.jpeg)[:3] == b"\xff\xd8\xff"
    assert result.extra["application/x-own"] == "mine" and "Rich" in result.text
    assert set(result.formats()) >= {"html", "markdown", "svg", "jpeg", "pdf", "latex", "json", "javascript"}


def chart(world):
    sandbox = world.sandbox()
    result, = [r for r in ran(sandbox, PLOT).results if r.png]
    assert base64.b64decode(result.png)[1:4] == b"PNG"
    drawn = result.chart
    assert (drawn.type.value, drawn.title) == ("line", "A line")
    assert (drawn.x_label, drawn.y_label) == ("time (s)", "height (m)")
    line, = drawn.elements
    assert (line.label, [tuple(p) for p in line.points]) == ("rise", [(1, 4), (2, 5), (3, 6)])
    drawn = [r.chart for r in ran(sandbox, CHARTS).results if r.png]
    assert [c.type.value for c in drawn] == ["bar", "scatter", "pie", "box_and_whisker", "superchart"]
    assert [c.title for c in drawn[:4]] == ["bars", "dots", "pie", "boxes"]
    assert [(b.label, float(b.value)) for b in drawn[0].elements] == [("a", 3), ("b", 4)]
    assert [s.label for s in drawn[2].elements] == ["x", "y"]
    assert [c.type.value for c in drawn[4].elements] == ["line", "bar"]


def data(world):
    execution = ran(world.sandbox(), "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")
    assert execution.results[0].data == {"a": [1, 2], "b": ["x", "y"]}
    assert "<table" in execution.results[0].html and re.search(r"a\s+b", execution.text)


def contexts(world):
    sandbox, path = world.place()
    one = sandbox.create_code_context(cwd=path)
    two = sandbox.create_code_context(language="python")
    assert (one.language, one.cwd, two.cwd) == ("python", path, "/home/user")
    ran(sandbox, "v = 1", context=one)
    assert sandbox.run_code("v", context=two).error.name == "NameError"
    assert ran(sandbox, "import os; os.getcwd()", context=one).text == path
    if OLD:
        return
    assert {one.id, two.id} <= {c.id for c in sandbox.list_code_contexts()}
    sandbox.restart_code_context(one)
    assert sandbox.run_code("v", context=one).error.name == "NameError"
    assert ran(sandbox, "import os; os.getcwd()", context=one).text == path
    sandbox.remove_code_context(one)
    sandbox.remove_code_context(two.id)
    assert not {one.id, two.id} & {c.id for c in sandbox.list_code_contexts()}
    with fails(NotFoundException):
        sandbox.run_code("1", context=one)
    with fails(NotFoundException):
        sandbox.restart_code_context("no-such-context")
    with fails(InvalidArgumentException):
        sandbox.run_code("1", context=two, language="python")


def bash(world):
    sandbox = world.sandbox()
    assert out(ran(sandbox, 'w=kept; echo "in $BASH"', language="bash")).endswith("bin/bash\n")
    assert out(ran(sandbox, "echo $w", language="bash")) == "kept\n"
    context = sandbox.create_code_context(language="bash", cwd="/tmp")
    assert out(ran(sandbox, "pwd; echo w=$w", context=context)) == "/tmp\nw=\n"
    try:
        sandbox.run_code("1", language="cobol")
    except SandboxException as e:
        assert "cobol" in str(e)
    else:
        raise AssertionError("cobol was run")


def envs(world):
    sandbox = world.sandbox()
    code = "import os; [os.environ.get(k) for k in ('SHARED', 'OWN')]"
    assert ran(sandbox, code, envs={"OWN": "run"}).text == "['yes', 'run']"
    assert ran(sandbox, code, envs={"SHARED": "other"}).text == "['other', None]"
    assert ran(sandbox, code).text == "['yes', None]"


def timeout(world):
    sandbox = world.sandbox()
    ran(sandbox, "kept = 7")
    with fails(TimeoutException):
        sandbox.run_code("import time\ntime.sleep(600)", timeout=1)
    # What was left is interrupted, and the context with its state serves the next.
    assert ran(sandbox, "kept").text == "7"


ALL = {"code_" + name: scenario for name, scenario in {
    "text": text, "state": state, "logs": logs, "callbacks": callbacks, "error": error,
    "every_kind": every_kind, "chart": chart, "data": data, "contexts": contexts, "bash": bash,
    "envs": envs, "timeout": timeout}.items()}
