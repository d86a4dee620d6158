# SPDX-License-Identifier: Apache-2.0
"""docs/security.md names a test beside what it says: each of them is there."""

import pathlib
import re

TESTS = pathlib.Path(__file__).parents[1]
TEXT = (TESTS.parent / "docs/security.md").read_text(encoding="utf-8")
FILES = {f.name: f for f in TESTS.rglob("*") if f.suffix in (".py", ".c") and f.is_file()}


def named():
    """(files, functions) in backquotes."""
    words = re.findall(r"`([^`\s]+)`", TEXT)
    files = {w for w in words if re.fullmatch(r"(tests/[\w/]+/)?(test|fuzz|bench)_\w+\.(py|c)", w)}
    return files, {w for w in words if re.fullmatch(r"test_\w+", w)}


def test_each_file_that_is_named_is_there():
    files, _ = named()
    assert len(files) > 20
    missing = [f for f in files if not (TESTS.parent / f if "/" in f else FILES.get(f, TESTS / f)).exists()]
    assert not missing, missing


def test_each_test_that_is_named_is_there():
    _, functions = named()
    known = {name for f in FILES.values() if f.suffix == ".py"
             for name in re.findall(r"^def (test_\w+)", f.read_text(encoding="utf-8"), re.M)}
    assert len(functions) > 20 and not functions - known, functions - known


def test_each_wall_names_a_test():
    table = TEXT.partition("## The walls")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 10
    without = [row for row in rows if not re.search(r"`(tests/[\w/]+/)?(test|fuzz)_\w+(\.py|\.c)?`", row)]
    assert not without, without
