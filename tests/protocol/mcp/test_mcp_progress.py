# SPDX-License-Identifier: Apache-2.0
"""notifications/progress: a command's output reaches the client as it comes, within limits."""

import fcntl
import json
import os
import re
import subprocess
import time

import pytest
from harness import BIN, process_exists, wait_for
from mcp_stdio import META, backend, server, start  # noqa: F401

OUTPUT_MAX = 8192       # of output in one message, mcp-server/protocol/progress.c
PER_SECOND = 10


def begin(server, command, token=1, request=1, tool="run_command", meta=None, **arguments):
    params = {"_meta": {**(meta or {}), "progressToken": token}, "name": tool, "arguments": arguments}
    params["arguments"]["code_block" if tool == "run_python_code" else "command"] = command
    server.send({"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": params})


def progress(server, request=1):
    """(message, time of arrival) of all notifications, and the answer after them."""
    seen = []
    while "id" not in (message := server.line()):
        assert message["method"] == "notifications/progress", message
        seen.append((message["params"], time.monotonic()))
    assert message["id"] == request
    values = [p["progress"] for p, _ in seen]
    assert all(a < b for a, b in zip(values, values[1:])), values
    return seen, message["result"]


def texts(seen):
    return [p["message"] for p, _ in seen]


@pytest.mark.parametrize("token", [7, "seven"])
def test_output_comes_as_it_is_printed(server, backend, token):  # 17
    gate = backend.files / "gate"
    os.mkfifo(gate)
    begin(server, "echo first; cat gate; echo last >&2", token, sandbox_id=backend.sandbox())
    assert server.line()["params"] == {"progressToken": token, "progress": pytest.approx(0.1, abs=9),
                                       "message": "first\n"}
    gate.write_text("middle\n")  # the command waits for it, so the message did
    seen, result = progress(server)
    assert "".join(texts(seen)) == "middle\nlast\n" or "".join(texts(seen)) == "last\nmiddle\n"
    assert all(p["progressToken"] == token for p, _ in seen)
    assert result["structuredContent"]["stdout"] == "first\nmiddle\n"
    server.silent()


def test_modern(start, backend):  # 17, 67
    server = start(version=None)
    os.mkfifo(backend.files / "gate")
    begin(server, "echo one; cat gate", "t", meta=META, sandbox_id=backend.sandbox())
    assert server.line()["params"]["message"] == "one\n"
    (backend.files / "gate").write_text("two\n")
    seen, result = progress(server)
    assert "two\n" in texts(seen) and result["resultType"] == "complete"


def test_beats_when_nothing_is_printed(server, backend):
    for command, said, beat in (("echo some; cat gate", ["some\n"], r"\d+ s, 5 bytes"), ("cat gate", [], r"\d+ s")):
        gate = backend.files / "gate"
        os.mkfifo(gate)
        begin(server, command, sandbox_id=backend.sandbox())
        came = [server.line()["params"]["message"] for _ in range(len(said) + 2)]
        assert came[:len(said)] == said and all(re.fullmatch(beat, one) for one in came[len(said):])
        gate.write_text("")
        progress(server)
        gate.unlink()


def test_the_oldest_revision_has_no_message(start, backend):
    server = start(version="2024-11-05")
    begin(server, "echo some; sleep 1.5", sandbox_id=backend.sandbox())
    seen, result = progress(server)
    assert seen and all(set(p) == {"progressToken", "progress"} for p, _ in seen)
    assert "structuredContent" not in result


def test_none_unasked(server, backend):  # 18
    server.tool_result(server.start_tool("run_command", sandbox_id=backend.sandbox(),
                                         command="echo some; sleep 1.2"))
    assert server.notifications == []


def test_rate_and_bounds(server, backend):
    began = time.monotonic()
    # One process prints, since timeout does not wait for a child of its child.
    begin(server, "timeout 2 sh -c 'while :; do i=$((i + 1)); echo $i; done'; echo done",
          sandbox_id=backend.sandbox())
    seen, result = progress(server)
    spent = seen[-1][1] - began  # none was sent before, and none is seen before it was sent
    assert 3 <= len(seen) <= PER_SECOND * spent + 2
    cut = [t for t in texts(seen) if "bytes left out" in t]
    assert cut and all(len(t) <= OUTPUT_MAX + 100 for t in texts(seen))
    assert texts(seen)[-1].endswith("done\n")
    # What was shown and what is said to be left out are all of it.
    total = sum(len(t) for t in texts(seen) if t not in cut)
    for text in cut:
        start, end = text.index("\n[... "), text.index(" ...]\n")
        left_out = int(text[start + 6:].split()[0])
        total += start + left_out + len(text) - end - 6
    assert total == result["structuredContent"]["stdout_bytes"]


def test_characters_are_whole(server, backend):
    """Each byte of a character comes alone, with bytes of the other stream in between."""
    code = ("import os, time\n"
            "for a, b in zip('\u20ac\U0001f600x'.encode(), '\u00fc\u20ac\u00e4y'.encode()):\n"
            "    os.write(1, bytes([a])); time.sleep(.02); os.write(2, bytes([b])); time.sleep(.02)\n")
    begin(server, f"python3 -c \"{code}\"", sandbox_id=backend.sandbox())
    seen, _ = progress(server)
    text = "".join(texts(seen))
    assert "\ufffd" not in text and len(seen) > 1
    assert sorted(text) == sorted("\u20ac\U0001f600x\u00fc\u20ac\u00e4y")


def test_what_is_no_character_is_replaced(server, backend):
    begin(server, r"printf 'a\377b\342\202'", sandbox_id=backend.sandbox())
    seen, _ = progress(server)
    assert "".join(texts(seen)) == "a\ufffdb\ufffd\ufffd"


def test_python_without_the_runners_record(server, backend):
    begin(server, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n40 + 2",
          tool="run_python_code", sandbox_id=backend.sandbox())
    seen, result = progress(server)
    assert sorted("".join(texts(seen)).split()) == ["err", "out"]
    assert result["structuredContent"]["result"] == "42"


def test_nothing_after_a_cancellation(server, backend):  # 19
    begin(server, "while :; do echo x; done", request=5, sandbox_id=backend.sandbox())
    assert server.line()["method"] == "notifications/progress"
    (pid,) = backend.running
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    server.send({"jsonrpc": "2.0", "id": "after", "method": "ping"})
    while (message := server.line()).get("id") != "after":
        assert message["method"] == "notifications/progress"  # sent before it was read
    wait_for(lambda: not process_exists(pid), 30, "the command is killed")
    server.silent()


def test_a_reader_that_stops(backend):
    """Its progress waits in a bounded buffer; when it reads again, a notification says what is missing."""
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"_meta": {"progressToken": 1}, "name": "run_command", "arguments": {
        "sandbox_id": backend.sandbox(), "command": "timeout 3 sh -c 'while :; do seq 20000; done'; echo done; sleep 1"}}
    with subprocess.Popen([BIN / "cubby-mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=backend.environment()) as process:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        for n, (method, params) in enumerate([("initialize", opening), ("tools/call", call)]):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": n, "method": method,
                                            "params": params}).encode() + b"\n")
        process.stdin.flush()
        wait_for(lambda: backend.running, what="the command runs")
        wait_for(lambda: not backend.running, 60, "the command ends")
        lines = [json.loads(process.stdout.readline())]
        while lines[-1].get("id") != 1:
            lines.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(20) == 0
    seen = [m["params"] for m in lines[1:-1]]
    assert 1 < len(seen) < 20 and sum(len(p["message"]) for p in seen) < 20 * OUTPUT_MAX
    assert lines[-1]["result"]["structuredContent"]["exit_code"] == 0
