# SPDX-License-Identifier: Apache-2.0
"""JavaScript and TypeScript contexts: Node.js in place of IPython."""

import os
import pathlib
import shutil

import pytest

import kernel_peer
from harness import wait_for
from kernel_fixtures import javascript, kernel, typescript  # noqa: F401
from kernel_peer import started


# ---- variables and values
@pytest.mark.parametrize("first, then, expected", [
    ("const a = 1", "const a = 2; a", "2"),
    ("let b = 1", "let b; typeof b", "undefined"),
    ("class C { go() { return 3 } }", "class D extends C {}; new D().go()", "3"),
    ("function f() { return 4 }", "f()", "4"),
    ("const {x, y: [z], ...rest} = await Promise.resolve({x: 1, y: [2], w: 3})", "[x, z, rest.w].join()", "1,2,3"),
    ("const [p, q = 5] = await Promise.resolve([4]); class E { go() { return p } }\nfunction g() { return new E().go() + q }",
     "g() + new E().go()", "13"),
    ("export const e = 6", "e", "6"),
    ("import fs, {readFileSync as rf} from 'fs'\nimport * as path from 'path'", "fs.readFileSync === rf && path.join('a', 'b')", "a/b"),
    ("import os, * as all from 'os'", "all.default === os", "true"),
    ("const crypto = require('crypto')", "crypto.createHash('md5').update('').digest('hex').slice(0, 6)", "d41d8c"),
    ("const fetch = 7", "fetch", "7"),
    ("(await import('path')).join('a')", "var i = (await import('path')).sep; i", "/"),
])
def test_what_is_declared_persists(javascript, first, then, expected):
    assert javascript.run(first).error is None
    assert javascript.run(then).text == expected


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("'a' + 'b'", "ab"), ("({a: [1, {b: 2}]})", "{ a: [ 1, { b: 2 } ] }"), ("x = 5", "5"),
    ("await 1 // the end", "1"), ("(1, 2)", "2"), ("await (async () => 3)()", "3"), ("null", "null"),
    ("for await (const v of [1, 2]) last = v\nlast", "2"), ("'use strict'; 1n", "1n"), ("import('fs') instanceof Promise", "true"),
])
def test_the_last_expression_is_the_result(javascript, code, text):
    assert javascript.run(code).text == text


@pytest.mark.parametrize("code", ["const a = 1", "undefined", "if (true) { 5 }", "await 0; let b = 2", "", "// nothing"])
def test_what_has_no_value_has_no_result(javascript, code):
    lines = javascript.run(code)
    assert lines.types == ["number_of_executions", "end_of_execution"]


def test_the_text_of_a_string_may_keep_its_quotes(javascript):
    assert javascript.run("'a'", quotes=True).text == "'a'"


# ---- output
def test_output_and_displayed_values_keep_their_order(javascript):
    lines = javascript.run("console.log('a'); console.error('b'); display({c: 1}); console.log('d'); $$.html('<b>e</b>'); 'f'")
    assert [(line["type"], line.get("text")) for line in lines[1:-1]] == [
        ("stdout", "a\n"), ("stderr", "b\n"), ("result", "{ c: 1 }"), ("stdout", "d\n"), ("result", None), ("result", "f")]
    assert [r["is_main_result"] for r in lines.results] == [False, False, True] and lines.results[1]["html"] == "<b>e</b>"


@pytest.mark.parametrize("code, member, value", [
    ("$$.png(Buffer.from('a'))", "png", "YQ=="), ("$$.svg('<svg/>')", "svg", "<svg/>"),
    ("$$.mime({'application/x-a': {b: 1}})", "extra", {"application/x-a": {"b": 1}}),
    ("display({'text/markdown': '# a'}, {raw: true})", "markdown", "# a"),
    ("display({ _toHtml: () => '<i>' })", "html", "<i>"),
    ("({ [Symbol.for('Jupyter.display')]: () => ({'application/json': {a: 1}}) })", "json", {"a": 1}),
])
def test_representations_are_those_of_e2b(javascript, code, member, value):
    (result,) = javascript.run(code).results
    assert result[member] == value


def test_a_representation_that_is_too_large_is_left_out(javascript):
    lines = javascript.run("$$.mime({'text/plain': 'a', 'text/html': 'x'.repeat(17 * 1024 * 1024)})")
    assert lines.results == [{"type": "result", "text": "a", "is_main_result": False}]
    assert "the text/html of a result is left out" in lines.stderr


def test_much_output_comes_whole(javascript):
    assert javascript.run("for (let i = 0; i < 100; i++) console.log('é'.repeat(20000))").stdout == ("é" * 20000 + "\n") * 100


def test_a_figure_is_saved_as_of_python(javascript, tmp_path):
    (result,) = javascript.run("$$.png(Buffer.from('figure'))", figures_dir=str(tmp_path)).results
    assert pathlib.Path(result["file"]).read_bytes() == b"figure"


def test_what_timers_print_belongs_to_the_next_run(javascript, tmp_path):
    go, done = tmp_path / "go", tmp_path / "done"
    first = javascript.run(f"""const fs = require('fs');
        const timer = setInterval(() => {{
            if (!fs.existsSync('{go}')) return;
            clearInterval(timer); console.log('late'); fs.writeFileSync('{done}', ''); null.x
        }}, 1); 0""")
    assert first.stdout == ""
    go.touch()  # only now, because a timer may also fire before the end of its own run
    wait_for(done.exists, 30, "the timer")
    lines = javascript.run("'next'")
    assert lines.stdout == "late\n" and lines.text == "next"
    assert lines.stderr.startswith("Uncaught TypeError: Cannot read")


# ---- errors
@pytest.mark.parametrize("code, name, value, traceback", [
    ("throw new TypeError('bad')", "TypeError", "bad", "TypeError: bad\n    at <cell 1>:1:7"),
    ("\n\nnope.x", "ReferenceError", "nope is not defined", "ReferenceError: nope is not defined\n    at <cell 1>:3:1"),
    ("let (", "SyntaxError", "Unexpected token (1:5)", "let (\n     ^\nSyntaxError: Unexpected token (1:5)"),
    ("throw 'text'", "Error", "'text'", "Uncaught 'text'"),
    ("throw null", "Error", "null", "Uncaught null"),
    ("require('no-such-module')", "Error", "Cannot find module 'no-such-module'", "Cannot find module"),
    ("await import('no-such-module')", "Error", "Cannot find package 'no-such-module'", "Cannot find package"),
])
def test_errors_have_the_shape_of_e2b(javascript, code, name, value, traceback):
    error = javascript.run(code).error
    assert error["name"] == name and value in error["value"] and traceback in error["traceback"]
    assert "worker.js" not in error["traceback"].replace("Require stack", "")


def test_an_error_after_an_await_names_its_line(javascript):
    error = javascript.run("import fs from 'fs'\nawait 0\nthrow new RangeError('c')").error
    assert error["name"] == "RangeError" and "<cell 1>:3:" in error["traceback"]


def test_process_exit_ends_the_context(javascript):
    javascript.run("const a = 1")
    assert "status 3" in javascript.run("process.exit(3)").error["value"]
    assert javascript.run("typeof a").text == "undefined"


# ---- interrupts
@pytest.mark.parametrize("code", [
    "while (true);", "await new Promise(() => {})", "require('child_process').execSync('sleep 600')",
    "await new Promise(resolve => setTimeout(resolve, 600000))",
])
def test_an_interrupt_ends_the_run_and_keeps_the_variables(javascript, code):
    javascript.run("const kept = 8")
    stream = started(javascript.start(code))
    javascript.interrupt()
    assert stream.rest().error["name"] == "KeyboardInterrupt"
    assert javascript.run("kept").text == "8"


def test_a_run_that_ignores_the_interrupt_is_killed_when_its_client_leaves(javascript):
    stream = started(javascript.start("await 0; console.log('now'); while (true);"))
    stream.until("stdout")
    stream.close()
    assert javascript.run("typeof kept").text == "undefined"


def test_an_interrupt_between_runs_does_nothing(javascript):
    javascript.run("const a = 1")
    javascript.interrupt()
    assert javascript.run("a").text == "1"


# ---- environment and modules
def test_variables_of_a_run_and_of_the_sandbox(kernel, javascript):
    kernel.environment({"GLOBAL": "g"})
    try:
        assert javascript.run("process.env.GLOBAL + process.env.OWN", env_vars={"OWN": "o"}).text == "go"
        assert javascript.run("typeof process.env.OWN").text == "undefined"
    finally:
        kernel.environment({})
    assert javascript.run("typeof process.env.GLOBAL").text == "undefined"


def test_modules_are_those_of_the_working_directory(kernel, tmp_path):
    (tmp_path / "own.cjs").write_text("exports.a = 1")
    (tmp_path / "own.mjs").write_text("export const b = 2")
    package = tmp_path / "node_modules" / "pack"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "pack", "exports": {"import": "./index.mjs"}}')
    (package / "index.mjs").write_text("export default 3")
    context = kernel.context(language="js", cwd=str(tmp_path))
    try:
        assert context.run("import pack from 'pack'\nimport { b } from './own.mjs'\nrequire('./own.cjs').a + b + pack").text == "6"
        assert context.run("process.cwd()").text == os.path.realpath(tmp_path)
    finally:
        context.delete()


# ---- TypeScript
@pytest.mark.parametrize("code, text", [
    ("interface P { a: number }\nconst v: P = { a: 1 }\nenum E { A, B }\nv.a + E.B", "2"),
    ("const g = <T>(x: T): T => x\ng('q')", "q"),
    ("const y: number = await Promise.resolve(3)\ny as number", "3"),
    ("class K { constructor(private n: number) {} get() { return this.n } }\nnew K(4).get()", "4"),
])
def test_typescript_runs(typescript, code, text):
    assert typescript.run(code).text == text


def test_an_import_of_typescript_lasts_to_the_next_run(typescript):
    assert typescript.run("import { join } from 'path'").error is None
    assert typescript.run("join('a', 'b') satisfies string").text == "a/b"


def test_a_syntax_error_of_typescript(typescript):
    error = typescript.run("const z: number = ;").error
    assert error["name"] == "SyntaxError" and "Unexpected" in error["value"]


# ---- contexts
def test_the_default_contexts_of_the_languages_differ(kernel):
    assert kernel.run("var mine = 1; mine", language="js").text == "1"
    assert kernel.run("typeof mine", language="typescript").text == "undefined"
    assert kernel.run("mine", language="JavaScript").text == "1"
    for name in "default-javascript", "default-typescript":
        assert kernel.request("DELETE", f"/contexts/{name}")[0] == 200


def test_two_contexts_share_nothing(kernel, javascript):
    javascript.run("globalThis.mine = 1")
    other = kernel.context(language="javascript")
    try:
        assert other.run("typeof mine").text == "undefined"
    finally:
        other.delete()


def test_without_node_the_refusal_says_what_to_do(tmp_path, monkeypatch):
    for program in "python3", "bash":
        (tmp_path / program).symlink_to(shutil.which(program))
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel = kernel_peer.Kernel()
    try:
        status, text = kernel.refused(code="1", language="javascript")
        assert status == 400 and "apt-get install nodejs" in text
        status, text = kernel.refused(code="1", language="r")
        assert text.strip().endswith("it has python and bash")
        assert kernel.request("POST", "/execute", {"code": "1", "context_id": "default-typescript"})[0] == 400
    finally:
        kernel.stop()
