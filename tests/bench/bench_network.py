# SPDX-License-Identifier: Apache-2.0
"""Measures netd's policy: the filter's time for a packet, throughput beside a policy whose first
entry allows everything, the cost of a connection that has to show its server's name, a refusal as
the guest sees it, and the time until a change holds. The guest has no virtual machine
(tests/lib/netd/netd_guest.py) and runs in namespaces: needs root.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import threading
import time

from bench_common import median_ms, spread_ms
from cubbyd import MicroVMs
from gate_world import Server, client_hello
from netd_guest import Guest, Netd, World
from netd_world import PORT, Echo, NameServer, ask
from receive import receive

OPEN = {"allowOut": ["0.0.0.0/0"]}
PUBLIC = {"mode": "public"}
FULL = {"mode": "allow", "allow": [f"11.{i}.0.0/16" for i in range(255)] + ["8.8.4.4"],
        "deny": [f"12.{i}.0.0/16" for i in range(255)]}
BULK = 32 << 20


def cpu_ns(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


class NetworkBench:
    FIGURES = ["network"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.work = pathlib.Path(work)
        self.parts = []

    def close(self):
        for part in reversed(self.parts):
            part.close()

    def keep(self, part):
        self.parts.append(part)
        return part

    def download(self, guest, world):
        listener = world.world.listen()

        def serve():
            conn, _ = listener.accept()
            block = bytes(1 << 20)
            for _ in range(BULK >> 20):
                conn.sendall(block)
            conn.close()

        thread = threading.Thread(target=serve)
        thread.start()
        start = time.perf_counter()
        with guest.connect(world.PUBLIC, listener.getsockname()[1]) as s:
            while s.recv(1 << 20):
                pass
        took = time.perf_counter() - start
        thread.join()
        listener.close()
        return took

    def throughput(self, netd, guest, world):
        took = {"open": [], "public": [], "full": []}
        ticks = dict.fromkeys(took, 0)
        for turn in range(3):
            for name, policy in (("open", OPEN), ("public", PUBLIC), ("full", FULL)):
                netd.set_policy(policy)
                before = netd.cpu_ticks()
                took[name].append(self.download(guest, world))
                ticks[name] += netd.cpu_ticks() - before
        hz = os.sysconf("SC_CLK_TCK")
        return {name: {"MB_per_s": round(BULK / 1e6 / statistics.median(values)),
                       "netd_cpu_ms_per_MB": round(ticks[name] * 1000 / hz / (3 * BULK / 1e6), 2)}
                for name, values in took.items()}

    def gated(self, netd, guest, world):
        """The time of a connection until the server has answered the ClientHello: to an address
        that is open, and to one that is open by a name, which has to be shown first; in turns."""
        self.keep(Server(world.world, 443))
        hello = client_hello("a.example")
        policies = {"by_address": {"mode": "allow", "allow": [world.PUBLIC]},
                    "by_name": {"mode": "allow", "allow": ["a.example"]}}
        took = {name: [] for name in policies}
        spent = dict.fromkeys(policies, 0)
        for turn in range(6):
            for name, policy in policies.items():
                netd.set_policy(policy)
                if name == "by_name":
                    assert ask(guest, "a.example") == (0, [world.PUBLIC])
                before = cpu_ns(netd.process.pid)
                for _ in range(2 * self.rounds):
                    with guest.socket() as s:
                        start = time.perf_counter()
                        s.connect((world.PUBLIC, 443))
                        s.sendall(hello)
                        assert receive(s, 2) == b"ok"
                        took[name].append(time.perf_counter() - start)
                spent[name] += cpu_ns(netd.process.pid) - before
        return {name: {"ms": median_ms(values), "from_to": spread_ms(values),
                       "netd_cpu_us": round(spent[name] / 1000 / len(values))} for name, values in took.items()}

    def refused(self, guest, address):
        def datagram(s):
            try:
                s.send(b"x")
                s.recv(1)
            except OSError:
                return

        took = {"TCP": [], "UDP": [], "name": []}
        for _ in range(self.rounds):
            s = guest.socket()
            start = time.perf_counter()
            try:
                s.connect((address, PORT))
            except ConnectionRefusedError:
                took["TCP"].append(time.perf_counter() - start)
            s.close()
            with guest.socket(socket.SOCK_DGRAM) as u:
                u.settimeout(30)
                u.connect((address, PORT))
                start = time.perf_counter()
                datagram(u)
                took["UDP"].append(time.perf_counter() - start)
            start = time.perf_counter()
            assert ask(guest, "not.allowed") == (3, [])
            took["name"].append(time.perf_counter() - start)
        return {name: {"ms": median_ms(values), "from_to": spread_ms(values)} for name, values in took.items()}

    def change(self, netd, guest, world):
        """The time from the line to netd until an open connection is cut, and until a new one gets
        through."""
        cut, opened = [], []
        for _ in range(self.rounds):
            netd.set_policy(PUBLIC)
            s = guest.connect(world.PUBLIC, PORT)
            s.sendall(b"x")
            s.recv(1)
            start = time.perf_counter()
            netd.set_policy({"mode": "none"})
            try:
                s.recv(1)
            except ConnectionResetError:
                cut.append(time.perf_counter() - start)
            s.close()
            fresh = guest.socket()
            start = time.perf_counter()
            netd.set_policy(PUBLIC)
            fresh.connect((world.PUBLIC, PORT))
            opened.append(time.perf_counter() - start)
            fresh.close()
        return {"cut_ms": median_ms(cut), "cut_from_to": spread_ms(cut), "open_ms": median_ms(opened),
                "open_from_to": spread_ms(opened)}

    def put(self):
        """The same change through the daemon, for a sandbox that runs."""
        daemon = self.keep(MicroVMs().start())
        sandbox = daemon.create()["sandboxID"]
        took = []
        for turn in range(self.rounds):
            start = time.perf_counter()
            answer = daemon.request("PUT", f"/sandboxes/{sandbox}/network", {"mode": ("none", "public")[turn % 2]})
            took.append(time.perf_counter() - start)
            assert answer.status == 204
        return {"ms": median_ms(took), "from_to": spread_ms(took)}

    def network(self):
        cost = subprocess.run([pathlib.Path(os.environ["TEST"]) / "filter-cost"], capture_output=True, check=True).stdout
        world = self.keep(World())
        self.keep(Echo(world.world))
        self.keep(NameServer(world.host)).records = {"a.example": [world.PUBLIC]}
        (self.work / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        netd = self.keep(Netd(self.work, namespace=world.host, resolv_conf=self.work / "resolv.conf", policy=PUBLIC))
        guest = self.keep(Guest(netd))
        result = {"filter_ns_per_packet": json.loads(cost), "throughput": self.throughput(netd, guest, world),
                  "gated": self.gated(netd, guest, world)}
        netd.set_policy({"mode": "allow", "allow": ["b.example"]})  # a.example has been resolved, and is open for a while
        result["refused"] = self.refused(guest, world.PUBLIC)
        result["policy_change"] = self.change(netd, guest, world)
        result["put_network"] = self.put()
        return result
