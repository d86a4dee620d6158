# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with a cable between them: a backend's, and a client's from which nothing
else can be reached, with a name server of its own. Needs root. No packet leaves the machine.
"""

import pathlib
import shutil
import socket
import struct
import threading

from netd_guest import Namespace, sh

SERVER = "192.168.77.1"
CLIENT = "192.168.77.2"
GUESTS = "192.168.77.{}"  # from 100 on


class BackendNet:
    """names: {suffix: address}; a name with such an ending is answered with that address."""

    def __init__(self, names=None):
        self.server = Namespace()
        self.client = Namespace()
        self.names = names or {}
        self.guests = 99
        sh("ip", "-n", self.server.name, "link", "add", "up0", "type", "veth", "peer", "name", "up0",
           "netns", self.client.name)
        for ns, address in (self.server, SERVER), (self.client, CLIENT):
            ns.ip("address", "add", f"{address}/24", "dev", "up0")
            ns.ip("link", "set", "up0", "up")
        self.etc = pathlib.Path("/etc/netns") / self.client.name
        self.etc.mkdir(parents=True)
        (self.etc / "resolv.conf").write_text(f"nameserver {SERVER}\noptions timeout:5 attempts:3\n")
        (self.etc / "hosts").write_text("127.0.0.1 localhost\n")
        (self.etc / "nsswitch.conf").write_text("hosts: files dns\n")
        self.dns = self.server.socket(socket.SOCK_DGRAM)
        self.dns.bind((SERVER, 53))
        self.thread = threading.Thread(target=self._answer_names, daemon=True)
        self.thread.start()

    def listen(self, port=0, address="0.0.0.0"):
        s = self.server.listen(address, port)
        s.settimeout(None)
        return s

    def add_guest(self):
        """Makes an address of the server's side a guest's from now on."""
        self.guests += 1
        address = GUESTS.format(self.guests)
        self.server.ip("address", "add", f"{address}/32", "dev", "up0")
        return address

    def wrap(self, *words):
        """The command that runs these words in the client's namespace."""
        return ["ip", "netns", "exec", self.client.name, *map(str, words)]

    def _answer_names(self):
        while True:
            try:
                query, peer = self.dns.recvfrom(2048)
                if not query:
                    return  # close() woke us
                self.dns.sendto(self._answer_name(query), peer)
            except OSError:
                return

    def _answer_name(self, query):
        """RFC 1035: the question unchanged, and an A record or "no such name"."""
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        kind = struct.unpack_from(">H", query, at + 1)[0]
        name = ".".join(labels)
        address = next((a for suffix, a in self.names.items() if name.endswith(suffix)), None)
        found = address and kind == 1
        flags = 0x8580 if address else 0x8583
        question = query[12:at + 5]
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(address) if found else b""
        return query[:2] + struct.pack(">HHHHH", flags, 1, 1 if found else 0, 0, 0) + question + record

    def close(self):
        try:
            self.dns.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not connected, which wakes its reader all the same
        self.dns.close()
        self.thread.join(10)
        shutil.rmtree(self.etc, ignore_errors=True)
        self.client.close()
        self.server.close()
