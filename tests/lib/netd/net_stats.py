# SPDX-License-Identifier: Apache-2.0
"""Reads the file in which netd and egress report their counts and refusals (base/net_stats.h)."""

import socket
import struct

STATS = struct.Struct("<6Q")
REASON = struct.Struct("<Q48s")
REFUSAL = struct.Struct("<QQqIHBx48s256s")
BYTES = STATS.size + REASON.size * 32 + REFUSAL.size * 16


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
    at += 32 * REASON.size
    refusals = []
    for i in range(16):
        seq, count, _, address, port, proto, why, name = REFUSAL.unpack_from(data, at + i * REFUSAL.size)
        if seq:
            refusals.append({"seq": seq, "count": count, "port": port, "proto": proto,
                             "address": socket.inet_ntoa(struct.pack(">I", address)),
                             "why": text(why), "name": text(name)})
    return counters, reasons, sorted(refusals, key=lambda r: -r["seq"])
