# SPDX-License-Identifier: Apache-2.0
"""The world that netd sees: a name server, a server on every address, and a guest's questions."""

import socket
import struct
import threading

from receive import receive
from threaded import Threaded

PORT = 8080


def pack_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"


class NameServer:
    """The host's resolver: A records, aliases, and names that it does not answer. Remembers the
    questions and who asked them."""

    def __init__(self, namespace):
        self.records = {}
        self.seen = []
        self.socket = namespace.socket(socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                query, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            if not query:
                return
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            name = ".".join(labels)
            self.seen.append((name, peer, query))
            found = self.records.get(name)
            if found == "silence":
                continue
            answers = b"".join(
                b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(a) for a in found or [])
            flags = 0x8180 if found is not None else 0x8183
            head = query[:2] + struct.pack(">HHHHH", flags, 1, len(found or []), 0, 0)
            self.socket.sendto(head + query[12:at + 5] + answers, peer)

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Echo(Threaded):
    """Answers on PORT of every address of the world, and echoes until the end."""

    def __init__(self, namespace):
        self.ends = []
        super().__init__(namespace.listen("0.0.0.0", PORT))

    def serve(self, connection):
        try:
            while data := connection.recv(4096):
                connection.sendall(data)
            self.ends.append("end")
        except ConnectionResetError:
            self.ends.append("reset")


def reaches(guest, address):
    try:
        with guest.connect(address, PORT, timeout=20) as s:
            s.sendall(b"hi\n")
            return receive(s, 3) == b"hi\n"
    except ConnectionRefusedError:
        return False


def ask(guest, name, kind=1, number=77, timeout=20):
    """(rcode, addresses) in the answer of netd's name service."""
    with guest.socket(socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect(("10.0.2.3", 53))
        question = pack_name(name) + struct.pack(">HH", kind, 1)
        s.send(struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + question)
        answer = s.recv(4096)
    got, flags, _, count, _, _ = struct.unpack(">HHHHHH", answer[:12])
    assert got == number and flags & 0x8000 and answer[12:12 + len(question)] == question
    records = answer[12 + len(question):]
    return flags & 15, [socket.inet_ntoa(records[i * 16 + 12:i * 16 + 16]) for i in range(count)]
