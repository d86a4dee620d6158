# SPDX-License-Identifier: Apache-2.0
"""cubbyd: connections that leave HTTP, mainly WebSocket, and interim responses before an answer."""

import contextlib
import hashlib
import os
import signal
import socket
import threading
import time

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import unix_connect

from cubbyd import Guest, closed_port, read_all, read_head
from cubbyd_fixtures import daemon, made, sandbox, shared  # noqa: F401 (fixtures)
from websocket_guest import WebSocketGuest

LOOPBACK = "127.0.0.9"  # what a machine that is a process has for the guest's loopback
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n"
OFFER = "Connection: keep-alive, Upgrade\r\nUpgrade: lines\r\n"


def websocket(daemon, host, path="/chat", **headers):
    return unix_connect(str(daemon.home / "cubbyd.sock"), f"ws://{host}{path}", max_size=None,
                        additional_headers=headers, compression=None, open_timeout=30)


# ---- WebSocket
@pytest.mark.parametrize("address", ["127.0.0.1", LOOPBACK])
def test_websocket(daemon, sandbox, address):
    with WebSocketGuest(address) as guest:
        routed = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(guest.port)}
        with websocket(daemon, "x", "/chat?a=%20b", **routed) as ws:
            for message in ("hello", "", "\u20ac", b"\0\xff", os.urandom(300_000)):
                ws.send(message)
                assert ws.recv(30) == message
            assert ws.ping().wait(30)
            ws.close(1000, "done")
        assert ws.close_code == 1000
        assert guest.paths == ["/chat?a=%20b"] and guest.hosts == ["x"]


def test_websocket_by_host(daemon, sandbox):
    with WebSocketGuest() as guest:
        host = f"{guest.port}-{sandbox}.localhost"
        with websocket(daemon, host) as ws:
            ws.send("hello")
            assert ws.recv(30) == "hello"
        assert guest.hosts == [host]


def test_websocket_that_is_refused(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 4\r\nX-Why: because\r\n\r\nstop")

    with Guest(serve) as guest:
        with pytest.raises(InvalidStatus) as refused:
            with websocket(daemon, f"{guest.port}-{sandbox}.localhost"):
                pass
        answer = refused.value.response
        assert answer.status_code == 403 and answer.body == b"stop"
        assert answer.headers["X-Why"] == "because"


def test_websocket_of_a_closed_port(daemon, sandbox):
    with closed_port() as s, pytest.raises(InvalidStatus) as refused:
        with websocket(daemon, f"{s.getsockname()[1]}-{sandbox}.localhost"):
            pass
    assert refused.value.response.status_code == 502


def test_many_websockets_at_once(daemon, sandbox):
    with WebSocketGuest() as guest, contextlib.ExitStack() as stack:
        host = f"{guest.port}-{sandbox}.localhost"
        sockets = [stack.enter_context(websocket(daemon, host)) for _ in range(50)]
        for i, ws in enumerate(sockets):
            ws.send(str(i) * 1000)
        for i, ws in enumerate(sockets):
            assert ws.recv(30) == str(i) * 1000


# ---- any other protocol
def open_tunnel(daemon, sandbox, guest):
    s = daemon.open(sandbox, guest.port, more=OFFER)
    head, rest = read_head(s)
    assert head.startswith("HTTP/1.1 101 "), head
    assert "Upgrade: lines" in head and "Connection: Upgrade" in head
    return s, rest


@pytest.mark.parametrize("first", ["client", "guest"])
def test_each_side_ends_by_itself(daemon, sandbox, first):
    got = []

    def serve(connection):
        head, rest = read_head(connection)
        assert "Upgrade: lines" in head and rest == b""
        connection.sendall(SWITCHED + b"at once")
        if first == "guest":
            connection.shutdown(socket.SHUT_WR)
        got.append(read_all(connection))
        if first == "client":
            connection.sendall(b" and late")

    with Guest(serve) as guest:
        s, rest = open_tunnel(daemon, sandbox, guest)
        if first == "guest":
            rest += read_all(s)
            assert rest == b"at once"
        s.sendall(b"one" * 30_000)
        s.shutdown(socket.SHUT_WR)
        if first == "client":
            rest += read_all(s)
            assert rest == b"at once and late"
        else:
            guest.threads[0].join(30)
        s.close()
        assert got == [b"one" * 30_000]


def test_bytes_both_ways_at_once(daemon, sandbox):
    size, sums = 8_000_000, []
    ours, theirs = os.urandom(size), os.urandom(size)

    def send(connection, data):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    def serve(connection):
        read_head(connection)
        connection.sendall(SWITCHED)
        sender = threading.Thread(target=send, args=(connection, theirs))
        sender.start()
        sums.append(hashlib.sha256(read_all(connection)).digest())
        sender.join()

    with Guest(serve) as guest:
        s, rest = open_tunnel(daemon, sandbox, guest)
        sender = threading.Thread(target=send, args=(s, ours))
        sender.start()
        assert rest + read_all(s) == theirs
        sender.join()
        guest.threads[0].join(30)
        s.close()
    assert sums == [hashlib.sha256(ours).digest()]


def memory(daemon):
    """Resident megabytes of the daemon."""
    with open(f"/proc/{daemon.process.pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))


@pytest.mark.parametrize("slow", ["client", "guest"])
def test_a_slow_side_holds_the_other_up(daemon, sandbox, slow):
    size, go, got = 100_000_000, threading.Event(), []

    def fill(connection):
        """Writes until the other side has taken no more for half a second."""
        connection.setblocking(False)
        sent, last = 0, time.monotonic()
        while time.monotonic() - last < 0.5 and sent < size:
            try:
                sent += connection.send(b"x" * min(100_000, size - sent))
                last = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        connection.settimeout(60)
        return sent

    def drain(connection, until):
        n = 0
        while n < until and (data := connection.recv(1 << 20)):
            n += len(data)
        return n

    def serve(connection):
        read_head(connection)
        connection.sendall(SWITCHED)
        if slow == "client":
            got.append(fill(connection))
            go.set()
            connection.recv(1)
        else:
            go.wait(60)
            got.append(drain(connection, got[0]))

    with Guest(serve) as guest:
        before = memory(daemon)
        s, rest = open_tunnel(daemon, sandbox, guest)
        if slow == "client":
            assert go.wait(60)
        else:
            got.append(fill(s))
        assert 0 < got[0] < size
        assert memory(daemon) - before < 8
        if slow == "client":
            assert len(rest) + drain(s, got[0] - len(rest)) == got[0]
        else:
            go.set()
            guest.threads[0].join(60)
            assert got[1] == got[0]
        s.close()


@pytest.mark.parametrize("who", ["client", "guest", "killed", "dead"])
def test_breaking(daemon, sandbox, who):
    over = threading.Event()

    def serve(connection):
        read_head(connection)
        connection.sendall(SWITCHED + b"abc")
        if who != "guest":
            read_all(connection)
            over.set()

    with Guest(serve) as guest:
        s, rest = open_tunnel(daemon, sandbox, guest)
        while rest != b"abc":
            rest += s.recv(100)
        if who == "client":
            s.close()
        elif who == "killed":
            assert daemon.kill(sandbox) == 204
        elif who == "dead":
            os.kill(daemon.machine(sandbox), signal.SIGKILL)
        if who != "client":
            assert read_all(s) == b""
            s.close()
        if who != "guest":
            assert over.wait(30)


def test_envd_is_offered_nothing(daemon, made):
    """The Upgrade is not passed to envd, because the daemon could not check a tunnel's contents."""
    answer = daemon.through(made["sandboxID"], "POST", "/echo", token=made["envdAccessToken"],
                            headers={"Connection": "Upgrade", "Upgrade": "h2c"})
    assert answer.status == 200 and "X-Got-Upgrade" not in answer.headers


def test_an_unasked_101_is_an_error(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(SWITCHED)

    with Guest(serve) as guest:
        assert daemon.through(sandbox, port=guest.port).status == 502


# ---- before the answer
def test_interim_answers(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n"
                           b"Connection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port, more="Connection: close\r\n")
        data = read_all(s)
        s.close()
    assert data.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert data.count(b"HTTP/1.1") == 2 and data.count(b"Link") == 1 and data.endswith(b"hi")


def test_expect_continue(daemon, sandbox):
    """The daemon tells the client to go on before the guest has the body, and sends no Expect to
    the guest."""
    heads = []

    def serve(connection):
        head, body = read_head(connection)
        heads.append(head)
        while len(body) < 5:
            body += connection.recv(100)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" + body)

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port, "POST / HTTP/1.1",
                        "Expect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n")
        head, rest = read_head(s)
        assert head == "HTTP/1.1 100 Continue" and rest == b""
        s.sendall(b"hello")
        assert read_all(s).endswith(b"\r\n\r\nhello")
        s.close()
    assert "Expect" not in heads[0]


def test_pipelined_requests(daemon, sandbox):
    def serve(connection):
        head, _ = read_head(connection)
        path = head.split()[1].encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(path), path))

    with Guest(serve) as guest:
        routed = (f"Host: x\r\nE2b-Sandbox-Id: {sandbox}\r\nE2b-Sandbox-Port: {guest.port}\r\n")
        s = daemon.open(sandbox, guest.port, "GET /0 HTTP/1.1")
        s.sendall("".join(f"GET /{i} HTTP/1.1\r\n{routed}\r\n" for i in range(1, 9)).encode())
        s.sendall(f"GET /9 HTTP/1.1\r\nConnection: close\r\n{routed}\r\n".encode())
        data = read_all(s)
        s.close()
    assert [piece.partition(b"HTTP/1.1")[0] for piece in data.split(b"\r\n\r\n")[1:]] == [
        b"/%d" % i for i in range(10)]
