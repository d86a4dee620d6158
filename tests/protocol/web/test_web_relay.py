# SPDX-License-Identifier: Apache-2.0
"""cubby web: what it passes on. A real envd on this host, behind a control plane that the test scripts."""

import base64
import contextlib
import json
import os
import pwd
import threading
import urllib.parse

import pytest
from websockets.exceptions import ConnectionClosed

from fake_cubbyd import ID, TOKEN, FakeDaemon, listed, wait_for
from web_server import Web

ME = pwd.getpwuid(os.getuid()).pw_name
BIG = 24 << 20


class Fake(FakeDaemon):
    def control(self, method, path, body):
        if path.partition("?")[0] == "/sandboxes/stats":
            return 200, {"host": {}, "sandboxes": []}
        return super().control(method, path, body)


@pytest.fixture
def fake():
    daemon = Fake()
    daemon.sandboxes[ID] = listed(ID)
    yield daemon
    daemon.close()


@pytest.fixture
def web(fake):
    made = Web(fake.env).sign_in()
    yield made
    assert made.close() == 0


def files(path):
    return f"/box/{ID}/files?username={ME}&path={urllib.parse.quote(str(path))}"


def with_token(**more):
    return {"X-Access-Token": TOKEN, **more}


def test_a_file_there_and_back(web, tmp_path):
    data = os.urandom(1 << 20)
    there = tmp_path / "ünïcode name"
    status, _, text = web.send("POST", files(there), data, headers=with_token(**{"Content-Type": "application/octet-stream"}))
    assert status == 200, text
    assert there.read_bytes() == data
    status, headers, back = web.send("GET", files(there), headers=with_token())
    assert status == 200 and back == data and int(headers["Content-Length"]) == len(data)


def test_a_large_file_is_streamed_both_ways(web, tmp_path):
    before = web.rss()
    data = os.urandom(BIG)
    assert web.send("POST", files(tmp_path / "big"), data, headers=with_token(**{"Content-Type": "application/octet-stream"}))[0] == 200
    assert web.send("GET", files(tmp_path / "big"), headers=with_token())[2] == data
    assert web.rss() - before < BIG // 2


def test_a_sandbox_refuses_without_its_token(web, tmp_path):
    assert web.send("GET", files(tmp_path))[0] == 401


def test_what_the_daemon_gets(fake, web):
    headers = {"E2b-Sandbox-Id": "another", "E2b-Sandbox-Port": "22", "X-API-KEY": "k", "Cookie": "c=1", "X-Forwarded-For": "1.2.3.4"}
    web.json("GET", "/api/sandboxes/stats?sandboxID=a%20b", headers=headers)
    where, method, path, got, _ = fake.seen[-1]
    assert (where, method, path) == ("api", "GET", "/sandboxes/stats?sandboxID=a%20b")
    assert not {name.lower() for name in got} & {"e2b-sandbox-id", "x-api-key", "cookie", "cubby-web-key", "origin", "x-forwarded-for"}
    web.send("POST", f"/box/{ID}/filesystem.Filesystem/Stat", {"path": "/"}, headers=with_token(**headers))
    got = fake.seen[-1][3]
    assert (got["E2b-Sandbox-Id"], got["E2b-Sandbox-Port"]) == (ID, "49983")


def test_an_error_of_the_daemon_comes_through(web):
    status, headers, text = web.send("GET", "/api/sandboxes/nosuchsandbox0000000")
    assert status == 404 and headers["Content-Type"].startswith("application/json")
    assert "does not exist" in json.loads(text)["message"]


def test_a_daemon_that_is_gone(fake, web):
    fake.server.shutdown()
    fake.server.server_close()
    os.unlink(fake.home / "cubbyd.sock")
    status, _, text = web.send("GET", "/api/sandboxes/stats")
    assert status == 503 and "cubbyd does not run" in json.loads(text)["message"]
    with web.socket("/live") as live:
        assert "cubbyd does not run" in json.loads(live.recv(10))["message"]
    # No page and no request starts a daemon that a person has stopped.
    assert not (fake.home / "cubbyd.sock").exists()


# ---- downloads by the browser itself

def want_download(web, path, name="x"):
    return web.json("POST", "/download", {"target": files(path), "token": TOKEN, "name": name})["url"]


def test_a_download_link_works_once_without_the_key(web, tmp_path):
    (tmp_path / "f").write_text("<script>alert(1)</script>")
    url = want_download(web, tmp_path / "f", "a \"b\"\r\nX: 1/é.html")
    status, headers, text = web.send("GET", url, keyed=False)
    assert status == 200 and text == b"<script>alert(1)</script>"
    assert headers["Content-Type"] == "application/octet-stream" and headers.get("X") is None
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%20%22b%22%0D%0AX%3A%201%2F%C3%A9.html"
    assert web.send("GET", url, keyed=False)[0] == 404
    assert web.send("GET", "/download/" + "0" * 64, keyed=False)[0] == 404


def test_a_download_link_is_for_this_page_only(web, tmp_path):
    (tmp_path / "f").write_text("x")
    url = want_download(web, tmp_path / "f")
    assert web.send("GET", url, keyed=False, headers={"Sec-Fetch-Site": "same-site"})[0] == 403
    assert web.send("GET", url, keyed=False, host="evil.example")[0] == 403
    assert web.send("GET", url, keyed=False)[0] == 200


def test_links_that_nobody_uses_are_bounded(web, tmp_path):
    (tmp_path / "f").write_text("x")
    first = want_download(web, tmp_path / "f")
    last = [want_download(web, tmp_path / "f") for _ in range(64)][-1]
    assert web.send("GET", first, keyed=False)[0] == 404
    assert web.send("GET", last, keyed=False)[0] == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"target":"/etc/passwd","name":"x"}', b'{"target":"/box/a/b\\r\\nX: 1","name":"x"}',
                                  b'{"target":"/api/health","name":"x","token":"a\\r\\nX: 1"}', b"{" * 100])
def test_downloads_that_are_none(web, body):
    assert web.send("POST", "/download", body)[0] == 400


# ---- streams

def start(web, command, **more):
    ws = web.socket("/stream")
    ws.send(json.dumps({"target": f"/box/{ID}/process.Process/Start", "token": TOKEN, "message": {
        "process": {"cmd": "/bin/sh", "args": ["-c", command]}, "stdin": False, **more}, "authorization": "Basic " + basic()}))
    return ws


def basic():
    return base64.b64encode(f"{ME}:".encode()).decode()


def events(data):
    """The messages of whole envelopes."""
    found = []
    while len(data) >= 5:
        size = int.from_bytes(data[1:5], "big")
        found.append(json.loads(data[5:5 + size]))
        data = data[5 + size:]
    return found


def drain(ws):
    """(bytes of envd, last text) of a stream, each part taken."""
    data, last = b"", None
    try:
        while True:
            part = ws.recv(30)
            if isinstance(part, str):
                last = json.loads(part)
            else:
                data += part
                with contextlib.suppress(ConnectionClosed):  # the last messages may be there already
                    ws.send(json.dumps({"taken": len(part)}))
    except ConnectionClosed:
        return data, last


def test_a_command_over_a_stream(web):
    data, last = drain(start(web, "echo out; exit 3"))
    got = [e.get("event", {}) for e in events(data)]
    assert "start" in got[0] and any(e.get("end", {}).get("exitCode") == 3 for e in got)
    assert last == {"status": 200, "message": ""}


def test_a_terminal_over_a_stream(web):
    data, _ = drain(start(web, "stty size; tty", pty={"size": {"cols": 77, "rows": 11}}))
    text = b"".join(base64.b64decode(e["event"]["data"]["pty"]) for e in events(data) if "data" in e.get("event", {}))
    assert text.startswith(b"11 77\r\n/dev/pts/")


def test_a_refused_stream_says_why(web):
    ws = web.socket("/stream")
    ws.send(json.dumps({"target": f"/box/{ID}/process.Process/Start", "token": "wrong", "message": {}}))
    _, last = drain(ws)
    assert last["status"] == 401 and last["message"]


@pytest.mark.parametrize("message", ["", "[]", "{}", '{"target":"/etc","message":{}}', '{"target":"/api/health","message":7}',
                                     '{"target":"/api/health HTTP/1.1\\r\\nX: 1","message":{}}',
                                     '{"target":"/api/health","message":{},"token":"a\\r\\nX: 1"}', "\0", pytest.param("{" * 5000, id="deep")])
def test_streams_that_are_none(web, message):
    ws = web.socket("/stream")
    ws.send(message)
    _, last = drain(ws)
    assert last["status"] == 400
    assert web.send("GET", "/session")[0] == 200


def test_a_page_that_does_not_read_stops_the_program(fake, web):
    """A guest floods, and the browser draws slowly: nothing gathers in cubby web, and others are not slowed."""
    ws = start(web, "cat /dev/zero")
    before = web.rss()
    got = 0
    while got < 400_000:  # what comes without a word that it was taken
        got += len(ws.recv(30))
    wait_for(lambda: fake.processes(), 10)
    with pytest.raises(TimeoutError):
        while True:
            got += len(ws.recv(1))
    assert got < 4 << 20 and web.rss() - before < 16 << 20
    assert drain(start(web, "echo others"))[1]["status"] == 200
    ws.send(json.dumps({"taken": got}))
    assert len(ws.recv(30)) > 0
    ws.close()


def test_a_page_that_goes_leaves_nothing(fake, web):
    before = web.fds()
    streams = [start(web, "sleep 300") for _ in range(50)]
    for ws in streams:
        assert "start" in events(ws.recv(30))[0]["event"]
    for ws in streams[:25]:
        ws.close()
    for ws in streams[25:]:
        ws.socket.close()
    wait_for(lambda: web.fds() <= before + 4, 30, "the connections of the pages are gone")


def test_a_message_that_is_too_long_ends_the_stream(web):
    ws = web.socket("/stream")
    ws.send("x" * 70000)
    assert drain(ws)[1] is None
    assert web.send("GET", "/session")[0] == 200


# ---- live figures

def test_the_daemon_is_asked_once_for_all_pages_and_never_without_one(fake, web):
    asked = lambda: sum(path == "/sandboxes/stats" for _, _, path, _, _ in fake.seen)  # noqa: E731
    at_start = asked()
    pages = [web.socket("/live") for _ in range(20)]
    for page in pages:
        for _ in range(2):
            assert json.loads(page.recv(10)) == {"host": {}, "sandboxes": []}
    # Each page has had two answers; together they cost a few questions, not forty.
    assert asked() - at_start < 10
    for page in pages:
        page.close()
    wait_for(lambda: web.json("GET", "/session"), 5)
    quiet = threading.Event()
    after = asked()
    assert not quiet.wait(2.5)
    assert asked() - after <= 1  # one may have been on its way


def test_it_ends_with_pages_and_requests_in_progress(fake):
    web = Web(fake.env).sign_in()
    sockets = [web.socket("/live"), start(web, "sleep 300"), web.socket("/stream")]
    assert "start" in events(sockets[1].recv(30))[0]["event"]
    assert web.close() == 0
    for ws in sockets:
        ws.close()
