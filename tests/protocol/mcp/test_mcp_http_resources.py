# SPDX-License-Identifier: Apache-2.0
"""Resources over HTTP: which callers see which sandboxes and get which changes; with a real envd."""

import os
import subprocess

import pytest
from harness import BIN, wait_for
from mcp_envd import EnvdBackend
from mcp_http import Session, http_start, modern, modern_result, tool  # noqa: F401

PREFIX = "io.modelcontextprotocol/"
TEMPLATE = {"type": "ref/resource", "uri": "sandbox://{sandbox_id}/{+path}"}


@pytest.fixture
def backend():
    b = EnvdBackend()
    yield b
    b.close()


@pytest.fixture
def http(http_start):  # noqa: F811
    return http_start()


def watched(backend):
    return len(os.listdir(f"/proc/{backend.envd.process.pid}/fd"))


def listen(server, uris, headers=None):
    """The stream, and the part of the request that the server has accepted."""
    answer = modern(server, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}, 9,
                    headers=headers)
    assert answer.status == 200
    ack = answer.message()
    assert ack["method"] == "notifications/subscriptions/acknowledged"
    return answer, ack["params"]["notifications"].get("resourceSubscriptions", [])


@pytest.fixture
def two(http_start, backend, tmp_path):  # noqa: F811
    """A server with two tokens, of which each has a sandbox, and a sandbox without an owner:
    (server, {token: its sandbox}, that sandbox)."""
    path = tmp_path / "tokens.json"
    made = [subprocess.run([BIN / "cubby-mcp", "--new-token", name, "--token-file", path], check=True,
                           capture_output=True, text=True, timeout=30).stdout.strip() for name in "ab"]
    server = http_start("--token-file", path)
    owned = {}
    for token in made:
        answer = modern(server, "tools/call", tool("create_sandbox"), headers=bearer(token))
        owned[token] = answer.json()["result"]["structuredContent"]["sandbox_id"]
        backend.sandboxes[owned[token]]["metadata"] = backend.created[-1]["metadata"]
    return server, owned, backend.sandbox()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_each_token_has_its_own(two, tmp_path):
    server, owned, nobodys = two
    (tmp_path / "f").write_text("x")
    for token, mine in owned.items():
        others = {*owned.values(), nobodys} - {mine}

        def result(method, params=None):
            return modern(server, method, params, headers=bearer(token)).json()

        assert [r["name"] for r in result("resources/list")["result"]["resources"]] == [mine]
        completion = result("completion/complete", {"ref": TEMPLATE, "argument": {"name": "sandbox_id", "value": ""}})
        assert completion["result"]["completion"]["values"] == [mine]
        uri = f"sandbox://{mine}{tmp_path}/f"
        assert result("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == "x"
        assert listen(server, [uri], bearer(token))[1] == [uri]
        session = Session(server, headers=bearer(token))
        assert session.call("resources/subscribe", {"uri": uri})["result"] == {}
        for other in others:
            uri = f"sandbox://{other}{tmp_path}/f"
            unknown = result("resources/read", {"uri": f"sandbox://{'u' * 20}/f"})["error"]["message"]
            error = result("resources/read", {"uri": uri})["error"]
            assert error["code"] == -32602 and error["data"] == {"uri": uri}
            assert error["message"] == unknown.replace("u" * 20, other), "as one that does not exist"
            assert session.call("resources/subscribe", {"uri": uri})["error"]["code"] == -32002
            assert listen(server, [uri], bearer(token))[1] == []
            completion = result("completion/complete", {
                "ref": TEMPLATE, "argument": {"name": "path", "value": "/"},
                "context": {"arguments": {"sandbox_id": other}}})
            assert completion["result"]["completion"]["values"] == []


def test_without_tokens_nobodys_are_seen(http, backend, tmp_path):
    mine, theirs = backend.sandbox(), backend.sandbox()
    backend.sandboxes[theirs]["metadata"] = {"cubby-owner": "somebody"}
    (tmp_path / "f").touch()
    assert [r["name"] for r in modern_result(http, "resources/list")["resources"]] == [mine]
    completion = modern_result(http, "completion/complete", {
        "ref": TEMPLATE, "argument": {"name": "sandbox_id", "value": ""}})["completion"]
    assert completion["values"] == [mine]
    answer = modern(http, "resources/read", {"uri": f"sandbox://{theirs}{tmp_path}/f"})
    assert answer.json()["error"]["code"] == -32602


def test_told_on_the_sessions_stream(http, backend, tmp_path):
    uri = f"sandbox://{backend.sandbox()}{tmp_path}/f"
    (tmp_path / "f").touch()
    session, other = Session(http), Session(http)
    assert session.call("resources/subscribe", {"uri": uri})["result"] == {}
    assert other.call("resources/subscribe", {"uri": uri})["result"] == {}
    stream = session.get()
    (tmp_path / "f").write_text("1")
    message = stream.message()
    assert message == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    late = other.get()  # it had no stream when the file changed
    assert late.message()["params"] == {"uri": uri}
    assert backend.watches() == 1


def test_a_session_takes_its_watches_with_it(http, backend, tmp_path):
    uri = f"sandbox://{backend.sandbox()}{tmp_path}"
    before = watched(backend)
    session = Session(http)
    assert session.call("resources/subscribe", {"uri": uri})["result"] == {}
    assert watched(backend) > before
    assert session.delete().status in (200, 204)
    wait_for(lambda: watched(backend) <= before, 30, "the watch ends")


def test_who_leaves_a_listen_ends_its_watch(http, backend, tmp_path):
    uri = f"sandbox://{backend.sandbox()}{tmp_path}"
    before = watched(backend)
    first, honoured = listen(http, [uri])
    second, _ = listen(http, [uri])
    assert honoured == [uri]
    (tmp_path / "new").touch()
    for stream in first, second:
        params = stream.message()["params"]
        assert params == {"uri": uri, "_meta": {PREFIX + "subscriptionId": 9}}
    first.connection.close()
    (tmp_path / "newer").touch()
    assert second.message()["params"]["uri"] == uri
    second.connection.close()
    wait_for(lambda: watched(backend) <= before, 30, "the watch ends")


def test_the_server_ends_listens_with_a_result(http_start, backend, tmp_path):  # noqa: F811
    server = http_start()
    stream, _ = listen(server, [f"sandbox://{backend.sandbox()}{tmp_path}"])
    server.process.terminate()
    last = stream.message()
    assert last["id"] == 9 and last["result"]["resultType"] == "complete"
    assert last["result"]["_meta"][PREFIX + "subscriptionId"] == 9
    assert server.process.wait(60) == 0
