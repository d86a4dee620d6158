#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how a sandbox under abuse slows the others down: rows for docs/security.md.

    BIN=build/bin CUBBY_TEST_HOME=build/test-home PYTHONPATH=$(echo tests/lib/* | tr " " :) python tests/bench/bench_abuse.py [NAME...]

For each abuse (tests/lib/drivers/abuse.py): how long a command in another sandbox and a request to
the daemon take, before and during it (median and worst of several), and how much memory the daemon,
netd and QEMU have afterwards.
"""

import os
import statistics
import sys

os.environ["CUBBY_POOL"] = "off"
os.environ.setdefault("TEST", "build/test")

from abuse import Seen, abuses, answer_ms, status
from attack_world import Field, wait_for
from proc import cpu_seconds

ROUNDS = 15


def series(daemon, made):
    both = [answer_ms(daemon, made) for _ in range(ROUNDS)]
    return " | ".join(f"{statistics.median(x):.0f} ({max(x):.0f})" for x in zip(*both))


def measure(field, name, command):
    daemon, bad = field.daemon, field.daemon.create()
    machine, network = daemon.guest_pid(bad), daemon.netd_pid(bad)
    spent = cpu_seconds(machine)
    stream = daemon.open_command(bad, command, user="root")
    wait_for(lambda: cpu_seconds(machine) > spent + 3, 120, "it is at work")
    row = series(daemon, field.attacker)
    seen = Seen(daemon)
    print(f"| {name} | {row} | {seen.rss / 1024:.0f} MB, {seen.fds} | {status(network, 'VmRSS') / 1024:.0f} MB | "
          f"{status(machine, 'VmRSS') / 1024:.0f} MB |", flush=True)
    stream.close()
    daemon.kill(bad["sandboxID"])


def main():
    field = Field(tier="microvm")
    try:
        chosen = sys.argv[1:]
        print("| abuse | a command beside it, ms | the daemon, ms | daemon: memory, descriptors | netd | QEMU |")
        print("|---|---|---|---|---|---|")
        seen = Seen(field.daemon)
        print(f"| none | {series(field.daemon, field.attacker)} | {seen.rss / 1024:.0f} MB, {seen.fds} | | |", flush=True)
        for name, command in abuses(field.world.PUBLIC).items():
            if not chosen or name in chosen:
                measure(field, name, command)
    finally:
        field.close()


main()
