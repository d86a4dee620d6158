# SPDX-License-Identifier: Apache-2.0
"""MCP's extensions. Skills (io.modelcontextprotocol/skills): what hosts check before they load one. MCP Apps
(io.modelcontextprotocol/ui): which clients are offered views, and what these pages are; tests/web/test_views.py shows
them in a browser, in a host of the official package."""

import hashlib
import json
import pathlib
import re

import pytest
from mcp_stdio import META, backend, fresh, server, start  # noqa: F401

FILES = {f.parent.name: f for f in (pathlib.Path(__file__).parents[3] / "skills").glob("*/SKILL.md")}
NAMES = ["analyze-data", "fix-bug", "review-untrusted"]
UI = "io.modelcontextprotocol/ui"
HTML = "text/html;profile=mcp-app"
SHOWS = {"extensions": {UI: {"mimeTypes": [HTML]}}}
VIEWS = {"run_command": "ui://cubby/output", "run_python_code": "ui://cubby/figures", "run_code": "ui://cubby/figures"}
OTHERS = [{}, {"extensions": {}}, {"extensions": {UI: {}}}, {"extensions": {UI: {"mimeTypes": []}}},
          {"extensions": {UI: {"mimeTypes": "text/html;profile=mcp-app"}}}, {"extensions": {UI: {"mimeTypes": [1, "text/html"]}}},
          {"extensions": []}, {"extensions": {"io.modelcontextprotocol/skills": {"mimeTypes": [HTML]}}}]


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


# ---- MCP Apps

def views_of(tools):
    return {t["name"]: t["_meta"]["ui"]["resourceUri"] for t in tools if "ui" in t.get("_meta", {})}


def modern(capabilities):
    return {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_host_that_shows_views(start, version):  # noqa: F811
    server = start(version=None)  # noqa: F811
    result = server.initialize(version, SHOWS)
    assert result["capabilities"]["extensions"][UI] == {}
    tools = server.call("tools/list")["result"]["tools"]
    assert views_of(tools) == VIEWS
    for uri in set(VIEWS.values()):
        (content,) = server.call("resources/read", {"uri": uri})["result"]["contents"]
        assert (content["uri"], content["mimeType"], content["_meta"]) == (uri, HTML, {"ui": {"prefersBorder": True}})


def test_other_members_of_meta_stay(start):  # noqa: F811
    server = start(version=None)  # noqa: F811
    server.initialize(capabilities=SHOWS)
    with_views = {t["name"]: t for t in server.call("tools/list")["result"]["tools"]}
    server.initialize()
    without = {t["name"]: t for t in server.call("tools/list")["result"]["tools"]}
    for name, tool in with_views.items():
        meta = {k: v for k, v in tool.get("_meta", {}).items() if k != "ui"}
        assert meta == without[name].get("_meta", {}), name
        assert {k: v for k, v in tool.items() if k != "_meta"} == {k: v for k, v in without[name].items() if k != "_meta"}


@pytest.mark.parametrize("capabilities", OTHERS)
def test_other_clients_see_nothing_of_them(start, capabilities):  # noqa: F811
    server = start(version=None)  # noqa: F811
    texts = [json.dumps(server.initialize(capabilities=capabilities))]
    texts += [json.dumps(server.call(method)) for method in ("tools/list", "resources/list", "resources/templates/list")]
    texts += [json.dumps(server.modern(method, meta=modern(capabilities))) for method in ("server/discover", "tools/list", "resources/list")
              if isinstance(capabilities.get("extensions", {}), dict)]
    for text in texts:
        assert UI not in text and "ui://" not in text and '"ui"' not in text and "mcp-app" not in text
    for uri in VIEWS.values():
        assert server.call("resources/read", {"uri": uri})["error"]["code"] == -32002


def test_each_request_of_the_modern_revision_says_it(fresh):  # noqa: F811
    shows = modern(SHOWS)
    assert fresh.modern("server/discover", meta=shows)["result"]["capabilities"]["extensions"][UI] == {}
    listed = fresh.modern("tools/list", meta=shows)["result"]
    assert views_of(listed["tools"]) == VIEWS and listed["cacheScope"] == "private"
    plain = fresh.modern("tools/list")["result"]
    assert views_of(plain["tools"]) == {} and plain["cacheScope"] == "public"
    read = fresh.modern("resources/read", uri="ui://cubby/figures", meta=shows)["result"]
    assert read["contents"][0]["mimeType"] == HTML and read["ttlMs"] > 0
    assert fresh.modern("resources/read", uri="ui://cubby/figures")["error"]["code"] == -32602


@pytest.mark.parametrize("uri", ["ui://cubby/none", "ui://cubby/", "ui://other/figures", "ui://cubby/figures/", "UI://cubby/figures"])
def test_unknown_views(start, uri):  # noqa: F811
    server = start(version=None)  # noqa: F811
    server.initialize(capabilities=SHOWS)
    assert server.call("resources/read", {"uri": uri})["error"]["code"] == -32002
    assert server.call("resources/list")["result"]["resources"] == []


def test_a_tool_that_is_not_offered_has_no_view(start):  # noqa: F811
    server = start("--tools", "run_command", version=None)  # noqa: F811
    server.initialize(capabilities=SHOWS)
    assert views_of(server.call("tools/list")["result"]["tools"]) == {"run_command": "ui://cubby/output"}


@pytest.mark.parametrize("uri", sorted(set(VIEWS.values())))
def test_a_page_has_all_that_it_needs(start, uri):  # noqa: F811
    """And it loads nothing: no address of another file, and a policy that allows pictures in its own text only."""
    server = start(version=None)  # noqa: F811
    server.initialize(capabilities=SHOWS)
    html = server.call("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
    assert html.startswith("<!doctype html>") and len(html) < 24000
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)[1]
    assert policy.startswith("default-src 'none'; ") and "connect-src" not in policy and "img-src data:;" in policy
    assert html.index("Content-Security-Policy") < html.index("<script")
    assert html.count("<script") == html.count("</script>") == 1 and "@style@" not in html and "@script@" not in html
    assert not re.search(r"\bimport\b .*from|fetch\(|XMLHttpRequest|WebSocket|innerHTML|insertAdjacent|document\.write|\beval\b", html)
    assert set(re.findall(r"https?://[^\s'\"]+", html)) == {"http://www.w3.org/2000/svg"}
