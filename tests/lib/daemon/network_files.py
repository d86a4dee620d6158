# SPDX-License-Identifier: Apache-2.0
"""The files of a sandbox's network: its policy, and the statistics that netd writes."""

import json
import os
import socket
import struct
import time

from net_stats import OLD_BYTES, REASON, REFUSAL, STATS

MAGIC = 0x3173746174737563


def policy(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "policy.json").read_text())


def refusal(seq, why=b"private", address="10.0.0.1", port=5432, proto=6, name=b"", count=1, at=None):
    number = struct.unpack(">I", socket.inet_aton(address))[0]
    at = time.time_ns() if at is None else at
    return REFUSAL.pack(seq, count, at, number, port, proto, why, name)


def contact(seq, name=b"", **more):
    """A host that was reached."""
    return refusal(seq, b"", name=name, **{"address": "93.184.216.34", "port": 443, **more})


def write(daemon, sandbox, refusals=(), reasons=(), magic=MAGIC, refused=None, counters=(100, 2, 200, 4),
          name="net.stats", reached=(), allowed=None):
    """`reached` None: as an older netd, which knows no reached hosts."""
    data = STATS.pack(magic, *counters, len(refusals) if refused is None else refused)
    data += b"".join(REASON.pack(count, why) for count, why in reasons).ljust(32 * REASON.size, b"\0")
    data += b"".join(refusals).ljust(16 * REFUSAL.size, b"\0")
    assert len(data) == OLD_BYTES
    if reached is not None:
        data += struct.pack("<Q", len(reached) if allowed is None else allowed)
        data += b"".join(reached).ljust(32 * REFUSAL.size, b"\0")
    path = daemon.directory(sandbox) / name
    path.with_suffix(".new").write_bytes(data)
    os.rename(path.with_suffix(".new"), path)
