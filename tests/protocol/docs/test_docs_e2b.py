# SPDX-License-Identifier: Apache-2.0
"""docs/e2b.md tells the truth: its tables are those of cubbyd's routes and of the tests, and cubbyd answers so."""

import re

import pytest

import e2b_table
from cubbyd_fixtures import shared as daemon  # noqa: F401 (a fixture)
from e2b_operations import OPERATIONS


def test_the_tables_are_those_of_the_source():
    text = e2b_table.PAGE.read_text()
    assert e2b_table.page(text) == text, "run: python3 tests/lib/daemon/e2b_table.py"


def test_every_test_that_the_page_names_is_there():
    known = e2b_table.scenarios()
    named = re.findall(r"`((?:protocol|e2e|sdk)/\S+::\w+)`", e2b_table.PAGE.read_text())
    assert named and all(e2b_table.is_there(test, known) for test in named)
    assert not e2b_table.is_there("protocol/docs/test_docs_e2b.py::test_nothing", known)
    assert not e2b_table.is_there("files_nothing", known)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_cubbyd_answers_as_the_page_says(daemon, operation):  # noqa: F811
    works, why = e2b_table.of_operation(operation, e2b_table.routes(), e2b_table.absent())
    method, path = operation.split(" ")
    answer = daemon.request(method, path.replace("{}", "x" * 20), None if method == "GET" else {})
    unknown = answer.status == 405 or (answer.status == 404 and "there is no such path" in answer.json["message"])
    missing = answer.status == 501 and answer.json["error_code"] == "not_implemented"
    assert (works, bool(why)) == (not unknown and not missing, missing), answer.body
    if missing and "cubby template build" not in why:
        assert why in answer.json["message"]
