# SPDX-License-Identifier: Apache-2.0
"""The table of docs/clients.md has the clients and versions that `make test-clients` tests, all green."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests/frameworks"))

import table  # noqa: E402


def test_the_table_is_that_of_the_pinned_versions():
    document = (ROOT / "docs/clients.md").read_text()
    shown = document.split(table.BEGIN)[1].split(table.END)[0]
    assert "FAILED" not in shown
    for title, version, wires, options, figure, _, _ in table.rows():
        assert f"| {title} | {version} | {wires} | {options} | {figure} | passed |" in shown
