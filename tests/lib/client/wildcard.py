# SPDX-License-Identifier: Apache-2.0
"""A network of its own for a client that needs host names: a resolver that knows every name below
one domain, and port 443 of all of them leads to an https server of the test, with its certificate.

The client's program runs in namespaces (tests/lib/client/wildcard_room.py), and this module serves
the sockets that the program finds there. Nothing else can be reached from there.
"""

import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading

ROOM = pathlib.Path(__file__).parent / "wildcard_room.py"
DOMAIN = "cubby.test"


def certificate(where):
    """(certificate, key): paths, for every name directly below DOMAIN, by the recipe that users get."""
    page = (pathlib.Path(__file__).parents[3] / "docs/clients.md").read_text()
    recipe, = re.findall(r"```sh\n\s+(openssl req .*?)```", page, re.DOTALL)
    assert DOMAIN in recipe
    subprocess.run(["sh", "-ec", recipe], cwd=where, check=True, capture_output=True)
    return where / "cert.pem", where / "key.pem"


def answer(query):
    """The answer to a DNS question: 127.0.0.1 for a name below DOMAIN, no address of another kind."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    kind, = struct.unpack(">H", query[at + 1:at + 3])
    known = ".".join(labels).endswith("." + DOMAIN)
    found = known and kind == 1
    head = query[:2] + struct.pack(">HHHHH", 0x8580 if known else 0x8583, 1, int(found), 0, 0)
    record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([127, 0, 0, 1])
    return head + query[12:at + 5] + (record if found else b"")


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was over already


class Wildcard:
    """`wrap`: words to put before the client's command, once; `port`: the server's port on 127.0.0.1."""

    def __init__(self, port, directory):
        self.port = port
        self.ours, theirs = socket.socketpair()
        self.theirs = theirs
        resolv = directory / "resolv.conf"
        resolv.write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:2\n")
        namespaces = ["--net", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
        self.wrap = ["unshare", *namespaces, sys.executable, str(ROOM), str(theirs.fileno()), str(resolv)]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        try:
            _, fds, _, _ = socket.recv_fds(self.ours, 1, 2)
        except OSError:
            return
        if len(fds) == 2:
            names, listener = (socket.socket(fileno=fd) for fd in fds)
            threading.Thread(target=self._names, args=(names,), daemon=True).start()
            self._connections(listener)

    def _names(self, names):
        while True:
            query, peer = names.recvfrom(4096)
            names.sendto(answer(query), peer)

    def _connections(self, listener):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            threading.Thread(target=pump, args=(server, client), daemon=True).start()

    def started(self):
        """To be called after the client has started: closes everything that only the client needs."""
        self.theirs.close()
