# SPDX-License-Identifier: Apache-2.0
"""Coding agents from npm do a whole task with Cubby, on a scripted model."""

import os

import pytest
from coding_agents import AGENTS
from frameworks import note_passed
from harness import BIN
from model_scripts import DONE, TASK, fix_bug
from model_stub import Stub
from sdk import Guests

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd"),
]


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d


@pytest.mark.parametrize("name", AGENTS)
def test_coding_agent(name, daemon, tmp_path):
    with Stub(fix_bug("image")) as stub:
        agent = AGENTS[name](tmp_path, BIN / "cubby-mcp", daemon.home, stub.url)
        agent.add()
        said = agent.ask(TASK)
        stub.model.check()
    if name != "opencode":  # it shows the calls, and its last words only on a terminal
        assert DONE in said
    note_passed(name, agent.wire, "stdio")
