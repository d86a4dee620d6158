# SPDX-License-Identifier: Apache-2.0
"""docs/e2b.md tells the truth: its tables are those of cubbyd's routes and of the tests, and cubbyd answers so."""

import os
import re
import subprocess

import pytest

import e2b_table
from cubbyd_fixtures import shared as daemon  # noqa: F401 (a fixture)
from e2b_operations import INTERNAL, OPERATIONS
from sdk import CLIENTS, NODE, TESTS


def test_the_tables_are_those_of_the_source():
    text = e2b_table.PAGE.read_text()
    assert e2b_table.page(text) == text, "run: python3 tests/lib/daemon/e2b_table.py"


def test_every_test_that_the_page_names_is_there():
    known = e2b_table.scenarios()
    named = re.findall(r"`((?:protocol|e2e|sdk)/\S+::\w+)`", e2b_table.PAGE.read_text())
    assert named and all(e2b_table.is_there(test, known) for test in named)
    assert not e2b_table.is_there("protocol/docs/test_docs_e2b.py::test_nothing", known)
    assert not e2b_table.is_there("files_nothing", known)


def said_by(*words):
    environment = {**os.environ, "CLIENTS": str(CLIENTS), "HOME": "/nonexistent", "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run([str(word) for word in words], env=environment, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_has_every_method_of_the_sdks():
    """A new release of an SDK may bring methods that the page does not have."""
    known = {name.lower() for name in e2b_table.method_names()}
    for program in ([NODE, TESTS / "sdk/js/methods.mjs"], [CLIENTS / "e2b/bin/python", TESTS / "sdk/python/methods.py"]):
        offered = [name for name in said_by(*program).split() if name not in INTERNAL]
        assert len(offered) > 80
        # Python has one class for both kinds of methods, "Sandbox." and "sandbox.".
        missing = [name for name in offered if name.lower() not in known]
        assert not missing, missing


@pytest.mark.parametrize("group", ["sandbox", "template", "auth"])
def test_the_page_has_every_verb_of_the_command_line(group):
    text = said_by(NODE, CLIENTS / "node_modules/@e2b/cli/dist/index.js", group, "--help").split("Commands:")[1]
    verbs = [verb for verb in re.findall(r"^  (\w+)", text, re.MULTILINE) if verb != "help"]
    assert len(verbs) >= 3
    missing = [verb for verb in verbs if f"e2b {group} {verb}" not in e2b_table.method_names()]
    assert not missing, missing


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
