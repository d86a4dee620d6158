# SPDX-License-Identifier: Apache-2.0
"""Logging, resources, prompts and completion as any client meets them first. Their own tests go
deeper. Numbers are those of reference/mcp.md, section 14.
"""

import pytest
from mcp_stdio import backend, fresh, server, start  # noqa: F401

CAPABILITIES = ("tools", "resources", "prompts", "completions")


def path(backend, name):
    return f"sandbox://{backend.sandbox()}/home/user/{name}"


def test_what_is_advertised_is_there(fresh):
    """Also the reverse: a method of a capability that is not advertised does not exist."""
    modern = fresh.modern("server/discover")["result"]["capabilities"]
    legacy = fresh.initialize()["capabilities"]
    assert all(c in modern and c in legacy for c in CAPABILITIES)
    assert "logging" not in modern and "tasks" not in modern and "tasks" not in legacy
    for method in "tools/list", "resources/list", "resources/templates/list", "prompts/list":
        assert "result" in fresh.modern(method) and "result" in fresh.call(method)


def test_log_level(server):  # 21
    assert server.call("logging/setLevel", {"level": "loud"})["error"]["code"] == -32602
    assert server.call("logging/setLevel", {})["error"]["code"] == -32602
    assert server.call("logging/setLevel", {"level": "warning"})["result"] == {}


def test_unknown_resource(server, backend):  # 22
    error = server.call("resources/read", {"uri": "sandbox://none/x"})["error"]
    assert error["code"] == -32002 and error["data"] == {"uri": "sandbox://none/x"}
    uri = path(backend, "none")
    assert server.call("resources/read", {"uri": uri})["error"]["code"] == -32002
    for uri in None, 7, "", "none", "file:///etc/passwd", "sandbox://":
        assert server.call("resources/read", {"uri": uri})["error"]["code"] in (-32602, -32002)


@pytest.mark.parametrize("way", ["../../../etc/hostname", "%2e%2e/%2e%2e/%2e%2e/etc/hostname",
                                 "..%2f..%2f..%2fetc%2fhostname", "./../../..//etc/./hostname"])
def test_no_way_out_of_the_sandbox(server, backend, way):  # 22
    """A path with ".." stays below the sandbox's root, or is refused."""
    sandbox = backend.sandbox()
    answer = server.call("resources/read", {"uri": f"sandbox://{sandbox}/home/user/{way}"})
    asked = [p for m, p in backend.requests if p.startswith("/files")]
    assert all(".." not in p and "%2e" not in p.lower() for p in asked)
    if "result" in answer:  # /etc/hostname of the sandbox, which here is this machine's
        assert answer["result"]["contents"][0]["uri"].startswith(f"sandbox://{sandbox}/")


def test_resource(server, backend):
    (backend.files / "t.txt").write_text("text")
    (backend.files / "b.bin").write_bytes(b"\0\xff")
    uri = path(backend, "t.txt")
    (content,) = server.call("resources/read", {"uri": uri})["result"]["contents"]
    assert content["uri"] == uri and content["text"] == "text" and "blob" not in content
    (content,) = server.call("resources/read", {"uri": uri.replace("t.txt", "b.bin")})["result"]["contents"]
    assert content["blob"] == "AP8=" and "text" not in content


def test_subscribe(server, backend):  # 23
    (backend.files / "t.txt").write_text("text")
    uri = path(backend, "t.txt")
    assert server.call("resources/subscribe", {"uri": uri})["result"] == {}
    assert server.call("resources/unsubscribe", {"uri": uri})["result"] == {}
    assert server.call("resources/subscribe", {})["error"]["code"] == -32602


def test_completion(server, backend):  # 23
    templates = server.call("resources/templates/list")["result"]["resourceTemplates"]
    assert templates
    for one in templates:
        for name in [p.split("}")[0].lstrip("+") for p in one["uriTemplate"].split("{")[1:]]:
            completion = server.call("completion/complete", {
                "ref": {"type": "ref/resource", "uri": one["uriTemplate"]},
                "argument": {"name": name, "value": ""}})["result"]["completion"]
            assert len(completion["values"]) <= 100
            assert all(isinstance(v, str) for v in completion["values"])
    assert server.call("completion/complete", {"ref": {"type": "ref/other"}, "argument": {
        "name": "a", "value": ""}})["error"]["code"] == -32602


def test_prompts(server):  # 24
    prompts = server.call("prompts/list")["result"]["prompts"]
    assert prompts and all(p["name"] and p["description"] for p in prompts)
    assert server.call("prompts/get", {"name": "nothing"})["error"]["code"] == -32602
    for prompt in prompts:
        wanted = prompt.get("arguments", [])
        for missing in [a["name"] for a in wanted if a.get("required")]:
            given = {a["name"]: "x" for a in wanted if a["name"] != missing}
            error = server.call("prompts/get", {"name": prompt["name"], "arguments": given})["error"]
            assert error["code"] == -32602 and missing in error["message"]
        result = server.call("prompts/get", {"name": prompt["name"],
                                             "arguments": {a["name"]: "x" for a in wanted}})["result"]
        assert all(m["role"] in ("user", "assistant") and m["content"]["type"] for m in result["messages"])


def test_unknown_resource_modern(fresh, backend):  # 34
    for uri in "sandbox://none/x", path(backend, "none"):
        error = fresh.modern("resources/read", uri=uri)["error"]
        assert error["code"] == -32602 and error["data"]["uri"] == uri


def test_caching_hints(fresh, backend):  # 74
    (backend.files / "t.txt").write_text("text")
    answers = [fresh.modern(m)["result"] for m in (
        "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list")]
    answers.append(fresh.modern("resources/read", uri=path(backend, "t.txt"))["result"])
    for result in answers:
        assert type(result["ttlMs"]) is int and result["ttlMs"] >= 0
        assert result["cacheScope"] in ("public", "private")
    assert answers[-1]["cacheScope"] == "private"


def test_nothing_of_the_other_era(server):
    for method in "prompts/list", "resources/list", "resources/templates/list":
        assert not {"resultType", "ttlMs", "cacheScope"} & set(server.call(method)["result"])
