# SPDX-License-Identifier: Apache-2.0
"""Thousands of messages that are nearly right, on both transports: assertion 80 of
reference/mcp.md. The fuzz targets (tests/fuzz) go deeper; these messages go through the whole
program.
"""

import json
import os
import random
import socket
import threading

from mcp_http import (INITIALIZE, MODERN, Closed, Session, http, http_start, message, modern,  # noqa: F401
                      modern_body, modern_headers, request_bytes, tool)
from mcp_stdio import backend, start  # noqa: F401

START = message("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0)

SEEDS = [START, message("tools/list", None, 1), message("ping", {}, "x"), message("notifications/cancelled", {"requestId": 1}),
         message("tools/call", tool("run_command", {"sandbox_id": "s" * 20, "command": "true"}, 1), 2),
         message("tools/call", tool("run_python_code", {"sandbox_id": "s", "code_block": "1"}), 3),
         message("resources/read", {"uri": "sandbox://x/y"}, 4), message("prompts/get", {"name": "p"}, 5),
         message("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"},
                                         "argument": {"name": "a", "value": ""}}, 6),
         message("resources/subscribe", {"uri": "sandbox://x/y"}, 7), message("logging/setLevel", {"level": "info"}, 8),
         modern_body("tools/list"), modern_body("server/discover"), modern_body("resources/list"),
         modern_body("tools/call", tool("create_nothing")), [message("ping", None, 1), message("ping", None, 2)]]
VALUES = [None, True, False, 0, -1, 2**63, 1.5, "", "x" * 300, "\u0000", "\ud83d\ude00", [], {}, [[]], {"": {}},
          "../../etc/passwd", "sandbox://", MODERN, "2025-11-25", "ref/prompt"]


def places(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def with_value(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(copy[path[0]], path[1:], new)
    return copy


def mutated(chance):
    """A body that is nearly right: with another value somewhere, or with other bytes."""
    body = chance.choice(SEEDS)
    for _ in range(chance.randrange(3)):
        body = with_value(body, chance.choice(list(places(body))), chance.choice(VALUES))
    try:
        data = bytearray(json.dumps(body, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass"))
    except UnicodeEncodeError:
        data = bytearray(json.dumps(body).encode())
    for _ in range(chance.choice([0, 0, 1, 1, 5])):
        at = chance.randrange(len(data) + 1)
        what = chance.randrange(3)
        if what == 0:
            data[at:at + 1] = bytes([chance.randrange(256)])
        elif what == 1:
            del data[at:at + chance.randrange(20)]
        else:
            data[at:at] = chance.choice([b"{", b"[", b'"', b"\\", b"\xc3", b"null", b",", b"1e9", b"\\ud800"])
    return bytes(data)


def check_answer(answer):
    """Checks the form: 202 with no body, or messages, or a 4xx with an error."""
    if answer.status == 202:
        assert answer.body == b""
    elif answer.headers.get("content-type", "").startswith("text/event-stream"):
        assert answer.status == 200
        answer.connection.close()  # a stream may have no end
        return False
    elif answer.status == 200:
        found = answer.json()
        for one in found if isinstance(found, list) else [found]:
            assert ("result" in one) != ("error" in one)
    else:
        assert answer.status in (400, 404), answer.status
        assert isinstance(answer.json()["error"]["code"], int)
    return True


def mutate(http, seed, count, wrong):
    chance = random.Random(seed)
    eras = [{}, Session(http).headers(), Session(http, "2025-03-26").headers(),
            modern_headers("tools/list"), modern_headers("server/discover")]
    c = http.connect()
    for i in range(count):
        data = mutated(chance)
        headers = chance.choice(eras)
        try:
            c.request(headers=headers, body=data)
            if not check_answer(c.response()):
                c = http.connect()
        except BaseException as e:
            wrong.append((repr(e), headers, data))
            return
    c.close()


def test_mutated_bodies(http):  # 80
    """Ten thousand bodies that are nearly right, over four connections; the fuzz targets do the rest."""
    wrong = []
    mutate(http, 0, 500, wrong)
    before = http.resident()
    threads = [threading.Thread(target=mutate, args=(http, seed, 2500, wrong)) for seed in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]
    assert modern(http, "tools/list").status == 200
    if not os.environ.get("SAN"):
        assert http.resident() - before < 4 << 20


def test_mutated_requests(http):  # 80
    """The same for the request line and the headers."""
    chance = random.Random(7)
    good = request_bytes(http, headers=modern_headers("tools/list"), body=modern_body("tools/list"))
    for i in range(1000):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[at] = chance.randrange(256)
            else:
                del data[at:at + chance.randrange(1, 30)]
        c = http.connect()
        c.send(bytes(data))
        c.socket.shutdown(socket.SHUT_WR)
        try:
            answer = c.response(60)
            assert answer.status == 200 or 400 <= answer.status < 600, (answer.status, bytes(data))
        except Closed:
            pass
        c.close()
    assert modern(http, "tools/list").status == 200


def test_mutated_lines(start):  # 80
    """The same on a pipe: each line that the server writes is a message, and it ends cleanly."""
    server = start(version="2025-03-26")
    chance = random.Random(11)
    for i in range(10000):
        server.send(mutated(chance).replace(b"\n", b" "))
        if i % 50 == 49:
            server.send({"jsonrpc": "2.0", "id": f"mark {i}", "method": "ping"})
            while (line := server.line()) != {"jsonrpc": "2.0", "id": f"mark {i}", "result": {}}:
                for one in line if isinstance(line, list) else [line]:
                    assert "method" in one or ("result" in one) != ("error" in one), one
