# SPDX-License-Identifier: Apache-2.0
"""run_python_code on the kernel itself, and in sandboxes without a kernel."""

import base64
import json
import pathlib
import re
import socket
import threading

import jsonschema
import pytest
from harness import text_of, wait_for
from mcp_stdio import backend, server, start  # noqa: F401

import kernel_peer

SCHEMA = {t["name"]: t for t in json.loads(
    (pathlib.Path(__file__).parents[3] / "schemas/tools.json").read_text())}["run_python_code"]


@pytest.fixture(name="sandbox")
def fixture_sandbox(backend):
    """A sandbox with the shared kernel, cleaned."""
    kernel = kernel_peer.shared()
    kernel.request("POST", "/contexts/default/restart")
    backend.kernel = ("127.0.0.1", kernel.port)
    return backend.sandbox()


def python(server, sandbox, code, **more):
    result = server.result("run_python_code", sandbox_id=sandbox, code_block=code, **more)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMA["outputSchema"])
    return result["structuredContent"], text_of(result), result["content"]


def test_variables_last(server, sandbox):
    got, text, _ = python(server, sandbox, "import math\nx = 41\nprint('set')")
    assert (got["stdout"], got["exit_code"], got["status"]) == ("set\n", 0, "ok")
    assert text == f"set\n[ok, {got['duration_ms']} ms]" and got["context"] == "default"
    got, text, content = python(server, sandbox, "x + math.floor(1.5)")
    assert got["result"] == "42" and text.startswith("42\n[ok, ")
    assert [block["type"] for block in content] == ["text"]


def test_calls_start_in_order(server, sandbox):
    python(server, sandbox, "a = []")
    calls = [server.start_tool("run_python_code", sandbox_id=sandbox, code_block=f"a.append({i}); a") for i in range(8)]
    assert [server.tool_result(call)["result"] for call in calls][-1] == str(list(range(8)))


def test_strings_keep_their_quotes(server, sandbox):
    assert python(server, sandbox, "'5'")[0]["result"] == "'5'"
    assert python(server, sandbox, "''")[0]["result"] == "''"
    assert "result" not in python(server, sandbox, "None")[0]


def test_streams_and_values_have_their_names(server, sandbox):
    got, text, _ = python(server, sandbox, (
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay({'shown': 1})\n6 * 7"))
    assert (got["stdout"], got["stderr"], got["displayed"]) == ("out\n", "err\n", "{'shown': 1}\n")
    assert text.startswith("stdout:\nout\nstderr:\nerr\ndisplayed:\n{'shown': 1}\nresult:\n42\n[ok, ")


def test_errors(server, sandbox):
    got, text, _ = python(server, sandbox, "def f():\n    return 1 / 0\n\nprint('before')\nf()")
    assert (got["error"]["name"], got["error"]["value"]) == ("ZeroDivisionError", "division by zero")
    assert (got["stdout"], got["exit_code"], got["status"]) == ("before\n", 1, "error")
    assert "return 1 / 0" in text and "\n[ZeroDivisionError, " in text and "\x1b" not in text
    assert python(server, sandbox, "f")[0]["result"].startswith("<function"), "what was made is there"


def test_contexts_are_apart(server, sandbox):
    python(server, sandbox, "x = 1")
    got, _, _ = python(server, sandbox, "'x' in globals()", context="other")
    assert (got["result"], got["context"]) == ("False", "other")
    python(server, sandbox, "x = 2", context="other")
    assert python(server, sandbox, "x")[0]["result"] == "1"
    assert python(server, sandbox, "x", context="other")[0]["result"] == "2"
    kernel_peer.shared().request("DELETE", "/contexts/other")


def test_restart_starts_clean(server, sandbox):
    python(server, sandbox, "x = 1")
    got, _, _ = python(server, sandbox, "'x' in globals()", restart=True)
    assert got["result"] == "False"
    assert python(server, sandbox, "1", restart=True, context="new")[0]["result"] == "1"
    kernel_peer.shared().request("DELETE", "/contexts/new")


@pytest.mark.parametrize("context", ["a/b", "..", "x" * 65, "a b", "é"])
def test_bad_names_of_contexts(server, sandbox, context):
    result = server.result("run_python_code", sandbox_id=sandbox, code_block="1", context=context)
    assert result["isError"] and "context must be 1 to 64 letters" in text_of(result)


def test_figures_are_shown_and_saved(server, sandbox, backend):
    got, text, content = python(server, sandbox, (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\n"
        "plt.plot([3, 2, 1])\nplt.show()\nprint('drawn')"))
    assert [block["type"] for block in content] == ["text", "image", "image"]
    for figure, image in zip(got["figures"], content[1:], strict=True):
        data = pathlib.Path(figure["path"]).read_bytes()
        assert data == base64.b64decode(image["data"]) and data.startswith(b"\x89PNG")
        assert (figure["mime_type"], figure["shown"], image["mimeType"]) == ("image/png", True, "image/png")
        assert figure["path"] in text
        pathlib.Path(figure["path"]).unlink()
    assert got["stdout"] == "drawn\n" and "displayed" not in got


def test_figures_beyond_what_clients_take(server, sandbox):
    got, _, content = python(server, sandbox, (
        "import os\nfrom IPython.display import Image\n"
        "png = b'\\x89PNG\\r\\n\\x1a\\n'\n"
        "display(Image(png + os.urandom(3 << 20), format='png'))\n"
        "for _ in range(10):\n    display(Image(png + bytes(1000), format='png'))"))
    assert [f["shown"] for f in got["figures"]] == [False] + [True] * 8 + [False] * 2
    assert [block["type"] for block in content].count("image") == 8
    assert pathlib.Path(got["figures"][0]["path"]).stat().st_size == 8 + (3 << 20)
    for figure in got["figures"]:
        pathlib.Path(figure["path"]).unlink()


def test_tables_are_text(server, sandbox):
    got, text, _ = python(server, sandbox, (
        "import pandas as pd\npd.DataFrame({'name': ['a', 'b'], 'count': [1, 2]})"))
    assert got["result"].split() == ["name", "count", "0", "a", "1", "1", "b", "2"]
    assert "<table" not in text


def test_long_output_and_long_values(start, backend, sandbox):
    server = start("--output-bytes", "500")
    got, _, _ = python(server, sandbox, "for i in range(10000): print(i)\n'x' * 10000")
    assert got["truncated"] and len(got["result"]) < 1000 and "print or save" in got["result"]
    whole = pathlib.Path(backend.files / got["stdout_path"].lstrip("/"))
    whole = whole if whole.exists() else pathlib.Path(got["stdout_path"])
    assert whole.read_text() == "".join(f"{i}\n" for i in range(10000))
    whole.unlink()


def test_a_run_past_its_timeout_is_interrupted(server, sandbox):
    python(server, sandbox, "import time; x = 1")  # the context is there
    got, text, _ = python(server, sandbox, "print('so far')\nwhile True: time.sleep(0.01)", timeout=3)
    assert got["timed_out"] and (got["exit_code"], got["status"]) == (-1, "interrupted")
    assert got["stdout"] == "so far\n" and "\n[interrupted; timed out after " in text
    assert python(server, sandbox, "x")[0]["result"] == "1", "variables are kept"


def test_a_run_that_hears_no_interrupt_is_left(server, sandbox):
    python(server, sandbox, "import signal, time")
    got, text, _ = python(server, sandbox, (
        "s = signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')\nwhile True: time.sleep(0.01)"),
        timeout=3)
    assert got["timed_out"] and got["stdout"] == "deaf\n" and "killed" in got["status"]
    assert python(server, sandbox, "1 + 1")[0]["result"] == "2", "the context is usable"


def test_one_that_waits_for_its_turn_is_given_up(server, sandbox, tmp_path):
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    first = server.start_tool("run_python_code", sandbox_id=sandbox, code_block=(
        f"import os, time\nopen({str(begun)!r}, 'w').close()\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n1"))
    wait_for(begun.exists, what="the first run")
    second = server.start_tool("run_python_code", sandbox_id=sandbox, code_block="2", timeout=0.5)
    answer = server.answer(second)["result"]
    got = answer["structuredContent"]
    assert got["timed_out"] and got["status"].startswith("not run") and "result" not in got
    text = text_of(answer)
    assert "[not run: the Python kernel was busy; timed out after " in text
    assert "printed" not in text, "there is nothing that it printed"
    gate.touch()
    assert server.answer(first)["result"]["structuredContent"]["result"] == "1", "not interrupted"


def test_cancelling_interrupts(server, sandbox, tmp_path):
    told = tmp_path / "told"
    call = server.start_tool("run_python_code", sandbox_id=sandbox, code_block=(
        "import pathlib, time\n"
        f"told = pathlib.Path({str(told)!r})\ntold.write_text('begun')\n"
        "try:\n    while True: time.sleep(0.01)\nfinally:\n    told.write_text('interrupted')"))
    wait_for(lambda: told.exists() and told.read_text() == "begun", what="the run")
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
    wait_for(lambda: told.read_text() == "interrupted", what="the interrupt")
    assert python(server, sandbox, "1 + 1")[0]["result"] == "2"


def test_a_kernel_process_that_dies(server, sandbox):
    got, text, _ = python(server, sandbox, "import os\nprint('last words', flush=True)\nos._exit(5)")
    assert got["error"]["name"] == "KernelDied" and got["stdout"] == "last words\n"
    assert "the next run starts clean" in text
    assert python(server, sandbox, "1 + 1")[0]["result"] == "2"


# ---- a kernel that does not do as it should
class Begun(bytes):
    """An answer after which the connection stays open."""


class Scripted:
    """Answers each request as the test says, and records the requests."""

    def __init__(self, backend, *answers):
        self.listener = socket.create_server(("127.0.0.1", 0))
        backend.kernel = self.listener.getsockname()
        self.asked = []
        self.open = []
        self.thread = threading.Thread(target=self.serve, args=(answers,), daemon=True)
        self.thread.start()

    @staticmethod
    def request(connection):
        """Reads the whole request: if bytes are left unread, the answer is lost with the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536) or b"\r\n\r\n"
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        while length and len(body) < int(length[1]):
            body += connection.recv(65536) or b" " * int(length[1])
        return data

    def serve(self, answers):
        for answer in answers:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # closed
            self.asked.append(self.request(connection).split(b"\r\n")[0].decode())
            connection.sendall(answer)
            if answer and not isinstance(answer, Begun):
                connection.shutdown(socket.SHUT_RDWR)
            self.open.append(connection)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
        self.thread.join(30)
        for connection in [*self.open, self.listener]:
            connection.close()


def lines(*messages, whole=True):
    chunks = [json.dumps(m).encode() + b"\n" for m in messages]
    body = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks)
    return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
            + (b"0\r\n\r\n" if whole else b""))


@pytest.fixture(name="scripted")
def fixture_scripted(backend):
    made = []

    def make(*answers):
        made.append(Scripted(backend, *answers))
        return made[-1]

    yield make
    for one in made:
        one.close()


STARTED = {"type": "number_of_executions", "execution_count": 1}


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\n",                                    # before it says anything
    lines(STARTED, {"type": "stdout", "text": "a"}, whole=False),  # in the middle
    lines(STARTED, {"type": "stdout", "text": "a"})],              # its last line is missing
    ids=["no answer", "cut off", "no last line"])
def test_what_may_have_run_is_told_as_lost_and_not_asked_twice(server, backend, scripted, answer):
    sandbox = backend.sandbox()
    kernel = scripted(answer)
    result = server.result("run_python_code", sandbox_id=sandbox, code_block="1")
    assert result["isError"] and "may have run" in text_of(result)
    assert kernel.asked == ["POST /execute HTTP/1.1"] and backend.count("/execute") == 1


def test_a_restart_that_hangs_is_given_up_at_the_timeout(server, backend, scripted):
    sandbox = backend.sandbox()
    kernel = scripted(b"")
    got, text, _ = python(server, sandbox, "1", restart=True, timeout=3)
    assert got["timed_out"] and "not run" in got["status"] and "[not run: " in text
    assert kernel.asked == ["POST /contexts/default/restart HTTP/1.1"]


def test_a_context_whose_making_hangs_is_given_up_at_the_timeout(server, backend, scripted):
    sandbox = backend.sandbox()
    missing = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 22\r\n\r\nContext new not found."
    scripted(missing, b"")
    got, _, _ = python(server, sandbox, "1", context="new", timeout=2)
    assert got["timed_out"] and "not run" in got["status"]


@pytest.mark.parametrize("first", [0, 1], ids=["the run's connection first", "the interrupt's first"])
def test_a_sandbox_that_ends_while_a_run_is_interrupted(server, backend, scripted, first):
    sandbox = backend.sandbox()
    kernel = scripted(Begun(lines(STARTED, {"type": "stdout", "text": "so far"}, whole=False)), b"")
    call = server.start_tool("run_python_code", sandbox_id=sandbox, code_block="1", timeout=1)
    wait_for(lambda: len(kernel.open) == 2, what="the interrupt")
    backend.end(sandbox, "The sandbox ended: its time was over")
    for connection in kernel.open[first], kernel.open[1 - first]:
        connection.shutdown(socket.SHUT_RDWR)
    result = server.answer(call)["result"]
    assert result["isError"] and "so far" in text_of(result), result


def test_a_kernel_that_cannot_interrupt_is_left(server, backend, scripted):
    sandbox = backend.sandbox()
    missing = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 9\r\n\r\nNot Found"
    scripted(Begun(lines(STARTED, {"type": "stdout", "text": "so far"}, whole=False)), missing)
    got, _, _ = python(server, sandbox, "1", timeout=1)
    assert got["timed_out"] and "killed" in got["status"] and got["stdout"] == "so far"


def test_without_a_kernel_a_fresh_interpreter_runs_it(server, backend):
    sandbox = backend.sandbox()
    got, text, _ = python(server, sandbox, "x = 1\nx + 1")
    assert got["result"] == "2" and "context" not in got
    assert text.endswith("(this sandbox has no Python kernel: a fresh interpreter ran the code, so variables are not kept)")
    for more in ({"context": "other"}, {"restart": True}):
        result = server.result("run_python_code", sandbox_id=sandbox, code_block="1", **more)
        assert result["isError"] and text_of(result).startswith("no_kernel: ")


STARTING = {"message": "The Python kernel of the sandbox ended and is being started again",
            "error_code": "kernel_starting", "code": 503, "port": 49999}


def test_a_kernel_that_is_away_is_not_replaced(server, backend, scripted):
    """Neither where the daemon says so, nor where the port answered before and is closed now."""
    body = json.dumps(STARTING).encode()
    scripted(b"HTTP/1.1 503 No\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
             % (len(body), body))
    result = server.result("run_python_code", sandbox_id=backend.sandbox(), code_block="1")
    assert result["isError"] and STARTING["message"] in text_of(result)
    sandbox = backend.sandbox()
    backend.kernel = ("127.0.0.1", kernel_peer.shared().port)
    python(server, sandbox, "1")
    backend.kernel = None
    for _ in range(2):
        result = server.result("run_python_code", sandbox_id=sandbox, code_block="1")
        assert result["isError"] and "49999 of the sandbox ended" in text_of(result), result
    assert python(server, backend.sandbox(), "1 + 1")[1].endswith("variables are not kept)"), "another one"
    assert not backend.started[1:], "only that one was given an interpreter"
