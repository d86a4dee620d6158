# SPDX-License-Identifier: Apache-2.0
"""Measures a request through an exposed port beside the same request by the host name that getHost
gives.

Machines are processes here, so the figures are the daemon's part: the listener, its checks, the
connection to the guest's port, and the way back.
"""

import http.client
import statistics
import time

from bench_common import median_ms, spread_ms
from cubbyd import Daemon, Guest, read_head

ROUNDS = 25  # for each of --rounds


def serve(connection):
    read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")


class PortsBench:
    FIGURES = ["ports_request"]

    def __init__(self, rounds, work):
        del work
        self.rounds = rounds
        self.daemon = Daemon("--listen", "127.0.0.1:0").start()

    def close(self):
        self.daemon.close()

    def ask(self, port, headers):
        """Seconds for a request on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        start = time.perf_counter()
        connection.request("GET", "/", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - start
        connection.close()
        if body != b"hello\n":
            raise RuntimeError(f"{port}: {answer.status} {body!r}")
        return took

    def ports_request(self):
        with Guest(serve) as guest:
            sandbox = self.daemon.create()["sandboxID"]
            exposed = self.daemon.request("POST", f"/sandboxes/{sandbox}/ports",
                                          {"port": guest.port, "token": True}).json
            url = (self.daemon.home / "cubbyd.url").read_text().strip()
            ways = {"exposed": (exposed["hostPort"], {"X-Access-Token": exposed["token"]}),
                    "by_name": (int(url.rpartition(":")[2]), {"Host": f"{guest.port}-{sandbox}.localhost"})}
            took = {way: [] for way in ways}
            for _ in range(self.rounds * ROUNDS):
                for way, (port, headers) in ways.items():
                    took[way].append(self.ask(port, headers))
        return {"median_ms": median_ms(took["exposed"]), "range_ms": spread_ms(took["exposed"]),
                "baseline": "the same request by its host name, at cubbyd --listen",
                "baseline_ms": median_ms(took["by_name"]),
                "ratio": round(statistics.median(took["exposed"]) / statistics.median(took["by_name"]), 2),
                "n": len(took["exposed"])}
