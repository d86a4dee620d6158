# SPDX-License-Identifier: Apache-2.0
"""envd's relay to ports of the loopback: its first line, both directions of a connection, and how
it ends.
"""

import contextlib
import os
import pathlib
import socket
import struct
import threading

import pytest

from envd_peer import Envd, wait_for
from receive import receive

MB = 1 << 20


@pytest.fixture
def envd():
    e = Envd("--relay-port", "0")
    yield e
    e.close()


@contextlib.contextmanager
def listening(address="127.0.0.1", family=socket.AF_INET):
    with socket.socket(family) as s:
        s.bind((address, 0))
        s.listen(300)
        s.settimeout(30)
        yield s


def dial(envd):
    s = socket.create_connection(("127.0.0.1", envd.relay_port), 30)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    return s


def ask(envd, line):
    s = dial(envd)
    s.sendall(line)
    return s


def read_line(s):
    line = b""
    while not line.endswith(b"\n"):
        byte = s.recv(1)
        if not byte:
            break
        line += byte
    return line


def read_all(s):
    data = bytearray()
    while piece := s.recv(1 << 16):
        data += piece
    return bytes(data)


@contextlib.contextmanager
def relayed(envd, first=b""):
    """Both ends of a connection through the relay."""
    with listening() as server:
        client = ask(envd, b"CONNECT %d\n" % server.getsockname()[1] + first)
        assert read_line(client) == b"OK\n"
        inner, _ = server.accept()
        inner.settimeout(30)
    with client, inner:
        yield client, inner


def descriptors(envd):
    return len(list(pathlib.Path(f"/proc/{envd.process.pid}/fd").iterdir()))


def test_both_ways(envd):
    with relayed(envd, b"early") as (client, inner):
        assert receive(inner, 5) == b"early", "what came with the line"
        client.sendall(b"ping")
        assert receive(inner, 4) == b"ping"
        inner.sendall(b"pong")
        assert receive(client, 4) == b"pong"


def test_the_line_in_pieces(envd):
    with listening() as server:
        client = dial(envd)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"CONNECT %d\n" % server.getsockname()[1]:
            client.sendall(bytes([byte]))
        assert read_line(client) == b"OK\n"
        client.close()


def test_v6_loopback(envd):
    try:
        with listening("::1", socket.AF_INET6) as server:
            client = ask(envd, b"CONNECT %d\nx" % server.getsockname()[1])
            assert read_line(client) == b"OK\n"
            inner, _ = server.accept()
            assert inner.recv(1) == b"x"
            inner.close()
            client.close()
    except OSError as e:
        pytest.skip(f"this machine has no ::1: {e}")


@pytest.mark.parametrize("closes", ["client", "inner"])
def test_half_close(envd, closes):
    with relayed(envd) as (client, inner):
        first, second = (client, inner) if closes == "client" else (inner, client)
        first.sendall(b"all of it")
        first.shutdown(socket.SHUT_WR)
        assert read_all(second) == b"all of it"
        second.sendall(b"an answer after the end")
        second.shutdown(socket.SHUT_WR)
        assert read_all(first) == b"an answer after the end"


@pytest.mark.parametrize("breaks", ["client", "inner"])
def test_a_break_is_a_break(envd, breaks):
    """A reset does not look like a regular end on the other side."""
    with relayed(envd) as (client, inner):
        first, second = (client, inner) if breaks == "client" else (inner, client)
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        with pytest.raises(ConnectionResetError):
            second.recv(1)


@pytest.mark.parametrize("line, answer", [
    (b"CONNECT 0\n", b"ERR bad-request\n"), (b"CONNECT 65536\n", b"ERR bad-request\n"),
    (b"CONNECT -1\n", b"ERR bad-request\n"), (b"CONNECT 80\r\n", b"ERR bad-request\n"),
    (b"connect 80\n", b"ERR bad-request\n"), (b"\n", b"ERR bad-request\n"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"ERR bad-request\n"),
    (b"x" * 5000, b"ERR bad-request\n"), (b"CONNECT 8\0\n", b"ERR bad-request\n")])
def test_bad_lines(envd, line, answer):
    with ask(envd, line) as client:
        assert read_line(client) == answer
        assert read_all(client) == b""


def test_refused(envd):
    with socket.socket() as held:  # nobody else's, and it does not listen
        held.bind(("127.0.0.1", 0))
        for number in [held.getsockname()[1], envd.relay_port]:
            with ask(envd, b"CONNECT %d\nbytes that nobody takes" % number) as client:
                assert read_line(client) == b"ERR refused\n", number
                assert read_all(client) == b""


def test_large_both_ways_at_once(envd):
    """Nothing is lost or mixed, and envd buffers little of it."""
    up, down = os.urandom(MB) * 24, os.urandom(MB) * 24
    with relayed(envd) as (client, inner):
        before = envd.peak_kb()
        got = {}

        def send(s, data):
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)

        threads = [threading.Thread(target=send, args=(client, up)),
                   threading.Thread(target=send, args=(inner, down)),
                   threading.Thread(target=lambda: got.update(up=read_all(inner))),
                   threading.Thread(target=lambda: got.update(down=read_all(client)))]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert got["up"] == up and got["down"] == down
        if not os.environ.get("SAN"):
            assert envd.peak_kb() - before < 2048


def test_slow_reader_holds_up_its_sender(envd):
    """Bytes that the receiver does not read stay with the sender."""
    with relayed(envd) as (client, inner):
        before = envd.peak_kb()
        client.setblocking(False)
        sent = 0
        try:
            while sent < 256 * MB:
                sent += client.send(b"x" * MB)
        except BlockingIOError:
            pass
        assert sent < 256 * MB, "the sender was stopped"
        if not os.environ.get("SAN"):
            assert envd.peak_kb() - before < 2048
        client.setblocking(True)
        client.shutdown(socket.SHUT_WR)
        assert len(read_all(inner)) == sent


def test_limit(envd):
    with listening() as server, contextlib.ExitStack() as stack:
        line = b"CONNECT %d\n" % server.getsockname()[1]
        before = descriptors(envd)
        for _ in range(256):
            client = stack.enter_context(ask(envd, line))
            assert read_line(client) == b"OK\n"
        with ask(envd, line) as client:
            assert read_line(client) == b"ERR limit\n"
        stack.close()
        server.close()
        wait_for(lambda: descriptors(envd) <= before, 30, "all is closed")
    with relayed(envd) as (client, inner):
        client.sendall(b"again")
        assert receive(inner, 5) == b"again"


def test_stop_while_relaying():
    """A clean exit with connections in every state."""
    envd = Envd("--relay-port", "0")
    with relayed(envd) as (client, inner):
        with dial(envd), ask(envd, b"CONNECT "):
            client.sendall(b"x")
            assert inner.recv(1) == b"x"
            envd.close()


def test_none_unless_asked_for():
    envd = Envd()
    try:
        assert envd.relay_port == 0
    finally:
        envd.close()
