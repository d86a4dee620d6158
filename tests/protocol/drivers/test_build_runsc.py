# SPDX-License-Identifier: Apache-2.0
"""build-runsc with a file that the user gives: only the pinned build is taken. Nothing is built here."""

import hashlib
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCES = pathlib.Path(__file__).parents[3] / "sandbox-backend/drivers/gvisor"
PIN = dict(re.findall(r'#define RUNSC_(\w+) +"(.*)"', (SOURCES / "runsc_pin.h").read_text()))


def build(tmp_path, given, sources=SOURCES):
    return subprocess.run([sources / "build-runsc", tmp_path / "bin/runsc", tmp_path / "work", given], capture_output=True,
                          text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")})


@pytest.mark.parametrize("contents", [b"#!/bin/sh\necho another runsc\n", b"", None], ids=["another", "empty", "missing"])
def test_another_file_is_refused(tmp_path, contents):
    given = tmp_path / "given"
    if contents is not None:
        given.write_bytes(contents)
    done = build(tmp_path, given)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"runsc: {given} is not the pinned build, {PIN['VERSION']} with sha256 {PIN['SHA256']}\n"
    assert [p.name for p in tmp_path.iterdir()] == ([] if contents is None else ["given"]), "nothing is built or installed"


def test_the_pinned_file_is_taken(tmp_path):
    """The control, with the hash of another file in the pin."""
    given, sources = tmp_path / "given", tmp_path / "sources"
    given.write_bytes(b"as pinned")
    sources.mkdir()
    shutil.copy(SOURCES / "build-runsc", sources)
    header = (SOURCES / "runsc_pin.h").read_text()
    (sources / "runsc_pin.h").write_text(header.replace(PIN["SHA256"], hashlib.sha256(b"as pinned").hexdigest()))
    done = build(tmp_path, given, sources)
    assert (done.returncode, done.stderr) == (0, "")
    out = tmp_path / "bin/runsc"
    assert out.read_bytes() == b"as pinned" and out.stat().st_mode & 0o777 == 0o755
