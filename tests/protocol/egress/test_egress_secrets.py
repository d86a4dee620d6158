# SPDX-License-Identifier: Apache-2.0
"""Placeholders are replaced by values, masked in answers, and refused for hosts and places that are
not allowed. The control: a client with the value itself reaches the same host.
"""

import base64
import json
import subprocess
import threading

from egress_peer import Lines, answer, ask, read_message
from egress_world import NAME, OTHER, PLACEHOLDER, VALUE, WILD, WILD_VALUE, refused
from egress_world import fixture_authorities, fixture_world  # noqa: F401 (fixtures)


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


def test_body_passes_as_it_is(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        # A conversation may well hold the text of the environment: it is no reason to refuse, and
        # what hosts keep in bodies must never be a value.
        assert ask(s, "/", "POST", body=PLACEHOLDER.encode())[0] == 200
    assert host.requests[0][2] == PLACEHOLDER.encode()


def test_basic_twice(world):
    host = world.host()
    code = base64.b64encode(f"u:{PLACEHOLDER}".encode()).decode()
    with world.dial(NAME, host.port) as s:
        refused(world, s, 400, "-", "Authorization", headers=[("Authorization", f"Basic {code}")] * 2)
    assert not host.requests


# ---- masked

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
    """A value that the request holds in another encoding comes back masked; the control: other
    codes do not."""
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
    """A host returns a stored text that is the beginning of a value. If cubby-egress held it back
    until more comes, a guest could tell right beginnings from wrong ones; it passes, and only the
    bytes that complete a value are masked. The control: a text that is not the beginning passes as
    well."""
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
    """So many bytes of a body in chunks, in any number of chunks."""
    data = b""
    while len(data) < size:
        length = int(raw.readline(), 16)
        data += Lines(raw).read(length)
        assert raw.readline() == b"\r\n"
    return data


def test_echo_is_asked_for_without_compression(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        ask(s, headers=[("Accept-Encoding", "gzip, br")])
    assert [v for n, v in host.requests[0][1] if n == "Accept-Encoding"] == ["identity"]


# ---- refused

def test_elsewhere(world):
    """The placeholder is sent to a host that it is not for; the control: the same request without
    it passes."""
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
