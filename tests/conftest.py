# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the whole-program tests."""

import json
import os
import pathlib
import sys

import pytest

# A daemon that fills a pool meanwhile would be in the way of what a test looks at: only those of the
# pool ask for one.
os.environ["CUBBY_POOL"] = "off"


def accelerator():
    """That of the tests' template, whose build has tried KVM. Where the guest kernel does not boot under
    KVM, each further build would wait 5 s for it."""
    facts = pathlib.Path(os.environ.get("CUBBY_TEST_HOME", "")) / "templates/default/template.json"
    return json.loads(facts.read_text(encoding="utf-8"))["accel"] if facts.exists() else "auto"


os.environ.setdefault("CUBBY_ACCEL", accelerator())

from harness import Home, Mcp
from tiers import skip_where_it_has_no_meaning


def pytest_configure(config):
    config.addinivalue_line("markers", "only_in(*tiers, reason): the test has no meaning in other tiers (tiers.py)")


# They build templates, for minutes. A worker that began one of them last would be alone at the end.
LONGEST = ("test_template_move.py", "test_build.py", "test_sdk_templates.py", "test_template_extras.py", "test_scenario.py",
           "test_template_image.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_runtest_setup(item):
    skip_where_it_has_no_meaning(item)


@pytest.fixture(scope="module")
def tier():
    """The tier of the test's sandboxes. A file whose tests run in each tier imports the fixture of tiers.py."""
    return os.environ.get("CUBBY_TIER", "microvm")


@pytest.fixture
def home(tier):
    """A state directory; the test fails if anything of it is left at the end."""
    state = Home(tier)
    yield state
    state.close()


@pytest.fixture
def mcp(home, tmp_path):
    """An initialized cubby-mcp whose local directory is tmp_path."""
    server = Mcp(home, "--local-dir", tmp_path, cwd=tmp_path)
    server.initialize()
    yield server
    server.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the end of each running daemon's log to the report of a failed test."""
    report = (yield).get_result()
    if report.failed and "cubbyd" in sys.modules:
        for daemon in sys.modules["cubbyd"].Daemon.running:
            report.sections.append(("Log of cubbyd", daemon.log_tail()))
