# SPDX-License-Identifier: Apache-2.0
"""A daemon that the tests of one file share, and that is cleaned after each test."""

import pytest

from cubbyd import Daemon, wait_for


@pytest.fixture(scope="module")
def shared():
    with Daemon() as d:
        yield d


@pytest.fixture
def daemon(shared):
    """The same daemon for each test; everything that a test made is gone after it, its descriptors
    included."""
    before, open_before = shared.fds(), shared.descriptors()
    yield shared
    for sandbox in shared.request("GET", "/v2/sandboxes").json:
        shared.kill(sandbox["sandboxID"])
    try:
        wait_for(lambda: shared.fds() <= before, 30, "no descriptor is left")
    except AssertionError:
        print(f"before the test:\n{open_before}\nafter it:\n{shared.descriptors()}")
        raise


@pytest.fixture
def made(daemon):
    return daemon.create()


@pytest.fixture
def sandbox(made):
    return made["sandboxID"]


__all__ = ["daemon", "made", "sandbox", "shared"]
