# SPDX-License-Identifier: Apache-2.0
"""Connections that cubby-netd ends before their time, in every state in which a guest that writes
its own frames can keep them; and that they cost little while they exist. No packet leaves the
machine.
"""

import os
import socket
import struct

from gate_world import BY_NAME, Flow, client_hello, serve, wire_and_names
from gate_world import fixture_start, fixture_world  # noqa: F401 (fixtures)
from netd_guest import ACK, FIN, RST, SYN, Wire, ipv4, tcp, wait_for

SAN = "asan" in os.environ["BIN"]
HELD = 20


def quiet_server(world, port=443, ends=False):
    """A server that sends nothing, and with `ends` closes at once; returns a list of the ends that
    it sees, "end" or "reset"."""
    told = []

    def hold(conn):
        if ends:
            conn.shutdown(socket.SHUT_WR)
        try:
            conn.recv(100)
            told.append("end")
        except ConnectionResetError:
            told.append("reset")

    serve(world, port, hold)
    return told


def started(netd):
    """The guest's end by hand, after a first exchange, so that netd has opened all its descriptors."""
    wire = Wire(netd)
    assert wire.receive()
    return wire


def send_syn(wire, world, sport, port=443):
    flow = Flow(wire, world.PUBLIC, sport, port)
    flow.send(SYN)
    return flow


def answers(wire, flows, wanted):
    """The first segment of each flow with one of these flags: {source port: (seq, flags)}."""
    got = {}
    while len(got) < len(flows):
        segment = wire.receive_tcp()
        assert segment, f"{len(got)} of {len(flows)}"
        _, port, seq, _, flags = segment
        if port in {f.sport for f in flows} and flags & wanted and port not in got:
            got[port] = (seq, flags)
    return got


def begin(wire, world, count, first=2000, port=443):
    """Begins handshakes that the guest does not finish."""
    flows = [send_syn(wire, world, first + i, port) for i in range(count)]
    got = answers(wire, flows, SYN | RST)
    for f in flows:
        seq, flags = got[f.sport]
        assert flags & SYN, flags
        f.ack = seq + 1
    return flows


def test_handshakes_that_are_cut(world, start):
    told = quiet_server(world)
    netd = start({}, with_guest=False)
    wire = started(netd)
    before = netd.fds()
    flows = begin(wire, world, HELD)
    assert netd.fds() == before + HELD
    netd.set_policy({"internet": False})
    resets = answers(wire, flows, RST)
    assert {p: seq for p, (seq, _) in resets.items()} == {f.sport: f.ack for f in flows}, "a kernel believes them"
    wait_for(lambda: netd.fds() == before and told == ["reset"] * HELD, what="both ends are gone at once")
    netd.set_policy({})
    for f in begin(wire, world, 2, first=3000):
        f.send(ACK)
    wait_for(lambda: netd.fds() == before + 2, what="and others may come")


def test_what_its_server_has_ended_is_cut_as_well(world, start):
    """libslirp no longer reads from these sockets, so it did not notice that they were broken."""
    told = quiet_server(world, ends=True)
    netd = start({}, with_guest=False)
    wire = started(netd)
    before = netd.fds()
    flows = begin(wire, world, HELD)
    for f in flows:
        f.send(ACK)
    for port, (seq, _) in answers(wire, flows, FIN).items():
        flow = next(f for f in flows if f.sport == port)
        flow.ack = seq + 1
        flow.send(ACK)
    netd.set_policy({"internet": False})
    resets = answers(wire, flows, RST)
    assert {p: seq for p, (seq, _) in resets.items()} == {f.sport: f.ack for f in flows}
    wait_for(lambda: netd.fds() == before and told == ["reset"] * HELD, what="both ends are gone at once")


def test_refused_behind_the_servers_end(world, start):
    """The server has ended its side already; the guest still gets the gate's refusal."""
    told = quiet_server(world, ends=True)
    netd = start(BY_NAME, with_guest=False)
    wire = wire_and_names(netd, ["a.example"])
    before = netd.fds()
    flow, = begin(wire, world, 1)
    flow.send(ACK)
    seq, _ = answers(wire, [flow], FIN)[flow.sport]
    flow.ack = seq + 1
    flow.send(ACK, client_hello("evil.example"))
    answers(wire, [flow], RST)
    assert netd.stats()[2][0]["name"] == "evil.example"
    wait_for(lambda: netd.fds() == before and told == ["reset"], what="nothing is left")


def test_guests_that_say_nothing(world, start):
    """Handshakes that do not end, also with a repeated SYN, which libslirp takes for activity; and
    connections that have to show a name and show none. Connections that wait for their server may
    wait."""
    told = quiet_server(world)
    patient = serve(world, 2222)
    netd = start({**BY_NAME, "limits": {"connections": HELD + 2}}, with_guest=False)
    wire = wire_and_names(netd, ["a.example", "plain.example"])
    before = netd.fds()
    waits, silent = begin(wire, world, 1, 4000, 2222) + begin(wire, world, 1, 4001)
    for f in (waits, silent):
        f.send(ACK)
    flows = begin(wire, world, HELD)
    for f in flows[:HELD // 2]:
        f.seq -= 1
        f.send(SYN)
    assert answers(wire, [send_syn(wire, world, 5000)], RST)
    assert netd.stats()[1] == {"too many connections": 1}
    late = answers(wire, flows, RST)
    assert {p: seq for p, (seq, _) in late.items()} == {f.sport: f.ack for f in flows}
    assert answers(wire, [silent], RST)[silent.sport][0] == silent.ack
    wait_for(lambda: told == ["reset"] * (HELD + 1), what="their servers hear of it")
    assert netd.stats()[1] == {"too many connections": 1, "nothing was sent in time": 1,
                               "a handshake that the guest did not end": HELD}
    waits.send(ACK, b"at last\n")
    wait_for(lambda: netd.fds() == before + 1, what="the real socket of the patient one is back")
    waits.send(FIN | ACK)
    wait_for(lambda: patient.got == [(b"at last\n", "end")], what="which lives")
    assert begin(wire, world, HELD, 6000), "and there is room for others"


def frames_of(flow, segments):
    """(offset, data, flags) of one connection, as frames to netd."""
    made = (ipv4(6, flow.address, tcp(flow.address, flow.sport, flow.dport, flow.seq + offset, flow.ack, flags, data))
            for offset, data, flags in segments)
    return b"".join(struct.pack(">I", len(frame)) + frame for frame in made)


def test_memory_behind_a_hole(world, start):
    """libslirp keeps a buffer of 64 KiB for each byte that comes out of order, which makes 512 MB
    of 8,000 bytes. Only some are kept, over all connections together; a guest that then sends the
    missing bytes loses nothing."""
    server = serve(world, 8080)
    netd = start({}, with_guest=False)
    wire = started(netd)
    flows = begin(wire, world, 4, port=8080)
    for f in flows:
        f.send(ACK)
    for f in flows[1:]:
        wire.peer.sendall(frames_of(f, ((2 + 2 * i, b"y", ACK) for i in range(4000))))
        wire.peer.sendall(frames_of(f, ((9000, b"", FIN | ACK) for i in range(4000))))
    whole, first = bytes(range(256)) * 128, flows[0]
    for at in range(0, len(whole), 256):
        wire.peer.sendall(frames_of(first, [(at, whole[at:at + 256], ACK)]))
        while True:
            _, port, _, ack, _ = wire.receive_tcp()
            if port == first.sport and ack == (first.seq + at + 256) & 0xffffffff:
                break
    assert netd.status("VmData") < 200 * 1024 or SAN, "kB"
    first.seq += len(whole)
    for f in flows:
        f.send(FIN | ACK if f is first else RST | ACK)
    wait_for(lambda: (whole, "end") in server.got, what="all of it came")


def test_another_syn_of_the_same_ports_is_another_connection(world, start):
    """libslirp opens a new connection for it if the server ended the last one: it counts against
    the limit."""
    quiet_server(world, ends=True)
    netd = start({"limits": {"connectionsPerSecond": 1}}, with_guest=False)
    wire = started(netd)
    flow, = begin(wire, world, 1)
    flow.send(ACK)
    seq, _ = answers(wire, [flow], FIN)[flow.sport]
    flow.ack = seq + 1
    flow.send(FIN | ACK)
    answers(wire, [flow], ACK)
    others = [Flow(wire, world.PUBLIC, 3000 + i, 443) for i in range(20)]
    again = Flow(wire, world.PUBLIC, flow.sport, 443)
    again.seq = flow.seq + (1 << 24)
    wire.peer.sendall(b"".join(frames_of(f, [(0, b"", SYN)]) for f in (*others, again)))
    _, flags = answers(wire, [again], SYN | RST)[again.sport]
    assert flags & RST, "no more are let in"
    assert netd.stats()[1]["too many new connections"] > 10


def test_memory_under_a_flood(world, start):
    """The largest number of connections, again and again: netd keeps only the memory that they use,
    not the memory that libslirp reserved for them."""
    serve(world, 443)
    netd = start({"limits": {"connectionsPerSecond": 5000}}, with_guest=False)
    wire = started(netd)
    for turn in range(6):
        flows = []
        for group in range(8):
            flows += begin(wire, world, 64, 2000 + 1000 * turn + 64 * group)
        for f in flows:
            f.send(ACK, b"x")
        answers(wire, flows, ACK)
        assert netd.fds() > 512
        for f in flows:
            f.send(RST | ACK)
        wait_for(lambda: netd.fds() < 50, what="all are gone")
    assert netd.status("VmHWM") < 16 * 1024 or SAN, "kB"
