# SPDX-License-Identifier: Apache-2.0
"""Measures builds from a three-step Dockerfile: the first, an unchanged one, and one whose last step changed.

`buildah bud --isolation chroot` builds the same steps in the same run. Its base is an image of busybox, and it
makes an image. Cubby's base is the template of the tests, and it makes a template: it boots, warms and saves a
machine after the last step. So the time of the steps alone is a figure of its own.
"""

import json
import pathlib
import shutil
import subprocess
import tarfile
import time

from bench_common import BIN
from harness import TEST_HOME, Home

STEPS = "FROM default\nRUN echo one >/one\nCOPY data /data\nRUN cat /one /data/file; echo {last}\n"


class BuildBench:
    FIGURES = ["dockerfile_build"]

    def __init__(self, rounds, work):
        self.state = Home()
        (self.state.path / "templates").unlink()
        (self.state.path / "templates").mkdir()
        (self.state.path / "templates" / "default").symlink_to(TEST_HOME / "templates" / "default")
        self.work = pathlib.Path(work)
        self.context = self.work / "context"
        (self.context / "data").mkdir(parents=True)
        (self.context / "data" / "file").write_text("data\n")
        self.buildah = self.make_buildah() if shutil.which("buildah") else None

    def close(self):
        self.state.close()

    def make_buildah(self):
        """The words of a build by buildah, whose image "default" has a shell."""
        root = self.work / "root"
        (root / "bin").mkdir(parents=True)
        (root / "tmp").mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
        for name in ("sh", "cat", "echo"):
            (root / "bin" / name).symlink_to("busybox")
        with tarfile.open(self.work / "root.tar", "w") as tar:
            tar.add(root, ".")
        (self.work / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
        words = ["buildah", "--root", self.work / "storage", "--runroot", self.work / "run", "--storage-driver",
                 "vfs", "bud", "--isolation", "chroot", "--layers"]
        subprocess.run([*words, "-t", "default", self.work], check=True, capture_output=True)
        return words

    def by_buildah(self):
        start = time.perf_counter()
        subprocess.run([*self.buildah, "-t", "made", self.context], check=True, capture_output=True)
        return round(time.perf_counter() - start, 2)

    def by_cubby(self):
        """(seconds of the build, seconds until its last step was done)"""
        start = time.perf_counter()
        process = subprocess.Popen([BIN / "cubby", "template", "build", "made", "-f", self.context / "Dockerfile",
                                    self.context, "--json"], env=self.state.env, stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL)
        steps = None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "step" and event["name"] == "template made":
                steps = time.perf_counter() - start
        if process.wait() != 0:
            raise RuntimeError("the build failed")
        whole = time.perf_counter() - start
        return round(whole, 2), round(steps if steps is not None else whole, 2)

    # ---- the figures
    def dockerfile_build(self):
        figures = {}
        for name, last in (("first", "a"), ("unchanged", "a"), ("last_changed", "b")):
            (self.context / "Dockerfile").write_text(STEPS.format(last=last))
            whole, steps = self.by_cubby()
            figures[name] = {"whole_s": whole, "steps_s": steps,
                             "buildah_s": self.by_buildah() if self.buildah else None}
        return figures
