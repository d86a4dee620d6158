# SPDX-License-Identifier: Apache-2.0
"""Frames that a guest's own kernel would not send. Nothing that is refused leaves the sandbox in
any form: the test watches the cable to the world and the host's loopback until an allowed packet,
sent after the refused one, has passed.
"""

import itertools
import secrets
import socket
import struct

import pytest

from attack_world import Capture, Field, PORT, wait_for
from netd_guest import (ACK, FIN, GATEWAY_MAC_BYTES, GUEST_IP, GUEST_MAC_BYTES, RST, SYN, checksum, ipv4, tcp,
                        udp)
from tiers import tier  # noqa: F401

URG = 32
pytestmark = pytest.mark.only_in("microvm", reason="gVisor lets no guest send frames of its own making")
OTHER_MAC = bytes.fromhex("525400c0bb77")
DENIED = "10.9.9.9"
GATEWAY_IP = "10.0.2.2"


@pytest.fixture(scope="module", name="field")
def fixture_field(tier):  # noqa: F811
    field = Field(tier=tier)
    field.numbers = itertools.count(20001)
    field.cable = Capture(field.world.world, "h0")
    field.loopback = Capture(field.world.host, "lo")
    yield field
    field.cable.close()
    field.loopback.close()
    field.close()


def syn(field, address, port=PORT, flags=SYN, **more):
    return ipv4(6, address, tcp(address, next(field.numbers), port, 1, 0, flags, src=more.get("src", GUEST_IP)), **more)


def sent_and_seen(field, *frames):
    """Sends frames, then one that is allowed. Returns the frames that came back to the guest, and
    the packets seen on the cable and on the host's loopback."""
    for capture in field.cable, field.loopback:
        capture.drain()
        capture.seen.clear()
    fence = secrets.token_bytes(16)
    back = field.frames(*frames, ipv4(17, field.world.PUBLIC, udp(next(field.numbers), 9, fence)))
    wait_for(lambda: any(p[3].endswith(fence) for p in field.cable.drain()), 30, "what is allowed has passed")
    seen = [p for p in field.cable.seen if p[0] is None or p[0] != 1 and not p[3].endswith(fence)]
    return back, [p for p in seen if not is_neighbourly(p)], field.loopback.drain()


def is_neighbourly(packet):
    """Whether a packet is one that the two kernels at the cable's ends send each other: ARP, ICMPv6
    and multicast reports."""
    frame = packet[3]
    return packet[0] is None and (frame[12:14] == b"\x08\x06" or
                                  frame[12:14] == b"\x86\xdd" and frame[20] in (0, 58))


def is_reset(frame):
    return frame[12:14] == b"\x08\0" and frame[23] == 6 and frame[47] & RST != 0


def is_prohibited(frame):
    """Of the gateway: a host in the world also says that a port is closed."""
    return (frame[12:14] == b"\x08\0" and frame[23] == 1 and frame[34:36] in (bytes((3, 13)), bytes((3, 3)))
            and socket.inet_ntoa(frame[26:30]) == GATEWAY_IP)


def answers(back):
    """netd's answers to the frames, without its answers to the guest's own kernel."""
    return [f for f in back if is_reset(f) or is_prohibited(f)]


def test_what_is_allowed_passes(field):
    """The control of all tests below: a plain frame to the public address is seen on the cable;
    without the filter, a frame to a refused address is seen there too, and one to the host's
    loopback is seen on the loopback."""
    _, seen, _ = sent_and_seen(field, syn(field, field.world.PUBLIC))
    assert [p[2] for p in seen if p[0] == 6 and p[3][13] == SYN] == [field.world.PUBLIC]
    field.policy(allowOut=[DENIED + "/32", "127.0.0.1/32"])
    try:
        _, seen, inside = sent_and_seen(field, syn(field, DENIED), syn(field, "127.0.0.1", 9))
        assert [p[2] for p in seen if p[0] == 6 and p[3][13] == SYN] == [DENIED]
        assert {p[2] for p in inside if p[0] == 6 and p[3][13] == SYN} == {"127.0.0.1"}
    finally:
        field.policy()


def test_addresses_that_a_kernel_would_not_send_to(field):
    """The host's loopback, this network, reserved addresses: each connection is reset at once."""
    targets = ["127.0.0.1", "127.0.0.53", "0.0.0.0", "240.0.0.1", field.world.HOST_IP, DENIED, "169.254.169.254"]
    back, seen, inside = sent_and_seen(field, *[syn(field, t) for t in targets])
    assert [socket.inet_ntoa(f[26:30]) for f in answers(back)] == targets
    assert seen == [] and inside == []


def test_odd_flags(field):
    """No combination of flags bypasses the check of a connection's target."""
    flags = [SYN | FIN, SYN | RST, SYN | ACK, ACK, FIN, 0, SYN | URG, 0x3f, SYN | 0xc0]
    back, seen, inside = sent_and_seen(field, *[syn(field, a, flags=f) for a in (DENIED, "127.0.0.1") for f in flags])
    assert len(answers(back)) == 2 * len([f for f in flags if not f & RST])
    assert seen == [] and inside == []


def test_spoofed_sources(field):
    public = field.world.PUBLIC
    forged = [syn(field, public, src=s) for s in ("10.0.2.99", "10.0.2.2", "127.0.0.1", public, field.world.HOST_IP,
                                                  "0.0.0.0")]
    forged += [syn(field, public, mac=m) for m in (OTHER_MAC, GATEWAY_MAC_BYTES, b"\xff" * 6)]
    for mac in OTHER_MAC, b"\xff" * 6, GUEST_MAC_BYTES, bytes.fromhex("01005e000001"):
        forged.append(mac + syn(field, public)[6:])
    back, seen, inside = sent_and_seen(field, *forged)
    assert answers(back) == [] and seen == [] and inside == []


def fragments(field, address):
    """A SYN in two fragments: once the second one has the rest of the header, once it overwrites a
    part of the first (RFC 1858)."""
    whole = tcp(address, next(field.numbers), PORT, 1, 0, SYN)
    other = tcp(address, next(field.numbers), PORT, 1, 0, SYN)
    return [ipv4(6, address, whole[:8], flags=0x2000), ipv4(6, address, whole[8:], flags=1),
            ipv4(6, address, other + b"\0" * 4, flags=0x2000), ipv4(6, address, other[8:], flags=1),
            ipv4(17, address, udp(next(field.numbers), PORT, b"x" * 24)[:24], flags=0x2000),
            ipv4(6, address, whole, flags=0x8000)]


def test_fragments(field):
    back, seen, inside = sent_and_seen(field, *[f for a in (DENIED, "127.0.0.1", field.world.PUBLIC)
                                                for f in fragments(field, a)])
    assert answers(back) == [] and seen == [] and inside == []


def test_ip_options(field):
    """Loose and strict source routes by a refused address, record route, an unknown one."""
    hop = socket.inet_aton(DENIED)
    options = [b"\x83\x07\x04" + hop + b"\0", b"\x89\x07\x04" + hop + b"\0", b"\x07\x07\x04" + b"\0" * 5,
               b"\x94\x04\0\0", b"\x99\x04\0\0"]
    back, seen, inside = sent_and_seen(field, *[syn(field, field.world.PUBLIC, options=o) for o in options])
    assert answers(back) == [] and seen == [] and inside == []


def test_other_protocols(field):
    """IPv6 in IPv4, GRE, SCTP, ESP, IPIP with a SYN inside: refused with an ICMP message; none leaves."""
    inner = syn(field, DENIED)[14:]
    back, seen, inside = sent_and_seen(field, *[ipv4(p, field.world.PUBLIC, inner) for p in (41, 47, 132, 50, 4, 2, 255)])
    assert len([f for f in back if is_prohibited(f)]) == 7
    assert seen == [] and inside == []


def with_type(number, payload):
    return GATEWAY_MAC_BYTES + GUEST_MAC_BYTES + struct.pack(">H", number) + payload


def test_other_frames(field):
    """IPv6, one VLAN tag and two, PPPoE, a loopback test frame, and a frame that claims to be IPv4
    and is not."""
    plain = syn(field, DENIED)
    six = struct.pack(">IHBB", 6 << 28, 20, 6, 64) + b"\0" * 10 + b"\xff\xff" + socket.inet_aton(GUEST_IP) + \
        b"\0" * 10 + b"\xff\xff" + socket.inet_aton(DENIED) + plain[34:]
    router = struct.pack(">IHBB", 6 << 28, 8, 58, 255) + bytes.fromhex("fe80" + "00" * 13 + "01" + "ff02" + "00" * 13 + "02") + \
        bytes.fromhex("8500000000000000")
    odd = [with_type(0x86dd, six), with_type(0x86dd, router), with_type(0x8100, b"\0\1\x08\0" + plain[14:]),
           with_type(0x88a8, b"\0\1\x81\0\0\1\x08\0" + plain[14:]), with_type(0x8864, b"\x11\0\0\1" + plain[14:]),
           with_type(0x9000, plain[14:]), with_type(0x0800, six), with_type(len(plain), plain[14:])]
    back, seen, inside = sent_and_seen(field, *odd)
    assert answers(back) == [] and seen == [] and inside == []
    assert not any(f[12:14] == b"\x86\xdd" for f in back)


def test_lies_about_lengths(field):
    """A header whose length field is too small or too large, a wrong checksum, and a right frame
    cut to every size."""
    good = syn(field, field.world.PUBLIC)

    def head(**change):
        h = bytearray(good[14:34])
        for at, value in change.items():
            h[int(at[1:])] = value
        h[10:12] = b"\0\0"
        h[10:12] = struct.pack(">H", checksum(bytes(h)))
        return good[:14] + bytes(h) + good[34:]

    bad = [head(_0=0x44), head(_0=0x4f), head(_0=0x65), head(_2=0xff), head(_3=19), head(_3=39),
           good[:24] + b"\0\0" + good[26:], good[:46] + b"\x40" + good[47:], good[:46] + b"\xf0" + good[47:]]
    bad += [good[:n] for n in range(14, len(good))]
    back, seen, inside = sent_and_seen(field, *bad)
    assert answers(back) == [] and seen == [] and inside == []


def test_jumbo_frames(field):
    """Frames as large as the guest's driver lets root send: the filter holds, and the network works
    afterwards."""
    field.attack(["shell", "ip link set eth0 mtu 9000 || ip link set eth0 mtu 1500"])
    huge = ipv4(17, DENIED, udp(next(field.numbers), PORT, b"j" * 8000))
    back, seen, inside = sent_and_seen(field, huge, ipv4(17, "127.0.0.1", udp(5, PORT, b"j" * 1472)))
    assert seen == [] and inside == [] and len(answers(back)) <= 2
    field.attack(["shell", "ip link set eth0 mtu 1500"])


def arp(operation, sender_mac, sender, target, to=b"\xff" * 6):
    return to + sender_mac + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation) + sender_mac + \
        socket.inet_aton(sender) + b"\0" * 6 + socket.inet_aton(target)


def test_arp(field):
    """Claims to be the gateway, the resolver, another guest: they are ignored, nobody answers for
    other addresses, and connections into the guest go on."""
    lies = [arp(o, m, s, t) for o in (1, 2) for m in (GUEST_MAC_BYTES, OTHER_MAC)
            for s, t in (("10.0.2.2", "10.0.2.2"), ("10.0.2.3", "10.0.2.15"), ("10.0.2.16", "10.0.2.2"),
                         (GUEST_IP, "10.0.2.16"), (GUEST_IP, field.world.HOST_IP), (GUEST_IP, "10.0.2.1"))]
    back, seen, _ = sent_and_seen(field, *lies)
    told = {socket.inet_ntoa(f[28:32]) for f in back if f[12:14] == b"\x08\x06"}
    assert told <= {"10.0.2.2", "10.0.2.3"} and seen == []
    assert field.daemon.command(field.attacker, "echo still here") == (0, b"still here\n")
    # control: a question that is the guest's own is answered
    back, _, _ = sent_and_seen(field, arp(1, GUEST_MAC_BYTES, GUEST_IP, "10.0.2.2"))
    assert any(f[12:14] == b"\x08\x06" and f[28:32] == bytes((10, 0, 2, 2)) for f in back)


def test_dhcp_tftp_and_broadcasts(field):
    """libslirp has servers for these: none is reached, and broadcasts go nowhere."""
    discover = bytes.fromhex("01010600") + b"\1\2\3\4" + b"\0" * 20 + GUEST_MAC_BYTES + b"\0" * 202 + \
        bytes.fromhex("63825363350101ff")
    request = b"\0\1/etc/passwd\0octet\0"
    to_all = [ipv4(17, "255.255.255.255", udp(68, 67, discover), src=s) for s in ("0.0.0.0", GUEST_IP)]
    to_all += [ipv4(17, a, udp(next(field.numbers), PORT, b"all")) for a in ("10.0.2.255", "255.255.255.255",
                                                                           "224.0.0.251", "239.255.255.250")]
    to_us = [ipv4(17, a, udp(68, 67, discover)) for a in ("10.0.2.2", "10.0.2.3")]
    to_us += [ipv4(17, a, udp(next(field.numbers), 69, request)) for a in ("10.0.2.2", "10.0.2.3", "10.0.2.4")]
    back, seen, inside = sent_and_seen(field, *to_all, *to_us)
    assert not any(f[23] == 17 for f in back if f[12:14] == b"\x08\0")
    assert len([f for f in back if is_prohibited(f)]) == len(to_us)
    assert seen == [] and inside == []


def test_icmp(field):
    """An echo to another address is refused with a message; redirects, timestamps and forged errors
    go nowhere."""
    def icmp(kind, code, rest):
        body = bytes((kind, code, 0, 0)) + rest
        return body[:2] + struct.pack(">H", checksum(body)) + body[4:]

    echo = [ipv4(1, a, icmp(8, 0, b"\0\1\0\1")) for a in (field.world.PUBLIC, DENIED, "127.0.0.1")]
    forged = [ipv4(1, field.world.PUBLIC, icmp(k, 1, socket.inet_aton(DENIED) + syn(field, DENIED)[14:42]))
              for k in (0, 3, 5, 11, 13)]
    for capture in field.cable, field.loopback:
        capture.drain()
    field.cable.seen.clear()
    back, _, inside = sent_and_seen(field, *echo, *forged)
    assert len([f for f in back if is_prohibited(f)]) == len(echo)
    assert not any(p[0] == 1 and p[2] == field.world.PUBLIC for p in field.cable.seen) and inside == []


@pytest.mark.only_in("gvisor", reason="a microVM's kernel sends what its root wants, and netd judges it")
def test_no_frame_of_its_own_making(field):
    """gVisor lets nobody open a raw socket, not even root."""
    frame = syn(field, field.world.PUBLIC)
    (outcome,) = field.attack(["frames", [frame.hex()], 1])
    assert outcome == "EPERM" or outcome["unsent"] == ["EPERM"], outcome
    assert field.attack(["tcp", field.world.PUBLIC, PORT]) == ["reached:world"]  # control
