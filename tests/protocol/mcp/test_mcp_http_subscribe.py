# SPDX-License-Identifier: Apache-2.0
"""Changes in a sandbox reach clients over HTTP: on the stream of a session, and on a listen request
of the new era. A real envd watches. Numbers are those of reference/mcp.md, section 14.
"""

import pytest
from harness import wait_for
from mcp_envd import real, sandbox  # noqa: F401
from mcp_http import PREFIX, Server, Session, message, modern, tool

UPDATED = "notifications/resources/updated"


@pytest.fixture
def http(real, tmp_path):  # noqa: F811
    server = Server(env=real.environment(), cwd=tmp_path)
    yield server
    server.stop()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "watched.txt"
    path.write_text("one")
    return path


@pytest.fixture
def uri(sandbox, file):  # noqa: F811
    return f"sandbox://{sandbox}{file}"


def listen(http, request_id, uri):  # noqa: F811
    stream = modern(http, "subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}, request_id)
    assert stream.message()["params"]["notifications"] == {"resourceSubscriptions": [uri]}
    return stream


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_on_the_stream_of_the_session(http, file, uri, version):  # 23, 48
    s, other = Session(http, version), Session(http, version)
    stream, others = s.get(), other.get()
    assert s.call("resources/subscribe", {"uri": uri})["result"] == {}
    file.write_text("two")
    if version >= "2025-11-25":
        assert stream.event().data == ""  # to come back from, before anything was said
    said = stream.event()
    assert said.json() == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}
    assert said.id
    assert s.call("resources/unsubscribe", {"uri": uri})["result"] == {}
    assert s.delete().status == 204 and other.delete().status == 204
    assert all(m["params"]["uri"] == uri for m in stream.messages())
    assert others.messages() == []  # it had subscribed to nothing


def test_before_there_is_a_stream(http, file, uri):  # 51
    """A client that comes back gets the changes between its two connections."""
    s = Session(http)
    stream = s.get()
    assert s.call("resources/subscribe", {"uri": uri})["result"] == {}
    first = stream.event()
    stream.connection.reset()
    file.write_text("two")
    again = s.get(last=first.id)
    assert again.status == 200
    assert again.message()["params"]["uri"] == uri


def test_not_among_the_answers_of_a_call(http, file, uri):  # 48
    """A call's own stream has the messages of that call, and no others."""
    s = Session(http)
    stream = s.get()
    assert s.call("resources/subscribe", {"uri": uri})["result"] == {}
    call = s.post(message("tools/call", tool("run_command", {
        "sandbox_id": uri.split("/")[2], "command": f"echo two > {file}; sleep 0.5"}, 1), 2))
    found = call.messages()
    assert found[-1]["id"] == 2
    assert all(m["method"] == "notifications/progress" for m in found[:-1])
    assert stream.message()["method"] == UPDATED


def test_listen(http, file, uri):  # 70
    streams = {i: listen(http, i, uri) for i in (1, "two")}
    file.write_text("two")
    for request_id, stream in streams.items():
        assert stream.message() == {"jsonrpc": "2.0", "method": UPDATED, "params": {
            "uri": uri, "_meta": {PREFIX + "subscriptionId": request_id}}}


def test_who_leaves_is_not_watched_for(http, real, file, uri):  # noqa: F811  # 70
    """A watch in the sandbox ends with its last subscription."""
    streams = [listen(http, i, uri) for i in range(3)]
    s = Session(http)
    assert s.call("resources/subscribe", {"uri": uri})["result"] == {}
    assert real.watches() == 1
    for stream in streams:
        stream.connection.close()
    file.write_text("two")
    stream = s.get()
    file.write_text("three")
    assert stream.message()["params"]["uri"] == uri
    assert real.watches() == 1
    assert s.delete().status == 204

    def watched_again():
        listen(http, 9, uri).connection.close()
        return real.watches() > 1

    wait_for(watched_again, 30, "the watch of the session went with it")
