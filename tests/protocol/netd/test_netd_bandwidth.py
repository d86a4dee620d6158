# SPDX-License-Identifier: Apache-2.0
"""Limits of cubby-netd in bytes per second: the rate is near the limit, nothing is lost, and
traffic from the host goes on.
"""

import hashlib
import socket
import threading
import time

from gate_world import fixture_start, fixture_world, serve  # noqa: F401 (fixtures)
from receive import receive

PORT = 8080
RATE = 2_000_000
BYTES = 4 << 20
DATA = hashlib.shake_128(b"bandwidth").digest(1 << 16) * (BYTES >> 16)


def sink(sums):
    def run(conn):
        total = hashlib.sha256()
        while data := conn.recv(1 << 20):
            total.update(data)
        sums.append(total.hexdigest())
        conn.sendall(b"all")

    return run


def upload(guest, address):
    begin = time.monotonic()
    with guest.connect(address, PORT, timeout=170) as s:
        s.sendall(DATA)
        s.shutdown(socket.SHUT_WR)
        assert receive(s, 3) == b"all"
    return time.monotonic() - begin


def download(guest, address):
    begin = time.monotonic()
    total = hashlib.sha256()
    with guest.connect(address, PORT + 1, timeout=170) as s:
        while data := s.recv(1 << 20):
            total.update(data)
    assert total.digest() == hashlib.sha256(DATA).digest()
    return time.monotonic() - begin


# It cannot be faster than the limit lets it. That it is not much slower, the sockets' time-outs say.
LEAST = 0.7 * (BYTES - 300_000) / RATE


def test_each_way_and_both(world, start):
    sums = []
    serve(world, PORT, sink(sums))
    serve(world, PORT + 1, lambda conn: conn.sendall(DATA))
    netd, guest = start({"limits": {"sendBytesPerSecond": RATE, "receiveBytesPerSecond": RATE}})
    assert upload(guest, world.PUBLIC) > LEAST
    assert download(guest, world.PUBLIC) > LEAST
    times = []
    threads = [threading.Thread(target=lambda f=f: times.append(f(guest, world.PUBLIC)))
               for f in (upload, download)]
    for thread in threads:
        thread.start()
    with guest.listen() as listener:  # meanwhile the host gets through
        for _ in range(5):
            client = netd.open(listener.getsockname()[1], timeout=60)
            conn, _ = listener.accept()
            conn.sendall(b"in" * 1000)
            got = b""
            while len(got) < 2000:
                got += client.recv(4096)
            conn.close()
            client.close()
    for thread in threads:
        thread.join()
    assert len(times) == 2 and min(times) > LEAST, "neither holds the other up for good"
    assert sums == [hashlib.sha256(DATA).hexdigest()] * 2
    netd.set_policy({})
    upload(guest, world.PUBLIC)
    netd.set_policy({"limits": {"sendBytesPerSecond": RATE}})
    assert upload(guest, world.PUBLIC) > LEAST, "and back, while it runs"


def test_flood_of_udp_does_not_stop_the_host(world, start):
    """netd drops bytes past the limit, as a full line does; commands still reach the guest."""
    netd, guest = start({"limits": {"sendBytesPerSecond": 10_000}})
    stop = threading.Event()
    flood = guest.socket(socket.SOCK_DGRAM)

    def send():
        while not stop.is_set():
            flood.sendto(bytes(1400), (world.PUBLIC, 9999))

    thread = threading.Thread(target=send)
    thread.start()
    with guest.listen() as listener:
        for _ in range(5):
            client = netd.open(listener.getsockname()[1], timeout=60)
            conn, _ = listener.accept()
            conn.sendall(b"in")
            assert receive(client, 2) == b"in"
            conn.close()
            client.close()
    stop.set()
    thread.join()
    flood.close()
