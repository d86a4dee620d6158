# SPDX-License-Identifier: Apache-2.0
"""Abuses by which one sandbox tries to take all of a machine: commands that run as root in it, and
figures of the daemon meanwhile.
"""

import base64
import pathlib
import time

from attack_world import PORT

MIB = 1 << 20


def python(text):
    return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d | exec python3 -"


def flood(address):
    return python(f"""
import socket, time
held = []
while True:
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("{address}", {PORT}))
    held.append(s)
    if len(held) > 4000:
        held.clear()
""")


def half_open(address):
    """Sends first segments and never acknowledges the answers."""
    return python(f"""
import itertools, os, socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
eth = bytes.fromhex("52550a000202525400c0bb01") + b"\\x08\\0"
def total(data):
    n = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    n = (n & 0xffff) + (n >> 16)
    return struct.pack(">H", ~((n & 0xffff) + (n >> 16)) & 0xffff)
to = socket.inet_aton("{address}")
me = socket.inet_aton("10.0.2.15")
head = struct.pack(">BBHHHBBH", 0x45, 0, 40, 1, 0, 64, 6, 0) + me + to
head = head[:10] + total(head) + head[12:]
for n in itertools.count():
    tcp = struct.pack(">HHIIBBHHH", 1024 + n % 60000, {PORT}, n & 0xffffffff, 0, 0x50, 2, 64000, 0, 0)
    tcp = tcp[:16] + total(me + to + struct.pack(">BBH", 0, 6, 20) + tcp) + tcp[18:]
    try:
        s.send(eth + head + tcp)
    except OSError:
        pass
""")


# {name: what root runs}; each goes on until its sandbox is killed. FILL is what a disk is filled with.
def abuses(address, fill="300M"):
    return {
        "fork bomb": python("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"),
        "memory hog": "while :; do python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\") * 8000000)'; done",
        "disk filler": f"head -c {fill} /dev/urandom > /fill; sync; while :; do head -c 1M /fill | md5sum > /dev/null; done",
        "CPU burner": "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait",
        "log flood": "yes console > /dev/console & while :; do echo kernel > /dev/kmsg; done & exec yes output",
        "connection flood": flood(address),
        "half-open sockets": half_open(address),
        "frames without end": python("import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
                                     "s.bind(('eth0', 0))\nf = bytes.fromhex('52550a000202525400c0bb010800') + bytes(1400)\n"
                                     "while True:\n    try:\n        s.send(f)\n    except OSError:\n        pass\n"),
    }


def status(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


class Seen:
    """The daemon's size: kB of memory, descriptors, bytes of its log."""

    def __init__(self, daemon):
        self.rss = status(daemon.process.pid, "VmRSS")
        self.fds = daemon.fds()
        self.log = daemon.log.stat().st_size


def answer_ms(daemon, made):
    """How long a command in a sandbox and a request to the daemon take, both with right answers."""
    word = str(time.monotonic_ns())
    started = time.monotonic()
    assert daemon.command(made, f"echo {word}") == (0, word.encode() + b"\n")
    between = time.monotonic()
    assert daemon.request("GET", "/health").status in (200, 204)
    return (between - started) * 1000, (time.monotonic() - between) * 1000
