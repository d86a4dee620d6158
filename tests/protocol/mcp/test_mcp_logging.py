# SPDX-License-Identifier: Apache-2.0
"""Log messages to the client: the client's level decides which are sent, by the rules of each era.
"""

import shutil

import pytest
from harness import BIN
from mcp_stdio import META, Stdio

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.fixture
def alone(tmp_path):
    """A server that finds no daemon, and cannot start one: it logs the attempt, and then the reason."""
    program = tmp_path / "cubby-mcp"
    shutil.copy(BIN / "cubby-mcp", program)
    server = Stdio(env={"CUBBY_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}, cwd=tmp_path,
                   program=program)
    yield server
    server.finish()


def create(server, **meta):
    """(log messages, the answer) of a call that has something to log."""
    server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                 "params": {"name": "create_sandbox", **({"_meta": {**META, **meta}} if meta else {})}})
    messages = []
    while "id" not in (message := server.line()):
        assert message["method"] == "notifications/message"
        messages.append(message["params"])
    assert message["result"]["isError"], message
    return messages


def check(messages):
    (message,) = messages
    assert message["level"] == "info" and message["logger"] == "cubby" and "daemon" in message["data"]


def test_legacy(alone):
    alone.initialize()
    check(create(alone))
    for level in LEVELS:
        assert alone.call("logging/setLevel", {"level": level})["result"] == {}
        messages = create(alone)
        if level in ("debug", "info"):
            check(messages)
        else:
            assert messages == []


def test_modern(alone):
    assert create(alone, traceparent="x") == []
    check(create(alone, **{LEVEL: "info"}))
    check(create(alone, **{LEVEL: "debug"}))
    assert create(alone, **{LEVEL: "notice"}) == []
    alone.initialize()
    assert alone.call("logging/setLevel", {"level": "debug"})["result"] == {}
    assert create(alone, traceparent="x") == [], "a session's level is for its own requests"


@pytest.mark.parametrize("params", [{}, {"level": "loud"}, {"level": "INFO"}, {"level": 3}, {"level": None}])
def test_bad_level(alone, params):  # 21
    alone.initialize()
    assert alone.call("logging/setLevel", params)["error"]["code"] == -32602
