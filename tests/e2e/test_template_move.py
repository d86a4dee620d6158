# SPDX-License-Identifier: Apache-2.0
"""A template is exported, imported into another home, and runs there. tests/protocol/cli/test_cli_template_move.py
has the archives that are refused."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from harness import BIN, TEST_HOME

pytestmark = pytest.mark.timeout(2400)  # a build takes minutes, on a busy host many


@pytest.fixture(scope="module")
def home():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cubby-move-"))
    yield folder
    cubby(folder, "kill", "--all")
    cubby(folder, "daemon", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def cubby(home, *words, timeout=120):
    return subprocess.run([BIN / "cubby", *words], env=dict(os.environ, CUBBY_HOME=str(home)), capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def test_an_exported_template_runs_in_another_home(home, tmp_path):
    path = tmp_path / "default.cubby"
    digest = cubby(TEST_HOME, "template", "export", "default", str(path), timeout=600)
    assert digest.returncode == 0 and len(digest.stdout) == 65, digest
    assert not path.with_name(path.name + ".part").exists()
    answer = cubby(home, "template", "import", "--name", "moved", "--sha256", digest.stdout.strip(), "--json", str(path),
                   timeout=1200)
    assert answer.returncode == 0, answer.stderr
    made = json.loads(answer.stdout)
    before = json.loads(cubby(TEST_HOME, "template", "ls", "--json").stdout)[0]
    for key in "kernel", "memory_mb", "cpus", "disk_mb":
        assert made[key] == before[key]
    assert made["name"] == "moved" and not list((home / "cache").glob("import-*"))
    sandbox = cubby(home, "create", "--template", "moved").stdout.strip()
    assert cubby(home, "exec", sandbox, "--", "python3", "-c", "import numpy; print(numpy.arange(3).sum())").stdout == "3\n"
    used = json.loads(cubby(home, "template", "ls", "--json").stdout)[0]["last_used"]
    assert used >= made["last_used"]
    again = cubby(home, "template", "import", "--name", "moved", str(path))
    assert again.returncode == 1 and "--force" in again.stderr
