# SPDX-License-Identifier: Apache-2.0
"""Subscriptions to files in sandboxes, with a real envd that watches them."""

import json
import os
import queue
import time

import pytest
from harness import wait_for
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401
from mcp_stdio import META

PREFIX = "io.modelcontextprotocol/"
UPDATED = "notifications/resources/updated"


def uri_of(sandbox, path):
    return f"sandbox://{sandbox}{path}"


def subscribe(server, *uris):
    for uri in uris:
        assert server.call("resources/subscribe", {"uri": uri})["result"] == {}


def listen(server, uris, request_id="s1", **more):
    """Sends the request; returns the part of it that the server has accepted."""
    server.send({"jsonrpc": "2.0", "id": request_id, "method": "subscriptions/listen",
                 "params": {"notifications": {"resourceSubscriptions": uris, **more}, "_meta": META}})
    message = server.line()
    assert message["method"] == "notifications/subscriptions/acknowledged"
    assert message["params"]["_meta"] == {PREFIX + "subscriptionId": request_id}
    return message["params"]["notifications"]


def updated(server, **more):
    """The URI of the next message, which must be an update."""
    message = server.line()
    assert message["method"] == UPDATED, message
    uri = message["params"].pop("uri")
    assert message["params"] == more
    return uri


def tag(request_id):
    return {"_meta": {PREFIX + "subscriptionId": request_id}}


def quiet(server, seconds=0.5):
    """None if nothing comes for a time longer than a URI is held back; otherwise the message."""
    try:
        return server.lines.get(timeout=seconds)
    except queue.Empty:
        return None


def settled(server):
    """Waits until no message about earlier changes comes any more."""
    assert quiet(server) is None


def drained(server, *uris):
    """Checks that each change is reported. A busy machine may report one change twice, but never
    anything else."""
    while line := quiet(server):
        message = json.loads(line)
        assert message["method"] == UPDATED and message["params"]["uri"] in uris, message


def test_file(server, real, sandbox, tmp_path):  # 23
    f = tmp_path / "f"
    f.write_text("1")
    uri = uri_of(sandbox, f)
    subscribe(server, uri)
    f.write_text("2")
    assert updated(server) == uri
    os.replace(f, tmp_path / "g")  # as editors do
    assert updated(server) == uri
    (tmp_path / "h").write_text("3")
    os.replace(tmp_path / "h", f)
    assert updated(server) == uri
    drained(server, uri)
    (tmp_path / "other").write_text("x")
    f.chmod(0o600)  # what is read is the same
    settled(server)
    f.unlink()
    assert updated(server) == uri
    f.write_text("4")
    assert updated(server) == uri


def test_directory(server, sandbox, tmp_path):
    uri = uri_of(sandbox, tmp_path)
    subscribe(server, uri)
    (tmp_path / "new").touch()
    assert updated(server) == uri
    drained(server, uri)
    (tmp_path / "new").unlink()
    assert updated(server) == uri


def test_the_uri_is_as_it_was_asked_for(server, sandbox, tmp_path):
    (tmp_path / "a b").write_text("1")
    uris = [uri_of(sandbox, str(tmp_path) + name) for name in ("/a%20b", "//a b", "/x/../a%20b")]
    subscribe(server, *uris)
    (tmp_path / "a b").write_text("2")
    assert {updated(server) for _ in uris} == set(uris)


def test_slowed_down_but_the_last_is_never_lost(server, sandbox, tmp_path):
    f = tmp_path / "f"
    f.write_text("0")
    subscribe(server, uri_of(sandbox, f))
    start, count, updates = time.monotonic(), 0, 0
    while updates < 4:
        assert time.monotonic() - start < 60, "it is told while it goes on"
        count += 1
        f.write_text(str(count))
        while not server.lines.empty():
            updated(server)
            updates += 1
    assert count > 10 * updates <= 10 * ((time.monotonic() - start) / 0.3 + 1)
    drained(server, uri_of(sandbox, f))
    f.write_text("last")
    updated(server)


def test_one_directory_is_watched_once(server, real, sandbox, tmp_path):
    uris = []
    for i in range(20):
        (tmp_path / str(i)).touch()
        uris.append(uri_of(sandbox, tmp_path / str(i)))
    subscribe(server, *uris, uri_of(sandbox, tmp_path))
    assert real.watches() == 1
    (tmp_path / "3").write_text("x")
    assert {updated(server), updated(server)} == {uris[3], uri_of(sandbox, tmp_path)}
    drained(server, uris[3], uri_of(sandbox, tmp_path))
    for uri in uris:
        assert server.call("resources/unsubscribe", {"uri": uri})["result"] == {}
    settled(server)
    (tmp_path / "new").touch()
    assert updated(server) == uri_of(sandbox, tmp_path)


def test_unsubscribe(server, real, sandbox, tmp_path):
    f = tmp_path / "f"
    f.touch()
    uri = uri_of(sandbox, f)
    assert server.call("resources/unsubscribe", {"uri": uri})["result"] == {}
    subscribe(server, uri, uri)
    f.write_text("1")
    assert updated(server) == uri, "and once, though it was subscribed to twice"
    settled(server)
    assert server.call("resources/unsubscribe", {"uri": uri})["result"] == {}
    f.write_text("2")
    settled(server)
    subscribe(server, uri)
    assert real.watches() == 2
    f.write_text("3")
    assert updated(server) == uri


@pytest.mark.parametrize("params", [{}, {"uri": 7}, {"uri": None}])
def test_params(server, params):
    for method in "resources/subscribe", "resources/unsubscribe":
        assert server.call(method, params)["error"]["code"] == -32602


def test_what_is_not_there(server, real, sandbox, tmp_path):
    for uri in (uri_of(sandbox, tmp_path / "none"), uri_of("u" * 20, "/"), "sandbox://none/x", "test://x",
                uri_of(sandbox, "/a?b")):
        error = server.call("resources/subscribe", {"uri": uri})["error"]
        assert error["code"] in (-32002, -32602)
        assert "data" not in error or error["data"] == {"uri": uri}


def test_limit(server, sandbox, tmp_path):
    for i in range(101):
        (tmp_path / str(i)).touch()
    subscribe(server, *(uri_of(sandbox, tmp_path / str(i)) for i in range(100)))
    error = server.call("resources/subscribe", {"uri": uri_of(sandbox, tmp_path / "100")})["error"]
    assert "100" in error["message"] and "unsubscribe" in error["message"]
    server.call("resources/unsubscribe", {"uri": uri_of(sandbox, tmp_path / "5")})
    subscribe(server, uri_of(sandbox, tmp_path / "100"))


def test_the_sandbox_ends(server, real, sandbox, tmp_path):
    uris = [uri_of(sandbox, tmp_path / n) for n in "ab"]
    for n in "ab":
        (tmp_path / n).touch()
    subscribe(server, *uris)
    real.end(sandbox)
    assert {updated(server), updated(server)} == set(uris)
    (tmp_path / "a").write_text("x")
    settled(server)
    assert server.call("resources/subscribe", {"uri": uris[0]})["error"]["code"] == -32002


def test_the_directory_goes(server, sandbox, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").touch()
    uris = {uri_of(sandbox, tmp_path / "d" / "f"), uri_of(sandbox, tmp_path / "d")}
    subscribe(server, *uris)
    (tmp_path / "d" / "f").unlink()
    (tmp_path / "d").rmdir()
    assert {updated(server), updated(server)} == uris


def test_nothing_is_left_in_the_sandbox(start, real, sandbox, tmp_path):
    """A session that ends takes its watches with it."""
    (tmp_path / "f").touch()
    server = start()
    before = len(os.listdir(f"/proc/{real.envd.process.pid}/fd"))
    subscribe(server, uri_of(sandbox, tmp_path / "f"))
    assert listen(server, [uri_of(sandbox, tmp_path)])
    assert len(os.listdir(f"/proc/{real.envd.process.pid}/fd")) > before
    server.finish()
    wait_for(lambda: len(os.listdir(f"/proc/{real.envd.process.pid}/fd")) <= before)


def test_cancelled_subscribe(server, sandbox, tmp_path):
    """Neither an answer nor a subscription."""
    (tmp_path / "f").touch()
    server.send({"jsonrpc": "2.0", "id": 5, "method": "resources/subscribe",
                 "params": {"uri": uri_of(sandbox, tmp_path / "f")}})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    server.silent()
    settled(server)
    (tmp_path / "f").write_text("x")
    settled(server)


def test_the_end_while_it_begins(start, sandbox, tmp_path):
    (tmp_path / "f").touch()
    server = start()
    for i in range(20):
        server.send({"jsonrpc": "2.0", "id": i, "method": "resources/subscribe",
                     "params": {"uri": uri_of(sandbox, tmp_path / "f")}})
        server.send({"jsonrpc": "2.0", "id": 100 + i, "method": "subscriptions/listen", "params": {
            "notifications": {"resourceSubscriptions": [uri_of(sandbox, tmp_path / "f")]}, "_meta": META}})
    server.finish()


# ---- the modern era
def test_listen(fresh, sandbox, tmp_path):  # 35
    f = tmp_path / "f"
    f.touch()
    uri = uri_of(sandbox, f)
    bad = [uri_of(sandbox, tmp_path / "none"), "test://x", "sandbox://none/x", ""]
    assert listen(fresh, [bad[0], uri, *bad[1:], uri], toolsListChanged=True, promptsListChanged=True,
                  resourcesListChanged=True) == {"resourceSubscriptions": [uri]}
    f.write_text("1")
    assert updated(fresh, **tag("s1")) == uri
    drained(fresh, uri)
    fresh.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s1"}})
    fresh.silent()
    f.write_text("2")
    settled(fresh)


def test_several_listens(fresh, real, sandbox, tmp_path):
    for n in "ab":
        (tmp_path / n).touch()
    a, b = (uri_of(sandbox, tmp_path / n) for n in "ab")
    assert listen(fresh, [a, b], 7)["resourceSubscriptions"] == [a, b]
    assert listen(fresh, [b], "x")["resourceSubscriptions"] == [b]
    assert real.watches() == 1
    (tmp_path / "a").write_text("1")
    assert updated(fresh, **tag(7)) == a
    drained(fresh, a)
    (tmp_path / "b").write_text("1")
    got = {}
    for _ in range(2):
        params = fresh.line()["params"]
        got[params["_meta"][PREFIX + "subscriptionId"]] = params["uri"]
    assert got == {7: b, "x": b}
    drained(fresh, b)
    fresh.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    settled(fresh)
    (tmp_path / "b").write_text("2")
    assert updated(fresh, **tag("x")) == b
    drained(fresh, b)


def test_both_eras_hear(server, sandbox, tmp_path):
    uri = uri_of(sandbox, tmp_path)
    subscribe(server, uri)
    assert listen(server, [uri], 9)
    (tmp_path / "new").touch()
    messages = [server.line() for _ in range(2)]
    assert sorted("_meta" in m["params"] for m in messages) == [False, True]
    assert all(m["params"]["uri"] == uri for m in messages)


def test_a_listen_honours_a_hundred(fresh, sandbox, tmp_path):
    for i in range(120):
        (tmp_path / str(i)).touch()
    uris = [uri_of(sandbox, tmp_path / str(i)) for i in range(120)]
    assert listen(fresh, uris)["resourceSubscriptions"] == uris[:100]


@pytest.mark.parametrize("wanted", [
    None, [], "x", {"toolsListChanged": "yes"}, {"promptsListChanged": 1}, {"resourcesListChanged": None},
    {"resourceSubscriptions": "x"}, {"resourceSubscriptions": [7]}, {"resourceSubscriptions": {}}])
def test_listen_params(fresh, wanted):  # 36
    assert fresh.modern("subscriptions/listen", notifications=wanted)["error"]["code"] == -32602


def test_a_listen_whose_sandbox_ends(fresh, real, sandbox, tmp_path):
    uri = uri_of(sandbox, tmp_path)
    listen(fresh, [uri])
    real.end(sandbox)
    assert updated(fresh, **tag("s1")) == uri
    fresh.silent()  # and the listen goes on
    assert fresh.modern("tools/list", "s1")["error"]["code"] == -32600, "its id is taken"
