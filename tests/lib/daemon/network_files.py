# SPDX-License-Identifier: Apache-2.0
"""The files of a sandbox's network: its policy, and the statistics that netd writes."""

import json
import os
import socket
import struct
import time

from net_stats import REASON, REFUSAL, STATS

MAGIC = 0x3173746174737563


def policy(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "policy.json").read_text())


def refusal(seq, why=b"private", address="10.0.0.1", port=5432, proto=6, name=b"", count=1, at=None):
    number = struct.unpack(">I", socket.inet_aton(address))[0]
    at = time.time_ns() if at is None else at
    return REFUSAL.pack(seq, count, at, number, port, proto, why, name)


def write(daemon, sandbox, refusals=(), reasons=(), magic=MAGIC, refused=None, counters=(100, 2, 200, 4),
          name="net.stats"):
    data = STATS.pack(magic, *counters, len(refusals) if refused is None else refused)
    data += b"".join(REASON.pack(count, why) for count, why in reasons).ljust(32 * REASON.size, b"\0")
    data += b"".join(refusals).ljust(16 * REFUSAL.size, b"\0")
    path = daemon.directory(sandbox) / name
    path.with_suffix(".new").write_bytes(data)
    os.rename(path.with_suffix(".new"), path)
