# SPDX-License-Identifier: Apache-2.0
"""docs/security.md names a test beside each statement: each of these tests exists, and no statement
about a protection lacks one.
"""

import pathlib
import re

TESTS = pathlib.Path(__file__).parents[2]
TEXT = (TESTS.parent / "docs/security.md").read_text(encoding="utf-8")
FILES = {f.name: f for f in TESTS.rglob("*") if f.suffix in (".py", ".c") and f.is_file()}
NAME = r"`((?:test|fuzz|bench)_\w+\.(?:py|c))(?:::(test_\w+))?`"
OPEN = "What is not defended"


def sections():
    """(heading, text) of the sections on protections, up to the one on what is not defended."""
    parts = re.split(r"^## (.*)$", TEXT, flags=re.M)[1:]
    found = list(zip(parts[::2], parts[1::2]))
    return found[:[heading for heading, _ in found].index(OPEN)]


def rows(text):
    """The rows of tables whose last column names tests."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        head, _, *lines = table.splitlines()
        if head.rsplit("|", 2)[1].strip() in ("tests", "tried by"):
            yield from lines


def items(text):
    return re.findall(r"^- .*\n(?:  .*\n)*", text, re.M)


def test_each_test_that_is_named_is_there():
    named = re.findall(NAME, TEXT)
    assert len(named) > 100
    missing = [(file, test) for file, test in named if file not in FILES or test and not re.search(
        rf"^def {test}\(", FILES[file].read_text(encoding="utf-8"), re.M)]
    assert not missing, missing


def test_no_test_is_named_without_its_file():
    bare = [word for word in re.findall(r"`([^`\s]+)`", TEXT) if re.match(r"(test|fuzz|bench)_", word) and
            not re.fullmatch(NAME, f"`{word}`")]
    assert not bare, bare


def test_each_attempt_to_break_out_that_is_named_is_made():
    program = (TESTS / "attack/breakout.c").read_text(encoding="utf-8")
    named = [word for words in re.findall(r"`test_breakout\.py` \(([^)]*)\)", TEXT) for word in re.findall("`([^`]+)`", words)]
    assert len(named) > 3 and not [word for word in named if f'("{word}",' not in program]


def test_nothing_is_said_of_a_wall_without_a_test():
    said = [one for _, text in sections() for one in [*rows(text), *items(text)]]
    assert len(said) > 90
    without = [one for one in said if not re.search(NAME, one)]
    assert not without, without
