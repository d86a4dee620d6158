# SPDX-License-Identifier: Apache-2.0
"""cubbyd: who may ask an exposed port, and which names, tokens and cookies the guest sees."""

import contextlib
import http.cookiejar
import queue
import socket
import subprocess
import threading
import urllib.request

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cubbyd import Web
from cubbyd_fixtures import daemon, made, sandbox, shared  # noqa: F401 (fixtures)
from test_daemon_ports import ask, expose, fetch
from websocket_guest import WebSocketGuest

BROWSER = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
           "Accept": "text/html", "User-Agent": "Mozilla/5.0"}


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


def visit(number, host, path="/", **headers):
    """The answer to a browser that uses this host name: (status, headers, body)."""
    request = urllib.request.Request(f"http://127.0.0.1:{number}{path}", headers={"Host": host, **headers})
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


# ---- names
def test_a_name_that_was_bound_to_loopback_reads_nothing(daemon, sandbox):
    """DNS rebinding: the browser sends the attacker's name as Host."""
    with Web() as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        own = f"{guest.port}-{sandbox}.localhost"
        foreign = ["evil.example", f"evil.example:{number}", f"{guest.port}-{sandbox}.evil.example",
                   "127.0.0.1.evil.example", "localhost.evil.example", "xlocalhost", f"x{own}", f"1{own}",
                   f"{guest.port}-{'a' * 20}.localhost", f"80-{sandbox}.localhost", "evil.localhost", ":80"]
        for host in foreign:
            status, _, body = visit(number, host)
            assert status == 421 and b"hello" not in body and sandbox.encode() not in body, host
        assert guest.heads == []
        # The same request by its own names is answered.
        for host in ("127.0.0.1", f"127.0.0.1:{number}", "localhost", "LOCALHOST:80", "[::1]:80", own,
                     own.upper() + f":{number}", own + "."):
            assert visit(number, host)[2] == b"hello\n", host


def test_no_proxy(daemon, sandbox):
    with Web() as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        for target in ("http://127.0.0.1/", "evil.example:80"):
            method = "GET" if "/" in target else "CONNECT"
            answer = ask(number, f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 400 "), target
        assert guest.heads == []


def test_headers_that_route_elsewhere_do_not(daemon, sandbox):
    """Only the listener decides which sandbox's port it is."""
    other = daemon.create()["sandboxID"]
    with Web() as guest, Web("X-Which: other\r\n") as second:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        routed = {"E2b-Sandbox-Id": other, "E2b-Sandbox-Port": str(second.port)}
        _, headers, _ = fetch(f"http://127.0.0.1:{number}/sandboxes", **routed)
        assert "X-Which" not in headers
        assert "E2b-Sandbox" not in guest.heads[0] and second.heads == []


# ---- WebSocket
def test_who_may_open_a_websocket(daemon, sandbox):
    with WebSocketGuest() as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        at = f"ws://127.0.0.1:{number}/"
        for origin in ("http://evil.example", "http://203.0.113.7", "null",
                       f"http://8000-{'a' * 20}.localhost:{number}"):
            with pytest.raises(InvalidStatus) as refused:
                connect(at, origin=origin, open_timeout=30)
            assert refused.value.response.status_code == 403
        for origin in (f"http://127.0.0.1:{number}", "http://localhost:5173", f"http://3000-{sandbox}.localhost:1",
                       None):
            with connect(at, origin=origin, open_timeout=30) as ws:
                ws.send("hello")
                assert ws.recv(30) == "hello"


# ---- tokens
@pytest.mark.parametrize("by", ["name", "address"])
def test_a_browser_opens_the_url(daemon, sandbox, by, tmp_path):
    with Web() as guest:
        port = expose(daemon, sandbox, guest.port, token=True)
        token, url = port["token"], port["browserUrl"]
        assert len(token) == 40 and url.endswith(f"/?cubby_token={token}")
        if by == "address":
            url = f"{port['url']}/a?cubby_token={token}&b=1"
        jar = str(tmp_path / "jar")

        def curl(*args):  # which knows that names of localhost are loopback
            ended = subprocess.run(["curl", "-sS", "-i", "-b", jar, "-c", jar, "-H", "Accept: text/html,*/*", *args],
                                   capture_output=True, text=True, timeout=60, check=True)
            return ended.stdout

        first = curl("-L", url)
        assert first.count("HTTP/1.1 ") == 2 and "HTTP/1.1 303" in first and first.endswith("hello\n")
        assert "HttpOnly; SameSite=Lax" in first and "Cache-Control: no-store" in first
        assert "Referrer-Policy: no-referrer" in first and "Location: /" in first
        # From now on without it.
        assert curl(url.partition("?")[0]).endswith("hello\n")
        assert "HTTP/1.1 401" in subprocess.run(["curl", "-sS", "-i", url.partition("?")[0]], capture_output=True,
                                                text=True, timeout=60, check=True).stdout
        assert guest.heads and all(token not in head and "cubby_" not in head for head in guest.heads)
        if by == "address":
            assert guest.heads[0].startswith("GET /a?b=1 ")
        assert token not in daemon.log.read_text()


def test_a_program_sends_the_token(daemon, sandbox):
    with Web() as guest:
        port = expose(daemon, sandbox, guest.port, token=True)
        url, token = port["url"], port["token"]
        assert fetch(url, **{"X-Access-Token": token})[0] == 200
        assert fetch(f"{url}/x?cubby_token={token}")[0] == 200  # not a browser: no detour
        assert fetch(url, Cookie=f"a=1; cubby_port_{port['hostPort']}={token}; b=2")[0] == 200
        request = urllib.request.Request(f"{url}/y?cubby_token={token}&z", b"data", method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200
        assert [head.split(" HTTP")[0] for head in guest.heads] == ["GET /", "GET /x", "GET /", "POST /y?z"]
        assert "\r\nCookie: a=1; b=2\r\n" in guest.heads[2] + "\r\n"
        assert all(token not in head for head in guest.heads)


def test_what_is_no_token(daemon, sandbox):
    with Web() as guest:
        port = expose(daemon, sandbox, guest.port, token=True)
        url, token, number = port["url"], port["token"], port["hostPort"]
        for wrong in ("", "x", token[:-1], token + "0", token.upper()):
            assert fetch(url, **{"X-Access-Token": wrong})[0] == 401
            assert fetch(f"{url}/?cubby_token={wrong}")[0] == 401
            assert fetch(url, Cookie=f"cubby_port_{number}={wrong}")[0] == 401
        # Not that of the sandbox, nor of another port, nor in another place.
        assert fetch(url, **{"X-Access-Token": daemon.get(sandbox).json["envdAccessToken"]})[0] == 401
        assert fetch(url, Cookie=f"cubby_port_{number + 1}={token}")[0] == 401
        assert fetch(f"{url}/cubby_token={token}")[0] == 401
        status, _, body = fetch(url, **BROWSER, Host=f"{guest.port}-{sandbox}.localhost")
        assert status == 401 and b"<html" in body and sandbox.encode() not in body
        assert guest.heads == []


def test_an_application_has_its_own_x_access_token(daemon, sandbox):
    with Web() as guest:
        port = expose(daemon, sandbox, guest.port)
        assert fetch(port["url"] + "/?cubby_token=mine", **{"X-Access-Token": "mine"})[0] == 200
        assert "GET /?cubby_token=mine " in guest.heads[0] and "mine\r\n" in guest.heads[0] + "\r\n"


def test_a_websocket_with_a_token(daemon, sandbox):
    with WebSocketGuest() as guest:
        port = expose(daemon, sandbox, guest.port, token=True)
        at = f"ws://127.0.0.1:{port['hostPort']}/chat"
        with pytest.raises(InvalidStatus) as refused:
            connect(at, open_timeout=30)
        assert refused.value.response.status_code == 401
        for url, headers in ((f"{at}?cubby_token={port['token']}", {}), (at, {"X-Access-Token": port["token"]})):
            with connect(url, additional_headers=headers, open_timeout=30) as ws:
                ws.send("hello")
                assert ws.recv(30) == "hello"
        assert guest.paths == ["/chat", "/chat"]


# ---- pages
def test_a_page_is_shown_at_a_name_of_its_own(daemon, sandbox):
    """In a browser, cookies and storage of 127.0.0.1 belong to every server there."""
    with Web("Set-Cookie: theirs=1\r\n") as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        own = f"{guest.port}-{sandbox}.localhost"
        for host in ("127.0.0.1", "localhost"):
            status, headers, _ = visit(number, f"{host}:7777", "/a?b", **BROWSER)
            assert (status, headers["Location"]) == (307, f"http://{own}:7777/a?b")
        assert guest.heads == []
        status, headers, _ = visit(number, f"{own}:7777", **BROWSER, Cookie="mine=1; cubby_port_1=2")
        assert status == 200 and headers["Set-Cookie"] == "theirs=1"
        assert "\r\nCookie: mine=1" in guest.heads[0] and "cubby_port" not in guest.heads[0]
        # A page elsewhere may call it at the address, without that address's cookies.
        called = {**BROWSER, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-site"}
        status, headers, _ = visit(number, "127.0.0.1", **called, Cookie="jupyter=secret")
        assert status == 200 and "Set-Cookie" not in headers and "jupyter" not in guest.heads[1]


def test_cookies_of_a_program(daemon, sandbox):
    with Web("Set-Cookie: session=1; Path=/\r\n") as guest:
        url = expose(daemon, sandbox, guest.port)["url"]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        for _ in range(2):
            assert opener.open(url, timeout=30).status == 200
        assert "Cookie" not in guest.heads[0] and "Cookie: session=1" in guest.heads[1]


# ---- raw TCP
def test_a_browser_reads_nothing_of_raw_tcp(daemon, sandbox):
    with Web() as guest:
        number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
        for line in ("GET / HTTP/1.1", "X!-9 /a HTTP/1.1", "OPTIONS * HTTP/1.1"):
            answer = ask(number, f"{line}\r\nHost: evil.example\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 421 ") and b"hello" not in answer
        assert guest.heads == []
        # What no browser sends goes through, and the guest makes of it what it likes.
        assert b"hello" in ask(number, b"\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")


class Talker:
    """A guest's server that says `words` as soon as it accepts, and then what the client sends."""

    def __init__(self, *words, ends=False):
        self.words = words
        self.ends = ends  # after the words
        self.told = queue.Queue()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                with self.listener.accept()[0] as s, contextlib.suppress(ConnectionError):
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    s.settimeout(30)
                    for word in self.words:
                        s.sendall(word)
                    while not self.ends and (data := s.recv(65536)):
                        self.told.put(data)
                        s.sendall(data)


PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nhello\n"


def read_until_cut(s):
    """All bytes until the end of the connection, or its reset."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while data := s.recv(65536):
            got += data
    return got


@pytest.mark.parametrize("words", [(PAGE,), (b"H", b"TTP/1.1 200 OK\r\n\r\nhello"), (b"\r\n\r\n", PAGE), (b"junk" + PAGE,),
                                   (PAGE.replace(b"HTTP", b"hTTp"),), (b"ICY 200 OK\r\n\r\nhello",)],
                         ids=["page", "split", "newlines", "junk", "letters", "icy"])
def test_a_guest_that_answers_before_it_is_asked_shows_no_page(daemon, sandbox, words):
    """A browser takes bytes that come before its request for the answer, so they would be a page of 127.0.0.1."""
    with Talker(*words) as guest:
        number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
        # The daemon cuts the connection, since the client says nothing; it may do so while the client connects.
        with contextlib.suppress(ConnectionResetError), socket.create_connection(("127.0.0.1", number), 30) as s:
            got = read_until_cut(s)
            assert b"http" not in got.lower() and b"hello" not in got and b"ICY" not in got
        assert guest.told.empty()


@pytest.mark.parametrize("words", [(b"220 mail.example ESMTP\r\n",), (b"\n",), (b"a" * 15 + b"h", b"HTTP/1.1 is spoken elsewhere"), (b"x" * 300000,)],
                         ids=["greeting", "short", "later", "long"])
def test_a_guest_that_speaks_first_is_heard(daemon, sandbox, words):
    with Talker(*words) as guest:
        number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
        with socket.create_connection(("127.0.0.1", number), 30) as s:
            want = b"".join(words)
            got = b""
            while len(got) < len(want):
                data = s.recv(65536)
                assert data, got
                got += data
            assert got == want
            s.sendall(b"EHLO\r\n")
            assert s.recv(65536) == guest.told.get(timeout=30) == b"EHLO\r\n"


def test_what_waits_comes_when_the_client_speaks_or_the_guest_ends(daemon, sandbox):
    """A greeting that ends with a part of "HTTP" waits; nothing of it is lost, and the order stays."""
    with Talker(b"oh") as guest:
        number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
        with socket.create_connection(("127.0.0.1", number), 30) as s:
            s.sendall(b"TTP\r\n")
            s.shutdown(socket.SHUT_WR)
            assert read_until_cut(s) == b"ohTTP\r\n"
    with Talker(b"oh", ends=True) as guest:
        number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
        with socket.create_connection(("127.0.0.1", number), 30) as s:
            assert read_until_cut(s) == b"oh"
