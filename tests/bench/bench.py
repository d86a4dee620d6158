# SPDX-License-Identifier: Apache-2.0
"""Measures the figures of docs/benchmarks.md and prints them as JSON.

Machines are shared and noisy, so each figure is a median beside a baseline that is measured in the
same run, in turns. Nothing here passes or fails.

    BIN=build/bin TEST=build/test CUBBY_TEST_HOME=build/test-home PYTHONPATH=$(echo tests/lib/* | tr " " :) \
        python tests/bench/bench.py [--rounds N] [--only NAME]
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from bench_build import BuildBench
from bench_density import DensityBench
from bench_elsewhere import ElsewhereBench
from bench_fork import ForkBench
from bench_http import HttpBench
from bench_image import ImageBench
from bench_jail import JailBench
from bench_kernel import KernelBench
from bench_mounts import MountsBench
from bench_network import NetworkBench
from bench_pause import PauseBench
from bench_pool import PoolBench
from bench_ports import PortsBench
from bench_progress import ProgressBench
from bench_sandbox import SandboxBench
from bench_scenario import ScenarioBench
from bench_spares import SparesBench
from bench_tiers import TiersBench

# Only those whose figures are of a pool have one.
os.environ["CUBBY_POOL"] = "off"

PARTS = [SandboxBench, JailBench, NetworkBench, ElsewhereBench, DensityBench, KernelBench, PoolBench, ForkBench,
         PauseBench, TiersBench, SparesBench, ScenarioBench, ProgressBench, PortsBench, HttpBench, BuildBench, ImageBench, MountsBench]


def machine():
    template = pathlib.Path(os.environ["CUBBY_TEST_HOME"]) / "templates/default/template.json"
    return {"cpus": os.cpu_count(), "load": os.getloadavg()[0],
            "template": json.loads(template.read_text()) if template.exists() else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=[f for part in PARTS for f in part.FIGURES], action="append")
    options = parser.parse_args()
    result = {"command": "make bench", "machine": machine()}
    for part in PARTS:
        names = [f for f in part.FIGURES if f in (options.only or part.FIGURES)]
        if not names:
            continue
        with tempfile.TemporaryDirectory(prefix="cubby-bench-") as work:
            bench = part(options.rounds, work)
            try:
                for name in names:
                    result[name] = getattr(bench, name)()
            finally:
                bench.close()
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
