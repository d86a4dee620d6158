# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of netd's gate: servers that record their requests, names, the first bytes of
clients.
"""

import functools
import socket
import ssl
import struct

import pytest

from netd_guest import ACK, FIN, SYN, Guest, Netd, Wire, World, ipv4, tcp
from netd_world import NameServer, ask
from receive import receive
from threaded import Threaded

OTHER = "9.9.9.9"  # public, and the world's
BY_NAME = {"denyOut": ["0.0.0.0/0"], "allowOut": ["a.example", "plain.example:2222"]}
OPEN = {}


class Server(Threaded):
    """A server that only keeps the bytes it receives, unless it is given its own `serve`."""

    def __init__(self, namespace, port, serve_one=None):
        self.got = []  # (bytes, "end" or "reset") of each connection that is over
        self.serve_one = serve_one or self.record
        super().__init__(namespace.listen("0.0.0.0", port))

    def serve(self, connection):
        self.serve_one(connection)

    def record(self, conn):
        """Answers "ok" to each piece, until the end."""
        data = b""
        try:
            while more := conn.recv(65536):
                data += more
                conn.sendall(b"ok")
            self.got.append((data, "end"))
        except OSError:
            self.got.append((data, "reset"))


@pytest.fixture(name="world")
def fixture_world():
    world = World()
    world.world.ip("addr", "add", OTHER + "/32", "dev", "lo")
    world.names = NameServer(world.host)
    world.names.records = {"a.example": [world.PUBLIC], "b.example": [world.PUBLIC, OTHER],
                           "plain.example": [world.PUBLIC]}
    world.servers = []
    yield world
    for server in world.servers:
        server.close()
    world.names.close()
    world.close()


@pytest.fixture(name="start")
def fixture_start(world, tmp_path):
    """start(policy) -> (netd, guest), with its names resolved; without a guest only netd."""
    open_ones = []

    def start(policy, with_guest=True, **options):
        directory = tmp_path / f"n{len(open_ones)}"
        directory.mkdir()
        (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        netd = Netd(directory, namespace=world.host, resolv_conf=directory / "resolv.conf",
                    policy=policy, **options)
        open_ones.append(netd)
        if not with_guest:
            return netd
        guest = Guest(netd)
        open_ones.append(guest)
        for rule in policy.get("allowOut", []):
            ask(guest, rule.split(":")[0])
        return netd, guest

    yield start
    for one in reversed(open_ones):
        one.close()


class Egress:
    """cubby-egress's end, by hand."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(30)

    def take(self):
        message, fds, _, _ = socket.recv_fds(self.ours, 4096, 1)
        guest = socket.socket(fileno=fds[0])
        guest.settimeout(30)
        return message.decode(), guest

    def close(self):
        self.ours.close()
        self.theirs.close()


@pytest.fixture(name="egress")
def fixture_egress():
    egress = Egress()
    yield egress
    egress.close()


def serve(world, port, function=None):
    world.servers.append(Server(world.world, port, function))
    return world.servers[-1]


# ---- what clients say


@functools.cache
def client_hello(name):
    """As Python's ssl makes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def in_records(hello, size):
    message = hello[5:]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(message[i:i + size])) + message[i:i + size]
                    for i in range(0, len(message), size))


def request(host, target="/", more=""):
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def says(guest, address, port, *pieces):
    """Send these pieces and return the first answer; "reset" for a reset."""
    with guest.connect(address, port, timeout=30) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                s.sendall(piece)
            return receive(s, 2)
        except (ConnectionResetError, BrokenPipeError):
            return "reset"


# ---- by hand


class Flow:
    """A TCP connection of the guest, written segment by segment."""

    def __init__(self, wire, address, sport, dport):
        self.wire, self.address, self.sport, self.dport = wire, address, sport, dport
        self.seq, self.ack = 1000, 0

    def send(self, flags, data=b""):
        self.wire.send(ipv4(6, self.address, tcp(self.address, self.sport, self.dport, self.seq,
                                                 self.ack, flags, data)))
        self.seq += len(data) + bool(flags & (SYN | FIN))

    def open(self, answer=ACK):
        self.send(SYN)
        while True:
            _, dport, seq, _, flags = self.wire.receive_tcp()
            if dport == self.sport:
                assert flags & (SYN | ACK) == SYN | ACK, flags
                self.ack = seq + 1
                self.send(answer)
                return self


def wire_and_names(netd, names):
    """The guest's end by hand, after these names have been resolved."""
    wire = Wire(netd)
    for i, name in enumerate(names):
        question = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0" + b"\0\1\0\1"
        data = struct.pack(">HHHHHH", i, 0x100, 1, 0, 0, 0) + question
        wire.send(ipv4(17, "10.0.2.3", struct.pack(">HHHH", 5353, 53, 8 + len(data), 0) + data))
        while (wire.receive() or b"")[23:24] != b"\x11":
            pass
    return wire
