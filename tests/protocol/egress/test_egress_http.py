# SPDX-License-Identifier: Apache-2.0
"""HTTP and TLS through cubby-egress: messages pass unchanged, messages that two servers could read
differently are refused, and TLS is never weakened.
"""

import json
import pathlib
import secrets
import socket
import ssl
import struct
import threading

import pytest
from egress_peer import Lines, answer, ask, read_message
from egress_world import NAME, OTHER, PLACEHOLDER, VALUE, refusals, refused
from egress_world import fixture_authorities, fixture_world  # noqa: F401 (fixtures)
from harness import wait_for

from receive import receive


# ---- requests

def test_many_on_one_connection(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        for i in range(20):
            status, _, body = ask(s, f"/{i}", "POST", [("X-Key", PLACEHOLDER)], b"body" * i)
            assert status == 200 and json.loads(body)["body"] == "body" * i
    assert host.accepted == 1
    assert [dict(headers)["X-Key"] for _, headers, _ in host.requests] == [VALUE] * 20


def test_pipelined(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        s.sendall(b"".join(f"GET /{i} HTTP/1.1\r\nHost: {NAME}\r\nX-Key: {PLACEHOLDER}\r\n\r\n".encode()
                           for i in range(10)))
        assert [json.loads(answer(s)[2])["line"] for _ in range(10)] == [
            f"GET /{i} HTTP/1.1" for i in range(10)]


def test_a_head_in_single_bytes(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        for byte in f"GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Key: {PLACEHOLDER}\r\n\r\n".encode():
            s.sendall(bytes([byte]))
        assert answer(s)[0] == 200
    assert dict(host.requests[0][1])["X-Key"] == VALUE


# ---- bodies and answers

def test_chunked_both_ways(world):
    def behave(connection, f):
        echo_of = read_message(f)
        connection.server.requests.append(echo_of)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n")
        for piece in (b"one", VALUE[:7].encode(), VALUE[7:].encode(), b"two"):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\nX-T: " + VALUE.encode() + b"\r\n\r\n")
        f.read()

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        s.sendall(f"POST / HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for piece in (b"abc", b"defg"):
            s.sendall(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece))
        s.sendall(b"0\r\n\r\n")
        status, headers, body = answer(s)
    assert status == 200 and body == b"one" + b"*" * len(VALUE) + b"two"
    assert host.requests[0][2] == b"abcdefg"


def test_large_bodies_both_ways(world):
    blob = secrets.token_bytes(1 << 20) * 8

    def behave(connection, f):
        message = read_message(f)
        connection.server.requests.append(message)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(blob) + blob)
        f.read()

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        status, _, body = ask(s, "/", "PUT", body=blob)
    assert status == 200 and body == blob and host.requests[0][2] == blob


def test_expect_continue(world):
    def behave(connection, f):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += f.read(1)
        assert b"expect: 100-continue" in head.lower()
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = f.read(4)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + body)
        f.read()

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        s.sendall(f"POST / HTTP/1.1\r\nHost: {NAME}\r\nExpect: 100-continue\r\n"
                  "Content-Length: 4\r\n\r\n".encode())
        assert answer(s, False)[0] == 100
        s.sendall(b"body")
        assert answer(s) == (200, [("Content-Length", "4")], b"body")


def test_head_and_not_modified(world):
    def behave(connection, f):
        while (message := read_message(f)):
            status = "304 Not Modified" if "/304" in message[0] else "200 OK"
            connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n".encode())

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        assert ask(s, "/", "HEAD")[0] == 200
        s.sendall(f"GET /304 HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        assert answer(s, False)[0] == 304
        assert ask(s, "/", "HEAD")[0] == 200
    assert host.accepted == 1


def test_no_body_has_no_last_chunk(world):
    """A 304 may have the header of a chunked body but has no body: the next answer follows its head."""
    def behave(connection, f):
        while (message := read_message(f)):
            connection.sendall(b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n" if "/304" in message[0]
                               else b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        s.sendall("".join(f"GET {path} HTTP/1.1\r\nHost: {NAME}\r\n\r\n" for path in ("/304", "/")).encode())
        assert answer(s, False)[0] == 304
        assert answer(s) == (200, [("Content-Length", "4")], b"next")


def narrow(world, port):
    """A guest's end without TLS that takes only a few bytes at a time."""
    guest, given = socket.socketpair()
    with given:
        given.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        world.hand(given.fileno(), NAME, "127.0.0.1", port, False)
    guest.settimeout(60)
    return guest


def is_closed(s):
    try:
        s.sendall(b"x")
        return False
    except OSError:
        return True


def test_a_guest_that_reads_its_last_answer_slowly(world):
    """The guest gets the whole answer, though the host has left and the time to linger is over."""
    blob, gone = secrets.token_bytes(200000), threading.Event()

    def behave(connection, f):
        read_message(f)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(blob) + blob)
        f.read()
        gone.set()

    host = world.host(behave=behave, tls=False)
    with narrow(world, host.port) as slow:
        slow.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        assert gone.wait(30), "the answer is whole"
        with world.connect(NAME, host.port, tls=False) as other:
            assert ask(other, host=OTHER)[0] == 421
            wait_for(lambda: is_closed(other), what="an end of an answer that was read")
        assert answer(slow) == (200, [("Content-Length", str(len(blob))), ("Connection", "close")], blob)


def test_a_host_that_resets_between_requests(world):
    """The guest gets the answer that came before the reset."""
    blob, told = secrets.token_bytes(200000), threading.Event()

    def behave(connection, f):
        read_message(f)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(blob) + blob)
        told.wait(60)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    host = world.host(behave=behave, tls=False)
    descriptors = pathlib.Path(f"/proc/{world.process.pid}/fd")
    with narrow(world, host.port) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        assert s.recv(1) == b"H"
        open_ones = len(list(descriptors.iterdir()))
        with world.connect(NAME, host.port, tls=False) as other:
            assert ask(other, host=OTHER)[0] == 421, "all that came is read"
            wait_for(lambda: is_closed(other), what="the other is over")
        told.set()
        wait_for(lambda: len(list(descriptors.iterdir())) < open_ones, what="the reset is heard")
        line, _, body = read_message(Lines(s.makefile("rb", buffering=0)))
    assert line == "TTP/1.1 200 OK" and body == blob


def test_answer_that_ends_with_the_connection(world):
    def behave(connection, f):
        read_message(f)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        status, headers, body = ask(s)
    assert (status, body) == (200, b"all of it") and ("Connection", "close") in headers


def test_websocket(world):
    def behave(connection, f):
        while (line := f.readline()) not in (b"\r\n", b""):
            connection.server.requests.append(line)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                           b"Upgrade: websocket\r\n\r\nfirst")
        while (data := f.read1(100)):
            connection.sendall(data.upper())

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        s.sendall(f"GET /ws HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                  f"Authorization: {PLACEHOLDER}\r\n\r\n".encode())
        assert answer(s, False)[0] == 101
        assert receive(s, 5) == b"first"
        s.sendall(b"hello")
        assert receive(s, 5) == b"HELLO"
    assert f"Authorization: {VALUE}\r\n".encode() in host.requests


# ---- refused

@pytest.mark.parametrize("shown", [OTHER, "api.example.com.evil.net", NAME + ":1", "127.0.0.1", "*",
                                   "xapi.example.com"])
def test_another_host_on_the_connection(world, shown):
    host = world.host(NAME, OTHER)
    with world.dial(NAME, host.port) as s:
        assert ask(s)[0] == 200
        refused(world, s, 421, "-", host=shown, headers=[("X-Key", PLACEHOLDER)])
    assert len(host.requests) == 1


def test_requests_to_a_proxy(world):
    host = world.host()
    for request in ({"method": "CONNECT", "target": f"{NAME}:443"}, {"target": f"https://{OTHER}/"},
                    {"target": f"http://{NAME}/"}):
        with world.dial(NAME, host.port) as s:
            refused(world, s, 400, "-", "proxy", **request)
    assert not host.requests


@pytest.mark.parametrize("raw", [
    "GET / HTTP/1.1\r\nHost: {n}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {n}\r\nHost: {o}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {n}\nX: y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {n}\r\nX: a\r\n {p}\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no HTTP at all\r\n\r\n",
])
def test_what_two_would_read_differently(world, raw):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        s.sendall(raw.format(n=NAME, o=OTHER, p=PLACEHOLDER).encode())
        assert answer(s)[0] in (400, 505)
    assert not host.requests


def test_a_head_without_end(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}\r\nX: ".encode() + b"x" * 70000)
        assert answer(s)[0] == 431
    assert not host.requests


# ---- TLS

def test_a_host_that_cannot_be_verified(world, authorities):
    hosts, _, nobody = authorities
    for pair, why in ((nobody.pair(NAME), "certificate"), (hosts.pair(OTHER), "mismatch"),
                      (hosts.pair(NAME, days=-1), "expired")):
        host = world.host(pair=pair)
        with world.dial(NAME, host.port) as s:
            status, _, body = ask(s, headers=[("X-Key", PLACEHOLDER)])
            assert status == 502 and b"could not be verified" in body and why in body.decode().lower()
        assert not host.requests and host.accepted == 1
        wait_for(lambda: "could not be verified" in str(refusals(world)[-1:]), what="a report")
    assert world.stats()[1] == {"the host's certificate cannot be verified": 3}


def test_a_host_without_tls_is_no_host(world):
    heard = []

    def behave(connection, f):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        heard.append(f.read())

    host = world.host(tls=False, behave=behave)
    with world.dial(NAME, host.port) as s:
        assert ask(s, headers=[("X-Key", PLACEHOLDER)])[0] == 502
    wait_for(lambda: heard, what="the end of the connection")
    assert VALUE.encode() not in heard[0]


def test_a_host_that_is_not_there(world):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with world.dial(NAME, port) as s:
        status, _, body = ask(s)
        assert status == 502 and b"could not be connected" in body
    wait_for(lambda: "could not be connected" in str(refusals(world)), what="a report")
    assert world.stats()[1] == {}, "nobody refused it"


def test_an_address_without_a_name(world):
    host = world.host("127.0.0.1")
    context = world.context()
    with context.wrap_socket(world.connect("", host.port), server_hostname="127.0.0.1") as s:
        assert ask(s, host="127.0.0.1")[0] == 200
        refused(world, s, 403, "API_KEY", host="127.0.0.1", headers=[("X-Key", PLACEHOLDER)])


def test_another_name_than_the_gate_saw(world):
    host = world.host()
    with pytest.raises(ssl.SSLError):
        world.context().wrap_socket(world.connect(NAME, host.port), server_hostname=OTHER)
    assert host.accepted == 0


def test_a_client_of_http_2_only(world):
    host = world.host()
    context = world.context()
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(world.connect(NAME, host.port), server_hostname=NAME)


def test_who_does_not_trust_the_authority(world, authorities):
    host = world.host()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authorities[0].path)
    with pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(world.connect(NAME, host.port), server_hostname=NAME)
    wait_for(lambda: world.stats()[1] == {"the TLS handshake with the guest failed": 1}, what="a report")
