# SPDX-License-Identifier: Apache-2.0
"""cubby-egress with real peers: what becomes of a placeholder, where it may not go, and that TLS is
never anything less. The attack's control: a client with the value itself reaches the same host."""

import base64
import ctypes
import json
import os
import pathlib
import resource
import secrets
import socket
import ssl
import struct
import subprocess
import threading

import pytest
from egress_peer import EGRESS, Authority, Egress, Host, Lines, answer, ask, read_message
from harness import wait_for

NAME, OTHER = "api.example.com", "evil.example.net"
VALUE = "sk-live-" + secrets.token_hex(16)
PLACEHOLDER = "cubby-secret-" + secrets.token_hex(16)
WILD_VALUE = "wild/+&= " + secrets.token_hex(16)
WILD = "cubby-secret-" + secrets.token_hex(16)
SECRETS = [
    {"name": "API_KEY", "placeholder": PLACEHOLDER, "value": VALUE, "hosts": [NAME]},
    {"name": "WILD_KEY", "placeholder": WILD, "value": WILD_VALUE, "hosts": ["*.example.org"]},
]


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    directory = tmp_path_factory.mktemp("egress")
    return Authority(directory, "hosts"), Authority(directory, "sandbox"), Authority(directory, "nobody")


@pytest.fixture
def world(authorities):
    """A cubby-egress that trusts the hosts' authority; it must end cleanly and never log a value."""
    hosts, ca, _ = authorities
    egress = Egress(ca, SECRETS, hosts.path)
    opened = []

    def host(*names, behave=None, pair=None, tls=True):
        pair = pair or (hosts.pair(*(names or (NAME,))) if tls else None)
        opened.append(Host(pair, behave) if behave else Host(pair))
        return opened[-1]

    egress.host = host
    yield egress
    for one in opened:
        one.close()
    log = egress.stop()
    assert VALUE not in log and WILD_VALUE not in log and "PRIVATE KEY" not in log


def refusals(egress):
    return [line for line in egress.text().splitlines() if "egress.refused" in line]


# ---- put in

def test_header(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        assert s.selected_alpn_protocol() == "http/1.1"
        status, _, body = ask(s, headers=[("Authorization", f"Bearer {PLACEHOLDER}"),
                                          ("X-Both", f"a{PLACEHOLDER}b{PLACEHOLDER}c")])
        assert status == 200
    line, headers, _ = host.requests[0]
    assert line == "GET / HTTP/1.1"
    assert dict(headers)["Authorization"] == f"Bearer {VALUE}"
    assert dict(headers)["X-Both"] == f"a{VALUE}b{VALUE}c"
    assert host.names == [NAME] and host.alpn == ["http/1.1"]
    # What the host echoes comes back masked, and as long as it was.
    assert VALUE.encode() not in body and b"*" * len(VALUE) in body


def test_basic(world):
    host = world.host()
    code = base64.b64encode(f"user:{PLACEHOLDER}".encode()).decode()
    plain = base64.b64encode(b"user:other").decode()
    with world.dial(NAME, host.port) as s:
        assert ask(s, headers=[("authorization", f"basic {code}")])[0] == 200
        assert ask(s, headers=[("Authorization", f"Basic {plain}")])[0] == 200
    sent = [dict(headers).get("authorization") or dict(headers)["Authorization"]
            for _, headers, _ in host.requests]
    assert base64.b64decode(sent[0].split()[1]) == f"user:{VALUE}".encode()
    assert sent[1] == f"Basic {plain}"


def test_query_is_percent_encoded(world):
    host = world.host("a.b.example.org")
    with world.dial("a.b.example.org", host.port) as s:
        assert ask(s, f"/x?key={WILD}&q=1", host="a.b.example.org")[0] == 200
    assert host.requests[0][0] == f"GET /x?key=wild%2F%2B%26%3D%20{WILD_VALUE.split()[1]}&q=1 HTTP/1.1"


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


def test_curl(world):
    host = world.host()
    with world.front(NAME, host.port) as port:
        out = subprocess.run(
            ["curl", "-sS", "--cacert", world.ca.path, "--connect-to", f"{NAME}:443:127.0.0.1:{port}",
             "-H", f"Authorization: Bearer {PLACEHOLDER}", "-d", "@-", f"https://{NAME}/v1?k={PLACEHOLDER}"],
            input=b"x" * 300000, capture_output=True, timeout=120)
    assert out.returncode == 0, out.stderr
    line, headers, body = host.requests[0]
    assert line == f"POST /v1?k={VALUE} HTTP/1.1" and body == b"x" * 300000
    assert dict(headers)["Authorization"] == f"Bearer {VALUE}"


# ---- bodies

def test_body_passes_as_it_is(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        # A conversation may well hold the text of the environment: it is no reason to refuse, and
        # what hosts keep in bodies must never be a value.
        assert ask(s, "/", "POST", body=PLACEHOLDER.encode())[0] == 200
    assert host.requests[0][2] == PLACEHOLDER.encode()


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
    """A 304 may say that the body would come in chunks: the next answer follows its head."""
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
    """A guest's end without TLS to which only some bytes go at a time."""
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
    """It gets all of it, though the host is gone and others' last words are past."""
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
    """What it had answered before is the guest's."""
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
        assert s.recv(5) == b"first"
        s.sendall(b"hello")
        assert s.recv(5) == b"HELLO"
    assert f"Authorization: {VALUE}\r\n".encode() in host.requests


def test_masking_across_pieces_and_headers(world):
    def behave(connection, f):
        read_message(f)
        connection.sendall(f"HTTP/1.1 200 OK\r\nX-Echo: <{VALUE}>\r\nAlt-Svc: h3\r\n"
                           f"Content-Length: {2 * len(VALUE) + 4}\r\n\r\n".encode())
        for byte in f"{VALUE[:5]}:-){VALUE}{VALUE[5:-1]}!!".encode()[:2 * len(VALUE) + 4]:
            connection.sendall(bytes([byte]))
        f.read()

    host = world.host(behave=behave)
    with world.dial(NAME, host.port) as s:
        _, headers, body = ask(s)
    assert dict(headers)["X-Echo"] == "<" + "*" * len(VALUE) + ">" and "Alt-Svc" not in dict(headers)
    assert body.startswith(VALUE[:5].encode() + b":-)" + b"*" * len(VALUE))
    assert len(body) == 2 * len(VALUE) + 4 and VALUE.encode() not in body


def test_masking_of_what_was_made(world):
    """What stands in the request in another form comes back masked; the control: other codes do not."""
    host = world.host("a.b.example.org")
    percent = f"wild%2F%2B%26%3D%20{WILD_VALUE.split()[1]}"
    codes = []
    with world.dial("a.b.example.org", host.port) as s:
        for user in ("u", "us", "use"):  # each length of padding
            code = base64.b64encode(f"{user}:{WILD}".encode()).decode()
            codes.append(base64.b64encode(f"{user}:{WILD_VALUE}".encode()).decode())
            _, _, body = ask(s, f"/x?key={WILD}&q=1", host="a.b.example.org",
                             headers=[("Authorization", f"Basic {code}"), ("X-Before", codes[0])])
            line, headers, _ = host.requests[-1]
            assert percent in line and dict(headers)["Authorization"] == f"Basic {codes[-1]}"
            echo = json.loads(body)
            assert echo["line"] == f"GET /x?key={'*' * len(percent)}&q=1 HTTP/1.1"
            bare = codes[-1].rstrip("=")
            assert dict(echo["headers"])["Authorization"] == f"Basic {'*' * len(bare)}{codes[-1][len(bare):]}"
        plain = base64.b64encode(b"u:other").decode()
        _, _, body = ask(s, host="a.b.example.org", headers=[("Authorization", f"Basic {plain}")])
        assert plain in body.decode()


def test_a_guess_looks_like_anything_else(world):
    """A host that gives back what it was given to keep is asked for the beginning of a value. Were that
    held back until more comes, a guest would see by it which beginnings are right; what completes a
    value is masked all the same. The control: what is none comes through as it is."""
    got = threading.Event()

    def behave(connection, f):
        body = read_message(f)[2]
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in body.split(b"|"):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if not got.wait(60):
                return
            got.clear()
        connection.sendall(b"0\r\n\r\n")
        f.read()

    host = world.host(behave=behave)
    for guess, rest in ((VALUE[:-1], VALUE[-1]), (VALUE[:-1] + "!", "?"), (VALUE[:9], VALUE[9:])):
        with world.dial(NAME, host.port) as s:
            body = f"{guess}|{rest}".encode()
            s.sendall(f"POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            with s.makefile("rb", buffering=0) as raw:
                assert b"200" in raw.readline()
                while raw.readline() != b"\r\n":
                    pass
                assert pieces(raw, len(guess)) == guess.encode()
                got.set()
                known = rest.encode() if "?" in rest else b"*" * len(rest)
                assert pieces(raw, len(rest)) == known
                got.set()
                assert raw.readline() == b"0\r\n"


def pieces(raw, size):
    """So many bytes of a body in chunks, however many chunks they are."""
    data = b""
    while len(data) < size:
        length = int(raw.readline(), 16)
        data += Lines(raw).read(length)
        assert raw.readline() == b"\r\n"
    return data


def test_basic_twice(world):
    host = world.host()
    code = base64.b64encode(f"u:{PLACEHOLDER}".encode()).decode()
    with world.dial(NAME, host.port) as s:
        refused(world, s, 400, "-", "Authorization", headers=[("Authorization", f"Basic {code}")] * 2)
    assert not host.requests


def test_echo_is_asked_for_without_compression(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        ask(s, headers=[("Accept-Encoding", "gzip, br")])
    assert [v for n, v in host.requests[0][1] if n == "Accept-Encoding"] == ["identity"]


# ---- refused

def refused(world, s, status, secret, *words, **request):
    got, headers, body = ask(s, **request)
    assert got == status and ("X-Cubby-Egress", "refused") in headers, body
    for word in words:
        assert word in body.decode(), body
    wait_for(lambda: f"secret={secret}" in str(refusals(world)[-1:]), what="a report")
    assert s.recv(1) == b""
    # The daemon can read it as well, in fewer words and without a value.
    newest = world.stats()[2][0]
    assert newest["proto"] == 6 and newest["port"] and newest["why"].startswith(f"secret {secret}: ") is (secret != "-")


def test_elsewhere(world):
    """To a host that it is not for; the control: the same request without it passes."""
    host = world.host(OTHER)
    key = [("Authorization", f"Bearer {PLACEHOLDER}")]
    basic = [("Authorization", "Basic " + base64.b64encode(f"u:{PLACEHOLDER}".encode()).decode())]
    with world.dial(OTHER, host.port) as s:
        assert ask(s, host=OTHER, headers=[("Authorization", "Bearer other")])[0] == 200
        refused(world, s, 403, "API_KEY", NAME, OTHER, host=OTHER, headers=key)
    for request in ({"headers": basic}, {"target": f"/?{PLACEHOLDER}"}, {"target": f"/{PLACEHOLDER}"},
                    {"headers": [(f"X-{PLACEHOLDER}", "1")]},
                    {"headers": [("Connection", f"{PLACEHOLDER}")]},
                    {"method": "POST", "body": b"in a body: " + PLACEHOLDER.encode() + b"!"}):
        with world.dial(OTHER, host.port) as s:
            refused(world, s, 403, "API_KEY", host=OTHER, **request)
    assert all(PLACEHOLDER not in repr(r) and VALUE not in repr(r) for r in host.requests)
    assert len(host.requests) == 1
    assert world.stats() == (
        {"magic": 0x3173746174737563, "received_bytes": 0, "received_packets": 0, "sent_bytes": 0,
         "sent_packets": 0, "refused": 7},
        {"secret API_KEY: not for this host": 7},
        [{"seq": 7, "count": 7, "port": host.port, "proto": 6, "address": "127.0.0.1",
          "why": "secret API_KEY: not for this host", "name": OTHER}])


def test_elsewhere_in_pieces_of_a_chunked_body(world):
    host = world.host(OTHER)
    with world.dial(OTHER, host.port) as s:
        s.sendall(f"POST / HTTP/1.1\r\nHost: {OTHER}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for piece in (b"abc" + PLACEHOLDER[:9].encode(), PLACEHOLDER[9:].encode() + b"def"):
            s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        assert answer(s)[0] == 403
    assert not host.requests


def test_without_tls(world):
    host = world.host(tls=False)
    with world.connect(NAME, host.port, tls=False) as s:
        assert ask(s, host=f"{NAME}:{host.port}")[0] == 200
        refused(world, s, 403, "API_KEY", "TLS", headers=[("X-Key", PLACEHOLDER)])
    assert len(host.requests) == 1


def test_wrong_places(world):
    host = world.host()
    for request in ({"target": f"/bot{PLACEHOLDER}/x"}, {"headers": [(f"X-{PLACEHOLDER}", "1")]}):
        with world.dial(NAME, host.port) as s:
            refused(world, s, 403, "API_KEY", **request)
    assert not host.requests


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


# ---- the process

def ask_for_keys(s, times):
    """A client's handshake with one that asks for new keys, which Python's own cannot: how often it could."""
    lib = ctypes.CDLL("libssl.so.3")
    for function in "TLS_client_method", "SSL_CTX_new", "SSL_new":
        getattr(lib, function).restype = ctypes.c_void_p
    ctx = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
    ssl_ = ctypes.c_void_p(lib.SSL_new(ctx))
    s.setblocking(True)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
    lib.SSL_set_fd(ssl_, s.fileno())
    assert lib.SSL_connect(ssl_) == 1
    asked = 0
    while asked < times and lib.SSL_key_update(ssl_, 1) == 1 and lib.SSL_do_handshake(ssl_) == 1:
        asked += 1
    lib.SSL_free(ssl_)
    lib.SSL_CTX_free(ctx)
    return asked


def test_a_guest_that_asks_for_keys_and_does_not_read(world):
    host = world.host()

    def resident():
        pages = pathlib.Path(f"/proc/{world.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()

    with world.connect(NAME, host.port) as first, world.connect(NAME, host.port) as s:
        assert ask_for_keys(first, 1) == 1
        before = resident()
        asked = ask_for_keys(s, 600_000)
        grown = resident() - before
    assert asked < 600_000, f"it takes it all, and is {grown >> 20} MiB larger"
    assert os.environ.get("SAN") or grown < 4 << 20, (asked, grown)


def test_values_are_nowhere(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        ask(s, headers=[("X-Key", PLACEHOLDER)])
        proc = pathlib.Path(f"/proc/{world.process.pid}")
        for name in ("cmdline", "environ"):
            assert VALUE.encode() not in (proc / name).read_bytes()
        assert world.config_pipe not in [str(p.readlink()) for p in (proc / "fd").iterdir()]


def test_its_memory_is_its_own(world):
    """Who is only the same user cannot look into it; the control: into another program he can."""
    host = world.host()
    with world.dial(NAME, host.port) as s:
        ask(s)
    status = pathlib.Path(f"/proc/{world.process.pid}/status").read_text()
    assert "CoreDumping:\t0" in status and "NoNewPrivs:\t1" in status
    # An unprivileged user's own process: one that may be dumped belongs to him under /proc, one that
    # may not to root (proc(5)).
    as_user = ["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups"]
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    owners = []
    for command in (["sleep", "60"], [EGRESS, "--connections-fd", str(b.fileno()), "--config-fd", "0"]):
        with subprocess.Popen(as_user + command, stdin=subprocess.PIPE, pass_fds=(b.fileno(),),
                              stderr=subprocess.DEVNULL) as process:
            memory = pathlib.Path(f"/proc/{process.pid}/mem")
            name = pathlib.Path(command[0]).name[:15]
            comm = pathlib.Path(f"/proc/{process.pid}/comm")
            wait_for(lambda: comm.read_text().strip() == name, what="the program")
            if name != "sleep":
                wait_for(lambda: memory.stat().st_uid == 0, what="the shield")
            owners.append(memory.stat().st_uid)
            process.kill()
    a.close()
    b.close()
    assert owners == [1001, 0]


def test_messages_that_are_wrong(world):
    host = world.host()
    a, b = socket.socketpair()
    with a, b:
        for message in (b"{}", b"no", b"x" * 5000,
                        json.dumps({"name": "*.com", "address": "127.0.0.1", "port": 1}).encode(),
                        json.dumps({"name": NAME, "address": NAME, "port": 1}).encode(),
                        json.dumps({"name": "a b", "address": "127.0.0.1", "port": 1}).encode()):
            socket.send_fds(world.socket, [message], [b.fileno()])
        # What is no stream socket: a file, for which libuv would end the process, and a packet socket.
        sound = json.dumps({"name": NAME, "address": "127.0.0.1", "port": 1}).encode()
        with open(__file__, "rb") as file:
            for odd in file.fileno(), world.socket.fileno():
                socket.send_fds(world.socket, [sound], [odd])
        world.socket.send(json.dumps({"name": NAME, "address": "127.0.0.1", "port": 1}).encode())
        socket.send_fds(world.socket, [b"{}"], [b.fileno(), b.fileno()])
        wait_for(lambda: world.text().count("egress.message") == 10, what="ten complaints")
        assert world.stats()[1] == {"a connection that was handed over wrongly": 10}
    with world.dial(NAME, host.port) as s:
        assert ask(s)[0] == 200


def test_connections_are_bounded(world):
    host = world.host()
    kept = [world.connect(NAME, host.port, tls=False) for _ in range(256)]
    with world.connect(NAME, host.port, tls=False) as one_more:
        assert one_more.recv(1) == b""
    assert world.stats()[1] == {"too many connections to secrets' proxy": 1}
    for s in kept:
        s.close()

    def again():
        with world.connect(NAME, host.port) as s:
            try:
                with world.context().wrap_socket(s, server_hostname=NAME) as t:
                    return ask(t)[0] == 200
            except (OSError, ssl.SSLError):
                return False

    wait_for(again, what="room for another")


@pytest.mark.parametrize("spoil", [
    lambda c: c.update(secrets=[dict(SECRETS[0], value="short")]),
    lambda c: c.update(secrets=[dict(SECRETS[0], value=VALUE + "\r\nX: y")]),
    lambda c: c.update(secrets=[dict(SECRETS[0], hosts=["*.com"])]),
    lambda c: c.update(secrets=[dict(SECRETS[0], hosts=[])]),
    lambda c: c.update(ca={}),
    lambda c: c.update(trust="/nonexistent/trust.pem"),
    lambda c: c["ca"].update(key=c["ca"]["certificate"]),
])
def test_configurations_that_are_wrong(authorities, spoil):
    hosts, ca, _ = authorities
    config = {"ca": {"certificate": ca.pem(), "key": ca.key_pem()}, "secrets": [dict(SECRETS[0])],
              "trust": str(hosts.path)}
    spoil(config)
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        out = subprocess.run([EGRESS, "--connections-fd", str(b.fileno()), "--config-fd", "0"],
                             pass_fds=(b.fileno(),), input=json.dumps(config).encode(),
                             capture_output=True, timeout=60)
    assert out.returncode == 1 and b"egress.failed" in out.stderr
    assert VALUE.encode() not in out.stderr and b"PRIVATE" not in out.stderr
