# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a hostile guest: a daemon in a host of its own (a network namespace), and
beyond it a world that has every kind of address. All of it is reachable from that host, so only the
filter can refuse. Needs root. No packet leaves the machine.
"""

import base64
import json
import pathlib
import socket
import struct
import threading

from cubbyd import Shipped, wait_for
from netd_guest import World
from threaded import Threaded

ATTACKER = pathlib.Path(__file__).parents[2] / "attack/in_guest.py"
PORT = 8080
ALL = "0.0.0.0/0"
AGENT = 7000  # where the attacker listens in its sandbox
IP_PKTINFO = 8


class Hello(Threaded):
    """Sends its name to every client that connects to PORT of any address of a namespace, and
    remembers the client's first bytes."""

    def __init__(self, namespace, text, port=PORT):
        self.text = text.encode()
        self.told = []
        super().__init__(namespace.listen("0.0.0.0", port))

    def serve(self, connection):
        connection.sendall(self.text)
        connection.shutdown(socket.SHUT_WR)
        self.told.append(connection.recv(4096))


class UdpHello:
    """Answers each datagram with its name."""

    def __init__(self, namespace, port=PORT):
        self.socket = namespace.socket(socket.SOCK_DGRAM)
        self.socket.bind(("0.0.0.0", port))
        self.socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.told = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                data, where, _, peer = self.socket.recvmsg(4096, 256)
            except OSError:
                return
            if not data:
                return
            self.told.append(data)
            # from the address that was asked, of the many that this host has
            info = struct.pack("I", 0) + where[0][2][8:12] + b"\0" * 4
            self.socket.sendmsg([b"world"], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, peer)

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Capture:
    """Every IPv4 packet that passes a device, in either direction: (protocol, source, destination,
    payload)."""

    def __init__(self, namespace, device):
        self.socket = namespace.run(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((device, 3))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        self.socket.setblocking(False)
        self.seen = []

    def drain(self):
        while True:
            try:
                frame = self.socket.recv(70000)
            except BlockingIOError:
                return self.seen
            if frame[12:14] == b"\x08\0":
                at = 14 + (frame[14] & 15) * 4
                self.seen.append((frame[23], socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34]),
                                  frame[at:]))
            else:
                self.seen.append((None, None, None, frame))

    def close(self):
        self.socket.close()


def to(port):
    """A predicate for captured packets: TCP or UDP to that port."""
    return lambda p: p[0] in (6, 17) and struct.unpack(">H", p[3][2:4])[0] == port


class Field:
    """The world, the daemon in its host, a sandbox that attacks, and a neighbour."""

    def __init__(self, *args, tier, dns=None):
        self.world = World()
        self.daemon = Shipped("--allow-private-network", *args, tier=tier)
        self.resolv = self.daemon.home / "resolv.conf"
        self.resolv.write_text("nameserver 127.0.0.1\n")
        self.daemon.wrap = ["nsenter", f"--net=/run/netns/{self.world.host.name}", "unshare", "--mount", "sh",
                            "-c", f"mount --bind {self.resolv} /etc/resolv.conf && exec \"$@\"", "sh"]
        self.hellos = [Hello(self.world.world, "world"), Hello(self.world.host, "host"),
                       UdpHello(self.world.world), UdpHello(self.world.host)]
        self.names = dns(self.world.host) if dns else None
        self.fences = 0
        self.daemon.start()
        self.attacker = self.sandbox()
        self.neighbour = None

    def sandbox(self, **fields):
        """A sandbox in which root serves attempts (in_guest.py)."""
        made = self.daemon.create(**fields)
        program = base64.b64encode(ATTACKER.read_bytes()).decode()
        assert self.daemon.command(made, f"echo {program} | base64 -d > /root/a.py; nohup python3 /root/a.py {AGENT} "
                                         "> /root/log 2>&1 &", user="root") == (0, b"")
        wait_for(lambda: self.ask(made, []).status == 200, 60, "the attacker is there")
        return made

    def ask(self, made, attempts):
        return self.daemon.through(made["sandboxID"], "POST", "/", json.dumps(attempts).encode(), port=AGENT,
                                   timeout=120)

    def attack(self, *attempts, made=None):
        """The outcomes of attempts, as root in the sandbox."""
        answer = self.ask(made or self.attacker, attempts)
        assert answer.status == 200, answer.body
        return answer.json

    def frames(self, *frames):
        """Sends frames unchanged; returns the frames that came back."""
        self.fences += 1
        (outcome,) = self.attack(["frames", [f.hex() for f in frames], self.fences])
        assert outcome != "TIME-OUT"
        return [bytes.fromhex(f) for f in outcome["came"]]

    def policy(self, made=None, **fields):
        """Removes the network filter of a sandbox, or puts it back."""
        answer = self.daemon.request("PUT", f"/sandboxes/{(made or self.attacker)['sandboxID']}/network", fields)
        assert answer.status in (200, 204), answer.body

    def close(self):
        self.daemon.close()
        for one in [*self.hellos, *([self.names] if self.names else [])]:
            one.close()
        self.world.close()


__all__ = ["ALL", "Capture", "Field", "Hello", "PORT", "to", "wait_for"]
