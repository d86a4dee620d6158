# SPDX-License-Identifier: Apache-2.0
"""cubby-netd, connections from the guest. netd runs in its own namespace with a world behind it in
which every address answers, so that a refusal can only be netd's. No packet leaves the machine.
"""

import errno
import socket
import struct
import threading

import pytest

from netd_guest import RST, SYN, Guest, Netd, Wire, World, checksum, ipv4, tcp, udp, wait_for
from netd_world import NameServer
from netd_world import ask as name_of
from receive import receive

PORT = 8080


class Server:
    """TCP and UDP on PORT of every address of a namespace; remembers its clients."""

    def __init__(self, namespace, address="0.0.0.0", port=PORT):
        self.seen = []
        self.listener = namespace.listen(address, port)
        self.datagrams = namespace.socket(socket.SOCK_DGRAM)
        self.datagrams.bind((address, port))
        for loop in (self.accept, self.receive):
            threading.Thread(target=loop, daemon=True).start()

    def accept(self):
        self.listener.settimeout(None)
        while True:
            try:
                conn, peer = self.listener.accept()
            except OSError:
                return
            self.seen.append(("tcp", conn.getsockname()[0], peer))
            conn.sendall(b"hello")
            conn.close()

    def receive(self):
        while True:
            try:
                data, peer = self.datagrams.recvfrom(65536)
            except OSError:
                return
            if peer is None:  # shut down
                return
            self.seen.append(("udp", data, peer))
            try:
                self.datagrams.sendto(b"re:" + data, peer)
            except OSError:
                pass

    def close(self):
        for s in (self.listener, self.datagrams):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


@pytest.fixture(name="world")
def fixture_world():
    world = World()
    world.server = Server(world.world)
    yield world
    world.server.close()
    world.close()


def start(world, tmp_path, mode):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    return Netd(tmp_path, mode=mode, namespace=world.host, resolv_conf=tmp_path / "resolv.conf")


@pytest.fixture(name="netd")
def fixture_netd(world, tmp_path):
    netd = start(world, tmp_path, "public")
    yield netd
    netd.close()


@pytest.fixture(name="guest")
def fixture_guest(netd):
    guest = Guest(netd)
    yield guest
    guest.close()


def fetch(namespace, address, port=PORT):
    with namespace.connect(address, port, timeout=30) as s:
        return s.recv(100)


def ask(namespace, address, data=b"hi", port=PORT, timeout=30):
    with namespace.socket(socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect((address, port))
        s.send(data)
        return s.recv(100)


def assert_denied(guest, address, port=PORT):
    """Refused for TCP and UDP, at once and not by a time-out."""
    with pytest.raises(ConnectionRefusedError):
        fetch(guest, address, port)
    with pytest.raises(OSError) as e:
        ask(guest, address, port=port)
    assert e.value.errno == errno.ECONNREFUSED


def test_public_address(world, guest):
    assert fetch(guest, world.PUBLIC) == b"hello"
    assert ask(guest, world.PUBLIC) == b"re:hi"
    assert ask(guest, world.PUBLIC, b"x" * 1400)[:4] == b"re:x"


def test_port_nobody_listens_on(world, guest):
    with pytest.raises(ConnectionRefusedError):
        fetch(guest, world.PUBLIC, 9)
    with pytest.raises(OSError):
        ask(guest, world.PUBLIC, port=9)


def test_special_addresses(world, netd, guest):
    for address in world.DENIED:
        assert fetch(world.host, address) == b"hello", "the test's world answers there"
    world.server.seen.clear()
    for address in world.DENIED:
        assert_denied(guest, address)
    assert world.server.seen == []
    assert 'dst=169.254.169.254' in netd.log() and 'why="link-local or metadata"' in netd.log()


def test_the_host(world, netd, guest):
    server = Server(world.host)
    try:
        assert fetch(world.host, "127.0.0.1") == b"hello"
        assert fetch(world.world, world.HOST_IP) == b"hello", "the host answers to the world"
        server.seen.clear()
        for address in ("10.0.2.2", "10.0.2.3", world.HOST_IP, "8.8.4.255"):
            assert_denied(guest, address)
        assert server.seen == []
    finally:
        server.close()
    assert 'why="this host"' in netd.log()


def test_host_address_that_comes_later(world, guest):
    world.world.ip("addr", "add", "8.8.8.8/32", "dev", "lo")
    assert fetch(guest, "8.8.8.8") == b"hello"
    world.host.ip("addr", "add", "8.8.8.8/32", "dev", "lo")

    def answers():
        try:
            return fetch(guest, "8.8.8.8") == b"hello"
        except OSError:
            return False

    wait_for(lambda: not answers(), seconds=10, what="the new address is the host's")
    server = Server(world.host)
    assert_denied(guest, "8.8.8.8")
    assert server.seen == []
    server.close()
    world.host.ip("addr", "del", "8.8.8.8/32", "dev", "lo")
    wait_for(answers, seconds=30, what="and is not any more")


def test_any_ip_route_is_the_host(world, tmp_path):
    world.host.ip("route", "add", "local", "9.9.9.0/24", "dev", "lo")
    server = Server(world.host)
    assert fetch(world.host, "9.9.9.9") == b"hello"
    server.seen.clear()
    netd = start(world, tmp_path, "public")
    guest = Guest(netd)
    assert_denied(guest, "9.9.9.9")
    assert server.seen == []
    server.close()
    guest.close()
    netd.close()


def dns_query(name=b"\x01a\x00"):
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)


def test_dns_goes_to_the_hosts_resolver(world, guest):
    resolver = Server(world.host, "127.0.0.1", 53)
    try:
        assert ask(guest, "10.0.2.3", dns_query(), port=53) == b"re:" + dns_query()
        assert fetch(guest, "10.0.2.3", 53) == b"hello"
        with pytest.raises(OSError):
            ask(guest, "10.0.2.3", dns_query(), port=54)
    finally:
        resolver.close()


def test_reached_hosts(world, netd, guest):
    """In the open network a host has the name for which the guest got the address from the resolver."""
    names = NameServer(world.host)
    names.records = {"a.example": [world.PUBLIC], "unused.example": ["8.8.4.5"]}
    try:
        for name, addresses in names.records.items():
            assert name_of(guest, name) == (0, addresses)
        assert netd.reached() == []
        assert fetch(guest, world.PUBLIC) == fetch(guest, world.PUBLIC) == b"hello"
        with guest.socket(socket.SOCK_DGRAM) as s:
            s.settimeout(30)
            s.connect((world.PUBLIC, PORT))
            for _ in range(3):
                s.send(b"hi")
                assert s.recv(100) == b"re:hi"
    finally:
        names.close()
    with pytest.raises(ConnectionRefusedError):
        fetch(guest, world.PUBLIC, 9)
    with pytest.raises(ConnectionRefusedError):
        fetch(guest, world.DENIED[0])
    assert [(r["name"], r["address"], r["port"], r["proto"], r["count"]) for r in netd.reached()] == [
        ("a.example", world.PUBLIC, PORT, 17, 1), ("a.example", world.PUBLIC, PORT, 6, 2)]


def test_many_reached_hosts(world, netd, guest):
    """The newest ones are kept, and all are counted."""
    for port in range(2000, 2040):
        with world.world.listen("0.0.0.0", port) as listener, guest.connect(world.PUBLIC, port, timeout=30):
            listener.accept()[0].close()
    assert [r["port"] for r in netd.reached()] == list(range(2039, 2007, -1))
    assert netd.reached()[0]["seq"] == 40


def test_mode_none(world, tmp_path):
    resolver = Server(world.host, "127.0.0.1", 53)
    netd = start(world, tmp_path, "none")
    guest = Guest(netd)
    for address in (world.PUBLIC, "10.0.2.2", world.HOST_IP, "192.168.77.1"):
        assert_denied(guest, address)
    assert_denied(guest, "10.0.2.3", 53)
    assert world.server.seen == [] and resolver.seen == []
    with guest.listen() as listener:
        client = netd.open(listener.getsockname()[1])
        conn, _ = listener.accept()
        conn.sendall(b"in works")
        assert receive(client, 8) == b"in works"
        conn.close()
        client.close()
    resolver.close()
    guest.close()
    netd.close()


def icmp_echo():
    head = struct.pack(">BBHHH", 8, 0, 0, 77, 1)
    return head[:2] + struct.pack(">H", checksum(head)) + head[4:]


def test_ping(world, netd):
    wire = Wire(netd)
    wire.receive()
    wire.send(ipv4(1, "10.0.2.2", icmp_echo()))
    assert wire.receive()[34] == 0, "the gateway answers"
    wire.send(ipv4(1, world.PUBLIC, icmp_echo()))
    assert wire.receive()[34:36] == b"\x03\x0d", "nobody else may be asked"


def test_spoofed_and_odd_frames_go_nowhere(world, netd):
    wire = Wire(netd)
    data = udp(5000, PORT, b"bad")
    fragment = udp(5000, PORT, b"bad" * 8)
    bad = [
        ipv4(17, world.PUBLIC, data, src="10.0.2.16"),
        ipv4(17, world.PUBLIC, data, src="8.8.4.1"),
        ipv4(17, world.PUBLIC, data, mac=bytes.fromhex("525400c0bb02")),
        ipv4(17, world.PUBLIC, data, options=b"\x83\x07\x04\x0a\x09\x09\x09\x00"),  # source route
        ipv4(17, world.PUBLIC, data, flags=0x2000),
        ipv4(17, world.PUBLIC, fragment[:16], flags=0x2000),
        ipv4(17, world.PUBLIC, fragment[16:], flags=0x0002),
        ipv4(17, world.PUBLIC, data, ethertype=0x86dd),
        ipv4(17, world.PUBLIC, data, ethertype=0x8100),
        ipv4(17, world.PUBLIC, data)[:-1],
        ipv4(17, "255.255.255.255", data),
        ipv4(17, "224.0.0.1", data),
        ipv4(47, world.PUBLIC, data),
        b"",
        b"\0" * 13,
    ]
    for frame in bad:
        wire.send(frame)
    wire.send(ipv4(17, world.PUBLIC, udp(5000, PORT, b"good")))
    wait_for(lambda: world.server.seen, what="the good one arrives")
    assert [s[1] for s in world.server.seen] == [b"good"]
    frames = iter(wire.receive, None)
    assert any(b"re:good" in frame for frame in frames)


def test_answers_from_where_the_guest_may_not_go(world, netd):
    """The host's socket for the guest's UDP port receives from everybody; the guest does not."""
    wire = Wire(netd)
    wire.send(ipv4(17, world.PUBLIC, udp(5000, PORT, b"good")))
    wait_for(lambda: world.server.seen, what="a datagram")
    peer = world.server.seen[0][2]
    for source in ("192.168.77.1", "169.254.169.254"):
        with world.world.socket(socket.SOCK_DGRAM) as s:
            s.bind((source, 0))
            s.sendto(b"evil", peer)
    with world.host.socket(socket.SOCK_DGRAM) as s:
        s.sendto(b"evil", ("127.0.0.1", peer[1]))
    world.server.datagrams.sendto(b"last", peer)
    got = []
    while not got or b"last" not in got[-1]:
        frame = wire.receive()
        assert frame is not None
        got.append(frame)
    assert not any(b"evil" in frame for frame in got)


def test_limit_of_connections(world, netd):
    wire = Wire(netd)
    wire.receive()
    for i in range(600):
        wire.send(ipv4(6, world.PUBLIC, tcp(world.PUBLIC, 2000 + i, PORT, 1, 0, SYN)))
    flags = [wire.receive_tcp()[4] for _ in range(600)]
    assert sum(bool(f & RST) for f in flags) == 600 - 512
    assert "too many connections" in netd.log()
    assert netd.fds() < 512 + 20


def test_limit_of_udp_ports(world, netd):
    wire = Wire(netd)
    for first in range(0, 512, 32):  # no more at once than the server's socket surely holds
        for i in range(first, first + 32):
            wire.send(ipv4(17, world.PUBLIC, udp(2000 + i, PORT, b"x")))
        wait_for(lambda: len(world.server.seen) == first + 32, what=f"{first + 32} ports")
    assert "too many UDP ports" not in netd.log()
    for i in range(512, 600):
        wire.send(ipv4(17, world.PUBLIC, udp(2000 + i, PORT, b"x")))
    wait_for(lambda: "too many UDP ports" in netd.log(), what="the limit")
    wire.send(ipv4(17, world.PUBLIC, udp(2000, PORT, b"old port")))
    wait_for(lambda: any(s[1] == b"old port" for s in world.server.seen), what="an old port works")
    assert len({s[2] for s in world.server.seen}) == 512


def test_refusals_do_not_flood_the_log(netd):
    wire = Wire(netd)
    for i in range(5000):
        wire.send(ipv4(6, "192.168.0.1", tcp("192.168.0.1", 1024 + i, 80, 1, 0, SYN)))
    for _ in range(5000):
        wire.receive_tcp()
    assert 20 <= netd.log().count("outward.refused") < 60


def test_bulk(world, guest):
    """50 MB from the world through netd, so that back-pressure on host sockets is at work."""
    listener = world.world.listen()
    total = 50 << 20

    def send():
        conn, _ = listener.accept()
        block = bytes(1 << 20)
        for _ in range(total >> 20):
            conn.sendall(block)
        conn.close()

    thread = threading.Thread(target=send)
    thread.start()
    with guest.connect(world.PUBLIC, listener.getsockname()[1]) as s:
        got = 0
        while more := len(s.recv(1 << 20)):
            got += more
    thread.join()
    listener.close()
    assert got == total
