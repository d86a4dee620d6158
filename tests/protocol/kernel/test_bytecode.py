# SPDX-License-Identifier: Apache-2.0
"""A template's Python runs the current text of a file, even after two changes within one second.

Both changes get the same time, as in a quick sandbox. It is in the future, so that even a slow
machine never runs the tests after that second. The control: plain Python and plain pytest run the
old code.
"""

import os
import subprocess
import sys
import time

import pytest

SITE = os.path.join(os.path.dirname(__file__), "../../../sandbox-backend/guest/python")
NOW = int(time.time()) + 3600
RED, GREEN = "def f(): return 1\n", "def f(): return 2\n"
ASK = "from m import f\nassert f() == 2"
TEST = "def test_f():\n    import m\n    assert m.f() == 2\n"


class Project:
    """A module m.py that is wrong at first, and a test of it."""

    def __init__(self, path, is_mended):
        self.path = path
        self.env = {**os.environ, "PYTHONPATH": SITE if is_mended else ""}
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        (path / "test_m.py").write_text(TEST)
        os.utime(path / "test_m.py", (1, 1))

    def write(self, name, text, changed):
        (self.path / name).write_text(text)
        os.utime(self.path / name, (changed, changed))

    def passes(self, *args):
        return subprocess.run([sys.executable, *args], cwd=self.path, env=self.env, capture_output=True,
                              check=False).returncode == 0

    def cached(self):
        cache = self.path / "__pycache__"
        return sorted(name.split(".")[0] for name in os.listdir(cache)) if cache.exists() else []


WAYS = {"import": ["-c", ASK], "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_m.py"]}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("is_mended", [False, True], ids=["plain", "template"])
def test_a_patch_of_the_same_length_within_a_second(tmp_path, way, is_mended):
    project = Project(tmp_path, is_mended)
    project.write("m.py", RED, NOW)
    assert not project.passes(*way)
    project.write("m.py", GREEN, NOW)
    assert project.passes(*way) == is_mended, "plain Python is expected to run the old code"


@pytest.mark.parametrize("is_mended", [False, True], ids=["plain", "template"])
def test_a_test_that_is_patched(tmp_path, is_mended):
    """pytest rewrites tests, and has a separate cache for them."""
    project = Project(tmp_path, is_mended)
    project.write("m.py", RED, 1)
    project.write("test_m.py", TEST, NOW)
    assert not project.passes(*WAYS["pytest"])
    project.write("test_m.py", TEST.replace("== 2", "== 1"), NOW)
    assert project.passes(*WAYS["pytest"]) == is_mended, "plain pytest is expected to run the old test"


def test_what_has_settled_is_cached(tmp_path):
    """Files that have not changed for a while are cached; otherwise a large project would be
    compiled at every run."""
    project = Project(tmp_path, True)
    project.write("m.py", GREEN, NOW)
    assert project.passes(*WAYS["pytest"])
    assert project.cached() == ["test_m"], "test_m.py is old, m.py is new"
    project.write("m.py", GREEN, 2)
    assert project.passes(*WAYS["pytest"])
    assert project.cached() == ["m", "test_m"]


def test_errors_look_as_they_do_elsewhere(tmp_path):
    """The traceback of a module that fails has no frame of ours or of importlib."""
    project = Project(tmp_path, True)
    project.write("m.py", "import n\n", 1)
    project.write("n.py", "1 / 0\n", 1)
    done = subprocess.run([sys.executable, "-c", "import m"], cwd=tmp_path, env=project.env, capture_output=True,
                          check=False, text=True)
    assert "ZeroDivisionError" in done.stderr and "importlib" not in done.stderr and "sitecustomize" not in done.stderr
