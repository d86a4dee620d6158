# SPDX-License-Identifier: Apache-2.0
"""Resources of a real sandbox."""

import json

from harness import wait_for
from tiers import tier  # noqa: F401

UPDATED = "notifications/resources/updated"


def updates(mcp):
    """URIs for which an update has come so far."""
    mcp.request("ping", {})
    return [n["params"]["uri"] for n in mcp.notifications if n["method"] == UPDATED]


def test_read_watch_and_end(home, mcp):
    assert mcp.request("resources/list", {}) == {"resources": []}
    assert home.daemon() is None, "nothing is started for a list"
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    (listed,) = mcp.request("resources/list", {})["resources"]
    mcp.tool("run_command", sandbox_id=sandbox, command="echo one > 'a b.txt'; mkdir d")
    (content,) = mcp.request("resources/read", {"uri": listed["uri"]})["contents"]
    entries = {e["name"]: e for e in json.loads(content["text"])["entries"]}
    assert entries["d"]["type"] == "directory" and entries["a b.txt"]["size"] == 4
    uri = entries["a b.txt"]["uri"]
    assert mcp.request("resources/read", {"uri": uri})["contents"][0]["text"] == "one\n"

    assert mcp.request("resources/subscribe", {"uri": uri}) == {}
    mcp.tool("run_command", sandbox_id=sandbox, command="echo two > 'a b.txt'")
    # In a slow guest, to truncate a file and to write it may be two changes.
    assert set(wait_for(lambda: updates(mcp), 30, "the change is told")) == {uri}
    assert mcp.request("resources/read", {"uri": uri})["contents"][0]["text"] == "two\n"

    completion = mcp.request("completion/complete", {
        "ref": {"type": "ref/resource", "uri": "sandbox://{sandbox_id}/{+path}"},
        "argument": {"name": "path", "value": "home/user/"},
        "context": {"arguments": {"sandbox_id": sandbox}}})["completion"]
    assert completion["values"] == ["home/user/a b.txt", "home/user/d/"]

    told = len(updates(mcp))
    assert home.request("DELETE", f"/sandboxes/{sandbox}")[0] == 204
    wait_for(lambda: len(updates(mcp)) > told, 30, "the end is told as a change")
    assert set(updates(mcp)) == {uri}
    assert "error" in mcp.answer(mcp.start("resources/read", {"uri": uri}))
