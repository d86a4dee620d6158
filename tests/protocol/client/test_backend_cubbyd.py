# SPDX-License-Identifier: Apache-2.0
"""cubby-mcp and cubby with a cubbyd on another host: its own TCP listener, TLS and API keys,
nothing between.
"""

import os
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from front import authority
from harness import BIN, wait_for
from mcp_stdio import Stdio
from sdk import OURS
from test_backend_dialects import Bare, background, commands, files


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")[0]


@pytest.fixture(scope="module")
def daemon(ca):
    where = ca.parent
    with Bare("--listen", "127.0.0.1:0", "--tls-cert", str(where / "server.pem"), "--tls-key",
              str(where / "server.key")) as d:
        yield d


@pytest.fixture(scope="module")
def env(daemon, ca, tmp_path_factory):
    """Return the environment that a user of this cubbyd sets."""
    made = subprocess.run([BIN / "cubby", "key", "new", "--plain", "me"], env={**clean(), "CUBBY_HOME": str(daemon.home)},
                          capture_output=True, text=True, timeout=60, check=True)
    url = (daemon.home / "cubbyd.url").read_text().strip()
    key = made.stdout.strip()
    # The daemon looks at its keys now and then.
    wait_for(lambda: status(url, ca, key) == 200, 30, "the key is taken")
    return {**clean(), "CUBBY_HOME": str(tmp_path_factory.mktemp("nobody")), "CUBBY_BACKEND": url,
            "E2B_API_KEY": key, "SSL_CERT_FILE": str(ca)}


def status(url, ca, key):
    request = urllib.request.Request(url + "/v2/sandboxes", headers={"X-API-KEY": key})
    try:
        with urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(cafile=ca)) as answer:
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code


def clean():
    return {k: v for k, v in os.environ.items() if k not in OURS}


@pytest.fixture
def server(env, tmp_path):
    mcp = Stdio("--local-dir", tmp_path, env=env, cwd=tmp_path)
    mcp.initialize()
    yield mcp
    mcp.finish()


def test_every_tool(server, daemon, tmp_path):
    sandbox = server.tool("create_sandbox")["sandbox_id"]
    record = daemon.get(sandbox).json
    commands(server, sandbox, "user")
    files(server, sandbox, tmp_path)
    background(server, sandbox)
    assert daemon.get(sandbox).json["endAt"] >= record["endAt"], "its end slides"
    assert sandbox in server.text("list_sandboxes")
    server.tool("kill_sandbox", sandbox_id=sandbox)
    assert "ended" in server.error("run_command", sandbox_id=sandbox, command="true")


def test_a_paused_sandbox_is_not_called_gone(server, daemon):
    sandbox = server.tool("create_sandbox")["sandbox_id"]
    server.tool("write_file", sandbox_id=sandbox, path="/tmp/kept", content="kept")
    assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {}).status == 204
    for said in (server.error("run_command", sandbox_id=sandbox, command="true"),
                 server.error("read_file", sandbox_id=sandbox, path="/tmp/kept")):
        assert "is paused" in said and "resume_sandbox" in said and "create_sandbox" not in said
    assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 600}).status == 201
    assert server.tool("run_command", sandbox_id=sandbox, command="cat /tmp/kept")["stdout"] == "kept"
    server.tool("kill_sandbox", sandbox_id=sandbox)


def says(server, sandbox):
    return server.tool("run_command", sandbox_id=sandbox, command="cat /home/user/word; ls /home/user")["stdout"]


def test_back_to_a_checkpoint(server, env):
    """By the tools, and by cubby; the snapshot stays after the rollback."""
    sandbox = server.tool("create_sandbox")["sandbox_id"]
    server.tool("write_file", sandbox_id=sandbox, path="/home/user/word", content="before\n")
    snapshot = server.tool("snapshot_sandbox", sandbox_id=sandbox)["snapshot_id"]
    for command in "echo after > word; touch more", "rm -f word":
        server.tool("run_command", sandbox_id=sandbox, command=f"cd /home/user; {command}")
        server.tool("rollback_sandbox", sandbox_id=sandbox, snapshot_id=snapshot)
        assert says(server, sandbox) == "before\nword\n"
    subprocess.run([BIN / "cubby", "pause", "--hibernate", sandbox], env=env, check=True, timeout=60, capture_output=True)
    assert "resume_sandbox" in server.error("run_command", sandbox_id=sandbox, command="true")
    server.tool("resume_sandbox", sandbox_id=sandbox)
    assert says(server, sandbox) == "before\nword\n"
    other = server.tool("create_sandbox", template=snapshot)["sandbox_id"]
    assert says(server, other) == "before\nword\n" and other != sandbox
    assert [s["sandbox_id"] for s in server.tool("list_sandboxes")["snapshots"]] == [sandbox]
    server.tool("delete_snapshot", snapshot_id=snapshot)
    assert server.tool("list_sandboxes")["snapshots"] == []
    assert server.error("create_sandbox", template=snapshot).startswith("snapshot_not_found: ")
    for one in sandbox, other:
        assert says(server, one) == "before\nword\n"
        server.tool("kill_sandbox", sandbox_id=one)


def test_forks_go_their_own_ways(server):
    sandbox = server.tool("create_sandbox")["sandbox_id"]
    server.tool("write_file", sandbox_id=sandbox, path="/home/user/word", content="parent\n")
    forks = [f["sandbox_id"] for f in server.tool("fork_sandbox", sandbox_id=sandbox, count=3)["forks"]]
    for fork in forks:
        assert says(server, fork) == "parent\nword\n"
        server.tool("write_file", sandbox_id=fork, path="/home/user/word", content=f"{fork}\n")
    assert [says(server, one).split()[0] for one in (sandbox, *forks)] == ["parent", *forks]
    server.tool("kill_sandbox", sandbox_id=sandbox)
    for fork in forks:
        assert says(server, fork).split()[0] == fork, "without its parent"
        server.tool("kill_sandbox", sandbox_id=fork)


def test_without_the_right_key(env, tmp_path):
    mcp = Stdio(env={**env, "E2B_API_KEY": "e2b_" + "0" * 40}, cwd=tmp_path)
    mcp.initialize()
    assert "E2B_API_KEY" in mcp.error("create_sandbox")
    mcp.finish()


def test_https_where_the_server_speaks_http(env, tmp_path):
    with Bare("--listen", "127.0.0.1:0") as plain:
        url = (plain.home / "cubbyd.url").read_text().strip()
        assert url.startswith("http://")
        mcp = Stdio("--backend", url.replace("http", "https"), env=env, cwd=tmp_path)
        mcp.initialize()
        said = mcp.error("create_sandbox")
        mcp.finish()
    assert "speaks HTTP, not HTTPS" in said and "http://" in said and "Try again" not in said


def test_local_wins_over_what_is_set_for_e2b(env, tmp_path):
    mcp = Stdio("--backend", "local", env={**env, "E2B_API_URL": env["CUBBY_BACKEND"]}, cwd=tmp_path)
    mcp.initialize()
    assert "No sandboxes" in mcp.text("list_sandboxes")
    assert not list(pathlib.Path(env["CUBBY_HOME"]).glob("cubbyd.sock"))
    mcp.finish()


def test_the_command_line(env):
    def cubby(*words):
        return subprocess.run([BIN / "cubby", *words], env=env, capture_output=True, text=True, timeout=60)

    made = cubby("create")
    assert made.returncode == 0, made.stderr
    sandbox = made.stdout.split()[-1]
    assert cubby("exec", sandbox, "--", "echo", "hi").stdout == "hi\n"
    assert sandbox[:8] in cubby("ps").stdout
    assert cubby("kill", sandbox).returncode == 0


@pytest.mark.parametrize("options, says", [
    (("--backend", "sandboxes.example"), "must be a URL"),
    (("--backend", "https://x", "--dialect", "e3b"), "cubbyd"),
    (("--backend", "https://x", "--backend-ca", "/nonexistent/ca.pem"), "/nonexistent/ca.pem"),
    (("--backend", "https://x", "--cube-master", "10.0.0.1:8089"), "CubeMaster"),
])
def test_what_cannot_be_meant(options, says):
    done = subprocess.run([BIN / "cubby-mcp", *options], env=clean(), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=30)
    assert done.returncode == 2 and says in done.stderr, done
