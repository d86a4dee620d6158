# SPDX-License-Identifier: Apache-2.0
"""cubby against the daemon itself: what it allows, whether it runs, and how it is stopped."""

import subprocess

import pytest

from cubbyd import Daemon
from harness import BIN

CUBBY = BIN / "cubby"


@pytest.fixture
def daemon():
    with Daemon(env={"CUBBY_POOL": "off"}) as d:
        yield d


def cubby(daemon, *words):
    return subprocess.run([CUBBY, *words], env=daemon.env, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


# ---- what it allows
def test_a_time_to_live_is_the_daemons_to_limit(daemon):
    """A day, unless it was told otherwise; the help says so, and so does who refuses."""
    made = cubby(daemon, "create", "--timeout", "86400").stdout.strip()
    assert made in daemon.directories()
    for words in (["create"], ["fork", made], ["resume", made]):
        verb, *ids = words
        answer = cubby(daemon, verb, "--timeout", "86401", *ids)
        assert answer.returncode == 1 and answer.stdout == "" and "24 hours (86400 s)" in answer.stderr, answer
        assert "at most 86400, unless cubbyd --max-timeout" in cubby(daemon, verb, "--help").stdout
    assert daemon.directories() == [made]
    daemon.stop()
    daemon.start("--max-timeout", "200000")
    assert cubby(daemon, "create", "--timeout", "200000").returncode == 0
