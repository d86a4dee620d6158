# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: the same bytes from two builds, installed and used in bare roots of Debian 12 and 13,
and removed without a trace. By hand, as root: make test-packages.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ["BIN"]).parent
HERE = pathlib.Path(__file__).parent
SECONDS = {"installed": 120, "output": 240}  # generous: the figures are in docs/packages.md


def packages():
    (cubby,) = BUILD.glob("cubby_*_amd64.deb")
    (template,) = BUILD.glob("cubby-template-default_*_amd64.deb")
    return cubby, template


@pytest.mark.timeout(1800)
def test_two_builds_are_the_same_bytes():
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages()[:1]}
    done = subprocess.run(["make", "-C", ROOT, "deb", f"BUILD={BUILD}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages()[:1]} == before


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_install_use_upgrade_and_purge(suite, tmp_path):
    for path in *packages(), HERE / "inside.sh":
        shutil.copy(path, tmp_path)
    done = subprocess.run([ROOT / ".ci/package/bare", suite, BUILD / "package/roots", packages()[0], tmp_path, "sh", "/shared/inside.sh"],
                          capture_output=True, text=True)
    print(done.stdout, done.stderr)
    said = dict(re.findall(r"^(\w+) (.*)$", done.stdout, re.M))
    assert done.returncode == 0 and said["next"] == "1"
    assert said["setup"].split()[0] == "0"
    assert said["output"].split()[0] == "works"
    assert float(said["installed"]) < SECONDS["installed"] and float(said["output"].split()[1]) < SECONDS["output"]
    assert said["where"] == "/var/lib/cubby-templates/default " and said["someone"] == "shared "
    assert said["upgraded"] == "kept" and said["selftest"] == "0"
    assert said["user"] == "/var/lib/cubbyd" and said["left"] == "0"
