# SPDX-License-Identifier: Apache-2.0
"""--profile miroflow: the strings, byte for byte (reference/peers.md, sections 1.2 and 1.3)."""

import sys
import unicodedata

import pytest
from mcp_stdio import META, backend, fresh, start  # noqa: F401

UPLOAD = "upload_file_from_local_to_sandbox"
INTERNET = "download_file_from_internet_to_sandbox"
LOCAL = "download_file_from_sandbox_to_local"


@pytest.fixture
def server(start, tmp_path):
    return start("--profile", "miroflow", "--output-bytes", "4M", LOGS_DIR="./logs", cwd=tmp_path)


@pytest.fixture
def sandbox(backend):
    return backend.sandbox()


def test_results_are_text_alone(server, sandbox):
    for tool in server.call("tools/list")["result"]["tools"]:
        assert "outputSchema" not in tool
    for arguments in {"command": "true"}, {"command": "false"}, {}:
        result = server.result("run_command", sandbox_id=sandbox, **arguments)
        assert set(result) == {"content"} and len(result["content"]) == 1
    answer = server.modern("tools/call", name="run_command", arguments={})
    assert "isError" not in answer["result"]


def test_parameters(server):
    shown = {t["name"]: t["inputSchema"] for t in server.call("tools/list")["result"]["tools"]}
    assert {n: s.get("required", []) for n, s in shown.items()} == {
        "create_sandbox": [],
        "run_command": ["sandbox_id", "command"],
        "run_python_code": ["sandbox_id", "code_block"],
        UPLOAD: ["sandbox_id", "local_file_path"],
        INTERNET: ["sandbox_id", "url"],
        LOCAL: ["sandbox_id", "sandbox_file_path"]}
    for tool in UPLOAD, INTERNET:
        assert shown[tool]["properties"]["sandbox_file_path"]["default"] == "/home/user"
    assert shown[LOCAL]["properties"]["local_filename"] == {
        "type": "string", "description": "Name or path on that computer; default: the same name."}


def test_create(server, backend):
    text = server.text("create_sandbox")
    (name,) = backend.sandboxes
    assert text == f"Sandbox created with sandbox_id: {name}"
    assert text.split(": ")[1] == name
    backend.create_error = 429, {"code": 429, "message": "the limit"}
    assert server.text("create_sandbox") == (
        "Failed to create sandbox after 5 attempts: could not create a sandbox: the limit. "
        "Please retry later.")


@pytest.mark.parametrize("command, want", [
    ("echo hi", r"CommandResult(stderr='', stdout='hi\n', exit_code=0, error='')"),
    ("true", "CommandResult(stderr='', stdout='', exit_code=0, error='')"),
    ("echo \"it's\"; echo '\"' >&2", "CommandResult(stderr='\"\\n', stdout=\"it's\\n\", exit_code=0, error='')"),
    (r"printf '\033[1mé\t\\\r'", r"CommandResult(stderr='', stdout='\x1b[1mé\t\\\r', exit_code=0, error='')"),
    ("echo out; echo err >&2; exit 3",
     r"[ERROR]: Command exited with code 3: CommandResult(stderr='err\n', stdout='out\n', exit_code=3, error='exit status 3')")])
def test_command(server, sandbox, backend, command, want):
    assert server.text("run_command", sandbox_id=sandbox, command=command) == want
    assert len(backend.started) == 1


def test_command_that_takes_too_long(server, sandbox):
    text = server.text("run_command", sandbox_id=sandbox, command="echo x; sleep 100", timeout=4)
    assert text.startswith("[ERROR]: Command timed out after ")
    assert text.endswith(r": CommandResult(stderr='', stdout='x\n', exit_code=-1, error='')")


@pytest.mark.parametrize("code, want", [
    ("print('hi')", r"Execution(Results: [], Logs: Logs(stdout: ['hi\n'], stderr: []), Error: None)"),
    ("6 * 7", "Execution(Results: [Result(42)], Logs: Logs(stdout: [], stderr: []), Error: None)"),
    ("'text'", "Execution(Results: [Result('text')], Logs: Logs(stdout: [], stderr: []), Error: None)"),
    ("import sys; print('e', file=sys.stderr)",
     r"Execution(Results: [], Logs: Logs(stdout: [], stderr: ['e\n']), Error: None)")])
def test_python(server, sandbox, code, want):
    assert server.text("run_python_code", sandbox_id=sandbox, code_block=code) == want


def test_python_error(server, sandbox):
    text = server.text("run_python_code", sandbox_id=sandbox, code_block="print(1)\n1 / 0")
    start = ("Execution(Results: [], Logs: Logs(stdout: ['1\\n'], stderr: []), Error: "
             "ExecutionError(name='ZeroDivisionError', value='division by zero', traceback='")
    assert text.startswith(start) and text.endswith("'))") and "\\n    1 / 0\\n" in text


# The conditions that MiroFlow's own old test-suite looks for, in lower-cased text.
def test_what_its_tests_look_for(server, sandbox, tmp_path):
    def python(code):
        return server.text("run_python_code", sandbox_id=sandbox, code_block=code).lower()

    assert "error: none" in python("x = 1")
    assert "syntax" in python("if x") and "error" in python("if x")
    assert "division" in python("1/0")
    assert "import" in python("import no_such_module") or "module" in python("import no_such_module")
    assert "file" in server.text("run_command", sandbox_id=sandbox, command="cat /none/at/all")
    assert "required" in server.text("run_command", sandbox_id=sandbox)
    assert "url" in server.text(INTERNET, sandbox_id=sandbox, url="")
    assert "invalid" in server.text(INTERNET, sandbox_id=sandbox, url="not-a-url")


def test_files(server, sandbox, tmp_path, backend):
    (tmp_path / "f.csv").write_text("x")
    assert server.text(UPLOAD, sandbox_id=sandbox, local_file_path=str(tmp_path / "f.csv")) == (
        "File uploaded to /home/user/f.csv")
    assert server.text(LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/f.csv") == (
        f"File downloaded successfully to: ./logs/tmpfiles/sandbox_{sandbox}_f.csv")
    assert (tmp_path / f"logs/tmpfiles/sandbox_{sandbox}_f.csv").read_text() == "x"


def test_errors(server, backend, sandbox):
    for tool, more in [("run_command", {"command": "true"}), ("run_python_code", {"code_block": "1"}),
                       (LOCAL, {"sandbox_file_path": "/x"})]:
        for name in "default", "q" * 20:
            text = server.text(tool, sandbox_id=name, **more)
            assert text.startswith(f"[ERROR]: Failed to connect to sandbox {name}: ")
            assert "create_sandbox" in text
    text = server.text(UPLOAD, sandbox_id=sandbox, local_file_path="missing")
    assert text.startswith(f"[ERROR]: Failed to upload file missing to sandbox {sandbox}: ")
    text = server.text(LOCAL, sandbox_id=sandbox, sandbox_file_path="/nowhere")
    assert text.startswith(f"[ERROR]: Failed to download file /nowhere from sandbox {sandbox}: ")
    text = server.text(INTERNET, sandbox_id=sandbox, url="http://127.0.0.1:1/x")
    assert text.startswith("[ERROR]: Failed to download file from http://127.0.0.1:1/x: ")
    assert "Unknown tool:" not in text


def test_repr_of_every_character(server, sandbox):
    """Compared with the Python that runs this test, if it has the same Unicode version; otherwise
    only characters that both versions have."""
    same = unicodedata.unidata_version == "14.0.0"
    step = 0x8000
    for first in range(0, sys.maxunicode + 1, step):
        code = (f"import sys\nfor c in range({first}, {first + step}):\n"
                "    if c and not 0xd800 <= c < 0xe000: sys.stdout.write(chr(c))")
        want = "".join(chr(c) for c in range(first, first + step) if c and not 0xd800 <= c < 0xe000)
        text = server.text("run_python_code", sandbox_id=sandbox, code_block=code)
        got = text.removeprefix("Execution(Results: [], Logs: Logs(stdout: [").removesuffix(
            "], stderr: []), Error: None)")
        if same:
            assert got == (repr(want) if want else ""), hex(first)
        else:
            assert eval(got or "''") == want  # noqa: S307
