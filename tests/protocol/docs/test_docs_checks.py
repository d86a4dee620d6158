# SPDX-License-Identifier: Apache-2.0
"""The checks of the tree: flaky tests (tests/run.py), sizes (.ci/sizes), and which tests a change needs
(tests/check.py)."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import check  # noqa: E402

FAILS_ONCE = """
import pathlib
def test_fails_once():
    mark = pathlib.Path(__file__).with_name("mark")
    again = mark.exists()
    mark.touch()
    assert again
"""


def run(directory, listed, verb, *names):
    (directory / "flaky.txt").write_text(f"# a comment\n{listed}\n", encoding="utf-8")
    done = subprocess.run([sys.executable, ROOT / "tests/run.py", verb, "flaky.txt", "report", *names],
                          cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("listed, status, said", [
    ("", 1, "FAILED: test_it.py::test_fails_once passed only when it was repeated"),
    ("test_it.py::test_fails_once  # its reason", 0, "flaky: test_it.py::test_fails_once passed only when it was repeated")])
def test_a_flaky_test_fails_the_run_unless_it_is_listed(tmp_path, listed, status, said):
    (tmp_path / "test_it.py").write_text(FAILS_ONCE, encoding="utf-8")
    got, output = run(tmp_path, listed, "pytest", "test_it.py")
    assert got == status and said in output, output
    assert said in (tmp_path / "report").read_text(encoding="utf-8")


def test_a_listed_test_that_fails_twice_fails_the_run(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_fails():\n    assert False\n", encoding="utf-8")
    got, output = run(tmp_path, "test_it.py::test_fails", "pytest", "test_it.py")
    assert got == 1 and "repeated, alone" in output and not (tmp_path / "report").exists()


def test_units_are_judged_by_the_same_list(tmp_path):
    assert run(tmp_path, "", "judge", "tests/unit/base/test_str")[0] == 1
    assert run(tmp_path, "tests/unit/base/test_str", "judge", "tests/unit/base/test_str")[0] == 0
    assert run(tmp_path, "tests/unit/base/test_str", "judge", "tests/unit/base/test_str", "tests/unit/base/test_mem")[0] == 1


def sizes(directory, **files):
    """Run .ci/sizes in a repository of these files; return its status and what it lists."""
    subprocess.run(["git", "init", "-q", directory], check=True)
    for name, text in files.items():
        path = directory / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run([ROOT / ".ci/sizes", ""], cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def function(lines):
    return "static int long_one(int a,\n                    int b)\n{\n" + "    a++;\n" * (lines - 4) + "}\n"


def test_sizes_finds_what_is_too_long(tmp_path):
    got, output = sizes(
        tmp_path, a_dot_c="// x\n" + function(61), b_dot_py="x = 1\n" * 601, c_dot_md="word " * 21 + "\n", d_dot_h="// " + "x" * 98 + "\n",
        **{f"tests__many__{n}_dot_txt": "" for n in range(46)})
    assert got == 1 and output.splitlines()[-1] == "sizes: 5 over a limit"
    for said in ("a.c:2: long_one() has 61 lines", "b.py: 601 lines", "c.md:1: 105 characters", "d.h:1: 101 characters",
                 "tests/many/: 46 files"):
        assert said in output


def test_sizes_takes_what_is_at_its_limit_or_cannot_be_wrapped(tmp_path):
    table, code, url = "| " + "x " * 100 + "|\n", "```\n" + "x " * 100 + "\n```\n", "- [" + "a b " * 30 + "](https://x)\n"
    got, output = sizes(tmp_path, a_dot_c="int x;\n" + function(60), b_dot_py="x = 1\n" * 600, c_dot_md=table + code + url,
                        d_dot_h="// " + "x" * 97 + "\n", **{f"tests__many__{n}_dot_txt": "" for n in range(45)})
    assert got == 0, output


@pytest.mark.parametrize("path, nearest", [
    ("tests/protocol/netd/test_netd_gate.py", "tests/protocol/netd/test_netd_gate.py"),
    ("sandbox-backend/netd/gate.c", "tests/protocol/netd/test_netd_gate.py"),
    ("sandbox-backend/daemon/pool/handout.c", "tests/protocol/daemon/test_daemon_pool.py"),
    ("docs/security.md", "tests/protocol/docs/test_docs_security.py")])
def test_a_change_has_its_tests(monkeypatch, path, nearest):
    monkeypatch.chdir(ROOT)
    found = sorted(check.tests_of(path))
    assert nearest in [test for distance, test in found if distance == found[0][0]]


def test_a_room_without_protocol_tests_has_none(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert not list(check.tests_of("sandbox-backend/base/str.c"))
