# SPDX-License-Identifier: Apache-2.0
"""The kernel: the results of a run, in each form."""

import base64
import json
import math
import struct

import pytest

import kernel_peer


@pytest.fixture(scope="module")
def kernel():
    return kernel_peer.shared()


@pytest.fixture(scope="module")
def python(kernel):
    context = kernel.context()
    yield context
    context.delete()


@pytest.fixture(scope="module")
def bash(kernel):
    context = kernel.context(language="bash")
    yield context
    context.delete()


def png_size(text):
    data = base64.b64decode(text)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


# ---- values
def test_the_last_expression_is_the_main_result(python):
    lines = python.run("x = 20\nx + 1\nx + 22")
    assert lines.types == ["number_of_executions", "result", "end_of_execution"]
    assert lines[1] == {"type": "result", "text": "42", "is_main_result": True}


@pytest.mark.parametrize("code", ["x = 1", "None", "1;", "1; # ;", "1 ;\n", "", "# nothing", "def f(): pass"])
def test_what_has_no_value_has_no_result(python, code):
    assert python.run(code).types == ["number_of_executions", "end_of_execution"]


@pytest.mark.parametrize("code, text", [
    ("'quoted'", "quoted"),
    ('"it\'s"', "it's"),
    ("\"'a'\"", "'a'"),
    ("''", ""),
    ("b'a'", "b'a'"),
    ("['a']", "['a']"),
    ("'ä€\\U0001f600'", "ä€\U0001f600"),
    ("float('nan')", "nan"),
])
def test_text(python, code, text):
    assert python.run(code).text == text


@pytest.mark.parametrize("code, text", [
    ("1 # ;", "1"),
    ("';'", ";"),
    ("7 % 4", "3"),
    ("'%d!' % 5", "5!"),
    (">>> 1 + 1", "2"),
    ("In [1]: 1 + 2", "3"),
    ("\n\n  x = 3\n  x + 1", "4"),
    ("x = %pwd\ntype(x).__name__", "str"),
    ("x = !echo a\nx[0]", "a"),
    ("/str 5", "5"),
    ("2 ** 70", str(2 ** 70)),
    ("True", "True"),
    ("await __import__('asyncio').sleep(0, 6)", "6"),
    ("[a async for a in __import__('contextlib').aclosing.__mro__][0]", None),
])
def test_syntax_of_ipythons_own_and_what_looks_like_it(python, code, text):
    lines = python.run(code)
    assert lines.error["name"] == "TypeError" if text is None else lines.text == text


def test_how_values_are_shown_can_be_changed_at_any_time(kernel):
    context = kernel.context()
    assert context.run("5").text == "5" and context.run("0.5").text == "0.5"
    context.run("f = get_ipython().display_formatter.formatters\n"
                "f['text/plain'].for_type(int, lambda o, p, cycle: p.text(f'<{o}>'))\n"
                "f['text/html'].for_type(str, lambda s: f'<b>{s}</b>')\n%precision 2")
    assert context.run("5").text == "<5>" and context.run("0.513").text == "0.51"
    assert context.run("'a'").results[0]["html"] == "<b>a</b>"
    context.run("get_ipython().input_transformers_post.append(lambda lines: [l.replace('five', '55') for l in lines])")
    assert context.run("five").text == "<55>"
    context.delete()


def test_a_number_that_is_too_long_to_be_written_says_so(python):
    assert "Exceeds the limit" in python.run("10 ** 5000").error["value"]
    assert python.run("1").text == "1"


def test_strings_keep_their_quotes_when_that_is_asked_for(python):
    lines = python.run("display('a')\n'5'", quotes=True)
    assert [r["text"] for r in lines.results] == ["'a'", "'5'"]
    assert python.run("''", quotes=True).text == "''"
    assert python.run("'5'", quotes=False).text == "5" and python.run("'5'").text == "5"
    status, text = python.kernel.refused(code="1", quotes="yes")
    assert status == 400 and text == "quotes must be true or false"


@pytest.mark.parametrize("code, member, value", [
    ("HTML('<b>é</b>')", "html", "<b>é</b>"),
    ("Markdown('*a*')", "markdown", "*a*"),
    ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "svg", '<svg xmlns="http://www.w3.org/2000/svg"/>'),
    ("Latex('$x^2$')", "latex", "$x^2$"),
    ("JSON({'a': [1, None, 'b']})", "json", {"a": [1, None, "b"]}),
    ("Javascript('alert(1)')", "javascript", "alert(1)"),
    ("Image(data=b'\\x89PNG\\r\\n\\x1a\\nxxxx', format='png')", "png",
     base64.b64encode(b"\x89PNG\r\n\x1a\nxxxx").decode()),
    ("Image(data=b'\\xff\\xd8\\xffjpeg', format='jpeg')", "jpeg",
     base64.b64encode(b"\xff\xd8\xffjpeg").decode()),
])
@pytest.mark.parametrize("shown", [True, False])
def test_each_form(python, code, member, value, shown):
    code = f"display({code})" if shown else code
    lines = python.run(f"from IPython.display import *\n{code}")
    (result,) = lines.results
    got = result[member]
    assert (got.strip() if isinstance(got, str) else got) == value
    assert result["is_main_result"] is not shown
    assert "<IPython.core.display." in result["text"]


def test_pdf_and_forms_of_ones_own(python):
    lines = python.run("class A:\n    def _repr_mimebundle_(self, **kw):\n"
                       "        return {'application/pdf': 'JVBERg==', 'application/x-mine+json': {'a': 1},"
                       " 'text/plain': 'mine'}\nA()")
    assert lines.results == [{"type": "result", "text": "mine", "pdf": "JVBERg==", "is_main_result": True,
                              "extra": {"application/x-mine+json": {"a": 1}}}]


def test_several_results_in_order(python):
    lines = python.run("print('a')\ndisplay(1)\nprint('b')\ndisplay('two')\n3")
    assert [r["text"] for r in lines.results] == ["1", "two", "3"]
    assert [r["is_main_result"] for r in lines.results] == [False, False, True]
    order = [line.get("text") for line in lines.of("stdout", "result")]
    assert order.index("a\n") < order.index("1") and lines.stdout == "a\nb\n"


def test_a_form_that_is_too_large_is_left_out_with_a_word(python):
    lines = python.run("class Big:\n    def __repr__(self): return 'big'\n"
                       "    def _repr_html_(self): return 'x' * (17 << 20)\nBig()")
    (result,) = lines.results
    assert result["text"] == "big" and "html" not in result
    assert "text/html of a result is left out" in lines.stderr


# ---- pandas
def test_a_frame_is_a_table_and_data(python):
    lines = python.run(
        "import pandas as pd, numpy as np\n"
        "pd.DataFrame({'n': [1, 2], 'f': [0.5, np.nan], 's': ['a', None], 3: [True, False],\n"
        "  't': pd.to_datetime(['2024-01-02 03:04:05', None]), 'c': pd.Categorical(['x', 'y'])})")
    (result,) = lines.results
    assert "<table" in result["html"] and "2024-01-02" in result["text"]
    assert result["data"] == {"n": [1, 2], "f": [0.5, None], "s": ["a", None], "3": [True, False],
                              "t": ["2024-01-02T03:04:05", None], "c": ["x", "y"]}


def test_a_large_frame_is_a_table_without_data(python):
    (result,) = python.run("pd.DataFrame(np.zeros((60_000, 1)))").results
    assert "<table" in result["html"] and "data" not in result


# ---- figures
def chart_of(python, code):
    lines = python.run("import matplotlib.pyplot as plt, numpy as np, datetime\n" + code + "\nplt.show()")
    assert not lines.error, lines.error
    (result,) = [r for r in lines.results if "png" in r]
    assert not result["is_main_result"]
    width, height = png_size(result["png"])
    assert width > 200 and height > 100
    return result["chart"]


def test_a_line_chart(python):
    chart = chart_of(python, "plt.plot([1, 2, 3], [4, 5.5, 6], label='speed'); plt.plot([1], [2])\n"
                             "plt.title('T'); plt.xlabel('Time (s)'); plt.ylabel('Way')")
    assert (chart["type"], chart["title"]) == ("line", "T")
    assert (chart["x_label"], chart["x_unit"]) == ("Time (s)", "s")
    assert (chart["y_label"], chart["y_unit"]) == ("Way", None)
    assert (chart["x_scale"], chart["y_scale"]) == ("linear", "linear")
    assert len(chart["x_ticks"]) == len(chart["x_tick_labels"]) > 2
    assert chart["elements"] == [{"label": "speed", "points": [[1, 4.0], [2, 5.5], [3, 6.0]]},
                                 {"label": "", "points": [[1, 2]]}]


def test_dates_logs_and_categories(python):
    chart = chart_of(python, "plt.plot([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 3)], [1, 100])\n"
                             "plt.yscale('log')")
    assert (chart["x_scale"], chart["y_scale"]) == ("datetime", "log")
    assert chart["elements"][0]["points"] == [["2024-01-01T00:00:00", 1], ["2024-01-03T00:00:00", 100]]
    assert all(t.startswith("202") for t in chart["x_ticks"])
    chart = chart_of(python, "plt.plot(['a', 'b'], [1, 2])")
    assert (chart["x_scale"], chart["elements"][0]["points"]) == ("categorical", [["a", 1], ["b", 2]])


def test_a_scatter_chart(python):
    chart = chart_of(python, "plt.scatter([1, 2], [3, 4], label='p'); plt.scatter([5], [6])")
    assert chart["type"] == "scatter"
    assert chart["elements"] == [{"label": "p", "points": [[1.0, 3.0], [2.0, 4.0]]},
                                 {"label": "", "points": [[5.0, 6.0]]}]


def test_bar_charts(python):
    chart = chart_of(python, "plt.bar(['a', 'b'], [1, 2.5], label='g')")
    assert (chart["type"], chart["elements"]) == (
        "bar", [{"label": "a", "group": "g", "value": 1}, {"label": "b", "group": "g", "value": 2.5}])
    chart = chart_of(python, "plt.barh(['a', 'b'], [3, 4])")
    assert [(e["label"], e["value"]) for e in chart["elements"]] == [("a", 3), ("b", 4)]


def test_a_pie_chart(python):
    chart = chart_of(python, "plt.pie([1, 3], labels=['A', 'B'], autopct='%d')")
    assert chart["type"] == "pie"
    assert [e["label"] for e in chart["elements"]] == ["A", "B"]
    assert [e["angle"] for e in chart["elements"]] == [90, 270]
    assert all(e["radius"] == 1 for e in chart["elements"])


def test_the_angles_of_pies_are_round_and_positive(python):
    chart = chart_of(python, "plt.pie([1, 9], labels=['A', 'B'], startangle=90)")
    assert [e["angle"] for e in chart["elements"]] == [36, 324], "E2B's own test has this pie"
    chart = chart_of(python, "plt.pie([1, 2], counterclock=False)")
    assert [e["angle"] for e in chart["elements"]] == [120, 240]


def pngs(lines):
    assert not lines.error, lines.error
    return [png_size(r["png"]) for r in lines.results if "png" in r]


def test_images_that_a_run_saves_are_shown(python, tmp_path):
    made = f"from PIL import Image; import io, pathlib; at = {str(tmp_path)!r}; i = Image.new('RGB', (30, 20), 'red')\n"
    lines = python.run(made + "i.save(at + '/a.png'); i.save(pathlib.Path(at, 'b.jpg')); i.save(io.BytesIO(), 'png')")
    assert pngs(lines) == [(30, 20)] * 2, "only files are shown"
    assert not any(r["is_main_result"] for r in lines.results)
    assert (tmp_path / "a.png").exists() and (tmp_path / "b.jpg").exists()
    assert pngs(python.run("i.show()")) == [(30, 20)]
    assert pngs(python.run("Image.new('CMYK', (5, 4)).save(at + '/c.jpg')")) == [(5, 4)], "PNG has no such mode"
    assert python.run("i.save(at + '/none.nothing')").error["name"] == "ValueError"


def test_a_saved_figure_is_shown_once(python, tmp_path):
    lines = python.run(f"import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig({str(tmp_path / 'f.png')!r})")
    assert len(pngs(lines)) == 1


def test_a_film_does_not_show_all_its_frames(python, tmp_path):
    code = f"from PIL import Image\nfor n in range(40): Image.new('L', (4, 4)).save({str(tmp_path)!r} + f'/{{n}}.png')"
    lines = python.run(code)
    assert len(pngs(lines)) == 16 and "first 16 images" in lines.stderr
    assert len(pngs(python.run(code))) == 16, "each run has its own count"


def test_a_box_chart(python):
    chart = chart_of(python, "plt.boxplot([[1, 2, 3, 4, 100], [5, 6, 7]], labels=['x', 'y'])")
    assert chart["type"] == "box_and_whisker"
    first, second = chart["elements"]
    assert first == {"label": "x", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 4,
                     "outliers": [100]}
    assert (second["label"], second["median"], second["outliers"]) == ("y", 6, [])


def test_several_axes_are_a_superchart(python):
    chart = chart_of(python, "fig, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.imshow([[1, 2]]); fig.suptitle('S')")
    assert (chart["type"], chart["title"]) == ("superchart", "S")
    assert [e["type"] for e in chart["elements"]] == ["line", "unknown"]


def test_figures_left_open_are_shown_once(python):
    lines = python.run("plt.figure(); plt.plot([1, 2]); plt.figure(); plt.plot([2, 1]);")
    assert len([r for r in lines.results if "png" in r]) == 2
    assert python.run("1").types == ["number_of_executions", "result", "end_of_execution"]


def test_a_figure_is_shown_when_its_cell_fails(python):
    lines = python.run("plt.plot([1, 2])\n1 / 0")
    assert lines.error["name"] == "ZeroDivisionError"
    assert [r for r in lines.results if "png" in r]


def test_figures_are_saved_when_asked_for(python, tmp_path):
    folder = tmp_path / "a" / "b"
    code = "for i in range(2):\n    plt.figure(); plt.plot([i, 2])\nplt.show()"
    lines = python.run(code, figures_dir=str(folder))
    files = [r["file"] for r in lines.results]
    assert files == [str(folder / "figure-1.png"), str(folder / "figure-2.png")]
    for result in lines.results:
        with open(result["file"], "rb") as f:
            assert f.read() == base64.b64decode(result["png"])
    lines = python.run("display(HTML('a'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))", figures_dir=str(folder))
    assert [r.get("file") for r in lines.results] == [None, str(folder / "figure-3.svg")]
    assert "file" not in python.run("plt.plot([1])").results[-1]


def test_figures_that_cannot_be_saved_say_why(python, tmp_path):
    (tmp_path / "f").write_text("")
    lines = python.run("plt.plot([1, 2]);", figures_dir=str(tmp_path / "f"))
    (result,) = lines.results
    assert "png" in result and "file" not in result and "not saved" in result["file_error"]
    status, text = python.kernel.refused(code="1", figures_dir="relative")
    assert (status, "absolute" in text) == (400, True)


# ---- errors
def test_an_error_has_name_value_and_a_plain_traceback(python):
    error = python.run("def f(x):\n    return 1 / x\n\nf(0)").error
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    assert "return 1 / x" in error["traceback"] and "f(0)" in error["traceback"]
    assert "\x1b" not in error["traceback"] and "cubby_kernel" not in error["traceback"]


@pytest.mark.parametrize("code, name, said", [
    ("1 +", "SyntaxError", "invalid syntax"),
    (" x = 1\n  y", "IndentationError", "unexpected indent"),
    ("raise SystemExit(3)", "SystemExit", "3"),
    ("import sys; sys.exit('bye')", "SystemExit", "bye"),
    ("exit()", "SystemExit", "0"),
    ("%nosuch", "UsageError", "nosuch"),
    ("%%nosuch\na", "UsageError", "nosuch"),
    ("input('name? ')", "EOFError", "nobody to ask"),
    ("await_me = 1; await nothing", "NameError", "nothing"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
    ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "E", "no text"),
    ("raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", "g"),
])
def test_errors(python, code, name, said):
    lines = python.run(code)
    assert lines.error["name"] == name and said in lines.error["value"]
    assert lines.types[-1] == "end_of_execution" and lines.stderr == ""
    assert python.run("1 + 1").text == "2"


# ---- IPython
def test_ipython_is_there(python):
    assert python.run("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'").text == "awaited"
    assert "per loop" in python.run("%timeit -n1 -r1 1").stdout
    assert python.run("%%time\n1\n2").text == "2"
    assert "hidden" not in python.run("%%capture out\nprint('hidden')").stdout
    assert python.run("out.stdout").text == "hidden\\n"
    assert python.run("!echo shell; echo err >&2; exit 3").stdout == "shell\n"
    assert python.run("_exit_code").text == "3"
    assert python.run("files = !echo a b\nfiles[0]").text == "a b"
    assert "Return the" in python.run("len?").stdout
    assert python.run("5").text == "5" and python.run("_ + 1").text == "6"


def test_executions_are_counted(kernel):
    context = kernel.context()
    counts = [context.run("0")[0]["execution_count"] for _ in range(3)]
    assert counts == [1, 2, 3]
    assert context.run("In[1], Out[1]").text == "('0', 0)"
    assert context.run("sorted(n for n in globals() if not n.startswith('_'))").text == \
        "['In', 'Out', 'exit', 'get_ipython', 'quit']"
    context.delete()


def test_lines_are_ascii_and_have_no_null(python):
    lines = python.run("print('ä€')\nimport math\n'ö'")
    assert lines.stdout == "ä€\n" and lines.text == "ö"
    assert all(v is not None for line in lines for v in line.values())
    (out,) = lines.of("stdout")
    assert isinstance(out["timestamp"], int) and math.log10(out["timestamp"]) > 18
    json.dumps(lines, allow_nan=False)


# ---- bash
def test_bash_lines(bash):
    lines = bash.run("echo out; echo 'ä€'; ls /nonexistent-dir >&2")
    assert lines.types[0] == "number_of_executions" and lines.stdout == "out\nä€\n"
    assert "nonexistent-dir" in lines.stderr
    assert (lines.error["name"], lines.error["value"]) == ("ExitStatus", "2")


def test_bash_keeps_its_state(bash):
    assert bash.run("cd /tmp; V='a  b'; f() { echo \"f:$1\"; }; alias g=f").error is None
    assert bash.run("pwd; echo \"$V\"; f x").stdout == "/tmp\na  b\nf:x\n"
    assert bash.run("(exit 3)").error["value"] == "3"
    assert bash.run("true").error is None


@pytest.mark.parametrize("code, said", [
    ("if", "syntax error"), ("echo 'open", "unexpected EOF"), ("nosuchcommand", "not found"),
    ("}; echo escaped", "syntax error"),
])
def test_bash_errors(bash, code, said):
    lines = bash.run(code)
    assert lines.error and said in lines.stderr and "escaped" not in lines.stdout
    assert bash.run("echo fine").stdout == "fine\n"


def test_bash_reads_no_code_as_input(bash):
    assert bash.run("cat; read x; echo \"[$x]\"").stdout == "[]\n"
    lines = bash.run("# " + "x" * 200_000 + "\necho \"quotes: ' \\\" \\` \\$(x)\" '!!'")
    assert lines.stdout == "quotes: ' \" ` $(x) !!\n"


# ---- what is large
def test_a_result_whose_forms_are_too_large_together(python):
    lines = python.run("class A:\n    def __repr__(self): return 'a'\n    def _repr_html_(self): return '中' * 4_000_000\n"
                       "    def _repr_markdown_(self): return '\\n' * 3_000_000\n    def _repr_latex_(self): return 'l'\nA()")
    assert lines.text == "a" and lines.results[0]["html"] == "中" * 4_000_000 and lines.results[0]["latex"] == "l"
    assert "markdown" not in lines.results[0] and "text/markdown of a result is left out" in lines.stderr


def test_code_of_many_bytes(python):
    """Three bytes a character as it is sent; with an escape for each the message would be too long."""
    code = "kept = 1; '" + "中" * 4_500_000 + "'[-1]"
    body = json.dumps({"code": code, "context_id": python.id}, ensure_ascii=False).encode()
    status, _, text = python.kernel.request("POST", "/execute", body)
    (result,) = [line for line in map(json.loads, text.splitlines()) if line["type"] == "result"]
    assert status == 200 and result["text"] == "中"
    assert python.run("kept").text == "1"


def test_a_long_error_is_cut(python):
    error = python.run("raise ValueError('e' * 30_000_000)").error
    assert error["name"] == "ValueError" and error["value"].startswith("eee") and "left out]" in error["value"]
    assert python.run("1").text == "1"
