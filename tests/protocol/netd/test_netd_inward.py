# SPDX-License-Identifier: Apache-2.0
"""cubby-netd, connections to the guest: CONNECT on the vm.net socket, against the kernel of a
namespace.
"""

import hashlib
import os
import random
import socket
import struct
import threading
import time

import pytest

from netd_guest import ACK, FIN, RST, SYN, Guest, Netd, Wire, ipv4, read_line, tcp, wait_for
from receive import receive

MB = 1 << 20


@pytest.fixture(name="netd")
def fixture_netd(tmp_path):
    netd = Netd(tmp_path, mode="none")
    yield netd
    netd.close()


@pytest.fixture(name="guest", params=[1500, 65520], ids=["mtu1500", "mtu65520"])
def fixture_guest(netd, request):
    guest = Guest(netd, mtu=request.param)
    yield guest
    guest.close()


@pytest.fixture(name="small_guest")
def fixture_small_guest(netd):
    guest = Guest(netd)
    yield guest
    guest.close()


def serve(listener, handler):
    """Calls `handler` with each accepted connection, in a thread, until the listener is closed."""
    def loop():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handler, args=(conn,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
    return listener.getsockname()[1]


def echo(conn):
    with conn:
        while data := conn.recv(65536):
            conn.sendall(data)
        conn.shutdown(socket.SHUT_WR)


def pair(netd, guest):
    """(client's socket, guest's socket) of one connection."""
    with guest.listen() as listener:
        client = netd.open(listener.getsockname()[1])
        conn, peer = listener.accept()
        assert peer[0] == "10.0.2.2"
        conn.settimeout(20)
    return client, conn


def receive_all(s):
    data = bytearray()
    while more := s.recv(MB):
        data += more
    return bytes(data)


# ---- the request

def test_echo(netd, guest):
    with guest.listen() as listener:
        port = serve(listener, echo)
        with netd.open(port) as s:
            s.sendall(b"hello")
            assert receive(s, 5) == b"hello"
            s.shutdown(socket.SHUT_WR)
            assert s.recv(100) == b""


def test_refused_is_exact(netd, small_guest):
    with small_guest.listen() as listener:
        free = listener.getsockname()[1]
    for _ in range(3):
        s, line = netd.dial(free)
        assert line == b"ERR refused\n"
        assert s.recv(1) == b""
        s.close()


def test_bytes_behind_the_line_wait_for_the_guest(netd, small_guest):
    with small_guest.listen() as listener:
        port = serve(listener, echo)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(netd.path)
            s.sendall(b"CONNECT %d\nearly" % port)
            s.shutdown(socket.SHUT_WR)
            assert receive_all(s) == b"OK\nearly"


def test_line_in_pieces(netd, small_guest):
    with small_guest.listen() as listener:
        port = serve(listener, echo)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(netd.path)
            before = netd.status("voluntary_ctxt_switches")
            for c in b"CONNECT %d\n" % port:
                s.sendall(bytes([c]))
                time.sleep(0.01)
            assert read_line(s) == b"OK\n"
            assert netd.status("voluntary_ctxt_switches") - before < 200, "netd spins"


@pytest.mark.parametrize("line", [b"CONNECT 0\n", b"CONNECT 65536\n", b"connect 1\n", b"CONNECT 1 \n",
                                  b"GET / HTTP/1.1\r\n\r\n", b"CONNECT 123456789012345678\n", b"\n"])
def test_bad_request(netd, line):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(netd.path)
        s.sendall(line)
        assert read_line(s) == b"ERR bad-request\n"
        assert s.recv(1) == b""


def test_client_that_leaves_early(netd, small_guest):
    baseline = netd.fds()
    for said in (b"", b"CONN"):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(netd.path)
            s.sendall(said)
    wait_for(lambda: netd.fds() == baseline, what="netd forgot the clients")
    with small_guest.listen() as listener:
        assert netd.open(listener.getsockname()[1])


# ---- bytes

def test_half_close_by_the_client(netd, guest):
    client, conn = pair(netd, guest)
    client.sendall(b"request")
    client.shutdown(socket.SHUT_WR)
    assert receive_all(conn) == b"request"
    conn.sendall(b"answer" * 50000)
    conn.close()
    assert receive_all(client) == b"answer" * 50000


def test_half_close_by_the_guest(netd, guest):
    client, conn = pair(netd, guest)
    conn.sendall(b"greeting")
    conn.shutdown(socket.SHUT_WR)
    assert receive_all(client) == b"greeting"
    threading.Thread(target=lambda: (client.sendall(b"upload" * 50000), client.close())).start()
    assert receive_all(conn) == b"upload" * 50000


def fill(s, limit=64 * MB):
    """Writes until the other side takes no more; returns the number of bytes."""
    s.settimeout(0.5)
    sent = 0
    try:
        while sent < limit:
            sent += s.send(b"z" * 65536)
    except socket.timeout:
        pass
    s.settimeout(20)
    return sent


# How much a unix socket holds is the kernel's business; for some of these sizes the client's is full
# and libslirp has the rest, together with the guest's FIN.
SIZES = range(60000, 300000, 12000)


def send_and_close(conn, size):
    def body():
        conn.sendall(b"q" * size)
        conn.close()
    thread = threading.Thread(target=body)
    thread.start()
    return thread


def test_slow_reader_loses_nothing_when_the_guest_ends_first(netd, small_guest):
    """LAST_ACK, in which libslirp closes as soon as the guest acknowledges the client's FIN."""
    pairs = [pair(netd, small_guest) for _ in SIZES]
    threads = [send_and_close(conn, size) for (_, conn), size in zip(pairs, SIZES)]
    time.sleep(0.5)
    for client, _ in pairs:
        client.shutdown(socket.SHUT_WR)
    time.sleep(0.5)
    assert [len(receive_all(client)) for client, _ in pairs] == list(SIZES)
    for thread in threads:
        thread.join()


def test_slow_reader_loses_nothing_when_the_client_ends_first(netd, small_guest):
    """TIME_WAIT, after which libslirp closes the socket with the bytes that the client has not yet read."""
    pairs = [pair(netd, small_guest) for _ in SIZES]
    for client, conn in pairs:
        client.shutdown(socket.SHUT_WR)
        assert receive_all(conn) == b""
    threads = [send_and_close(conn, size) for (_, conn), size in zip(pairs, SIZES)]
    time.sleep(12)
    assert [len(receive_all(client)) for client, _ in pairs] == list(SIZES)
    for thread in threads:
        thread.join()


def test_back_pressure(netd, guest):
    client, conn = pair(netd, guest)
    to_guest = fill(client)
    to_client = fill(conn)
    assert to_guest < 32 * MB and to_client < 32 * MB, "somebody buffers without end"
    assert netd.status("VmRSS") < 32 * 1024
    client.shutdown(socket.SHUT_WR)
    conn.shutdown(socket.SHUT_WR)
    assert len(receive_all(conn)) == to_guest
    assert len(receive_all(client)) == to_client


def test_both_ways_at_once(netd, guest):
    """Segments then carry data and acknowledgments, which libslirp treats differently."""
    client, conn = pair(netd, guest)
    data = os.urandom(30 * MB)
    threads = [threading.Thread(target=lambda s=s: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
               for s in (client, conn)]
    for thread in threads:
        thread.start()
    got = []
    reader = threading.Thread(target=lambda: got.append(receive_all(conn)))
    reader.start()
    assert receive_all(client) == data
    reader.join()
    assert got == [data]


@pytest.mark.parametrize("direction", ["in", "out"])
def test_hundred_megabytes(netd, guest, direction):
    client, conn = pair(netd, guest)
    source, sink = (client, conn) if direction == "in" else (conn, client)
    block = os.urandom(MB)
    sent, got = hashlib.sha256(), hashlib.sha256()

    def send():
        for i in range(100):
            data = block[i * 1000:] + block[:i * 1000]
            sent.update(data)
            source.sendall(data)
        source.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    start = time.monotonic()
    thread.start()
    while data := sink.recv(MB):
        got.update(data)
    seconds = time.monotonic() - start
    thread.join()
    print(f"{direction}: {100 / seconds:.0f} MiB/s")
    assert got.digest() == sent.digest()
    assert netd.status("VmHWM") < 32 * 1024 or os.environ.get("SAN")


# ---- many, and the end of each

def test_hundred_at_once(netd, guest):
    baseline = netd.fds()
    errors = []
    with guest.listen() as listener:
        port = serve(listener, echo)

        def one(i):
            try:
                data = random.Random(i).randbytes(20000 + i)
                with netd.open(port, timeout=30) as s:
                    threading.Thread(target=s.sendall, args=(data,)).start()
                    got = b""
                    while len(got) < len(data):
                        got += s.recv(65536)
                    assert got == data
            except Exception as e:  # counted below
                errors.append(e)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    wait_for(lambda: netd.fds() == baseline, what="all descriptors are closed")


def test_connections_in_turn_leave_nothing(netd, small_guest):
    baseline = netd.fds()
    with small_guest.listen() as listener:
        port = serve(listener, echo)
        for _ in range(300):
            with netd.open(port) as s:
                s.sendall(b"x")
                assert s.recv(1) == b"x"
    wait_for(lambda: netd.fds() == baseline, seconds=5, what="nothing waits in TIME_WAIT")


def test_guest_resets(netd, small_guest):
    client, conn = pair(netd, small_guest)
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.close()
    assert client.recv(1) == b""


def test_client_vanishes_while_both_send(netd, guest):
    """libslirp has a full buffer and a dead client: it must neither abort nor spin."""
    baseline = netd.fds()
    pairs = [pair(netd, guest) for _ in range(3)]
    for client, conn in pairs:
        fill(client)
        fill(conn)
    for client, conn in pairs:
        client.close()
    for _, conn in pairs:
        try:
            while conn.recv(MB):
                pass
        except ConnectionResetError:
            pass
        conn.close()
    wait_for(lambda: netd.fds() == baseline, what="the connection is gone")
    before = netd.cpu_ticks()
    time.sleep(0.5)
    assert netd.cpu_ticks() - before < 10, "netd spins"


def test_limit(tmp_path):
    netd = Netd(tmp_path, mode="none")
    idle = []
    for _ in range(512):
        s = socket.socket(socket.AF_UNIX)
        s.connect(netd.path)
        idle.append(s)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(netd.path)  # it is answered and closed before it could ask
        assert read_line(s) == b"ERR limit\n"
    for s in idle:
        s.close()
    wait_for(lambda: netd.fds() < 20, what="the clients are forgotten")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(netd.path)
        s.sendall(b"nonsense\n")
        assert read_line(s) == b"ERR bad-request\n"
    netd.peer.close()
    assert netd.process.wait(10) == 0


# ---- against a guest that is spoken by hand

def start_dial(netd, port):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(netd.path)
    s.sendall(b"CONNECT %d\n" % port)
    return s


def test_silence_times_out(netd):
    wire = Wire(netd)
    client = start_dial(netd, 80)
    client.settimeout(40)
    mute = socket.socket(socket.AF_UNIX)
    mute.settimeout(40)
    mute.connect(netd.path)
    syns = [wire.receive_tcp(seconds=30) for _ in range(4)]
    assert len({s[:4] for s in syns}) == 1 and {s[4] for s in syns} == {SYN}
    assert read_line(client) == b"ERR timeout\n"
    assert read_line(mute) == b"ERR timeout\n"
    assert client.recv(1) == b"" and mute.recv(1) == b""
    client.close()
    mute.close()


def test_stale_connection_of_a_restored_guest(netd):
    """The guest takes the SYN for part of an old connection, and is told at once that there is none."""
    wire = Wire(netd)
    client = start_dial(netd, 80)
    sport, dport, seq, _, flags = wire.receive_tcp()
    assert (dport, flags) == (80, SYN)
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 555, 777, ACK)))
    reset = wire.receive_tcp()
    assert reset == (sport, 80, 777, 0, RST)
    again = wire.receive_tcp()
    assert again == (sport, 80, seq, 0, SYN)
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9000, seq + 1, SYN | ACK)))
    assert read_line(client) == b"OK\n"
    client.close()


def test_answers_that_are_none(netd):
    wire = Wire(netd)
    client = start_dial(netd, 80)
    sport, _, seq, _, _ = wire.receive_tcp()
    for port, alias, ack, flags in [(81, sport, seq + 1, SYN | ACK), (80, sport ^ 1, seq + 1, SYN | ACK),
                                    (80, sport, 0, RST), (80, sport, seq + 2, RST | ACK)]:
        wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", port, alias, 9000, ack, flags)))
    client.settimeout(0.3)
    with pytest.raises(socket.timeout):
        client.recv(1)
    client.settimeout(20)
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 0, seq + 1, RST | ACK)))
    assert read_line(client) == b"ERR refused\n"
    client.close()


def test_repeated_syn_ack_loses_nothing(netd):
    """A slow guest answers our first SYN and then its repetition, when bytes are under way."""
    wire = Wire(netd)
    client = start_dial(netd, 80)
    sport, _, seq, _, _ = wire.receive_tcp()
    accept = ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9000, seq + 1, SYN | ACK, mss=1460))
    wire.send(accept)
    assert read_line(client) == b"OK\n"
    data = os.urandom(100000)
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    got = b""
    while len(got) < len(data):
        frame = wire.receive()
        assert frame is not None, "bytes are lost"
        at = struct.unpack(">I", frame[38:42])[0] - (seq + 1) & 0xffffffff
        payload = frame[34 + (frame[46] >> 4) * 4:]
        if at == len(got):
            got += payload
        wire.send(accept)
        wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9001, seq + 1 + len(got), ACK)))
    assert got == data
    client.close()


def test_holes_take_no_memory(netd):
    """Segments behind a hole, each of which libslirp would keep in a buffer of 64 KB."""
    wire = Wire(netd)
    client = start_dial(netd, 80)
    sport, _, seq, _, _ = wire.receive_tcp()
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9000, seq + 1, SYN | ACK)))
    assert read_line(client) == b"OK\n"
    before = netd.status("VmSize")
    for i in range(5000):
        wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9003 + 2 * i, seq + 1, ACK, b"x")))
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9001, seq + 1, ACK, b"done")))
    assert receive(client, 5) == b"donex", "and what was kept behind it, up to the next hole"
    assert netd.status("VmSize") - before < 8 * 1024
    wire.send(ipv4(6, "10.0.2.2", tcp("10.0.2.2", 80, sport, 9006, seq + 1, FIN | ACK)))
    assert client.recv(100) == b""
    client.close()


def test_guest_that_sends_without_end_and_never_receives(netd):
    """A flood of frames that must be answered: the answers wait, and then the guest does."""
    wire = Wire(netd)
    frame = ipv4(6, "10.0.2.2", tcp("10.0.2.2", 1, 2, 3, 4, SYN))
    data = (struct.pack(">I", len(frame)) + frame) * 1000
    netd.peer.settimeout(1)
    sent = 0
    with pytest.raises(socket.timeout):
        while sent < 1 << 28:
            sent += netd.peer.send(data)
    assert netd.status("VmRSS") < 32 * 1024 or os.environ.get("SAN")
    netd.peer.settimeout(20)
    assert wire.receive() is not None
