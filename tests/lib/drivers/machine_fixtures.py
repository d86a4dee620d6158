# SPDX-License-Identifier: Apache-2.0
"""Shells of the microvm driver for one test each; at its end nothing may run."""

import os
import shutil
import signal

import pytest

from machine_peer import Shell, left_behind


@pytest.fixture
def shells(tmp_path_factory):
    """Makes shells; those with the same name share a sandbox directory. At the end nothing may run."""
    place = tmp_path_factory.mktemp("m")
    made = []

    def make(name="s"):
        made.append(Shell(place, name))
        return made[-1]

    make.place = place
    yield make
    for shell in made:
        shell.end(killed=False)
    left = left_behind(place)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(place)
    assert not left


@pytest.fixture
def shell(shells):
    return shells()
