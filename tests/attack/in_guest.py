# SPDX-License-Identifier: Apache-2.0
"""The attacks of a hostile guest, run as root inside it. It is a server: a request is a list of
attempts, [[name of a function here, argument ...] ...], and the answer is the list of their
outcomes.
"""

import ctypes
import errno
import http.server
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import time

LIMIT = 20  # seconds: only what is neither answered nor refused takes so long
GATEWAY = "10.0.2.2"


def name_of(error):
    if isinstance(error, (socket.timeout, BlockingIOError)):
        return "TIME-OUT"
    return errno.errorcode.get(error.errno, repr(error))


def tcp(address, port, send="", wait=True):
    """The outcome of a connection: "reached:" and the other side's first bytes, or the error's name."""
    with socket.socket() as s:
        s.settimeout(LIMIT)
        s.connect((address, port))
        s.sendall(send.encode("latin-1"))
        return "reached:" + (s.recv(4096).decode("latin-1") if wait else "")


def udp(address, port, send="78"):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(LIMIT)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.connect((address, port))
        s.send(bytes.fromhex(send))
        return "reached:" + s.recv(4096).hex()


def connect6(address, port):
    with socket.socket(socket.AF_INET6) as s:
        s.settimeout(LIMIT)
        s.connect((address, port))
        return "reached:"


def fast_open(address, port):
    """Data in the first segment, before an answer could be examined."""
    with socket.socket() as s:
        for option in socket.SO_SNDTIMEO, socket.SO_RCVTIMEO:  # a time-out of Python's does not block
            s.setsockopt(socket.SOL_SOCKET, option, struct.pack("qq", LIMIT, 0))
        s.sendto(b"early", 0x20000000, (address, port))  # MSG_FASTOPEN
        return "reached:" + s.recv(4096).decode("latin-1")


def resolve(name):
    """The IPv4 addresses that the sandbox's resolver returns; none for a name that does not exist."""
    question = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(LIMIT)
        s.connect(("10.0.2.3", 53))
        s.send(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + question)
        answer = s.recv(4096)
    count = struct.unpack(">H", answer[6:8])[0]
    at = 12 + len(question)
    return [socket.inet_ntoa(answer[at + 16 * i + 12:at + 16 * i + 16]) for i in range(count)]


def vsock(cid, port):
    with socket.socket(40, socket.SOCK_STREAM) as s:
        s.settimeout(LIMIT)
        s.connect((cid, port))
        return "reached:"


def ping(number):
    body = struct.pack(">BBHHH", 8, 0, 0, 0xcbb, number)
    total = sum(struct.unpack(">4H", body))
    total = (total & 0xffff) + (total >> 16)
    return body[:2] + struct.pack(">H", ~total & 0xffff) + body[4:]


def is_fence(frame, number):
    return frame[12:14] == b"\x08\0" and frame[23] == 1 and frame[34] == 0 and \
        frame[38:42] == struct.pack(">HH", 0xcbb, number)


def frames(send, fence):
    """Sends frames unchanged. Returns the frames that came before the gateway answered an echo sent
    after them. netd takes frames one after another, so all its own answers are there by then."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind(("eth0", 0))
    with s, socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) as echo:
        s.settimeout(LIMIT)
        unsent = []
        for frame in send:
            try:
                s.send(bytes.fromhex(frame))
            except OSError as e:
                unsent.append(name_of(e))
        echo.sendto(ping(fence), (GATEWAY, 0))
        came = []
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            frame, where = s.recvfrom(70000)
            if where[2] == 4:  # sent by ourselves
                continue
            if is_fence(frame, fence):
                return {"came": came, "unsent": unsent}
            came.append(frame.hex())
        return "TIME-OUT"


def shell(command):
    """Exit code and the output's last 2000 characters."""
    done = subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=60, check=False)
    return f"{done.returncode}:{done.stdout.decode('latin-1')[-2000:]}"


class Ports:
    """The machine's I/O ports: two functions of machine code, as this kernel has no /dev/port."""

    OUT_16, IN_8 = bytes.fromhex("89fa89f066efc3"), bytes.fromhex("89fa31c0ecc3")

    def __init__(self):
        self.page = mmap.mmap(-1, 4096, prot=7)
        self.page.write(self.OUT_16.ljust(64) + self.IN_8)
        self.where = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.libc = ctypes.CDLL(None, use_errno=True)
        if self.libc.ioperm(0x510, 2, 1) != 0:
            raise OSError(ctypes.get_errno(), "ioperm")
        self.write16 = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int)(self.where)
        self.read8 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(self.where + 64)


def firmware():
    """QEMU's configuration device: the files that it offers, and their first bytes."""
    ports = Ports()

    def read(count):
        return bytes(ports.read8(0x511) for _ in range(count))

    ports.write16(0x510, 0)
    if read(4) != b"QEMU":
        return {}
    ports.write16(0x510, 0x19)
    found = [struct.unpack(">IHH56s", read(64)) for _ in range(struct.unpack(">I", read(4))[0])]
    texts = {}
    for size, key, _, name in found:
        ports.write16(0x510, key)
        texts[name.rstrip(b"\0").decode()] = read(min(size, 4096)).decode("latin-1")
    return texts


def run(attempts):
    outcomes = []
    for do, *args in attempts:
        try:
            outcomes.append(globals()[do](*args))
        except OSError as e:
            outcomes.append(name_of(e))
    return outcomes


class Agent(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        attempts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(run(attempts)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Agent).serve_forever()
