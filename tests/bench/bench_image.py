# SPDX-License-Identifier: Apache-2.0
"""Measures templates of images: how long `--from` takes for Debian with Python, and whether sandboxes of the result are
as quick as those of the template `default`, in turns.
"""
import contextlib
import os
import pathlib
import subprocess
import time

from bench_common import median_ms, spread_ms
from harness import BIN, TEST_HOME, Home
from oci_image import Layout

CONFIG = {"Env": ["PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"], "WorkingDir": "/srv"}


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class ImageBench:
    FIGURES = ("image",)

    def __init__(self, rounds, work):
        self.rounds, self.work = rounds, pathlib.Path(work)
        self.home = Home()
        (self.home.path / "templates").unlink()
        (self.home.path / "templates").mkdir(mode=0o700)
        (self.home.path / "cache/apt").mkdir(parents=True)
        for package in (TEST_HOME / "cache/apt").glob("*.deb"):
            os.link(package, self.home.path / "cache/apt" / package.name)
        (self.home.path / "templates/default").symlink_to(TEST_HOME / "templates/default")

    def close(self):
        with contextlib.suppress(Exception):
            self.home.stop_daemon()
        self.home.close()

    def _build(self, name, *words):
        subprocess.run([BIN / "cubby", "template", "build", name, *words], env=self.home.env, check=True, timeout=1800,
                       capture_output=True)

    def _first(self, template):
        """Seconds until a sandbox of the template is there, and until its first command has ended."""
        start = time.perf_counter()
        box = self.home.cubby("create", "--template", template).stdout.decode().strip()
        created = time.perf_counter() - start
        self.home.cubby("exec", box, "--", "/bin/bash", "-l", "-c", "echo 1")
        ran = time.perf_counter() - start
        self.home.cubby("kill", box)
        return created, ran

    def image(self):
        archive = self.work / "debian.tar"
        subprocess.run(["mmdebstrap", "-q", "--variant=minbase", "--include=python3,ca-certificates", "bookworm", archive],
                       check=True, timeout=900)
        reference = Layout(self.work / "image").write([archive], CONFIG)
        built = {"warm_kernel_s": round(timed(lambda: self._build("debian-python", "--from", reference)), 1),
                 "minimal_s": round(timed(lambda: self._build("debian-minimal", "--from", reference, "--minimal")), 1)}
        took = {name: {"create": [], "first_command": []} for name in ("default", "debian-python")}
        for _ in range(self.rounds):
            for name, lists in took.items():
                created, ran = self._first(name)
                lists["create"].append(created)
                lists["first_command"].append(ran)
        return {"build": built, "sandboxes": {
            name: {step: {"median_ms": median_ms(times), "spread_ms": spread_ms(times)} for step, times in lists.items()}
            for name, lists in took.items()}}
