# SPDX-License-Identifier: Apache-2.0
"""TLS of the HTTP server, with Python's ssl as its peer: versions that it speaks, connections that
it refuses and how, and everything that HTTP does without TLS.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import resource
import socket
import ssl
import struct
import subprocess

import pytest
from cryptography import x509
from harness import wait_for
from tls_pair import make_pair

SERVE = pathlib.Path(os.environ["TEST"]) / "http-serve"
MB = 1 << 20


class Server:
    def __init__(self, *args):
        self.process = subprocess.Popen([SERVE, *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline() or 0)

    def dial(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()

    def stop(self):
        """Ends it by closing its stdin; it must end cleanly. Returns its log."""
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return errors


def context(trusted=None, **options):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.set_alpn_protocols(["http/1.1"])
    if trusted:
        c.load_verify_locations(trusted)
    else:
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    for name, value in options.items():
        setattr(c, name, value)
    return c


class Client:
    """A connection that raises an error of its own for an unclean end."""

    def __init__(self, server, with_context=None):
        self.socket = (with_context or context()).wrap_socket(
            server.dial(), server_hostname="localhost", suppress_ragged_eofs=False)
        self.got = b""

    def send(self, method, path, body=b"", headers=""):
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                            f"{headers}\r\n".encode() + body)

    def until(self, end):
        while end not in self.got:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(self.got)
            self.got += data
        before, _, self.got = self.got.partition(end)
        return before

    def answer(self):
        """Status and body of an answer with a length."""
        head = self.until(b"\r\n\r\n").decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        body = bytearray(self.got[:length])
        self.got = self.got[length:]
        while len(body) < length:
            data = self.socket.recv(min(65536, length - len(body)))
            assert data, "the body is cut short"
            body += data
        return int(head.split()[1]), bytes(body)

    def ask(self, method, path, body=b"", headers=""):
        self.send(method, path, body, headers)
        return self.answer()

    def close(self):
        self.socket.close()


@pytest.fixture(name="pair", scope="module")
def fixture_pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(name="server")
def fixture_server(pair):
    s = Server("--tls", *pair, "--max", "1100")
    yield s
    s.stop()


@pytest.fixture(name="client")
def fixture_client(server):
    with contextlib.closing(Client(server)) as c:
        yield c


def state(server):
    with contextlib.closing(Client(server)) as c:
        return json.loads(c.ask("GET", "/state")[1])


# ---- the handshake


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_and_the_certificate(server, pair, version):
    c = Client(server, context(pair[0], minimum_version=version, maximum_version=version))
    assert c.socket.version() == version.name.replace("_", ".")
    assert c.socket.selected_alpn_protocol() == "http/1.1"
    for _ in range(3):
        status, body = c.ask("GET", "/state")
        assert status == 200 and json.loads(body)["tls"] is True
    c.close()


def refused(server, with_context, *words):
    with pytest.raises(ssl.SSLError) as e:
        Client(server, with_context).ask("GET", "/state")
    assert any(word in str(e.value).lower().replace("_", " ") for word in words), e.value


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_and_ciphers_are_refused(server):
    old = context()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    refused(server, old, "alert protocol version")
    weak = context(maximum_version=ssl.TLSVersion.TLSv1_2)
    weak.set_ciphers("AES128-SHA256:AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA")
    refused(server, weak, "handshake failure")


def test_alpn(server):
    only_h2 = context()
    only_h2.set_alpn_protocols(["h2"])
    refused(server, only_h2, "no application protocol")
    both = context()
    both.set_alpn_protocols(["h2", "http/1.1"])
    c = Client(server, both)
    assert c.socket.selected_alpn_protocol() == "http/1.1"
    c.close()
    c = Client(server, ssl._create_unverified_context())
    assert c.socket.selected_alpn_protocol() is None
    assert c.ask("GET", "/state")[0] == 200
    c.close()


def raw(server, data):
    with server.dial() as s:
        s.sendall(data)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(65536):
                got += piece
        return got


def test_plain_http_is_told(server):
    for method in ("GET", "POST"):
        answer = raw(server, f"{method} /state HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ") and b"this port speaks https" in answer, answer


def test_nonsense_is_closed(server):
    assert raw(server, b"\x16\x03\x01\x00\x05hello")[:1] in (b"\x15", b"")  # an alert
    assert raw(server, bytes(5000))[:1] in (b"\x15", b"")
    assert state(server)["streams"] == 0


def test_the_handshake_has_a_deadline(pair):
    server = Server("--tls", *pair, "--head-ms", "200")
    with server.dial() as silent, server.dial() as slow:
        slow.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert silent.recv(1) == b"" and slow.recv(1) == b""
    server.stop()


# ---- certificates


def failing(*args):
    server = subprocess.run([SERVE, "--tls", *args], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=60)
    assert server.returncode == 1
    return server.stderr


def test_errors_name_the_file(pair, tmp_path):
    certificate, key = pair
    other_key = make_pair(tmp_path / "other")[1]
    locked_key = make_pair(tmp_path / "locked", password=b"x")[1]
    torn = tmp_path / "torn.pem"
    torn.write_bytes(certificate.read_bytes() + certificate.read_bytes()[:200])
    none = tmp_path / "none.pem"
    assert f"{none}: No such file" in failing(none, key)
    assert f"{none}: No such file" in failing(certificate, none)
    assert f"{key} holds no certificate" in failing(key, key)
    assert f"{certificate} holds no private key" in failing(certificate, certificate)
    assert f"{other_key} does not belong to the certificate in {certificate}" in failing(
        certificate, other_key)
    assert f"{locked_key} is encrypted" in failing(certificate, locked_key)
    assert f"{torn} is malformed" in failing(torn, key)


def test_an_expired_certificate_is_warned_of(tmp_path):
    server = Server("--tls", *make_pair(tmp_path, days=-1))
    assert state(server)["tls"]
    assert f"tls.expired certificate={tmp_path}/certificate.pem" in server.stop()


def served_certificate(server):
    c = Client(server)
    certificate = x509.load_der_x509_certificate(c.socket.getpeercert(True))
    c.close()
    return certificate.subject.rfc4514_string()


def test_changed_files_are_read_again(tmp_path):
    certificate, key = make_pair(tmp_path / "used", "one")
    server = Server("--tls", certificate, key)
    old = Client(server)
    assert served_certificate(server) == "CN=one"
    new_certificate, new_key = make_pair(tmp_path / "new", "two")
    new_certificate.replace(certificate)
    assert served_certificate(server) == "CN=one", "the key is still the old one's"
    new_key.replace(key)
    assert served_certificate(server) == "CN=two"
    assert old.ask("GET", "/state")[0] == 200, "who was connected goes on"
    old.close()
    certificate.unlink()
    assert served_certificate(server) == "CN=two"
    said = server.stop()
    assert "tls.reloaded" in said and said.count("tls.not-reloaded") == 2, said


def test_a_rewrite_that_keeps_size_and_date_is_seen(tmp_path):
    certificate, key = make_pair(tmp_path / "used", "one")
    new_certificate, new_key = make_pair(tmp_path / "new", "two")
    pairs = (certificate, new_certificate), (key, new_key)
    for old, new in pairs:  # DER lengths differ by a byte or two: text behind it makes up for that
        for path in old, new:
            path.write_bytes(path.read_bytes().ljust(2000, b"\n"))
    server = Server("--tls", certificate, key)
    assert served_certificate(server) == "CN=one"
    for old, new in pairs:
        before = old.stat()
        with open(old, "r+b") as f:
            f.write(new.read_bytes())
        os.utime(old, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (old.stat().st_size, old.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert served_certificate(server) == "CN=two"
    server.stop()


# ---- what the session says by itself


def openssl():
    """The library that the server uses: Python's module cannot request new keys."""
    lib = ctypes.CDLL("libssl.so.3")
    for name in "TLS_client_method", "SSL_CTX_new", "SSL_new":
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


def test_a_peer_that_asks_for_keys_and_does_not_read(server):
    lib = openssl()
    ctx = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
    ssl_ = ctypes.c_void_p(lib.SSL_new(ctx))
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", server.port))
        lib.SSL_set_fd(ssl_, s.fileno())
        assert lib.SSL_connect(ssl_) == 1
        before = server.resident()
        ended = None
        for i in range(600_000):
            assert lib.SSL_key_update(ssl_, 1) == 1  # SSL_KEY_UPDATE_REQUESTED
            if lib.SSL_do_handshake(ssl_) != 1:
                ended = i
                break
        grown = server.resident() - before
    lib.SSL_free(ssl_)
    lib.SSL_CTX_free(ctx)
    assert ended, f"the server takes it all, and is {grown >> 20} MiB larger"
    assert os.environ.get("SAN") or grown < 4 * MB, (ended, grown)


def test_a_peer_that_asks_for_keys_and_reads(server):
    """Any number of such requests from the other side does this side no harm."""
    lib = openssl()
    ctx = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
    ssl_ = ctypes.c_void_p(lib.SSL_new(ctx))
    request = b"GET /state HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = ctypes.create_string_buffer(16384)
    with server.dial() as s:
        s.setblocking(True)
        lib.SSL_set_fd(ssl_, s.fileno())
        assert lib.SSL_connect(ssl_) == 1
        for _ in range(200):
            for _ in range(200):
                assert lib.SSL_key_update(ssl_, 1) == 1
                assert lib.SSL_do_handshake(ssl_) == 1
            assert lib.SSL_write(ssl_, request, len(request)) == len(request)
            assert lib.SSL_read(ssl_, answer, len(answer)) > 0
            assert answer.raw.startswith(b"HTTP/1.1 200 ")
    lib.SSL_free(ssl_)
    lib.SSL_CTX_free(ctx)


# ---- what is in it


def test_big_bodies(client):
    body = os.urandom(20 * MB)
    status, back = client.ask("POST", "/echo", body)
    assert status == 200 and hashlib.sha256(back).digest() == hashlib.sha256(body).digest()
    status, zeros = client.ask("GET", f"/bytes?n={30 * MB}")
    assert status == 200 and zeros == bytes(30 * MB)


def test_pieces_of_every_size(client):
    for size in (1, 4095, 4096, 16383, 16384, 16385, 65535, 65537):
        body = os.urandom(size)
        assert client.ask("POST", "/echo", body) == (200, body)


def test_pipelined_requests(client):
    for i in range(50):
        client.send("POST", "/echo", str(i).encode())
    assert [int(client.answer()[1]) for _ in range(50)] == list(range(50))


def test_expect_and_byte_by_byte(client):
    for byte in b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n":
        client.socket.sendall(bytes([byte]))
    assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    client.socket.sendall(b"hi")
    assert client.answer() == (200, b"hi")


def test_a_slow_reader_holds_the_writer_up(server, client):
    size = 200 * MB
    client.send("GET", f"/bytes?n={size}")
    client.until(b"\r\n\r\n")
    seen = []

    def is_stuck():
        seen.append(state(server)["written"])
        return len(seen) > 5 and len(set(seen[-5:])) == 1
    wait_for(is_stuck, 60, "the writer stops")
    assert seen[-1] < 40 * MB
    if not os.environ.get("SAN"):
        assert server.resident() < 16 * MB
    got = len(client.got)
    while got < size:
        got += len(client.socket.recv(MB))
    assert got == size


# ---- ends


def test_the_end_is_said(server, client):
    assert client.ask("GET", "/state", headers="Connection: close\r\n")[0] == 200
    assert client.socket.recv(1) == b""  # close_notify: without it this raises
    other = Client(server)
    assert other.ask("GET", "/state")[0] == 200
    assert other.socket.unwrap()  # answered by the server's own close_notify
    other.close()


def test_a_broken_answer_is_not_taken_for_a_whole_one(client):
    client.send("GET", "/break")
    client.until(b"half\r\n")
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        client.socket.recv(1)


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def test_abrupt_ends(server):
    for data in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00" + bytes(100)):
        s = server.dial()
        s.sendall(data)
        reset(s)
    half = Client(server)
    half.socket.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
    reset(half.socket)
    for i, leave in enumerate((reset, lambda s: s.close(), lambda s: s.shutdown(socket.SHUT_WR))):
        c = Client(server)
        c.send("GET", "/sse")
        c.until(b"hello\n\n")
        leave(c.socket)
        wait_for(lambda n=i + 1: state(server)["left"] == n, 30, "the stream's end is noticed")
    assert state(server)["streams"] == 0


# ---- many streams


def test_events_come_at_once(server, client):
    client.send("GET", "/sse")
    client.until(b"data: hello\n\n")
    with contextlib.closing(Client(server)) as teller:
        for i in range(20):
            assert teller.ask("POST", "/tell", f"event {i}".encode())[0] == 202
            client.socket.settimeout(60)
            client.until(f"data: event {i}\n\n".encode())


def test_a_thousand_idle_streams(server):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    shared = context()
    before = server.resident()
    clients = []
    for _ in range(1000):
        c = Client(server, shared)
        c.send("GET", "/sse")
        c.until(b"hello\n\n")
        clients.append(c)
    each = (server.resident() - before) / 1000
    if not os.environ.get("SAN"):
        assert each < 40_000, each
    with contextlib.closing(Client(server, shared)) as teller:
        assert teller.ask("POST", "/tell", b"all")[0] == 202
    for c in clients:
        c.until(b"data: all\n\n")
        c.close()
    wait_for(lambda: state(server)["left"] == 1000, 60, "all ends are noticed")
