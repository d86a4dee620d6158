# SPDX-License-Identifier: Apache-2.0
"""The shipped prompts."""

import json
import re

import pytest
from mcp_stdio import backend, fresh, server, start  # noqa: F401

GIVEN = {"fix_bug": {"bug": "it breaks"}, "analyze_data": {"file": "a.csv", "question": "how many?"},
         "review_untrusted": {"target": "pip:x"}}


def text(server, name, **arguments):
    result = server.call("prompts/get", {"name": name, "arguments": {**GIVEN[name], **arguments}})["result"]
    (message,) = result["messages"]
    assert message["role"] == "user" and message["content"]["type"] == "text" and result["description"]
    return message["content"]["text"]


def test_list(server, fresh):
    prompts = server.call("prompts/list")["result"]["prompts"]
    assert [p["name"] for p in prompts] == list(GIVEN)
    for prompt in prompts:
        required = {a["name"] for a in prompt["arguments"] if a["required"]}
        assert required == set(GIVEN[prompt["name"]])
        assert all(a["title"] and a["description"] for a in prompt["arguments"])
    result = fresh.modern("prompts/list")["result"]
    assert result["prompts"] == prompts
    assert result["cacheScope"] == "public" and result["ttlMs"] > 0


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_titles_are_for_those_who_know_them(start, version):
    assert '"title"' not in json.dumps(start(version=version).call("prompts/list")["result"])


@pytest.mark.parametrize("name", GIVEN)
def test_get(server, name):
    plain = text(server, name)
    for argument, value in GIVEN[name].items():
        assert f"<{argument}>\n{value}\n</{argument}>\n" in plain
    assert "sandbox_id>" not in plain
    steps = [int(n) for n in re.findall(r"^(\d+)\. ", plain, re.M)]
    assert len(steps) > 4 and steps == list(range(1, len(steps) + 1))


@pytest.mark.parametrize("name", GIVEN)
def test_only_tools_that_are_offered_are_named(start, name):
    """With each tool left out in turn, and with all of them."""
    words = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
    everything = start()
    offered = {t["name"] for t in everything.call("tools/list")["result"]["tools"]}
    named = set(words.findall(text(everything, name))) - {"sandbox_id"}
    assert "create_sandbox" in named and named <= offered
    for tool in sorted(named):
        server = start("--disable-tool", tool)
        assert tool not in text(server, name)


def test_a_sandbox_that_is_there(server):
    assert "<sandbox_id>\nabc\n</sandbox_id>" in text(server, "fix_bug", sandbox_id="abc")
    assert "<sandbox_id>" not in text(server, "fix_bug", sandbox_id="")


@pytest.mark.parametrize("params, named", [
    ({}, "name"), ({"name": 7}, "name"), ({"name": "nothing"}, "nothing"), ({"name": "fix_bug"}, "bug"),
    ({"name": "fix_bug", "arguments": None}, "bug"), ({"name": "fix_bug", "arguments": []}, "arguments"),
    ({"name": "fix_bug", "arguments": {"bug": 7}}, "bug"),
    ({"name": "fix_bug", "arguments": {"bug": "a\0b"}}, "bug"),
    ({"name": "analyze_data", "arguments": {"file": "x"}}, "question")])
def test_errors_name_the_argument(server, fresh, params, named):  # 24
    for answer in server.call("prompts/get", params), fresh.modern("prompts/get", **params):
        assert answer["error"]["code"] == -32602 and named in answer["error"]["message"]
