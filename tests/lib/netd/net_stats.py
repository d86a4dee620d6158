# SPDX-License-Identifier: Apache-2.0
"""Reads the file in which netd and egress report their counts, refusals and reached hosts (base/net_stats.h)."""

import socket
import struct

STATS = struct.Struct("<6Q")
REASON = struct.Struct("<Q48s")
REFUSAL = struct.Struct("<QQqIHBx48s256s")
OLD_BYTES = STATS.size + REASON.size * 32 + REFUSAL.size * 16  # without the hosts
BYTES = OLD_BYTES + 8 + REFUSAL.size * 32


def text(field):
    return field.split(b"\0")[0].decode("ascii")


def read_stats(path):
    """(counters, {reason: count}, refusals with the newest first)."""
    with open(path, "rb") as f:
        data = f.read()
    names = ("magic", "received_bytes", "received_packets", "sent_bytes", "sent_packets", "refused")
    counters = dict(zip(names, STATS.unpack_from(data)))
    at = STATS.size
    reasons = {}
    for i in range(32):
        count, why = REASON.unpack_from(data, at + i * REASON.size)
        if count:
            reasons[text(why)] = count
    return counters, reasons, contacts(data, at + 32 * REASON.size, 16)


def contacts(data, at, room):
    found = []
    for i in range(room):
        seq, count, _, address, port, proto, why, name = REFUSAL.unpack_from(data, at + i * REFUSAL.size)
        if seq:
            found.append({"seq": seq, "count": count, "port": port, "proto": proto,
                          "address": socket.inet_ntoa(struct.pack(">I", address)),
                          "why": text(why), "name": text(name)})
    return sorted(found, key=lambda r: -r["seq"])


def read_reached(path):
    """The hosts that were reached, with the newest first."""
    with open(path, "rb") as f:
        return contacts(f.read(), OLD_BYTES + 8, 32)
