# SPDX-License-Identifier: Apache-2.0
"""run_code: the languages of the kernel beside Python."""

import json
import pathlib

import jsonschema
import pytest
from mcp_stdio import backend, server, start  # noqa: F401

import kernel_peer

SCHEMA = {t["name"]: t for t in json.loads(
    (pathlib.Path(__file__).parents[3] / "schemas/tools.json").read_text())}["run_code"]


@pytest.fixture(name="sandbox")
def fixture_sandbox(backend):
    """A sandbox with the shared kernel, whose default contexts are new."""
    kernel = kernel_peer.shared()
    for name in "default", "default-bash", "default-javascript", "default-typescript":
        kernel.request("POST", f"/contexts/{name}/restart")
    backend.kernel = ("127.0.0.1", kernel.port)
    return backend.sandbox()


def run(server, sandbox, language, code, **more):
    result = server.result("run_code", sandbox_id=sandbox, language=language, code_block=code, **more)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMA["outputSchema"])
    return result["structuredContent"]


@pytest.mark.parametrize("language, first, then, expected", [
    ("javascript", "const a = 20", "a + 1", "21"), ("typescript", "const b: number = 30", "b as number", "30"),
    ("python", "c = 40", "c", "40"),
])
def test_variables_last(server, sandbox, language, first, then, expected):
    run(server, sandbox, language, first)
    got = run(server, sandbox, language, then)
    assert (got["result"], got["context"], got["status"]) == (expected, "default", "ok")


def test_bash_keeps_its_variables(server, sandbox):
    run(server, sandbox, "bash", "d=50")
    assert run(server, sandbox, "bash", "echo $d")["stdout"] == "50\n"


def test_a_context_belongs_to_its_language(server, sandbox):
    run(server, sandbox, "javascript", "var here = 1", context="mine")
    assert run(server, sandbox, "javascript", "here", context="mine")["context"] == "mine"
    assert run(server, sandbox, "javascript", "typeof here")["result"] == "'undefined'"
    assert run(server, sandbox, "python", "'here' in dir()", context="mine")["result"] == "False"
    run(server, sandbox, "javascript", "0", context="mine", restart=True)
    assert run(server, sandbox, "javascript", "typeof here", context="mine")["result"] == "'undefined'"


def test_errors_and_pictures_are_as_of_python(server, sandbox):
    got = run(server, sandbox, "javascript", "throw new TypeError('no')")
    assert got["error"]["name"] == "TypeError" and got["exit_code"] == 1
    got = run(server, sandbox, "javascript", "$$.png(Buffer.from('a'))")
    assert got["figures"][0]["mime_type"] == "image/png"


def test_a_timeout_interrupts_it(server, sandbox):
    run(server, sandbox, "javascript", "var kept = 1")
    got = run(server, sandbox, "javascript", "while (true);", timeout=0.3)
    assert got["timed_out"] and got["status"] == "interrupted" and got["exit_code"] == -1
    assert run(server, sandbox, "javascript", "kept")["result"] == "1"


def test_a_language_that_is_not_there(server, sandbox):
    result = server.result("run_code", sandbox_id=sandbox, language="cobol", code_block="1")
    assert result["isError"] and "javascript" in result["content"][0]["text"]


def test_a_name_that_is_too_long_for_a_context(server, sandbox):
    result = server.result("run_code", sandbox_id=sandbox, language="bash", code_block=":", context="x" * 60)
    assert result["isError"] and "context must be" in result["content"][0]["text"]


def test_without_a_kernel_the_error_says_what_to_do(server, backend):
    result = server.result("run_code", sandbox_id=backend.sandbox(), language="javascript", code_block="1")
    assert result["isError"] and "Run the code as a command" in result["content"][0]["text"]
    result = server.result("run_code", sandbox_id=backend.sandbox(), language="python", code_block="print(1)")
    assert result["structuredContent"]["stdout"] == "1\n"
