# SPDX-License-Identifier: Apache-2.0
"""cubby-netd on a packet socket, as gVisor's link "fdbased" uses it: a packet is a frame."""

import hashlib
import os
import random
import socket
import threading

import pytest

from netd_guest import GUEST_MAC_BYTES, Guest, Netd, Wire, World, ipv4, tcp, wait_for

FRAME_MAX = 4096 + 65536
PACKETS = socket.SOCK_SEQPACKET


@pytest.fixture(name="netd")
def fixture_netd(tmp_path):
    netd = Netd(tmp_path, mode="none", kind=PACKETS)
    yield netd
    netd.close()


@pytest.fixture(name="guest", params=[1500, 32768, 65520], ids=["mtu1500", "mtu32768", "mtu65520"])
def fixture_guest(netd, request):
    guest = Guest(netd, mtu=request.param)
    yield guest
    guest.close()


def test_frames(netd):
    wire = Wire(netd)
    asked = wire.receive()
    assert asked[:6] == b"\xff" * 6 and asked[12:14] == b"\x08\x06" and len(asked) == 42
    wire.send(b"\xff" * 6 + GUEST_MAC_BYTES + asked[12:22] + GUEST_MAC_BYTES +
              bytes([10, 0, 2, 15]) + bytes(6) + bytes([10, 0, 2, 2]))
    answer = wire.receive()
    assert answer[22:32] == bytes([0x52, 0x55, 10, 0, 2, 2, 10, 0, 2, 2])
    wait_for(lambda: netd.stats()[0]["sent_packets"] == 1, what="the guest's frame is counted")
    counters = netd.stats()[0]
    assert counters["sent_bytes"] == 42 and counters["received_packets"] >= 1


def test_refusals(netd):
    wire = Wire(netd)
    for last in range(1, 4):
        wire.send(ipv4(6, f"169.254.169.{last}", tcp(f"169.254.169.{last}", 1000, 80, 1, 0, 2)))
    seen = [wire.receive_tcp() for _ in range(3)]
    assert all(flags & 4 for *_, flags in seen), "each is reset"
    assert netd.stats()[0]["refused"] == 3


@pytest.mark.parametrize("size", [FRAME_MAX + 1, 150000])
def test_a_frame_that_is_too_long_is_a_failure(tmp_path, size):
    netd = Netd(tmp_path, kind=PACKETS)
    netd.peer.send(bytes(size))
    assert netd.process.wait(10) == 1
    assert f"a frame of {size} bytes: at most {FRAME_MAX} are allowed" in netd.log()
    netd.peer.close()


def test_odd_frames_harm_nobody(netd):
    wire = Wire(netd)
    for size in (1, 13, 14, 33, 60, FRAME_MAX):
        wire.send(bytes(size))
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 1000, 9, 1, 0, 2)))
    assert wire.receive_tcp()[:2] == (9, 1000)


def test_bytes_both_ways(netd, guest):
    """8 MB each way at once: nothing is lost, even when packets have to wait."""
    data = random.Random(1).randbytes(8 << 20)
    with guest.listen() as listener:
        client = netd.open(listener.getsockname()[1])
        conn, _ = listener.accept()
    digests = {}

    def send(s):
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)

    def take(name, s):
        digest = hashlib.sha256()
        while more := s.recv(1 << 16):
            digest.update(more)
        digests[name] = digest.digest()

    threads = [threading.Thread(target=send, args=(s,)) for s in (client, conn)]
    threads += [threading.Thread(target=take, args=pair) for pair in (("client", client), ("guest", conn))]
    for s in (client, conn):
        s.settimeout(60)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert digests == dict.fromkeys(("client", "guest"), hashlib.sha256(data).digest())
    counters = netd.stats()[0]
    assert counters["sent_bytes"] > len(data) and counters["received_bytes"] > len(data)


def test_a_guest_that_takes_nothing_stops_its_senders(netd):
    """The queue for the guest is bounded, and moves on when the guest reads again."""
    wire = Wire(netd)
    clients = []
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(netd.path)
        s.sendall(b"CONNECT 80\n")
        clients.append(s)
    syns = set()
    while len(syns) < 200:
        sport, dport, *_, flags = wire.receive_tcp()
        assert dport == 80 and flags & 2
        syns.add(sport)
    assert netd.status("VmRSS") < 64 * 1024 or os.environ.get("SAN")
    for s in clients:
        s.close()


def test_outward(tmp_path):
    world = World()
    netd = Netd(tmp_path, namespace=world.host, kind=PACKETS)
    guest = Guest(netd, mtu=65520)
    try:
        with world.world.listen(world.PUBLIC) as listener:
            s = guest.connect(world.PUBLIC, listener.getsockname()[1])
            conn, _ = listener.accept()

            def send():
                with conn:
                    conn.sendall(b"x" * 3000000)

            threading.Thread(target=send, daemon=True).start()  # more than the buffers may hold
            got = 0
            while more := s.recv(1 << 16):
                got += len(more)
            assert got == 3000000
        with pytest.raises(ConnectionRefusedError):
            guest.connect("169.254.169.254", 80)
    finally:
        guest.close()
        netd.close()
        world.close()
