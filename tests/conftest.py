# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the whole-program tests."""

import os

import pytest

# A daemon that fills a pool meanwhile would be in the way of what a test looks at: only those of the
# pool ask for one.
os.environ["CUBBY_POOL"] = "off"

from harness import Home, Mcp


@pytest.fixture
def home():
    """A state directory; at the end nothing of it may be left."""
    state = Home()
    yield state
    state.close()


@pytest.fixture
def mcp(home, tmp_path):
    """An initialized cubby-mcp whose local directory is tmp_path."""
    server = Mcp(home, "--local-dir", tmp_path, cwd=tmp_path)
    server.initialize()
    yield server
    server.close()
