# SPDX-License-Identifier: Apache-2.0
"""The skills extension (io.modelcontextprotocol/skills): what hosts check before they load a skill."""

import hashlib
import pathlib
import re

import pytest
from mcp_stdio import backend, fresh, server, start  # noqa: F401

FILES = {f.parent.name: f for f in (pathlib.Path(__file__).parents[3] / "skills").glob("*/SKILL.md")}
NAMES = ["analyze-data", "fix-bug", "review-untrusted"]


def listed(server):  # noqa: F811
    return server.call("skills/list")["result"]["skills"]


def read(server, uri):  # noqa: F811
    (content,) = server.call("resources/read", {"uri": uri})["result"]["contents"]
    assert content["uri"] == uri and content["mimeType"] == "text/markdown"
    return content["text"]


def test_what_is_listed_is_what_is_read(server):  # noqa: F811
    skills = listed(server)
    assert [s["frontmatter"]["name"] for s in skills] == NAMES == sorted(FILES)
    for skill in skills:
        name = skill["frontmatter"]["name"]
        assert skill["uri"] == f"skill://{name}/SKILL.md"
        text = read(server, skill["uri"])
        assert text == FILES[name].read_text()
        data = text.encode()
        assert skill["resources"] == [{"uri": skill["uri"], "size": len(data),
                                       "digest": "sha256:" + hashlib.sha256(data).hexdigest()}]
        assert server.call("skills/get", {"uri": skill["uri"]})["result"]["skill"] == skill


def test_frontmatter_is_verbatim_and_well_formed(server):  # noqa: F811
    """Plain YAML scalars of one line: what this server splits, any YAML parser reads the same."""
    for skill in listed(server):
        head = re.fullmatch(r"---\n(.*?)\n---\n.*", FILES[skill["frontmatter"]["name"]].read_text(), re.S).group(1)
        lines = dict(line.split(": ", 1) for line in head.split("\n"))
        assert skill["frontmatter"] == lines and set(lines) == {"name", "description"}
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", lines["name"]) and len(lines["name"]) <= 64
        assert len(lines["description"]) <= 1024
        assert not re.search(r": | #|^[-?:,\[\]{}#&*!|>'\"%@`]", lines["description"]), "a plain scalar"


@pytest.mark.parametrize("uri", ["skill://none/SKILL.md", "skill://fix-bug", "skill://fix-bug/", "skill://fix-bug/other.md",
                                 "sandbox://fix-bug/SKILL.md", ""])
def test_unknown_skills(server, uri):  # noqa: F811
    assert server.call("skills/get", {"uri": uri})["error"]["code"] == -32602
    assert "error" in server.call("resources/read", {"uri": uri})


def test_bad_requests(server):  # noqa: F811
    for params in {}, {"uri": 1}, None:
        assert server.call("skills/get", params)["error"]["code"] == -32602
    assert server.call("skills/list", {"cursor": "x"})["error"]["code"] == -32602


def test_results_of_the_modern_revision_can_be_cached(fresh):  # noqa: F811
    for method, params in [("skills/list", {}), ("skills/get", {"uri": "skill://fix-bug/SKILL.md"}),
                           ("resources/read", {"uri": "skill://fix-bug/SKILL.md"})]:
        result = fresh.modern(method, **params)["result"]
        assert result["resultType"] == "complete" and result["cacheScope"] == "public" and result["ttlMs"] > 0


def test_other_clients_see_no_more_resources(server):  # noqa: F811
    assert server.call("resources/list")["result"]["resources"] == []


def test_the_skills_name_tools_and_arguments_that_exist(server):  # noqa: F811
    tools = {t["name"]: t for t in server.call("tools/list")["result"]["tools"]}
    known = {*tools, *(p for t in tools.values() for p in t["inputSchema"]["properties"])}
    for file in FILES.values():
        words = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", file.read_text()))
        assert words <= known, words - known
