# SPDX-License-Identifier: Apache-2.0
"""The form of results: text before images, --structured, --images; and unusual values that models
write for arguments.
"""

import base64
import json
import pathlib

import kernel_peer
import pytest
from harness import text_of
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_http import http_start, modern, tool  # noqa: F401
from mcp_schemas import SCHEMAS, checked
from mcp_stdio import backend  # noqa: F401
from test_mcp_tools_sandboxes import Tokens

FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nprint('drawn')"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def kernel(real):  # noqa: F811
    shared = kernel_peer.shared()
    shared.request("POST", "/contexts/default/restart")
    real.kernel = ("127.0.0.1", shared.port)


def kinds(result):
    return [block["type"] for block in result["content"]]


# ---- text first, images
def test_the_text_is_before_the_images(start, sandbox, kernel, tmp_path):  # noqa: F811
    (tmp_path / "x.png").write_bytes(PNG)
    server = start()
    drawn = server.result("run_python_code", sandbox_id=sandbox, code_block=FIGURE)
    read = server.result("read_file", sandbox_id=sandbox, path=f"{tmp_path}/x.png")
    assert kinds(drawn) == kinds(read) == ["text", "image"]
    assert "drawn" in drawn["content"][0]["text"] and read["structuredContent"]["shown"] is True


def test_miroflow_keeps_the_text_last(start, sandbox, kernel):  # noqa: F811
    drawn = start("--profile", "miroflow").result("run_python_code", sandbox_id=sandbox, code_block=FIGURE)
    assert kinds(drawn) == ["image", "text"]


@pytest.mark.parametrize("how", ["path", "off"])
def test_no_images(start, sandbox, kernel, tmp_path, how):  # noqa: F811
    (tmp_path / "x.png").write_bytes(PNG)
    server = start("--images", how)
    o, text, content = checked(server, "run_python_code", sandbox_id=sandbox, code_block=FIGURE)
    assert len(content) == 1 and "drawn" in text
    if how == "path":
        (figure,) = o["figures"]
        assert not figure["shown"] and figure["path"] in text
        assert pathlib.Path(figure["path"]).read_bytes().startswith(b"\x89PNG")
    else:
        assert "figures" not in o and "figure" not in text
    o, text, content = checked(server, "read_file", sandbox_id=sandbox, path=f"{tmp_path}/x.png")
    assert len(content) == 1 and o["shown"] is False and o["hint"] == "not shown" and "not shown]" in text


# ---- structuredContent
def test_without_structured_content(start, sandbox):  # noqa: F811
    server = start("--structured", "off")
    result = server.result("run_command", sandbox_id=sandbox, command="echo out")
    assert "structuredContent" not in result and text_of(result).startswith("out\n")
    tools = server.call("tools/list")["result"]["tools"]
    assert tools and not [t["name"] for t in tools if "outputSchema" in t]


def test_structured_content_has_the_advice_of_the_text(start, sandbox, kernel, tmp_path):  # noqa: F811
    server = start()
    (tmp_path / "long").write_text("x" * 20000)
    (tmp_path / "big.png").write_bytes(PNG + bytes(6 << 20))
    calls = [("run_command", {"command": "sleep 30", "timeout": 0.2}),
             ("run_python_code", {"code_block": "import time\ntime.sleep(30)", "timeout": 0.5}),
             ("read_file", {"path": f"{tmp_path}/long"}), ("read_file", {"path": f"{tmp_path}/big.png"})]
    for name, arguments in calls:
        o, text, _ = checked(server, name, sandbox_id=sandbox, **arguments)
        assert o["hint"] and o["hint"] in text, name
    o, _, _ = checked(server, "run_command", sandbox_id=sandbox, command="true")
    assert "hint" not in o


# ---- by token
def test_a_token_has_its_own_form(http_start, backend, tmp_path):  # noqa: F811
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("plain")
    tokens.add("texts", structured="off", images="path")
    tokens.add("both", structured="on")
    server = http_start("--token-file", tokens.path, "--structured", "off")
    for who, structured in ("plain", False), ("texts", False), ("both", True):
        assert ("structuredContent" in tokens.call(server, who, "list_sandboxes")) == structured, who
        headers = {"Authorization": f"Bearer {tokens.tokens[who]}"}
        listed = modern(server, "tools/list", {}, headers=headers).json()["result"]
        assert any("outputSchema" in t for t in listed["tools"]) == structured
        assert listed["cacheScope"] == "private", "it differs from token to token"


@pytest.mark.parametrize("member, value", [("structured", True), ("structured", "yes"), ("images", "none")])
def test_a_form_that_does_not_exist(http_start, tmp_path, member, value):  # noqa: F811
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("me", **{member: value})
    with pytest.raises(AssertionError, match=member):
        http_start("--token-file", tokens.path)


# ---- what models write
@pytest.mark.parametrize("arguments", [
    {"command": "sleep 30", "timeout": "0.3"}, {"command": "sleep 30", "timeout": 0.3, "description": "Wait"}])
def test_numbers_in_strings_and_descriptions(start, sandbox, arguments):  # noqa: F811
    o, _, _ = checked(start(), "run_command", sandbox_id=sandbox, **arguments)
    assert o["timed_out"]


def test_code_is_taken_for_code_block(start, sandbox, kernel):  # noqa: F811
    server = start()
    assert checked(server, "run_python_code", sandbox_id=sandbox, code="6 * 7")[0]["result"] == "42"
    assert "unknown argument 'code'" in server.error("run_python_code", sandbox_id=sandbox, code="1", code_block="2")
    assert "unknown argument 'cmd'; allowed: sandbox_id, command" in server.error(
        "run_command", sandbox_id=sandbox, cmd="x")


@pytest.mark.parametrize("envs", [["A=1=2", "B=ü"], {"A": "1=2", "B": "ü"}], ids=["list", "object"])
def test_envs(start, sandbox, envs):  # noqa: F811
    server = start()
    assert checked(server, "run_command", sandbox_id=sandbox, command="echo $A $B", envs=envs)[0]["stdout"] == "1=2 ü\n"
    o, _, _ = checked(server, "start_command", sandbox_id=sandbox, command="echo $A $B; exec cat", envs=envs)
    # On a busy host the answer comes before the shell prints.
    read, _, _ = checked(server, "read_output", sandbox_id=sandbox, command_id=o["command_id"], wait_seconds=60)
    assert read["output"] == "1=2 ü\n"
    assert "argument 'envs[0]' must match ^[^=]+=" in server.error("run_command", sandbox_id=sandbox, command="true",
                                                                  envs=["A"])


def strict(schema):
    """The conversion of OpenAI's libraries for strict mode; they refuse members that are not named."""
    if schema.get("type") == "object":
        assert not schema.get("additionalProperties"), schema
        for property in schema.get("properties", {}).values():
            strict(property)
    if "items" in schema:
        strict(schema["items"])


def test_every_schema_can_be_made_strict():
    for name, definition in SCHEMAS.items():
        strict(json.loads(json.dumps(definition["inputSchema"])))
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(json.dumps(definition["inputSchema"]).split('"')), name
