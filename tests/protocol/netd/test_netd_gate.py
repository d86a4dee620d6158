# SPDX-License-Identifier: Apache-2.0
"""cubby-netd's gate: connections to addresses that are open only by name have to show the name.
Real kernels on both sides, and frames by hand. Beside every refusal the same attempt is made under
a policy without the gate, and it gets through. No packet leaves the machine.
"""

import hashlib
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from gate_world import (BY_NAME, OPEN, OTHER, Flow, client_hello, in_records, request, says, serve,
                        wire_and_names)
from gate_world import fixture_start, fixture_world  # noqa: F401 (fixtures)
from netd_guest import ACK, FIN, RST, SYN, wait_for
from receive import receive

ALL = "0.0.0.0/0"
REFUSED = {
    "another server name": (443, [client_hello("evil.example")], "not an allowed name"),
    "no server name": (443, [client_hello(None)], "no server name was shown"),
    "a name of other addresses": (443, [client_hello("b.example")], "not an allowed name"),
    "over many records": (443, [in_records(client_hello("evil.example"), 3)], "not an allowed name"),
    "something else": (443, [b"SSH-2.0-x\r\n"], "no server name was shown"),
    "bytes without sense": (443, [bytes(range(128, 256))], "no server name was shown"),
    "something else, 80": (80, [b"EHLO x\r\n"], "no server name was shown"),
    "another host": (80, [request("evil.example")], "not an allowed name"),
    "an old request": (80, [b"GET / HTTP/1.0\r\n\r\n"], "no server name was shown"),
    "a proxy": (80, [b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"], "CONNECT"),
    "two hosts": (80, [request("a.example", more="Host: evil.example\r\n")], "a second Host"),
    "a host in the target": (80, [request("a.example", "http://evil.example/")], "another host"),
    "a change of protocol": (80, [request("a.example", more="Upgrade: h2c\r\n")], "Upgrade"),
    "HTTP/2 at once": (80, [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], "no server name was shown"),
    "another name where a port is open": (2222, [client_hello("evil.example")], "not an allowed name"),
}


def test_what_is_refused(world, start):
    servers = {port: serve(world, port) for port in (80, 443, 2222)}
    netd, guest = start(BY_NAME)
    for what, (port, pieces, why) in REFUSED.items():
        assert says(guest, world.PUBLIC, port, *pieces) == "reset", what
        refusal = netd.stats()[2][0]
        assert why in refusal["why"] and refusal["port"] == port, (what, refusal)
    wait_for(lambda: all(len(s.got) == s.accepted for s in servers.values()), what="all are over")
    assert all(data == b"" for server in servers.values() for data, _ in server.got), "nothing got out"
    netd.set_policy(OPEN)
    for what, (port, pieces, _) in REFUSED.items():
        assert says(guest, world.PUBLIC, port, *pieces) == b"ok", f"{what}: without the gate it gets out"


def test_what_is_allowed(world, start):
    servers = {port: serve(world, port) for port in (80, 443, 2222)}
    netd, guest = start(BY_NAME)
    hello = client_hello("A.Example")
    for port, pieces in ((443, [hello]), (443, [in_records(hello, 1)]), (443, [hello[:9], hello[9:]]),
                         (443, [hello[i:i + 1] for i in range(len(hello))]),
                         (80, [request("a.example")]),
                         (80, [request("a.example:80")[:7], request("a.example:80")[7:]]),
                         (80, [request("a.example", "http://a.example/x")]),
                         (2222, [b"SSH-2.0-x\r\n"]), (2222, [b"\0\1\2"]),
                         (2222, [client_hello("plain.example")])):
        assert says(guest, world.PUBLIC, port, *pieces) == b"ok", (port, pieces[:3])
        server = servers[port]
        wait_for(lambda: len(server.got) == server.accepted, what="its end")
        assert server.got[-1] == (b"".join(pieces), "end"), "every byte, in order"
    assert netd.stats()[0]["refused"] == 0


def test_reached_hosts(world, start):
    """Each name that was shown and allowed; also that of a later request, and a connection without a word."""
    serve(world, 80)
    serve(world, 443)
    silent_server = serve(world, 2222)
    policy = {"denyOut": [ALL], "allowOut": ["a.example", "b.example", "plain.example:2222"]}
    netd, guest = start(policy)
    assert netd.reached() == [], "questions to the name server are no hosts"
    assert says(guest, world.PUBLIC, 443, client_hello("a.example")) == b"ok"
    assert says(guest, world.PUBLIC, 443, client_hello("a.example")) == b"ok"
    assert says(guest, world.PUBLIC, 443, client_hello("evil.example")) == "reset"
    with guest.connect(world.PUBLIC, 80, timeout=30) as s:
        for name in ("a.example", "b.example"):
            s.sendall(request(name))
            assert receive(s, 2) == b"ok"
    guest.connect(world.PUBLIC, 2222, timeout=30).close()
    wait_for(lambda: silent_server.got, what="the end of the last one")
    wait_for(lambda: len(netd.reached()) == 4, what="the last one")
    assert [(r["name"], r["port"], r["count"]) for r in netd.reached()[1:]] == [
        ("b.example", 80, 1), ("a.example", 80, 1), ("a.example", 443, 2)]
    silent = netd.reached()[0]
    assert silent["count"] == 1 and silent["port"] == 2222 and silent["name"] in ("a.example", "b.example", "plain.example")
    assert all(r["address"] == world.PUBLIC and r["proto"] == 6 for r in netd.reached())
    assert [r["name"] for r in netd.stats()[2]] == ["evil.example"]


def test_a_silent_connection_counts_once(world, start):
    """Also one whose reset comes just behind its end, which the gate may see before or after it judges."""
    serve(world, 2222)
    netd, guest = start({"denyOut": [ALL], "allowOut": ["plain.example:2222"]})
    for _ in range(20):
        s = guest.connect(world.PUBLIC, 2222, timeout=30)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_WR)
        s.close()
    wait_for(lambda: netd.reached() and netd.reached()[0]["count"] >= 20, what="all of them")
    assert netd.reached()[0]["count"] == 20 and len(netd.reached()) == 1


def test_address_of_another_name(world, start):
    """b.example may be reached at OTHER as well, a.example may not."""
    server = serve(world, 443)
    netd, guest = start({"denyOut": [ALL], "allowOut": ["a.example", "b.example"]})
    assert says(guest, OTHER, 443, client_hello("b.example")) == b"ok"
    assert says(guest, OTHER, 443, client_hello("a.example")) == "reset"
    assert netd.stats()[2][0]["why"] == "not an address of that name"
    assert netd.stats()[2][0]["name"] == "a.example"
    wait_for(lambda: len(server.got) == 2, what="both are over")
    assert b"" in [data for data, _ in server.got]


def certificate(directory):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", directory / "k.pem", "-out", directory / "c.pem", "-days", "2",
                    "-subj", "/CN=a.example"], check=True, capture_output=True)
    return directory / "c.pem", directory / "k.pem"


def test_real_tls_and_no_copy_behind_it(world, start, tmp_path):
    """A handshake and megabytes in both directions; afterwards netd uses one descriptor again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))

    def echo(conn):
        with context.wrap_socket(conn, server_side=True) as tls:
            while data := tls.recv(65536):
                tls.sendall(data)

    serve(world, 443, echo)
    netd, guest = start(BY_NAME)
    before = netd.fds()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    with client.wrap_socket(guest.connect(world.PUBLIC, 443, timeout=60), server_hostname="a.example") as s:
        wait_for(lambda: netd.fds() == before + 1, what="the real socket is back")
        block = bytes(range(256)) * 256
        for _ in range(64):
            s.sendall(block)
            got = b""
            while len(got) < len(block):
                got += s.recv(65536)
            assert got == block
    wait_for(lambda: netd.fds() == before, what="all is closed")


def test_later_requests_are_judged(world, start):
    server = serve(world, 80)
    netd, guest = start(BY_NAME)
    evil = request("evil.example")
    body = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n" % len(evil) + evil
    chunks = (b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
              b"%x\r\n" % len(evil) + evil + b"\r\n0\r\n\r\n")
    with guest.connect(world.PUBLIC, 80, timeout=30) as s:
        for piece in (request("a.example"), body, chunks, request("a.example") * 3):
            s.sendall(piece)
            assert s.recv(100), "one connection, many requests, bodies that look like others"
        sent = request("a.example") + body + chunks + request("a.example") * 3
        s.sendall(request("a.example") + evil)
        with pytest.raises(ConnectionResetError):
            while s.recv(100):
                pass
    wait_for(lambda: server.got, what="its end")
    assert server.got[0][0] in (sent, sent + request("a.example")), "the first may have gone, never the second"
    assert netd.stats()[2][0]["name"] == "evil.example"
    head = b"POST / HTTP/1.1\r\nHost: a.example\r\n"
    for smuggled in (head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     head + b"Transfer-Encoding: xchunked\r\n\r\n",
                     head + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
                     head + b"Content-Length : 400\r\n\r\n",
                     request("a.example").replace(b"\r\n\r\n", b"\n\n")):
        assert says(guest, world.PUBLIC, 80, smuggled + evil) == "reset", smuggled
    wait_for(lambda: len(server.got) == server.accepted, what="all are over")
    assert not any(b"Host: evil" in data for data, _ in server.got[1:])


def test_slow_server_of_a_long_request(world, start):
    """A request that waits for the server does not time out, even if a chunk's size is cut in two."""
    go = threading.Event()
    sums = []

    def late(conn):
        go.wait(120)
        total = hashlib.sha256()
        while data := conn.recv(1 << 20):
            total.update(data)
        sums.append(total.hexdigest())

    serve(world, 80, late)
    netd, guest = start(BY_NAME)
    sent = request("a.example", more="Transfer-Encoding: chunked\r\n") + b"000000000000001\r\nx\r\n" * (1 << 20) + b"0\r\n\r\n"
    with guest.connect(world.PUBLIC, 80, timeout=120) as s:
        sender = threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)))
        sender.start()
        sender.join(12)  # longer than a request may take that the guest does not end
        assert sender.is_alive(), "the server takes nothing"
        go.set()
        sender.join()
        assert s.recv(10) == b""
    assert sums == [hashlib.sha256(sent).hexdigest()] and netd.stats()[0]["refused"] == 0


def test_server_that_speaks_first(world, start):
    def banner(conn):
        conn.sendall(b"220 hello\r\n")
        assert receive(conn, 8) == b"EHLO x\r\n"
        conn.sendall(b"250 fine\r\n")
        conn.recv(100)

    serve(world, 2222, banner)
    serve(world, 443, banner)
    _, guest = start(BY_NAME)
    with guest.connect(world.PUBLIC, 2222, timeout=30) as s:
        assert receive(s, 11) == b"220 hello\r\n", "the guest has said nothing yet"
        s.sendall(b"EHLO x\r\n")
        assert receive(s, 10) == b"250 fine\r\n"
    with guest.connect(world.PUBLIC, 443, timeout=30) as s:
        assert receive(s, 11) == b"220 hello\r\n"
        s.sendall(b"EHLO x\r\n")
        with pytest.raises(ConnectionResetError):
            s.recv(100)


def pattern(size):
    return hashlib.shake_128(b"%d" % size).digest(1 << 16) * (size >> 16)


@pytest.mark.parametrize("port,hello", [(2222, b"\0"), (443, client_hello("a.example"))],
                         ids=["nameless", "tls"])
def test_bytes_and_ends_both_ways(world, start, port, hello):
    """Much data in both directions around the moment of the exchange, then each side's end in turn."""
    down, sums = pattern(8 << 20), []

    def exchange(conn):
        sender = threading.Thread(target=conn.sendall, args=(down,))
        sender.start()
        up = hashlib.sha256()
        while data := conn.recv(1 << 20):
            up.update(data)
        sender.join()
        sums.append(up.hexdigest())
        conn.sendall(b"last")

    serve(world, port, exchange)
    netd, guest = start(BY_NAME)
    up = hello + pattern(4 << 20)
    before = netd.fds()
    with guest.connect(world.PUBLIC, port, timeout=120) as s:
        def send():
            s.sendall(up)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        got = hashlib.sha256()
        count = 0
        while data := s.recv(1 << 20):
            got.update(data)
            count += len(data)
        sender.join()
    assert count == len(down) + 4 and got.hexdigest() == hashlib.sha256(down + b"last").hexdigest()
    assert sums == [hashlib.sha256(up).hexdigest()]
    wait_for(lambda: netd.fds() == before, what="all is closed")


def test_end_at_once(world, start):
    """The guest sends all its data and its end before the server answers."""
    server = serve(world, 2222)
    _, guest = start(BY_NAME)
    for _ in range(20):
        with guest.connect(world.PUBLIC, 2222, timeout=30) as s:
            s.sendall(b"all\n")
            s.shutdown(socket.SHUT_WR)
            assert receive(s, 2) == b"ok" and s.recv(10) == b""
        with guest.connect(world.PUBLIC, 2222, timeout=30) as s:
            s.sendall(b"all\n")  # and gone
    wait_for(lambda: len(server.got) == 40, what="every connection ends")
    assert {data for data, _ in server.got} == {b"all\n"}


def test_nothing_said_at_all(world, start):
    server = serve(world, 443)
    _, guest = start(BY_NAME)
    with guest.connect(world.PUBLIC, 443, timeout=30) as s:
        s.shutdown(socket.SHUT_WR)
        assert s.recv(10) == b""
    wait_for(lambda: server.got == [(b"", "end")], what="an end, and nothing else")


def test_resets_go_through(world, start):
    def reset(conn):
        conn.sendall(b"some")
        conn.recv(100)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    serve(world, 2222, reset)
    heard = serve(world, 443)
    netd, guest = start(BY_NAME)
    before = netd.fds()
    with guest.connect(world.PUBLIC, 2222, timeout=30) as s:
        assert receive(s, 4) == b"some"
        s.sendall(b"x\n")
        with pytest.raises(ConnectionResetError):
            s.recv(4)
    with guest.connect(world.PUBLIC, 443, timeout=30) as s:
        s.sendall(client_hello("a.example")[:50])
        wait_for(lambda: heard.accepted == 1, what="a connection")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: heard.got == [(b"", "reset")], what="the guest's reset arrives")
    wait_for(lambda: netd.fds() == before, what="all is closed")


def test_server_that_does_not_read(world, start):
    """The bytes that the guest sends wait in the guest, not in netd."""
    go = threading.Event()
    sums = []

    def late(conn):
        go.wait(120)
        total = hashlib.sha256()
        while data := conn.recv(1 << 20):
            total.update(data)
        sums.append(total.hexdigest())

    serve(world, 2222, late)
    netd, guest = start(BY_NAME)
    data = pattern(32 << 20)
    with guest.connect(world.PUBLIC, 2222, timeout=120) as s:
        s.sendall(b"\0")
        before = netd.status("VmRSS")
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        sender.join(2)
        assert sender.is_alive(), "it is held up"
        assert netd.status("VmRSS") < before + 8192
        go.set()
        sender.join()
        assert s.recv(10) == b""
    assert sums == [hashlib.sha256(b"\0" + data).hexdigest()]


def test_hello_that_never_ends(world, start):
    server = serve(world, 443)
    netd, guest = start(BY_NAME)
    hello = client_hello("a.example")
    with guest.connect(world.PUBLIC, 443, timeout=60) as s:
        s.sendall(hello[:-1])
        with pytest.raises(ConnectionResetError):
            s.recv(10)
    assert "in time" in netd.stats()[2][0]["why"]
    long = hello[:5] + b"\x01\x00\xff\xff" + bytes(20000)
    assert says(guest, world.PUBLIC, 443, long) == "reset", "one of 64 KB"
    assert says(guest, world.PUBLIC, 443, b"GET /" + b"x" * 20000) == "reset"
    wait_for(lambda: [data for data, _ in server.got] == [b""] * 3, what="nothing got out")


def test_new_policy(world, start):
    """A connection's own name decides, even if another name at the same address stays allowed."""
    serve(world, 443)
    serve(world, 80)
    netd, guest = start({"denyOut": [ALL], "allowOut": ["a.example", "b.example"]})
    kept, lost, web, silent = (guest.connect(world.PUBLIC, port, timeout=30) for port in (443, 443, 80, 443))
    kept.sendall(client_hello("b.example"))
    lost.sendall(client_hello("a.example"))
    web.sendall(request("a.example"))
    for s in (kept, lost, web):
        assert receive(s, 2) == b"ok"
    netd.set_policy({"denyOut": [ALL], "allowOut": ["b.example"]})
    for s in (lost, web):
        with pytest.raises(ConnectionResetError):
            s.recv(2)
    kept.sendall(b"more")
    assert receive(kept, 2) == b"ok"
    silent.sendall(client_hello("a.example"))
    with pytest.raises(ConnectionResetError):
        silent.recv(2)
    netd.set_policy({"denyOut": [ALL]})
    with pytest.raises(ConnectionResetError):
        kept.recv(2)
    for s in (kept, lost, web, silent):
        s.close()


def test_what_was_open_to_all_has_shown_no_name(world, start):
    serve(world, 443)
    netd, guest = start(OPEN)
    with guest.connect(world.PUBLIC, 443, timeout=30) as s:
        s.sendall(client_hello("evil.example"))
        assert receive(s, 2) == b"ok"
        netd.set_policy(BY_NAME)
        with pytest.raises(ConnectionResetError):
            s.recv(2)


# ---- frames by hand


def test_data_in_the_syn(world, start):
    server = serve(world, 443)
    netd = start(BY_NAME, with_guest=False)
    wire = wire_and_names(netd, ["a.example"])
    flow = Flow(wire, world.PUBLIC, 4000, 443)
    flow.send(SYN, client_hello("evil.example"))
    assert wire.receive_tcp()[4] & RST
    assert netd.stats()[2][0]["why"] == "data in a SYN"
    Flow(wire, world.PUBLIC, 4001, 443).open()
    wait_for(lambda: server.accepted == 1, what="the other one arrives")


def test_many_that_say_nothing(world, start):
    """More half-open connections than the limit; all are reset, twice in a row, and nothing is left
    behind."""
    serve(world, 443)
    netd = start({**BY_NAME, "limits": {"connectionsPerSecond": 5000}}, with_guest=False)
    wire = wire_and_names(netd, ["a.example"])
    before = netd.fds()
    half = client_hello("a.example")[:100]
    for turn in range(3):
        flows = [Flow(wire, world.PUBLIC, 2000 + turn * 1000 + i, 443) for i in range(600)]
        opened, refused = [], 0
        for i in range(0, 600, 50):
            group = {f.sport: f for f in flows[i:i + 50]}
            for f in group.values():
                f.send(SYN)
            left = set(group)
            while left:
                _, dport, seq, _, flags = wire.receive_tcp()
                if dport not in left:
                    continue
                left.remove(dport)
                if flags & RST:
                    refused += 1
                    continue
                group[dport].ack = seq + 1
                group[dport].send(ACK, half)
                opened.append(group[dport])
        assert (len(opened), refused) == (512, 88)
        assert netd.fds() <= before + 3 * 512
        for f in opened:
            f.send(RST | ACK)
        wait_for(lambda: netd.fds() == before, what="all are gone")
    flow = Flow(wire, world.PUBLIC, 1999, 443).open()
    flow.send(ACK, client_hello("a.example"))
    while wire.receive_tcp()[1] != 1999:
        pass


def test_reset_at_every_moment(world, start):
    """The guest resets the connection while its socket is being exchanged in either direction."""
    serve(world, 443)
    netd = start(BY_NAME, with_guest=False)
    wire = wire_and_names(netd, ["a.example"])
    hello = client_hello("a.example")
    before = netd.fds()
    for i in range(150):
        flow = Flow(wire, world.PUBLIC, 3000 + i, 443)
        if i % 5 == 0:
            flow.open(answer=RST)
            continue
        flow.open()
        if i % 5 == 1:
            flow.send(ACK, hello[:100])
        if i % 5 >= 2:
            flow.send(ACK, hello)
        if i % 5 == 3:
            flow.send(ACK, b"more")
        if i % 5 == 4:
            flow.send(FIN | ACK)
        flow.send(RST | ACK)
    wait_for(lambda: netd.fds() == before, what="nothing is left")
