# SPDX-License-Identifier: Apache-2.0
"""Both eras at one endpoint, at the same time. Numbers are those of reference/mcp.md, section 14."""

import threading

from harness import wait_for
from mcp_http import (Session, http, http_start, message, modern, modern_headers, modern_open,  # noqa: F401
                      modern_result, tool)
from mcp_stdio import backend  # noqa: F401


def command(sandbox, text, token=None):
    return tool("run_command", {"sandbox_id": sandbox, "command": text}, token)


def test_interleaved(http, backend):  # 75
    """The same ids on the same connection: each answer belongs to its request's era."""
    s = Session(http)
    sandbox = backend.sandbox()
    c = http.connect()
    for i in range(3):
        c.request(headers=s.headers(), body=message("tools/list", None, 1))
        old = c.response().json()
        c.request(headers=modern_headers("tools/list"),
                  body={**message("tools/list", None, 1), "params": {"_meta": {
                      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}}}})
        new = c.response().json()
        assert old["id"] == new["id"] == 1
        assert "resultType" not in old["result"] and new["result"]["resultType"] == "complete"
    running = s.open(message("tools/call", command(sandbox, "until test -e g; do sleep 0.02; done; echo old"), 1))
    wait_for(lambda: backend.running)
    new = modern_result(http, "tools/call", command(sandbox, "echo new"), 1)
    assert new["structuredContent"]["stdout"] == "new\n"
    (backend.files / "g").touch()
    old = running.response().json()
    assert old["id"] == 1 and old["result"]["structuredContent"]["stdout"] == "old\n"


def test_a_modern_request_under_a_session(http):
    """The session belongs to the other era: the request does not need it, use it or end it."""
    s = Session(http)
    answer = modern(http, "tools/list", headers={"Mcp-Session-Id": s.id})
    assert answer.status == 200 and "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["resultType"] == "complete"
    assert modern(http, "tools/list", headers={"Mcp-Session-Id": "bogus"}).status == 200
    assert s.call("ping")["result"] == {}


def test_a_modern_client_cancels_nothing_of_a_session(http, backend):
    s = Session(http)
    running = s.open(message("tools/call", command(
        backend.sandbox(), "until test -e g; do sleep 0.02; done; echo old"), 5))
    wait_for(lambda: backend.running)
    gone = modern_open(http, "tools/call", command(backend.sandbox(), "sleep 100"), 5)
    wait_for(lambda: len(backend.running) == 2)
    gone.close()
    wait_for(lambda: len(backend.running) == 1)
    (backend.files / "g").touch()
    assert running.response().json()["result"]["structuredContent"]["stdout"] == "old\n"


def test_many_at_once(http, backend):  # 75
    """Eight clients of each era with the same ids, forty calls each: every client gets its own answers."""
    wrong = []
    sandbox = backend.sandbox()

    def old(name):
        s = Session(http, ["2025-06-18", "2025-11-25"][name % 2])
        for i in range(20):
            got = s.call("tools/call", command(sandbox, f"echo {name} {i}"), i)
            if got["result"]["structuredContent"]["stdout"] != f"{name} {i}\n":
                wrong.append(got)
            if s.call("ping", None, i)["result"] != {}:
                wrong.append("ping")

    def new(name):
        for i in range(20):
            got = modern_result(http, "tools/call", command(sandbox, f"echo {name} {i}"), i)
            if got["structuredContent"]["stdout"] != f"{name} {i}\n":
                wrong.append(got)
            modern_result(http, "server/discover", None, i)

    def checked(work, name):
        try:
            work(name)
        except BaseException as e:
            wrong.append(repr(e))

    threads = [threading.Thread(target=checked, args=(work, n))
               for n, work in enumerate([old, new, old, new, old, new, old, new])]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
