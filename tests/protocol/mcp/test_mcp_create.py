# SPDX-License-Identifier: Apache-2.0
"""create_sandbox with its arguments, names, the operator's limits, extend_sandbox and
list_templates.
"""

import json
import os
import subprocess
import threading

import pytest
from harness import BIN, wait_for
from mcp_http import http_start  # noqa: F401
from mcp_schemas import checked
from mcp_stdio import backend, server, start  # noqa: F401
from test_mcp_tools_sandboxes import Tokens


def create(server, **arguments):  # noqa: F811
    return checked(server, "create_sandbox", **arguments)[0]


# ---- what is asked for
def test_what_is_asked_for_reaches_the_backend(server, backend):  # noqa: F811
    o = create(server, template="other", timeout_s=7200, envs=["A=1", "B=x=y"], network="none", cpus=2, memory_mb="1024")
    (body,) = backend.created
    assert (body["templateID"], body["timeout"], body["sliding"]) == ("other", 7200, True)
    assert body["envVars"] == {"A": "1", "B": "x=y"} and body["network"] == {"mode": "none"}
    assert (body["cpuCount"], body["memoryMB"]) == (2, 1024) and "metadata" not in body
    assert (o["template"], o["timeout_s"], o["existed"]) == ("other", 7200, False)


def test_nothing_is_sent_that_was_not_asked_for(server, backend):  # noqa: F811
    create(server)
    assert backend.created[0].keys() == {"templateID", "timeout", "sliding"}


def test_a_variable_that_no_program_can_get(server, backend):  # noqa: F811
    said = server.error("create_sandbox", envs=["A=1", "B=" + "x" * 131_070])
    assert said.startswith("invalid_argument: the environment variable B has 131072 bytes with its name and at most 131071")
    assert backend.requests == []
    create(server, envs=["B=" + "x" * 131_069])


@pytest.mark.parametrize("network, policy", [
    ("public", {"mode": "public"}), ("pypi.org, *.example.com:443",
                                     {"mode": "allow", "allow": ["pypi.org", "*.example.com:443"]})])
def test_network(server, backend, network, policy):  # noqa: F811
    create(server, network=network)
    assert backend.created[0]["network"] == policy


def test_the_network_of_a_snapshot_is_not_widened(server, backend):  # noqa: F811
    create(server, template="snap-" + "a" * 20, network="public")
    create(server, network="public")
    assert [body.get("noWiderNetwork") for body in backend.created] == [True, None]
    said = "network: this policy allows more than that of the snapshot's sandbox; leave network out"
    backend.create_error = (400, {"code": 400, "message": said})
    assert server.error("create_sandbox", template="t", network="public").startswith(
        "invalid_argument: could not create a sandbox: network: this policy allows more than that of the snapshot's sandbox")


@pytest.mark.parametrize("network", ["10.0.0.1", "pypi.org,192.168.0.0/16", "[fd00::a]", "0", "allow", "bogus", "deny:443",
                                     "pypi.org,public", "off."])
def test_addresses_and_single_words_are_not_hosts(server, backend, network):  # noqa: F811
    assert "argument 'network' must be none, public, or host names" in server.error("create_sandbox", network=network)
    assert backend.created == []


def test_the_tier_is_the_operator_s(start, backend):  # noqa: F811
    """A model cannot choose it, and is told."""
    server = start("--tier", "gvisor")  # noqa: F811
    server.initialize()
    assert create(server)["tier"] == "gvisor" and create(server, name="n")["tier"] == "gvisor"
    assert create(server, name="n")["existed"] and create(server, name="n")["tier"] == "gvisor"
    o, text, _ = checked(server, "list_sandboxes")
    assert [s["tier"] for s in o["sandboxes"]] == ["gvisor", "gvisor"] and "  gvisor   " in text
    assert [body["tier"] for body in backend.created] == ["gvisor", "gvisor"]
    assert "tier" in server.error("create_sandbox", tier="microvm")


def test_what_the_tier_does_not_promise(start, backend):  # noqa: F811
    """The backend's words, also for a sandbox that existed. A tier that is sound has none."""
    server = start()  # noqa: F811
    server.initialize()
    assert "tier_warning" not in create(server)
    backend.tier_warning = "bubblewrap shares the host's kernel: use it only for code that you trust"
    for existed in False, True:
        o = create(server, name="n")
        assert (o["existed"], o["tier_warning"]) == (existed, backend.tier_warning)


@pytest.mark.parametrize("environment, args", [({}, ["--tier", "bogus"]), ({"CUBBY_SANDBOX_TIER": "bogus"}, []),
                                               ({}, ["--tier", "microvm|none"])], ids=str)
def test_an_unknown_tier_is_refused_at_the_start(environment, args):
    done = subprocess.run([BIN / "cubby-mcp", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                          env={**os.environ, **environment}, check=False)
    assert done.returncode == 2 and not done.stdout and "must be one of microvm|gvisor|bubblewrap|none|auto, not" in done.stderr


def test_a_backend_without_tiers(start, backend):  # noqa: F811
    server = start()  # noqa: F811
    server.initialize()
    assert "tier" not in create(server) and "tier" not in backend.created[0]


# ---- the operator's limits
@pytest.mark.parametrize("option, arguments, words", [
    ("--max-timeout=3600", {"timeout_s": 3601}, "argument 'timeout_s' must be at most 3600 here, not 3601"),
    ("--max-cpus=2", {"cpus": 3}, "argument 'cpus' must be at most 2 here, not 3"),
    ("--max-memory-mb=512", {"memory_mb": 513}, "argument 'memory_mb' must be at most 512 here, not 513"),
    ("--network=none", {"network": "public"}, "argument 'network' can only be none here"),
    ("--network=none", {"network": "pypi.org"}, "argument 'network' can only be none here")])
def test_limits(start, backend, option, arguments, words):  # noqa: F811
    server = start(option)  # noqa: F811
    server.initialize()
    assert words in server.error("create_sandbox", **arguments)
    assert backend.created == []
    backend.templates = [{"templateID": "default", "cpuCount": 1, "memoryMB": 512}]
    least = {k: v - 1 if isinstance(v, int) else "none" for k, v in arguments.items()}
    create(server, **least)


def test_limits_hold_for_a_larger_template(start, backend):  # noqa: F811
    backend.templates = [{"templateID": "big", "cpuCount": 8, "memoryMB": 4096},
                         {"templateID": "small", "cpuCount": 1, "memoryMB": 512}]
    server = start("--max-cpus=2", "--max-memory-mb=1024")  # noqa: F811
    create(server, template="big")
    assert (backend.created[-1]["cpuCount"], backend.created[-1]["memoryMB"]) == (2, 1024)
    create(server, template="big", cpus=1)
    assert (backend.created[-1]["cpuCount"], backend.created[-1]["memoryMB"]) == (1, 1024)
    create(server, template="small")
    assert not {"cpuCount", "memoryMB"} & backend.created[-1].keys()
    assert create(server, template="big", name="n")["sandbox_id"] == create(server, template="big", name="n")["sandbox_id"]
    count = len(backend.created)
    assert server.error("create_sandbox", template="odd").startswith("template_not_found: ")
    assert len(backend.created) == count
    backend.create_error = (400, {"code": 400, "message": "cpuCount: a sandbox has the size of the one that was saved"})
    assert "'big' has cpus 8, and this server allows at most 2" in server.error("create_sandbox", template="big", memory_mb=9)
    backend.create_error = (503, {"code": 503, "message": "stopping"})
    assert "allows at most" not in server.error("create_sandbox", template="big")


def test_limits_hold_for_a_size_that_the_backend_does_not_tell(start, backend):  # noqa: F811
    backend.templates = [{"templateID": "zero", "cpuCount": 0, "memoryMB": 0}, {"templateID": "none"}]
    server = start("--max-cpus=2", "--max-memory-mb=1024")  # noqa: F811
    for template in "zero", "none":
        create(server, template=template)
        assert (backend.created[-1].get("cpuCount"), backend.created[-1].get("memoryMB")) == (2, 1024)
    backend.create_error = (400, {"code": 400, "message": "memoryMB: no"})
    assert "does not tell the memory_mb of template 'zero'" in server.error("create_sandbox", template="zero")


def test_the_longest_life_of_a_token(http_start, backend, tmp_path):  # noqa: F811
    backend.templates = [{"templateID": "default", "cpuCount": 1, "memoryMB": 512}]
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("ann", max_timeout=100)
    tokens.add("bob", max_timeout=900)
    server = http_start("--token-file", tokens.path, "--max-timeout=500", "--sandbox-timeout=400")  # noqa: F811
    lives = {}
    for who, most in ("ann", 100), ("bob", 500):
        said = tokens.call(server, who, "create_sandbox", timeout_s=most + 1)["content"][0]["text"]
        assert f"argument 'timeout_s' must be at most {most} here, not {most + 1}" in said
        tools = {t["name"]: t for t in tokens.ask(server, who, "tools/list")["tools"]}
        told = tools["create_sandbox"]["inputSchema"]["properties"]["timeout_s"]["description"]
        assert f"default {min(most, 400)}." in told, told
        made = tokens.call(server, who, "create_sandbox")["structuredContent"]
        lives[who] = (made["timeout_s"], backend.created[-1]["timeout"])
        extend = tokens.call(server, who, "extend_sandbox", sandbox_id=made["sandbox_id"], timeout_s=most + 1)
        assert extend["isError"] and f"must be at most {most} here" in extend["content"][0]["text"]
        assert not tokens.call(server, who, "extend_sandbox", sandbox_id=made["sandbox_id"], timeout_s=most).get("isError")
    assert lives == {"ann": (100, 100), "bob": (400, 400)}


def test_a_usual_life_above_the_longest(start, backend):  # noqa: F811
    server = start("--max-timeout=60")  # noqa: F811
    assert create(server)["timeout_s"] == 60 and backend.created[-1]["timeout"] == 60
    tools = {t["name"]: t for t in server.call("tools/list")["result"]["tools"]}
    assert "default 60." in tools["create_sandbox"]["inputSchema"]["properties"]["timeout_s"]["description"]


def test_limits_of_a_token(http_start, backend, tmp_path):  # noqa: F811
    backend.templates = [{"templateID": "default", "cpuCount": 4, "memoryMB": 2048}]
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("ann", max_cpus=1, max_memory_mb=900)
    tokens.add("bob")
    server = http_start("--token-file", tokens.path, "--max-cpus=2")  # noqa: F811
    said = tokens.call(server, "ann", "create_sandbox", cpus=2)["content"][0]["text"]
    assert "argument 'cpus' must be at most 1 here, not 2" in said
    sizes = []
    for who in "ann", "bob":
        assert not tokens.call(server, who, "create_sandbox").get("isError")
        sizes.append((backend.created[-1].get("cpuCount"), backend.created[-1].get("memoryMB")))
    assert sizes == [(1, 900), (2, None)]


def test_a_limit_of_sandboxes_is_not_called_one_of_their_size(http_start, backend, tmp_path):  # noqa: F811
    backend.templates = [{"templateID": "default", "cpuCount": 4, "memoryMB": 2048}]
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("ann", max_sandboxes=1, max_memory_mb=900)
    server = http_start("--token-file", tokens.path)  # noqa: F811
    assert not tokens.call(server, "ann", "create_sandbox").get("isError")
    said = tokens.call(server, "ann", "create_sandbox")["content"][0]["text"]
    assert said == ("limit_reached: you have 1 of at most 1 sandboxes, so 1 more cannot be created. End one with kill_sandbox. "
                    "list_sandboxes shows your sandboxes")


@pytest.mark.parametrize("said, words", [
    ('cpuCount: 99 is out of range: it may be 1 to 8', "argument 'cpus': 99 is out of range: it may be 1 to 8"),
    ('memoryMB: 10 is out of range: it may be 128 to 4096', "argument 'memory_mb': 10 is out of range: it may be 128"),
    ("network: no", "could not create a sandbox: network: no")])
def test_a_refusal_of_the_backend_names_the_argument(server, backend, said, words):  # noqa: F811
    backend.create_error = (400, {"code": 400, "message": said})
    assert server.error("create_sandbox", cpus=99, memory_mb=10).startswith(f"invalid_argument: {words}")


# ---- names
def test_the_same_name_gives_the_same_sandbox(server, backend):  # noqa: F811
    first = create(server, name="work", template="t", cpus=2)
    o, text, _ = checked(server, "create_sandbox", name="work")
    assert o["sandbox_id"] == first["sandbox_id"] and o["existed"] and not first["existed"]
    assert text == f"Sandbox found with sandbox_id: {o['sandbox_id']}" and len(backend.created) == 1
    assert create(server, name="work", template="t", cpus=2)["existed"]
    assert create(server, name="other")["sandbox_id"] != first["sandbox_id"]
    o, text, _ = checked(server, "list_sandboxes")
    assert [s.get("name") for s in o["sandboxes"]] == ["work", "other"]
    checked(server, "kill_sandbox", sandbox_id=first["sandbox_id"])
    again = create(server, name="work")
    assert not again["existed"] and again["sandbox_id"] != first["sandbox_id"]


@pytest.mark.parametrize("asked, what", [
    ({"template": "u"}, "template"), ({"network": "public"}, "network"), ({"network": "a.org"}, "network"),
    ({"cpus": 3}, "number of cpus"), ({"memory_mb": 256}, "memory size")], ids=str)
def test_another_sandbox_under_a_name_is_an_error(server, backend, asked, what):  # noqa: F811
    made = create(server, name="work", template="t", network="none", cpus=2)["sandbox_id"]
    said = server.error("create_sandbox", name="work", **asked)
    assert said.startswith(f"name_taken: your sandbox 'work' ({made}) still exists, but it has another {what}. Leave {[*asked][0]} out")
    assert len(backend.created) == 1


@pytest.mark.parametrize("first, then", [
    ({}, {"network": "public"}), ({}, {"cpus": 1}), ({}, {"memory_mb": 512}), ({}, {"template": "default"}),
    ({}, {"network": "public", "cpus": 1, "memory_mb": 512}), ({"cpus": 1}, {"cpus": 1, "memory_mb": 512}),
    ({"network": "a.org,b.com"}, {"network": "B.com, a.org,a.org"})], ids=str)
def test_what_a_sandbox_has_may_be_asked_for(server, backend, first, then):  # noqa: F811
    """Also what nobody asked for at first."""
    made = create(server, name="work", **first)["sandbox_id"]
    backend.sandboxes[made].update(cpuCount=1, memoryMB=512)
    o = create(server, name="work", **then)
    assert o["existed"] and o["sandbox_id"] == made
    for other, what in ({"cpus": 2}, "number of cpus"), ({"memory_mb": 511}, "memory size"), ({"network": "none"}, "network"):
        assert f"it has another {what}. Leave" in server.error("create_sandbox", name="work", **other)


@pytest.mark.parametrize("options, first, then, known", [
    (("--network", "none"), {}, {"network": "none"}, True), ((), {"template": "snap-x"}, {"network": "public"}, False),
    (("--network", "public"), {"template": "snap-x"}, {"network": "public"}, True)], ids=str)
def test_the_network_that_nobody_asked_for(start, backend, options, first, then, known):  # noqa: F811
    """A snapshot has a network of its own, unless the operator sets one."""
    server = start(*options)  # noqa: F811
    server.initialize()
    made = create(server, name="work", **first)["sandbox_id"]
    backend.sandboxes[made]["templateID"] = first.get("template", "default")
    if known:
        assert create(server, name="work", **then)["sandbox_id"] == made
    else:
        assert "it has another network" in server.error("create_sandbox", name="work", **then)


def test_a_paused_one_is_found(server, backend):  # noqa: F811
    made = create(server, name="work")["sandbox_id"]
    backend.sandboxes[made]["state"] = "paused"
    o, text, _ = checked(server, "create_sandbox", name="work")
    assert o["state"] == "paused" and o["hint"] in text and "resume_sandbox" in o["hint"]


def test_what_is_said_of_a_found_one_is_true(server, backend):  # noqa: F811
    made = create(server, name="work", template="t", timeout_s=100)["sandbox_id"]
    o = create(server, name="work")
    assert o["template"] == "t" and "timeout_s" not in o and backend.timeouts == []
    o = create(server, name="work", timeout_s=7200)
    assert o["timeout_s"] == 7200 and backend.timeouts == [(made, 7200)]
    backend.sandboxes[made]["state"] = "paused"
    assert "timeout_s" not in create(server, name="work", timeout_s=50) and len(backend.timeouts) == 1


def test_a_hint_names_no_tool_that_is_not_offered(start, backend):  # noqa: F811
    server = start("--tools", "sandboxes")  # noqa: F811
    server.initialize()
    backend.sandboxes[create(server, name="work")["sandbox_id"]]["state"] = "paused"
    o, text, _ = checked(server, "create_sandbox", name="work")
    assert o["state"] == "paused" and "resume_sandbox" not in text + o.get("hint", "")


def test_a_name_over_stdio_is_not_that_of_a_token(server, backend):  # noqa: F811
    theirs = backend.sandbox(metadata={"cubby-name": "work", "cubby-owner": "token:ann"})
    o = create(server, name="work")
    assert o["sandbox_id"] != theirs and not o["existed"] and theirs in backend.sandboxes


def test_two_at_once_get_one(start, backend):  # noqa: F811
    """Two servers, because some clients start one for each call. Neither finds the sandbox and both
    create one; the older one is kept."""
    backend.create_gate = threading.Event()
    servers = [start(), start()]
    calls = []
    for one in servers:
        one.initialize()
        calls.append(one.start_tool("create_sandbox", name="work"))
    wait_for(lambda: len(backend.created) == 2)
    backend.create_gate.set()
    results = [one.answer(call)["result"]["structuredContent"] for one, call in zip(servers, calls)]
    assert len({o["sandbox_id"] for o in results}) == 1 and sorted(o["existed"] for o in results) == [False, True]
    wait_for(lambda: len(backend.sandboxes) == 1)
    assert [*backend.sandboxes] == [results[0]["sandbox_id"]]


def test_the_older_one_has_the_name(server, backend):  # noqa: F811
    """Times cannot be compared as text: the daemon leaves out zeros at the end."""
    named = {"metadata": {"cubby-name": "work"}}
    older = backend.sandbox(startedAt="2026-01-01T00:00:00.5Z", **named)
    backend.sandbox(startedAt="2026-01-01T00:00:00.500001Z", **named)
    backend.sandbox(startedAt="2026-01-01T00:00:01Z", **named)
    assert create(server, name="work")["sandbox_id"] == older


def test_names_are_of_their_token(http_start, backend, tmp_path):  # noqa: F811
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("ann")
    tokens.add("bob")
    server = http_start("--token-file", tokens.path)  # noqa: F811
    made = {who: tokens.call(server, who, "create_sandbox", name="work")["structuredContent"] for who in ("ann", "bob")}
    assert made["ann"]["sandbox_id"] != made["bob"]["sandbox_id"] and not made["bob"]["existed"]
    assert tokens.call(server, "ann", "create_sandbox", name="work")["structuredContent"]["existed"]


@pytest.mark.parametrize("name", ["a b", "x" * 65, "ä"])
def test_bad_names(server, backend, name):  # noqa: F811
    assert "argument 'name'" in server.error("create_sandbox", name=name)


# ---- the template
def test_an_unknown_template(server, backend):  # noqa: F811
    """No error asks a model to run a command on the host, which a model cannot do."""
    backend.create_error = (404, {"code": 404, "message": "template 'python' not found; build it with: cubby template build python"})
    said = server.error("create_sandbox", template="python")
    assert said.startswith("template_not_found: there is no template 'python'. list_templates lists")
    assert "build" not in said
    assert "Tell the user that it has to be built" in server.error("create_sandbox")


def test_list_templates(server, backend):  # noqa: F811
    backend.templates = [{"templateID": "default", "aliases": ["default"], "cpuCount": 1, "memoryMB": 512, "diskSizeMB": 8192,
                          "contents": "bash, Python 3 (numpy)"},
                         {"templateID": "mine", "aliases": [], "cpuCount": 4, "memoryMB": 2048, "diskSizeMB": 4096}]
    o, text, _ = checked(server, "list_templates")
    assert [(t["template"], t["default"], t["cpus"], t["memory_mb"], t["disk_mb"]) for t in o["templates"]] == [
        ("default", True, 1, 512, 8192), ("mine", False, 4, 2048, 4096)]
    assert text.splitlines()[0].startswith("default (default): 1 CPU, 512 MB of memory, 8192 MB of disk; bash, Python 3 (numpy)")
    assert text.splitlines()[1] == "mine: 4 CPUs, 2048 MB of memory, 4096 MB of disk"


def test_what_a_template_contains_is_not_guessed(server, backend):  # noqa: F811
    backend.templates = [{"templateID": "default", "aliases": ["default"], "cpuCount": 1, "memoryMB": 512, "diskSizeMB": 8192}]
    o, text, _ = checked(server, "list_templates")
    assert "contents" not in o["templates"][0] and text.endswith("MB of disk")


# ---- extend_sandbox
def test_extend(start, backend):  # noqa: F811
    server = start("--max-timeout", "5000")  # noqa: F811
    server.initialize()
    sandbox = backend.sandbox()
    o, text, _ = checked(server, "extend_sandbox", sandbox_id=sandbox, timeout_s=5000)
    assert backend.timeouts == [(sandbox, 5000)] and o["timeout_s"] == 5000 and "5000 s" in text
    assert "must be at most 5000 here" in server.error("extend_sandbox", sandbox_id=sandbox, timeout_s=5001)


def test_what_a_named_sandbox_must_have_is_in_its_metadata(server, backend):  # noqa: F811
    create(server, name="work", network="none", memory_mb=300)
    metadata = backend.created[0]["metadata"]
    assert metadata["cubby-name"] == "work"
    assert json.loads(metadata["cubby-spec"]) == {"template": "default", "network": "none", "memory_mb": 300}


# ---- directories of the host (tests/e2e/test_mcp_mounts.py mounts them)
def shown(server):  # noqa: F811
    (tool,) = [t for t in server.call("tools/list")["result"]["tools"] if t["name"] == "create_sandbox"]
    return tool["inputSchema"]["properties"].keys()


def test_a_model_names_no_directory_unless_the_operator_allows_one(start, backend, tmp_path):  # noqa: F811
    server = start()  # noqa: F811
    assert "mounts" not in shown(server)
    assert "--allow-mount" in server.error("create_sandbox", mounts=[f"{tmp_path}:/x"])
    allowed = tmp_path / "allowed"
    (allowed / "in").mkdir(parents=True)
    (allowed / "out").symlink_to("/etc")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "read").mkdir()
    server = start("--allow-mount", allowed, "--allow-mount", f"{tmp_path}/read:ro")
    assert "mounts" in shown(server)
    for spec in (f"{tmp_path}:/x", "/etc:/x", f"{allowed}/out:/x", f"{allowed}/../read:/x", f"{allowed}/none:/x",
                 f"{tmp_path}/none:/x", f"{tmp_path}/allowed-not:/x", f"{tmp_path}/read:/x", "/:/x:ro"):
        said = server.error("create_sandbox", mounts=[spec])
        assert said.startswith("invalid_argument: argument 'mounts':") and "may be mounted" in said, spec
    assert "is not DIR:/path" in server.error("create_sandbox", mounts=[str(allowed)])
    assert backend.created == []


@pytest.mark.parametrize("option", ["--mount", "--allow-mount"])
def test_a_directory_that_became_a_link_is_not_mounted(start, backend, tmp_path, option):  # noqa: F811
    """A sandbox that writes to the directory above can do that."""
    project, other = tmp_path / "src/app", tmp_path / "other"
    for one in (project, other):
        one.mkdir(parents=True)
    named = {"--mount": f"{project}:/x"}.get(option, project)
    server = start("--allow-mount", tmp_path / "src", option, named)  # noqa: F811
    project.rename(tmp_path / "src/old")
    project.symlink_to(other)
    asked = {} if option == "--mount" else {"mounts": [f"{project}:/x"]}
    said = server.error("create_sandbox", **asked)
    assert ("may be mounted" if asked else "another directory now") in said, said
    project.unlink()
    (tmp_path / "src/old").rename(tmp_path / "src/older")
    project.mkdir()  # a directory again, and another one
    said = server.error("create_sandbox", **asked)
    assert f"{option} of cubby-mcp: {project} on the host is another directory now" in said, said
    assert "start cubby-mcp again" in said and backend.created == []


def test_a_directory_for_reading_in_one_for_writing(start, backend, tmp_path):  # noqa: F811
    (tmp_path / "src/data/in").mkdir(parents=True)
    (tmp_path / "src/data/out").mkdir()
    server = start("--allow-mount", tmp_path / "src", "--allow-mount", f"{tmp_path}/src/data:ro",  # noqa: F811
                   "--allow-mount", tmp_path / "src/data/out")
    for path in ("src", "src/data", "src/data/in"):
        assert "may be mounted for writing" in server.error("create_sandbox", mounts=[f"{tmp_path}/{path}:/x"]), path
    assert backend.created == []
    server.error("create_sandbox", mounts=[f"{tmp_path}/src/data/out:/x"])  # this backend mounts nothing
    assert len(backend.created) == 1


@pytest.mark.parametrize("words, said", [
    (["--mount", "/tmp:/x", "--mount", "/usr:/x/y"], "one lies below the other"),
    (["--mount", "/tmp:/x", "--mount", "/usr:/x"], "already used"),
    (["--mount", "/none:/x"], "cannot be mounted"), (["--mount", "/tmp"], "is not DIR:/path"),
    (["--allow-mount", "/none"], "there is no directory"),
    (["--mount", "/tmp:/x", "--backend", "https://example.com"], "need the local daemon")])
def test_mounts_that_cannot_be(words, said):
    done = subprocess.run([BIN / "cubby-mcp", *words], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    assert done.returncode != 0 and said in done.stderr
