# SPDX-License-Identifier: Apache-2.0
"""The official SDKs against real sandboxes: the scenarios of tests/sdk/test_sdk.py in which the
machine has a part.
"""

import pytest
from sdk import RealGuests, run_program
from tiers import tier  # noqa: F401

SCENARIOS = {
    "js": ["commands_callbacks", "commands_stdin", "commands_kill", "commands_user", "commands_parallel",
           "files_bytes", "files_large", "files_watch_recursive", "files_metadata", "files_signed_urls",
           "files_space", "pty_resize", "sandbox_metrics", "sandbox_host", "sandbox_websocket",
           "sandbox_pause", "sandbox_auto_resume", "sandbox_killed_during_run", "code_text",
           "code_callbacks", "code_chart", "code_data", "code_envs", "code_timeout"],
    "python": ["commands_run", "commands_stdin_streamed", "commands_timeout", "files_entries", "pty_input",
               "sandbox_timeout", "code_state", "code_every_kind", "code_contexts", "code_bash"],
}


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with RealGuests(tier=tier) as running:
        yield running


@pytest.fixture(scope="module")
def outcomes(daemon):
    """The output of a program, which runs when it is first asked for; never two at once."""
    known = {}

    def outcome(name):
        if name not in known:
            known[name] = run_program(name, daemon.variables(), SCENARIOS[name])
        return known[name]

    return outcome


@pytest.mark.parametrize("name,scenario", [(n, s) for n, all_of in SCENARIOS.items() for s in all_of])
def test_sdk(outcomes, name, scenario):
    error = outcomes(name)[scenario]
    assert error is None, error
