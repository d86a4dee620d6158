# SPDX-License-Identifier: Apache-2.0
"""The tools that create, run commands and run Python, in the default profile."""

import hashlib
import json
import pathlib
import re
import signal
import threading

import bpe_openai
import jsonschema
import pytest
from harness import process_exists, text_of, wait_for
from mcp_schemas import OFFERED, SCHEMAS
from mcp_stdio import META, backend, fresh, server, start  # noqa: F401


def run(server, sandbox, command, **more):
    """structuredContent, checked against the tool's own outputSchema, and the text."""
    result = server.result("run_command", sandbox_id=sandbox, command=command, **more)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMAS["run_command"]["outputSchema"])
    return result["structuredContent"], text_of(result)


def python(server, sandbox, code, **more):
    result = server.result("run_python_code", sandbox_id=sandbox, code_block=code, **more)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMAS["run_python_code"]["outputSchema"])
    return result["structuredContent"], text_of(result)


def test_schemas_are_valid():
    for tool in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint",
                                            "openWorldHint"}


def test_every_parameter_is_described():
    for name, tool in SCHEMAS.items():
        assert tool["description"].endswith((".", ".}")) and tool["title"], name
        for parameter, schema in tool["inputSchema"]["properties"].items():
            assert schema.get("description", "").endswith("."), (name, parameter)


def test_what_a_model_is_shown(server):
    tools = server.call("tools/list")["result"]["tools"]
    assert [t["name"] for t in tools] == OFFERED
    encoding = bpe_openai.get_encoding("o200k_base")

    def tokens(*members):
        shown = [{k: t[k] for k in members if k in t} for t in tools]
        return len(encoding.encode(json.dumps(shown, separators=(",", ":"), ensure_ascii=False)))

    assert tokens("name", "description", "inputSchema") <= 2700, "every model pays for this"
    assert tokens("name", "title", "description", "inputSchema", "outputSchema", "annotations") <= 4900


def keywords(schema):
    for key, value in schema.items():
        if key == "properties":
            for one in value.values():
                yield from keywords(one)
        elif key == "items":
            yield from keywords(value)
        else:
            yield key


def test_a_model_is_shown_nothing_that_strict_mode_refuses(server):
    """OpenAI's strict mode can refuse defaults and lengths. So a default that a model would not assume is told in words."""
    for tool in server.call("tools/list")["result"]["tools"]:
        assert set(keywords(tool["inputSchema"])) <= {"type", "description", "required", "enum", "additionalProperties"}
    for name, tool in SCHEMAS.items():
        for parameter, schema in tool["inputSchema"]["properties"].items():
            usual = schema.get("default") in (None, False, 0, 1, ".", *schema.get("enum", [])[:1])
            assert usual or f"default {schema['default']}." in schema["description"], (name, parameter)


def test_hints_for_claude_code(start):
    tools = start().call("tools/list")["result"]["tools"]
    first = {t["name"] for t in tools if t.get("_meta", {}).get("anthropic/alwaysLoad")}
    assert first == {"create_sandbox", "run_command", "run_python_code", "read_file", "write_file", "edit_file"}
    assert {t["name"] for t in tools if t.get("_meta", {}).get("anthropic/maxResultSizeChars") == 500000} == {
        "run_command", "run_python_code", "run_code", "read_file", "read_output"}
    assert not [t for t in start(version="2025-03-26").call("tools/list")["result"]["tools"] if "_meta" in t]


def descriptions(server):
    tools = {t["name"]: t for t in server.call("tools/list")["result"]["tools"]}
    return {n: " ".join([t["description"], *(p.get("description", "") for p in t["inputSchema"]["properties"].values())])
            for n, t in tools.items()}


def test_descriptions_follow_the_options(start):
    usual = descriptions(start())
    assert "default 1800." in usual["create_sandbox"] and "default 50." in usual["run_command"]
    assert "(list_templates), or a snapshot_id." in usual["create_sandbox"] and "numpy" in usual["create_sandbox"]
    assert not [text for text in usual.values() if "$" in text]
    other = descriptions(start("--sandbox-timeout=77", "--command-timeout=9", "--template=mine",
                               "--tools=create_sandbox,run_command"))
    assert "default 77." in other["create_sandbox"] and "default 9." in other["run_command"]
    for word in "list_templates", "snapshot", "start_command", "numpy":
        assert word not in " ".join(other.values()), word


def test_what_is_not_shown_is_checked_all_the_same(server, backend):
    """tools/list shows schemas/tools.json without limits that only protect the server, and without
    descriptions that an earlier tool has given."""
    told = set()
    for tool in server.call("tools/list")["result"]["tools"]:
        shown, whole = tool["inputSchema"], SCHEMAS[tool["name"]]["inputSchema"]
        assert shown["properties"].keys() == whole["properties"].keys() - {"mounts"}  # which needs --allow-mount
        assert shown.get("required") == whole.get("required")
        for name, one in shown["properties"].items():
            guards = {"minLength", "maxLength", "pattern", "minimum", "maximum", "maxItems", "items", "default"}
            said = (name, re.sub(r"\$\{\w+:([^}]*)\}", r"\1", whole["properties"][name]["description"]
                                 .replace("${sandbox_timeout}", "1800").replace("${command_timeout}", "50")))
            hidden = {k for k, v in whole["properties"][name].items() if "enum" not in one and one.get(k) != v}
            hidden -= {"description"} if one.get("description") == said[1] else set()
            assert hidden <= guards | ({"description"} if said in told else set())
            assert ("description" in one) == (said not in told)
            told.add(said)
            assert "default" not in one
    sandbox = backend.sandbox()
    assert "command" in server.error("run_command", sandbox_id=sandbox, command="")
    assert "more" in server.error("run_command", sandbox_id=sandbox, command="true", more=1)
    assert "user" in server.error("start_command", sandbox_id=sandbox, command="true", user="a b")
    assert backend.started == []


# ---- create_sandbox
def test_create(server, backend):
    result = server.result("create_sandbox")
    jsonschema.validate(result["structuredContent"], SCHEMAS["create_sandbox"]["outputSchema"])
    (sandbox,) = backend.sandboxes
    assert result["structuredContent"]["sandbox_id"] == sandbox
    assert result["structuredContent"]["timeout_s"] == 1800
    assert result["content"][0]["text"] == f"Sandbox created with sandbox_id: {sandbox}"
    (body,) = backend.created
    assert body["templateID"] == "default" and body["timeout"] == 1800 and body["sliding"] is True


def test_create_as_configured(start, backend):
    server = start(DEFAULT_TIMEOUT="77", DEFAULT_TEMPLATE_ID="other")
    assert server.result("create_sandbox")["structuredContent"]["timeout_s"] == 77
    assert (backend.created[0]["timeout"], backend.created[0]["templateID"]) == (77, "other")


@pytest.mark.parametrize("status, body, code", [
    (429, {"code": 429, "message": "8 sandboxes run, the limit"}, "limit_reached"),
    (503, {"code": 503, "error_code": "host_full", "message": "no memory"}, "limit_reached"),
    (404, {"code": 404, "message": "there is no template \"x\""}, "template_not_found"),
    (503, {"code": 503, "message": "stopping"}, "unavailable"),
    (500, {"code": 500, "message": "qemu ended"}, "failed")])
def test_create_fails(server, backend, status, body, code):
    backend.create_error = status, body
    text = server.error("create_sandbox")
    assert text.startswith(f"{code}: ") and (status == 404 or body["message"] in text)
    assert len(backend.created) == 1, "nothing is tried again"


def test_cancelled_create_leaves_no_sandbox(server, backend):
    backend.create_gate = threading.Event()
    request = server.start_tool("create_sandbox")
    wait_for(lambda: backend.created, what="the request is there")
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    server.silent()
    backend.create_gate.set()
    wait_for(lambda: backend.ended and not backend.sandboxes, what="it is removed")
    server.silent()


# ---- sandbox ids
@pytest.mark.parametrize("name", [
    "default", "sandbox1", "sandbox", "some_id", "new_sandbox", "python", "create_sandbox",
    "sandbox123", "temp", "sandbox-0", "sandbox-1", "sandbox_0", "sandbox_1", "new", "0", "auto",
    "default_sandbox", "none", "sandbox_12345", "dummy", "sandbox_01", "", "x" * 32,
    "../../../etc/passwdx", "ABCDEFGHIJKLMNOPQRST", "é" * 10])
def test_malformed_ids(server, backend, name):
    text = server.error("run_command", sandbox_id=name, command="true")
    assert text.startswith("invalid_sandbox_id: ") and "create_sandbox" in text
    assert backend.requests == []


def test_unknown_and_ended_ids_are_different(server, backend):  # 13
    for tool, more in [("run_command", {"command": "true"}), ("run_python_code", {"code_block": "1"}),
                       ("download_file_from_sandbox_to_local", {"sandbox_file_path": "/x"})]:
        text = server.error(tool, sandbox_id="q" * 20, **more)
        assert text.startswith("sandbox_not_found: ") and "create_sandbox" in text
        ended = backend.sandbox()
        backend.end(ended, "The sandbox reached its end at 12:00")
        text = server.error(tool, sandbox_id=ended, **more)
        assert text.startswith("sandbox_ended: ") and "at 12:00" in text
        assert "create_sandbox" in text


def test_sandbox_that_dies_during_a_command(server, backend):
    sandbox = backend.sandbox()
    backend.die_mid_command = True
    request = server.start_tool("run_command", sandbox_id=sandbox, command="echo so far; touch ready; exec sleep 1000")
    wait_for((backend.files / "ready").exists, what="it has printed")
    backend.end(sandbox, "The sandbox died: its machine was killed")
    for process in list(backend.running.values()):
        process.kill()
    answer = server.answer(request)
    assert answer["result"]["isError"]
    text = answer["result"]["content"][0]["text"]
    assert text.startswith("sandbox_ended: The sandbox died") and text.endswith("\nso far\n")
    assert len(backend.started) == 1


def test_connection_that_breaks_during_a_command(server, backend):
    """The sandbox lives on, so the error must not say "try again": the command may be running."""
    backend.die_mid_command = True
    request = server.start_tool("run_command", sandbox_id=backend.sandbox(),
                                command="echo so far; touch ready; exec sleep 1000")
    wait_for((backend.files / "ready").exists, what="it has printed")
    for process in list(backend.running.values()):
        process.kill()
    answer = server.answer(request)
    text = answer["result"]["content"][0]["text"]
    assert answer["result"]["isError"]
    assert text.startswith("command_lost: the connection to the command broke")
    assert "The command may have run or may still be running" in text and text.endswith("\nso far\n")
    assert "ry again" not in text
    assert len(backend.started) == 1


# ---- arguments
@pytest.mark.parametrize("arguments, words", [
    ({"command": 7}, "argument 'command' must be a string, not an integer"),
    ({"command": None}, "argument 'command' must be a string, not null"),
    ({}, "missing required argument 'command'"),
    ({"command": ""}, "argument 'command' must not be empty"),
    ({"command": "x", "timeout": -1}, "argument 'timeout' must be from 0.1 to 86400, not -1"),
    ({"command": "x", "timeout": "5 s"}, "argument 'timeout' must be a number, not a string"),
    ({"command": "echo \0"}, "argument 'command' contains a NUL character"),
    ({"command": "x", "cwd": "/\0"}, "argument 'cwd' contains a NUL character"),
    ({"command": "x", "envs": {"A": "\0"}}, "argument 'envs.A' contains a NUL character"),
    ({"command": "x", "odd": [{"a": "\0"}]}, "argument 'odd' contains a NUL character"),
    ({"command": "x", "envs": {"A": [1]}}, "argument 'envs' must be an array of NAME=value strings, or an object"
                                           " whose values are strings or numbers"),
    ({"command": "x", "code": "y"}, "unknown argument 'code'; allowed: sandbox_id, command, timeout,"
                                    " cwd, envs, session, user")])
def test_bad_arguments(server, backend, arguments, words):
    text = server.error("run_command", sandbox_id=backend.sandbox(), **arguments)
    assert text == f"invalid_argument: {words}"
    assert backend.requests == []


def test_command_of_the_greatest_length(server, backend):
    sandbox = backend.sandbox()
    command = "echo ok #"
    got, _ = run(server, sandbox, command + "x" * (131071 - len(command)))
    assert (got["stdout"], got["exit_code"]) == ("ok\n", 0)
    started = len(backend.started)
    text = server.error("run_command", sandbox_id=sandbox, command="é" * 65536)
    assert text.startswith("invalid_argument: the command has 131072 bytes and at most 131071 can be"
                           " passed; ") and "run_python_code" in text
    assert len(backend.started) == started


# ---- run_command
def test_command(server, backend):
    sandbox = backend.sandbox()
    got, text = run(server, sandbox, "echo out; echo err >&2; exit 3")  # 12
    assert (got["stdout"], got["stderr"], got["exit_code"]) == ("out\n", "err\n", 3)
    assert (got["timed_out"], got["truncated"], got["status"]) == (False, False, "exit status 3")
    assert (got["stdout_bytes"], got["stderr_bytes"], got["sandbox_id"]) == (4, 4, sandbox)
    assert got["duration_ms"] >= 0
    assert text == f"stdout:\nout\nstderr:\nerr\n[exit code 3, {got['duration_ms']} ms]"
    assert backend.started == [{"cmd": "/bin/bash", "args": ["-l", "-c", "echo out; echo err >&2; exit 3"]}]


@pytest.mark.parametrize("command, want", [
    ("echo hi", "hi\n[exit code 0, "), ("printf hi", "hi\n[exit code 0, "),
    ("echo e >&2", "stderr:\ne\n[exit code 0, "), ("true", "(no output)\n[exit code 0, "),
    ("kill -9 $$", "(no output)\n[signal: kill, after ")])
def test_texts(server, backend, command, want):
    assert run(server, backend.sandbox(), command)[1].startswith(want)


def test_command_options(server, backend):
    sandbox = backend.sandbox()
    got, _ = run(server, sandbox, "pwd; echo $A", cwd="/tmp", envs={"A": "ü'\""}, user=None)
    assert got["stdout"] == "/tmp\nü'\"\n"
    text = server.error("run_command", sandbox_id=sandbox, command="pwd", cwd="/nowhere at all")
    assert "/nowhere at all" in text


def test_killed_command(server, backend):
    got, _ = run(server, backend.sandbox(), "kill -9 $$")
    assert (got["exit_code"], got["status"]) == (-1, "signal: kill")


@pytest.mark.parametrize("tool", ["run_command", "start_command"])
def test_a_variable_that_cannot_be_passed(server, backend, tool):
    said = server.error(tool, sandbox_id=backend.sandbox(), command="true", envs=["A=1", "B" * 90 + "=" + "x" * 200_000])
    assert said == ("invalid_argument: the environment variable " + "B" * 80 + " has 200091 bytes with its name and at most "
                    "131071 can be passed; put the value into a file with write_file")
    assert not backend.started


def test_command_that_takes_too_long(server, backend):
    got, text = run(server, backend.sandbox(), "echo so far; sleep 1000", timeout=4)
    assert got["timed_out"] and got["stdout"] == "so far\n" and got["exit_code"] == -1
    assert text.startswith("so far\n[timed out and killed after ") and "in the background" in text


def test_default_timeouts(start, backend):
    sandbox = backend.sandbox()
    asked = []
    original = type(backend.server).finish_request

    def spy(handler):
        if handler.headers.get("Connect-Timeout-Ms"):
            asked.append(int(handler.headers["Connect-Timeout-Ms"]))
    handler_class = backend.server.RequestHandlerClass
    envd = handler_class.envd
    handler_class.envd = lambda self, *a: (spy(self), envd(self, *a))[1]
    assert original
    call = {"name": "run_command", "arguments": {"sandbox_id": sandbox, "command": "true"}}
    server = start()
    server.call("tools/call", call)
    server.call("tools/call", {**call, "_meta": {"progressToken": 1}})
    start("--command-timeout", "7").call("tools/call", call)
    start("--profile", "miroflow").call("tools/call", call)
    assert asked == [50_000, 300_000, 7_000, 300_000]


def test_stdout_of_the_server_is_not_reached(server, backend):  # 26
    got, _ = run(server, backend.sandbox(), 'printf \'{"jsonrpc":"2.0","id":1,"result":{}}\\n\'')
    assert json.loads(got["stdout"])["id"] == 1
    server.silent()


def test_binary_output(server, backend):
    got, _ = run(server, backend.sandbox(), r"printf '\xff\xfe\x00ok\xe2\x82\n'; printf '\x01\x1b' >&2")
    assert got["stdout"] == "\ufffd\ufffd\ufffdok\ufffd\ufffd\n" and got["stderr"] == "\x01\x1b"
    assert got["stdout_bytes"] == 8


def test_characters_split_between_chunks(server, backend):
    got, _ = run(server, backend.sandbox(), r"printf '\xe2\x82'; sleep 0.1; printf '\xac'")
    assert got["stdout"] == "€"


def test_long_output(start, backend):
    server = start("--output-bytes", "1000")
    sandbox = backend.sandbox()
    got, text = run(server, sandbox, "seq 1 200000; seq 1 3000 >&2; echo the end; exit 4")
    want = "".join(f"{i}\n" for i in range(1, 200001)) + "the end\n"
    assert got["truncated"] and got["exit_code"] == 4
    assert got["stdout"].startswith("1\n2\n") and got["stdout"].endswith("200000\nthe end\n")
    assert f"[... {len(want) - 1000} bytes left out; all of it is in {got['stdout_path']} ...]" in text
    assert got["stdout_bytes"] == len(want) and len(got["stdout"]) < 1200
    for stream in "stdout", "stderr":
        whole = pathlib.Path(got[f"{stream}_path"])
        assert hashlib.sha256(whole.read_bytes()).digest() == hashlib.sha256(
            want.encode() if stream == "stdout" else
            "".join(f"{i}\n" for i in range(1, 3001)).encode()).digest()
        whole.unlink()
    assert len(backend.started) == 1


def test_memory_stays_small(server, backend):
    got, _ = run(server, backend.sandbox(), "head -c 50000000 /dev/zero | tr '\\0' x")
    assert got["stdout_bytes"] == 50000000
    whole = pathlib.Path(got["stdout_path"])
    assert whole.stat().st_size == 50000000
    whole.unlink()
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    if "asan" not in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text():
        assert int(status.split("VmHWM:")[1].split()[0]) < 32 * 1024


def test_fifty_at_once(server, backend):
    sandbox = backend.sandbox()
    requests = [server.start_tool("run_command", sandbox_id=sandbox,
                                  command=f"echo {i} >> ran; [ $(({i} % 2)) = 0 ] && echo {i}; true")
                for i in range(50)]
    for i, request in enumerate(requests):
        got = server.tool_result(request)
        assert (got["exit_code"], got["stdout"]) == (0, f"{i}\n" if i % 2 == 0 else "")
    ran = (backend.files / "ran").read_text().split()
    assert sorted(map(int, ran)) == list(range(50))


# ---- cancellation; progress is in test_mcp_progress.py
def test_cancel(server, backend):  # 19
    sandbox = backend.sandbox()
    request = server.start_tool("run_command", sandbox_id=sandbox, command="sleep 1000 & sleep 1000")
    wait_for(lambda: backend.running, what="the command runs")
    (pid,) = backend.running
    server.silent()
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                 "params": {"requestId": request, "reason": "enough"}})
    wait_for(lambda: not process_exists(pid), 30, "the command is killed")
    server.silent()
    assert run(server, sandbox, "echo on")[0]["stdout"] == "on\n"


@pytest.mark.parametrize("params", [None, {}, {"requestId": 99}, {"requestId": "1"},
                                    {"requestId": None}, {"requestId": []}, [], "x"])
def test_cancel_what_is_not_there(server, params):  # 20
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    server.silent()


def test_cancel_takes_the_id_with_its_type(server, backend):
    server.send({"jsonrpc": "2.0", "id": "5", "method": "tools/call", "params": {
        "name": "run_command", "arguments": {"sandbox_id": backend.sandbox(), "command": "sleep 0.3"}}})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    assert server.line()["id"] == "5"


# ---- run_python_code in a sandbox without a kernel (test_mcp_python.py: with one)
def test_python(server, backend):
    sandbox = backend.sandbox()
    got, text = python(server, sandbox, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert (got["stdout"], got["stderr"], got["result"]) == ("out\n", "err\n", "42")
    assert "error" not in got and got["exit_code"] == 0
    assert text == (f"stdout:\nout\nstderr:\nerr\nresult:\n42\n[exit code 0, {got['duration_ms']} ms]"
                    " (this sandbox has no Python kernel: a fresh interpreter ran the code, so variables are not kept)")
    assert python(server, sandbox, "x = 1")[1].startswith("(no output)\n[exit code 0")
    assert python(server, sandbox, "'it''s'")[1].startswith("'its'\n[exit")
    assert "result" not in python(server, sandbox, "None")[0]
    assert python(server, sandbox, "")[0]["exit_code"] == 0
    assert python(server, sandbox, "import __main__; __main__.__name__, __name__")[0]["result"] == (
        "('__main__', '__main__')")


def test_python_error(server, backend):
    got, text = python(server, backend.sandbox(), "def f():\n    return 1 / 0\n\nprint('before')\nf()")
    assert (got["error"]["name"], got["error"]["value"]) == ("ZeroDivisionError", "division by zero")
    assert (got["stdout"], got["stderr"], got["exit_code"]) == ("before\n", "", 1)
    trace = got["error"]["traceback"]
    assert trace.startswith("Traceback (most recent call last):\n  File \"<code>\", line 5, in <module>")
    assert "    return 1 / 0\n" in trace and "_run" not in trace
    assert text.startswith("before\nTraceback ") and "\n[ZeroDivisionError, " in text


def test_python_syntax_error_shows_the_line(server, backend):
    got, text = python(server, backend.sandbox(), "ok = 1\nif ok\n    print('x')\n")
    assert got["error"]["name"] == "SyntaxError" and got["stdout"] == ""
    assert 'File "<code>", line 2' in text and "    if ok\n" in text and "ast.py" not in text


@pytest.mark.parametrize("code, stdout, result", [
    ("import asyncio\nawait asyncio.sleep(0)\nprint('awaited')\n'last'", "awaited\n", "'last'"),
    ("import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()",
     "late\n", None),
    ("import atexit\nx = atexit.register(print, 'exit')", "exit\n", None),
    ("from __future__ import annotations\nx: int = 1\nx", "", "1"),
    ("print('\\ud800'.encode('utf-8', 'replace'))", "b'?'\n", None),
    ("'\\ud800\\x00é'", "", "'\\ud800\\x00é'"),
    ("import subprocess\nsubprocess.run(['echo', 'child'], check=True).returncode", "child\n", "0"),
    ("import sys; sys.argv", "", "['']"),
    ("import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))) is A", "", "True")])
def test_python_programs(server, backend, code, stdout, result):
    got, _ = python(server, backend.sandbox(), code)
    assert "error" not in got, got
    assert (got["stdout"], got.get("result"), got["stderr"]) == (stdout, result, "")


@pytest.mark.parametrize("code, exit_code, name", [
    ("import sys; sys.exit(3)", 3, None), ("raise SystemExit", 0, None),
    ("import os; os._exit(5)", 5, "InterpreterDied"),
    ("import os; os.kill(os.getpid(), 9)", -1, "InterpreterDied"),
    ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
    ("class E(Exception):\n  def __str__(self): return 'x' * 100000\nraise E", 1, "E")])
def test_python_ends(server, backend, code, exit_code, name):
    got, text = python(server, backend.sandbox(), code)
    assert got["exit_code"] == exit_code and got.get("error", {}).get("name") == name
    assert len(text) < 60000


def test_python_that_writes_the_mark_itself(server, backend):
    got, _ = python(server, backend.sandbox(), "import sys\nsys.stderr.write('\\x1e' + 'a' * 40 + '{}\\n')\n1")
    assert got["stderr"] == "\x1e" + "a" * 40 + "{}\n" and got["result"] == "1"


def test_python_big_code(server, backend):
    sandbox = backend.sandbox()
    code = "text = '''" + "é x\n" * 100_000 + "'''\nlen(text)\n" + "# more\n" * 1000 + "len(text)"
    got, _ = python(server, sandbox, code)
    assert got["result"] == "400000"
    assert not pathlib.Path(backend.started[-1]["args"][-1]).exists(), "the file is removed"
    got, _ = python(server, sandbox, code + "\n1/0")
    assert got["error"]["name"] == "ZeroDivisionError"


def test_python_that_takes_too_long(server, backend):
    got, text = python(server, backend.sandbox(), "print('so far')\nimport time; time.sleep(1000)",
                       timeout=5)
    assert got["timed_out"] and got["stdout"] == "so far\n" and "error" not in got
    assert "timed out" in text


def test_python_long_output(start, backend):
    server = start("--output-bytes", "500")
    got, _ = python(server, backend.sandbox(), "for i in range(10000): print(i)\n'done'")
    assert got["truncated"] and got["result"] == "'done'"
    whole = pathlib.Path(got["stdout_path"])
    assert whole.read_text() == "".join(f"{i}\n" for i in range(10000))
    whole.unlink()


def test_a_tool_can_be_switched_off(start):
    server = start("--disable-tool", "run_python_code", "--disable-tool", "create_sandbox")
    names = [t["name"] for t in server.call("tools/list")["result"]["tools"]]
    assert set(names) == set(OFFERED) - {"run_python_code", "create_sandbox"}
    assert server.call("tools/call", {"name": "create_sandbox"})["error"]["code"] == -32602


def test_structured_content_by_revision(start, backend):
    sandbox = backend.sandbox()
    for version in "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25":
        result = start(version=version).result("run_command", sandbox_id=sandbox, command="true")
        assert ("structuredContent" in result) == (version >= "2025-06-18")
        assert "resultType" not in result and "_meta" not in result
