# SPDX-License-Identifier: Apache-2.0
"""Measures both depths of pause through the daemon's API, beside a cold create."""

import statistics
import time

from bench_common import median_ms, spread_ms
from cubbyd import MicroVMs

OWN_MB = 20


class PauseBench:
    FIGURES = ["pause_freeze", "pause_hibernate"]

    def __init__(self, rounds, work):
        del work
        self.rounds = rounds
        self.daemon = MicroVMs("--pool", "off", "--freeze-after", "0", "--hibernate-after", "0")
        self.daemon.start()
        self.connection = self.daemon.connection(120)

    def close(self):
        self.connection.close()
        self.daemon.close()

    # ---- tools
    def post(self, made, what, body):
        """Seconds until the answer, over a connection that stays open."""
        start = time.perf_counter()
        self.connection.request("POST", f"/sandboxes/{made['sandboxID']}/{what}", body,
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        took = time.perf_counter() - start
        if answer.status not in (201, 204):
            raise RuntimeError(f"{what}: {answer.status} {text!r}")
        return took

    def command(self, made, command="echo hi"):
        start = time.perf_counter()
        code, text = self.daemon.command(made, command)
        took = time.perf_counter() - start
        if code != 0:
            raise RuntimeError(f"{command}: {code} {text!r}")
        return took

    def cold(self):
        """Seconds from the request to the first command's output."""
        start = time.perf_counter()
        made = self.daemon.create(timeout=3600)
        self.command(made)
        took = time.perf_counter() - start
        self.daemon.kill(made["sandboxID"])
        return took

    def own_pages(self):
        made = self.daemon.create(timeout=3600)
        self.command(made, f"head -c {OWN_MB}M /dev/urandom >/dev/shm/own")
        return made

    # ---- the figures
    def pause_freeze(self):
        made = self.own_pages()
        pauses, resumes, commands = [], [], []
        for _ in range(self.rounds * 2):
            pauses.append(self.post(made, "pause", b"{}"))
            resumes.append(self.post(made, "connect", b'{"timeout": 3600}'))
            commands.append(self.command(made))
        self.daemon.kill(made["sandboxID"])
        return {"pause_ms": median_ms(pauses), "pause_range_ms": spread_ms(pauses),
                "resume_ms": median_ms(resumes), "resume_range_ms": spread_ms(resumes),
                "command_after_ms": median_ms(commands), "own_mb": OWN_MB, "n": len(pauses)}

    def pause_hibernate(self):
        made = self.own_pages()
        where = self.daemon.directory(made["sandboxID"]) / "image"
        hibernations, wakes, firsts, colds, sizes = [], [], [], [], []
        for _ in range(self.rounds):
            hibernations.append(self.post(made, "pause", b'{"depth": "hibernate"}'))
            sizes.append(sum(f.stat().st_blocks * 512 for f in where.iterdir()) / 1e6)
            start = time.perf_counter()
            wakes.append(self.post(made, "connect", b'{"timeout": 3600}'))
            self.command(made)
            firsts.append(time.perf_counter() - start)
            colds.append(self.cold())
        self.daemon.kill(made["sandboxID"])
        return {"hibernate_ms": median_ms(hibernations), "hibernate_range_ms": spread_ms(hibernations),
                "wake_ms": median_ms(wakes), "wake_to_first_output_ms": median_ms(firsts),
                "range_ms": spread_ms(firsts), "image_mb": round(statistics.median(sizes), 1),
                "baseline": "a cold create to the first command's output, no pool",
                "baseline_ms": median_ms(colds),
                "ratio": round(statistics.median(firsts) / statistics.median(colds), 2),
                "own_mb": OWN_MB, "n": len(wakes)}
