# SPDX-License-Identifier: Apache-2.0
"""A false daemon with one sandbox, whose envd is real, and a directory for each side of a copy."""

import pytest

from fake_cubbyd import ID, FakeDaemon, listed


@pytest.fixture
def fake():
    daemon = FakeDaemon()
    daemon.sandboxes[ID] = listed(ID)
    yield daemon
    daemon.close()


@pytest.fixture
def host(tmp_path):
    made = tmp_path / "host"
    made.mkdir()
    return made


@pytest.fixture
def guest(tmp_path):
    """A directory that only the sandbox is told of."""
    made = tmp_path / "guest"
    made.mkdir()
    return made


__all__ = ["fake", "guest", "host"]
