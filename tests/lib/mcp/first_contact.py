# SPDX-License-Identifier: Apache-2.0
"""What a client does with a server that was just installed, for tests of packages."""

import time

READY_S = 600  # generous: the figures are in docs/releases.md


def first_output(mcp, began):
    """Initialize the session, create a sandbox when the template is ready, and run a command in it. Print the seconds from
    `began` (time.monotonic()) to the two answers, and return the sandbox's id."""
    mcp.initialize("2025-11-25")
    print(f"initialize {time.monotonic() - began:.1f}")
    while (answer := mcp.result("create_sandbox")).get("isError"):
        said = answer["content"][0]["text"]
        assert said.startswith("preparing: ") and time.monotonic() - began < READY_S, said
    sandbox = answer["structuredContent"]["sandbox_id"]
    assert "works" in mcp.text("run_command", sandbox_id=sandbox, command="echo works")
    print(f"output {time.monotonic() - began:.1f}")
    return sandbox
