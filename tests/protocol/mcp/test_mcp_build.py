# SPDX-License-Identifier: Apache-2.0
"""build_template against cubbyd, on its socket and with a key.

The machines are processes, so tests/lib/daemon/build_engine.py stands for the program that runs the steps; a command
says there what happens. The whole way is in tests/e2e/test_build.py.
"""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

import jsonschema
import pytest
from cubbyd import Daemon
from harness import BIN, text_of, wait_for
from mcp_schemas import OFFERED, SCHEMAS
from mcp_stdio import META, Stdio


def url(daemon):
    return (daemon.home / "cubbyd.url").read_text().strip()


def answers(request):
    try:
        return urllib.request.urlopen(request, timeout=10).status == 200
    except urllib.error.HTTPError:
        return False


def key(daemon, name, *options):
    """The options of a server that uses the daemon with a new key."""
    made = subprocess.run([BIN / "cubby", "key", "new", "--plain", *options, name], capture_output=True, text=True,
                          env={**os.environ, "CUBBY_HOME": str(daemon.home)}, timeout=60, check=True).stdout.strip()
    asked = urllib.request.Request(url(daemon) + "/teams", headers={"X-API-KEY": made})
    wait_for(lambda: answers(asked), 10, "the daemon has read the key")
    return "--api-url", url(daemon), "--api-key", made


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--pool", "off", "--listen", "127.0.0.1:0", "--build-registry", "ghcr.io") as running:
        yield running


@pytest.fixture
def start(daemon):
    servers = []

    def start_one(*args, version="2025-11-25", **env):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "CUBBY_MCP"))}
        server = Stdio(*args, env={**kept, "CUBBY_HOME": str(daemon.home), **env})
        servers.append(server)
        if version:
            server.initialize(version)
        return server

    yield start_one
    for server in servers:
        server.finish()


@pytest.fixture
def server(start):
    return start("--allow-builds")


def built(server, **arguments):
    result = server.result("build_template", **arguments)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMAS["build_template"]["outputSchema"])
    return result["structuredContent"], text_of(result)


def builds(daemon):
    """The records of builds, the newest last."""
    records = [json.loads(path.read_text()) for path in (daemon.home / "builds").glob("*/build.json")]
    return sorted(records, key=lambda record: record["created_ns"])


def plan(daemon, build_id):
    return json.loads((daemon.home / "builds" / build_id / "plan.json").read_text())


def begin(server, token=1, request=7, **arguments):
    server.send({"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": {
        "_meta": {"progressToken": token}, "name": "build_template", "arguments": arguments}})


def told(server, word):
    """The texts of progress, until one has the word."""
    seen = []
    while not seen or word not in seen[-1]:
        message = server.line()
        assert message.get("method") == "notifications/progress", message
        seen.append(message["params"]["message"])
    return "".join(seen)


# ---- who may
def test_it_is_not_offered_unless_allowed(start):
    plain, allowed = start(), start("--allow-builds")
    assert "build_template" not in [t["name"] for t in plain.call("tools/list")["result"]["tools"]]
    assert plain.call("tools/call", {"name": "build_template", "arguments": {"name": "x"}})["error"]["code"] == -32602
    assert [t["name"] for t in allowed.call("tools/list")["result"]["tools"]] == \
        [name for name in SCHEMAS if name in OFFERED or name == "build_template"]
    by_toolset = start("--allow-builds", "--tools", "templates")
    assert [t["name"] for t in by_toolset.call("tools/list")["result"]["tools"]] == ["build_template"]


def test_a_restricted_network_forbids_it(start):
    refused = start("--allow-builds", "--network", "none", version=None)
    assert refused.process.wait(30) == 2
    assert "--allow-builds does not go with --network none" in refused.stderr()
    refused.process.returncode = 0  # it has ended as it should
    start("--allow-builds", "--network", "public")


def test_the_rights_of_a_key_hold(daemon, start):
    plain = start("--allow-builds", *key(daemon, "plain"))
    assert "max_builds" in plain.error("build_template", name="by-key")
    may = start("--allow-builds", *key(daemon, "may", "--max-builds", "1"))
    assert built(may, name="by-key")[0]["template"] == "by-key"
    listed = may.result("list_templates")["structuredContent"]["templates"]
    assert "by-key" in [t["template"] for t in listed]


# ---- what is built
def test_the_steps_of_the_arguments(daemon, server):
    o, text = built(server, name="tools", packages=["ffmpeg", "g++"], pip=["polars", "httpx==0.28.*"], npm=["typescript"],
                    commands=["echo 'a b'", "echo c"], start_command="serve", ready_command="true", memory_mb=1024)
    assert text == "Template tools is built. Pass it to create_sandbox as template." and o["steps"] == 5
    made = plan(daemon, o["build_id"])
    assert made["stages"][0]["from"] == {"template": "default"} and made["memory_mb"] == 1024
    assert (made["start"], made["ready"]) == ("serve", "true")
    steps = [step["args"] for step in made["stages"][0]["steps"] if step["type"] == "RUN"]
    assert [user for _, user in steps] == ["root", "root", "root", "user", "user"]
    assert steps[0][0].startswith("apt-get update && ") and steps[0][0].endswith(" 'ffmpeg' 'g++'")
    assert steps[1][0].endswith(" 'polars' 'httpx==0.28.*'") and steps[2][0] == "npm install -g 'typescript'"
    assert [command for command, _ in steps[3:]] == ["echo 'a b'", "echo c"]
    sandbox = daemon.create(templateID="tools")
    assert daemon.get(sandbox["sandboxID"]).json["templateID"] == "tools"
    daemon.kill(sandbox["sandboxID"])


def test_a_base_of_its_own(daemon, server):
    built(server, name="first")
    o, _ = built(server, name="second", template="first", commands=["echo x"], user="root")
    made = plan(daemon, o["build_id"])["stages"][0]
    assert made["from"]["template"].startswith("first@")
    assert made["steps"][-1]["args"] == ["echo x", "root"]
    assert "either template or image" in server.error("build_template", name="x", template="a", image="b")
    assert "docker.io" in server.error("build_template", name="x", image="python:3.12")
    assert "template" in server.error("build_template", name="x", template="nothing")


@pytest.mark.parametrize("arguments, said", [
    ({"name": "A b"}, "'name'"), ({"name": "x", "packages": ["-o=x"]}, "'packages"), ({"name": "x", "pip": ["-r x"]}, "'pip"),
    ({"name": "x", "npm": ["--x"]}, "'npm"), ({"name": "x", "user": "a b"}, "'user'"), ({}, "'name'")])
def test_bad_arguments(server, arguments, said):
    assert said in server.error("build_template", **arguments)


def test_the_limits_of_the_operator(start):
    server = start("--allow-builds", "--max-cpus", "2", "--max-memory-mb", "1000")
    assert "'cpus' must be at most 2 here" in server.error("build_template", name="x", cpus=3)
    assert "'memory_mb' must be at most 1000 here" in server.error("build_template", name="x", memory_mb=1001)


def test_names_of_others_are_not_replaced(daemon, server):
    for name in ("default", "base"):
        said = server.error("build_template", name=name)
        assert said.startswith("template_exists: ") and "choose another name" in said
    assert daemon.request("POST", "/v3/templates", {"name": "by-api"}).status == 202  # nothing is built yet: free
    first, _ = built(server, name="again", commands=["echo 1"])
    second, _ = built(server, name="again", commands=["echo 2"])
    assert first["build_id"] != second["build_id"]


# ---- progress, failure, cancellation
def test_progress_names_the_steps(daemon, server):
    gate = daemon.home / "gate"
    begin(server, name="told", commands=["echo hello", f"wait {gate}", "echo after"])
    seen = told(server, f"RUN wait {gate}")
    assert "[builder 1/3] RUN echo hello" in seen and "hello\n" in seen
    gate.touch()
    seen = told(server, "[finalize]")
    assert "[builder 3/3] RUN echo after" in seen
    while "id" not in (answer := server.line()):
        pass
    assert answer["result"]["structuredContent"]["template"] == "told"


def test_a_failure_names_its_step_and_has_the_last_lines(server):
    said = server.error("build_template", name="broken", commands=["echo early", "flood 40", "fail no such thing"])
    assert said.startswith("build_failed: the build failed at step 3: no such thing")
    assert "RUN fail no such thing" in said and "early" not in said
    said = server.error("build_template", name="broken", commands=["flood 40", "die oh"])
    assert "oh" in said and "line 3\n" not in said
    assert "broken" not in [t["template"] for t in server.result("list_templates")["structuredContent"]["templates"]]


@pytest.mark.parametrize("version", ["2025-11-25", None])
def test_a_cancelled_call_ends_the_build(daemon, start, version):
    server = start("--allow-builds", version=version)
    never = daemon.home / "never"
    params = {"name": "build_template", "arguments": {"name": "given-up", "commands": [f"wait {never}"]},
              "_meta": {**(META if version is None else {}), "progressToken": 1}}
    server.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    told(server, f"RUN wait {never}")
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    last = wait_for(lambda: builds(daemon)[-1]["state"] == "failed" and builds(daemon)[-1], 30, "the build has ended")
    assert last["reason"] == "the build was ended by a request"
    assert built(server, name="given-up") if version else True


def test_a_daemon_that_is_killed_fails_the_build(start):
    with Daemon("--pool", "off") as own:
        server = start("--allow-builds", CUBBY_HOME=str(own.home))
        begin(server, name="lost", commands=[f"wait {own.home}/never"])
        told(server, "RUN wait")
        # The server stands still, so that it does not start a daemon of its own in between.
        server.process.send_signal(signal.SIGSTOP)
        own.stop(9)
        own.start()
        server.process.send_signal(signal.SIGCONT)
        while "id" not in (answer := server.line()):
            pass
        assert answer["result"]["isError"]
        assert "cubbyd ended while this build ran" in text_of(answer["result"])


def test_e2b_s_cloud(daemon, start):
    """The same requests, but none that only cubbyd has."""
    server = start("--allow-builds", "--dialect", "e2b", *key(daemon, "cloud", "--max-builds", "4"))
    assert built(server, name="in-the-cloud", commands=["echo 1"])[0]["steps"] == 1
    never = daemon.home / "gone-on"
    begin(server, name="goes-on", commands=[f"wait {never}"])
    told(server, "RUN wait")
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    server.silent()
    assert builds(daemon)[-1]["state"] == "running"
    never.touch()
    wait_for(lambda: builds(daemon)[-1]["state"] == "ready", 30, "the build has gone on to its end")


def test_a_cluster_has_no_builder(start, daemon):
    server = start("--allow-builds", "--dialect", "cube", "--api-url", url(daemon), "--api-key", "k")
    assert "has no template builder" in server.error("build_template", name="x")
