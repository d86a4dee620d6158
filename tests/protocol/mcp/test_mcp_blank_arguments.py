# SPDX-License-Identifier: Apache-2.0
"""Optional arguments that are "" or 0. A client in strict mode makes a model fill in every
argument, and the model writes these for the ones it would leave out.
"""

import json
import pathlib
import re

import jsonschema
import pytest
from harness import text_of
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_schemas import OFFERED, SCHEMAS

# Where "" or 0 is a value like others: the schema allows it, and it reaches the tool.
MEANINGFUL = {("read_output", "cursor"), ("read_output", "wait_seconds"), ("send_input", "text"),
              ("stop_command", "grace_seconds"), ("list_files", "offset"), ("edit_file", "new_text")}
# Arguments that the calls below need, though the schema does not.
NEEDED = {("list_files", "path"), ("search_files", "path"), ("search_files", "glob"), ("edit_file", "old_text")}
BLANKS = {"string": ["", 0], "integer": [0, ""], "number": [0, 0.0, ""], "boolean": [0, ""], "object": ["", 0],
          "array": ["", 0]}


def every_optional_argument():
    for tool in OFFERED:
        schema = SCHEMAS[tool]
        properties = schema["inputSchema"]["properties"]
        for name in properties.keys() - set(schema["inputSchema"].get("required", [])):
            yield tool, name, properties[name]


def allows(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def test_the_schema_says_where_they_mean_something():
    allowed = {(tool, name) for tool, name, schema in every_optional_argument()
               if any(allows(schema, blank) for blank in BLANKS[schema["type"]])}
    assert allowed == MEANINGFUL


def required_arguments(real, sandbox, tmp_path):  # noqa: F811
    (tmp_path / "f.txt").write_text("a\nb\n")
    return {"sandbox_id": sandbox, "command": "echo out", "code_block": "1 + 1", "command_id": "0123abcd",
            "path": f"{tmp_path}/f.txt", "content": "a\nb\n", "old_text": "c", "new_text": "b", "url": "http://127.0.0.1:1/",
            "local_file_path": "f.txt", "sandbox_file_path": f"{tmp_path}/f.txt", "snapshot_id": "none", "port": 1, "language": "python",
            "timeout_s": 60, "new_path": f"{tmp_path}/g.txt"}


def outcome(server, tool, arguments):
    """The outcome of a call, without the values that differ from call to call."""
    if tool in ("move_file", "delete_file"):  # as it was before the last call
        pathlib.Path(arguments["path"]).write_text("a\nb\n")
        pathlib.Path(arguments.get("new_path", "/nowhere/x")).unlink(missing_ok=True)
    result = server.result(tool, **arguments)
    text = re.sub(r"\d+ ms|\b[0-9a-f]{8}\b|s{10,}\w*|/f\S*\.txt", "*", text_of(result))
    return result.get("isError", False), text


@pytest.mark.parametrize("tool", sorted({tool for tool, _, _ in every_optional_argument()}))
def test_blanks_are_as_if_absent(start, real, sandbox, tmp_path, tool):  # noqa: F811
    server = start("--command-timeout", "20")
    given = {k: v for k, v in required_arguments(real, sandbox, tmp_path).items()
             if k in SCHEMAS[tool]["inputSchema"].get("required", [])}
    # A directory that stays the same; what runs until it is stopped; what is not refused for doing nothing.
    given |= {"list_files": {"path": str(tmp_path)}, "start_command": {"command": "exec cat"},
              "send_input": {"text": "x"}, "edit_file": {"old_text": "c", "new_text": "b"},
              "search_files": {"glob": "f.txt", "path": str(tmp_path)}}.get(tool, {})
    usual = outcome(server, tool, given)
    assert "invalid_argument" not in usual[1]
    blank = {}
    for _, name, schema in (one for one in every_optional_argument() if one[0] == tool):
        for value in BLANKS[schema["type"]]:
            if (tool, name) not in MEANINGFUL | NEEDED:
                assert outcome(server, tool, {**given, name: value}) == usual, (name, value)
                blank[name] = value
    assert outcome(server, tool, {**given, **blank}) == usual
    if tool == "create_sandbox":
        assert len({json.dumps(body, sort_keys=True) for body in real.created}) == 1 and len(real.created) == 18


def test_a_blank_path_lists_the_home_directory(start, sandbox):  # noqa: F811
    server = start()
    listed = [server.result("list_files", sandbox_id=sandbox, **more)["structuredContent"]["path"]
              for more in ({}, {"path": ""}, {"path": 0}, {"path": None}, {"path": "."})]
    assert len(set(listed)) == 1


def test_blanks_of_what_is_required_are_errors(start, sandbox):  # noqa: F811
    server = start()
    assert "must not be empty" in server.error("run_command", sandbox_id=sandbox, command="")
    assert "must be a string, not an integer" in server.error("run_command", sandbox_id=sandbox, command=0)
    assert "must be from 1 to 65535" in server.error("expose_port", sandbox_id=sandbox, port=0)
    assert "must not be empty" in server.error("read_file", sandbox_id=sandbox, path="")
