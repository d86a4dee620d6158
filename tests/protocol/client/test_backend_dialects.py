# SPDX-License-Identifier: Apache-2.0
"""cubby-mcp with each kind of backend, over TCP with TLS, from another network namespace: every
tool works, or says what the backend lacks. Behind the fronts is cubbyd, with the real envd in its
guests.
"""

import os
import pathlib
import re

import pytest

from backend_net import SERVER, BackendNet
from cube_front import CubeFront, named_user
from e2b_front import KEY, E2bFront
from front import Answer, authority
from harness import BIN, ToolError, wait_for
from mcp_stdio import Stdio
from sdk import KERNEL, OURS, Guests

ME = {"E2B_API_KEY": KEY}


class Bare(Guests):
    """A daemon in which only "coder" has a kernel, because a kernel's start takes seconds."""

    def templates(self):
        self.guest("default")
        self.guest("coder", kernel=f"/usr/bin/python3 {KERNEL} --port 49999 --run-dir /run/e2b")


@pytest.fixture(scope="module")
def daemon():
    with Bare() as d:
        yield d


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """(the authority's file, a server's TLS context)"""
    return authority(tmp_path_factory.mktemp("tls"), "*.cube.app", "*.e2b.test", "*.e2b.dev",
                     f"IP:{SERVER}")


@pytest.fixture
def net():
    n = BackendNet({".e2b.test": SERVER, ".e2b.dev": SERVER, ".cube.app": SERVER})
    yield n
    n.close()


class Place:
    """A front, and cubby-mcp in the client's namespace."""

    def __init__(self, front, net, ca, cwd):
        self.front, self.net, self.ca, self.cwd = front, net, ca, cwd
        self.servers = []

    def mcp(self, *options, trusted=True, **env):
        environment = {k: v for k, v in os.environ.items() if k not in OURS}
        environment |= {"CUBBY_HOME": str(self.cwd / "nobody"), **env}
        if trusted:
            environment["SSL_CERT_FILE"] = str(self.ca)
        words = self.net.wrap(BIN / "cubby-mcp", "--local-dir", self.cwd, *options)
        server = Stdio(*words[1:], env=environment, cwd=self.cwd, program=words[0])
        server.initialize()
        self.servers.append(server)
        return server

    def close(self):
        for server in self.servers:
            server.finish()
        self.front.close()


@pytest.fixture
def cubes(daemon, net, certificates, tmp_path):
    """A CubeSandbox cluster, through its proxy or through its guests' addresses; the arguments are
    its differences."""
    places = []

    def make(**how):
        ca, tls = certificates
        listeners = {"api": (net.listen(3000), tls), "master": (net.listen(8089), None),
                     "proxy": (net.listen(443), tls), "direct": (net.listen(49983), None)}
        places.append(Place(CubeFront(daemon, listeners, net.add_guest, **how), net, ca, tmp_path))
        return places[-1]

    yield make
    for place in places:
        place.close()
    empty(daemon)
    assert all(place.front.wrong == [] for place in places)


@pytest.fixture
def cube(cubes):
    return cubes()


@pytest.fixture
def e2b(daemon, net, certificates, tmp_path):
    """An E2B deployment; the arguments are its differences."""
    places = []

    def make(domain, **how):
        ca, tls = certificates
        api, sandbox = net.listen(8443), net.listen(443)
        front = E2bFront(daemon, {"api": (api, tls), "sandbox": (sandbox, tls)}, domain, **how)
        places.append(Place(front, net, ca, tmp_path))
        return places[-1]

    yield make
    for place in places:
        place.close()
        assert place.front.wrong == []
    empty(daemon)


def empty(daemon):
    for sandbox in daemon.request("GET", "/v2/sandboxes").json:
        daemon.kill(sandbox["sandboxID"])


def until(mcp, sandbox, command, done):
    output, cursor = "", 0
    for _ in range(60):
        page = mcp.tool("read_output", sandbox_id=sandbox, command_id=command, cursor=cursor, wait_seconds=5)
        output, cursor = output + page["output"], page["next_cursor"]
        if done(output, page):
            return output, page
    raise AssertionError(f"not done: {output[-500:]!r}")


def commands(mcp, sandbox, user):
    ran = mcp.tool("run_command", sandbox_id=sandbox, command="id -un; cat; echo err >&2; exit 3")
    assert (ran["stdout"], ran["stderr"], ran["exit_code"]) == (f"{user}\n", "err\n", 3)
    ran = mcp.tool("run_command", sandbox_id=sandbox, command="pwd; echo $A", cwd="/tmp", envs={"A": "b c"},
                   user="root")
    assert ran["stdout"] == "/tmp\nb c\n"
    assert mcp.tool("run_command", sandbox_id=sandbox, command="sleep 60", timeout=1)["timed_out"]
    with pytest.raises(ToolError, match="nosuchuser"):
        mcp.tool("run_command", sandbox_id=sandbox, command="true", user="nosuchuser")


def files(mcp, sandbox, cwd):
    content = bytes(range(256)) * 5000
    (cwd / "l\u00f6cal \"1\".bin").write_bytes(content)
    up = mcp.tool("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                  local_file_path=str(cwd / "l\u00f6cal \"1\".bin"), sandbox_file_path="/tmp/up/\u00fc \"2\".bin")
    assert up["path"].endswith("/tmp/up/\u00fc \"2\".bin")
    down = mcp.tool("download_file_from_sandbox_to_local", sandbox_id=sandbox,
                    sandbox_file_path="/tmp/up/\u00fc \"2\".bin", local_filename="back.bin")
    assert pathlib.Path(down["path"]).read_bytes() == content
    mcp.tool("write_file", sandbox_id=sandbox, path="notes/a.txt", content="one\ntwo\n")
    mcp.tool("write_file", sandbox_id=sandbox, path="notes/empty", content="")
    mcp.tool("edit_file", sandbox_id=sandbox, path="notes/a.txt", old_text="two", new_text="zw\u00f6lf")
    assert "zw\u00f6lf" in mcp.text("read_file", sandbox_id=sandbox, path="notes/a.txt")
    assert "a.txt" in mcp.text("list_files", sandbox_id=sandbox, path="notes")
    assert "notes/none" in mcp.error("read_file", sandbox_id=sandbox, path="notes/none")


def background(mcp, sandbox):
    started = mcp.tool("start_command", sandbox_id=sandbox, command='read x; echo "got $x"; sleep 600')
    command = started["command_id"]
    mcp.tool("send_input", sandbox_id=sandbox, command_id=command, text="it\n")
    until(mcp, sandbox, command, lambda o, p: o.endswith("got it\n"))
    stopped = mcp.tool("stop_command", sandbox_id=sandbox, command_id=command)
    assert stopped["was_running"]


TWO_PORTS = """import socket
listens = socket.create_server(("127.0.0.1", 0))
closed = socket.socket()
closed.bind(("127.0.0.1", 0))
print(listens.getsockname()[1], closed.getsockname()[1])
while True:
    listens.accept()[0].close()"""


def ports(mcp, sandbox):
    """Each port has its name, as getHost returns it; expose_port waits for a port until it answers."""
    command = mcp.tool("start_command", sandbox_id=sandbox, command=f"exec python3 -uc '{TWO_PORTS}'")["command_id"]
    open_port, closed = map(int, until(mcp, sandbox, command, lambda o, p: len(o.split()) == 2)[0].split())
    shown = mcp.tool("expose_port", sandbox_id=sandbox, port=open_port)
    assert re.fullmatch(rf"https?://{open_port}-{sandbox}\.[a-z0-9.:]+", shown["url"])
    with pytest.raises(ToolError, match="port_closed"):
        mcp.tool("expose_port", sandbox_id=sandbox, port=closed, wait_seconds=1)
    with pytest.raises(ToolError, match="access token"):
        mcp.tool("expose_port", sandbox_id=sandbox, port=open_port, token=True)
    mcp.tool("stop_command", sandbox_id=sandbox, command_id=command)


def tour(mcp, cwd, user):
    """Calls every tool that needs no internet; returns the sandbox's id, which is killed at the end."""
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert sandbox in mcp.text("list_sandboxes")
    commands(mcp, sandbox, user)
    files(mcp, sandbox, cwd)
    background(mcp, sandbox)
    ports(mcp, sandbox)
    assert "42" in mcp.text("run_python_code", sandbox_id=sandbox, code_block="print(6 * 7)")
    mcp.tool("kill_sandbox", sandbox_id=sandbox)
    assert sandbox not in mcp.text("list_sandboxes")
    with pytest.raises(ToolError, match="no sandbox|not found|gone|ended|doesn't exist"):
        mcp.tool("run_command", sandbox_id=sandbox, command="true")
    return sandbox


# ---- CubeSandbox
def test_cube_by_its_proxy(cube, tmp_path):
    """The kind is found by requests, sandboxes by DNS names; envd needs a moment after the create."""
    cube.front.late = 2
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--template", "coder")
    tour(mcp, tmp_path, "root")
    seen = {(r.method, r.path) for r in cube.front.requests}
    assert ("GET", "/health") in seen and ("POST", "/sandboxes") in seen
    assert not any(path.startswith("/v2") for _, path in seen)
    envd = [r for r in cube.front.requests if r.host.startswith("49983-") and r.path != "/health"]
    assert {named_user(r) for r in envd} <= {"root", "nosuchuser"} and envd
    assert all("username=" in r.query for r in envd if r.path == "/files")


def test_cube_by_addresses_of_its_master(cube, tmp_path):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--dialect", "cube",
                   "--cube-master", f"http://{SERVER}:8089", "--backend-user", "user")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    ran = mcp.tool("run_command", sandbox_id=sandbox, command="id -un; pwd")
    assert ran["stdout"] == "user\n/home/user\n"
    files(mcp, sandbox, tmp_path)
    other = cube.mcp("--backend", f"https://{SERVER}:3000", "--cube-master", f"http://{SERVER}:8089")
    assert other.tool("run_command", sandbox_id=sandbox, command="id -un")["stdout"] == "root\n"
    other.tool("kill_sandbox", sandbox_id=sandbox)
    ways = {r.where[0] for r in cube.front.requests}
    assert ways == {"api", "master", "direct"}
    with pytest.raises(ToolError, match="no sandbox|gone|not found"):
        mcp.tool("run_command", sandbox_id=sandbox, command="true")


def test_cube_by_a_proxy_that_no_name_leads_to(cube):
    cube.net.names.clear()
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--backend-proxy", f"https://{SERVER}:443")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")["stdout"] == "hi\n"
    lost = cube.mcp("--backend", f"https://{SERVER}:3000")
    assert "resolve" in lost.error("run_command", sandbox_id=sandbox, command="true").lower()


def test_cube_ends_nothing_so_the_client_does(cube, daemon):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--sandbox-timeout", "1")
    mcp.tool("create_sandbox")
    wait_for(lambda: not cube.front.sandboxes, 30, "the sandbox's time is over")
    assert daemon.request("GET", "/v2/sandboxes").json == []
    assert not any(r.path.endswith("/timeout") for r in cube.front.requests)


def test_what_an_old_envd_lacks_is_said(cubes, tmp_path):
    cube = cubes(envd_0_2=True)
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    command = mcp.tool("start_command", sandbox_id=sandbox, command="cat")["command_id"]
    said = mcp.error("send_input", sandbox_id=sandbox, command_id=command, text="x", close_stdin=True)
    assert "0.2.0" in said and "CloseStdin" in said
    commands(mcp, sandbox, "root")
    files(mcp, sandbox, tmp_path)


@pytest.mark.parametrize("version", [(0, 2), (0, 6)])
@pytest.mark.parametrize("is_cached", [True, False])
def test_cube_sandbox_that_is_gone(cubes, version, is_cached):
    """CubeProxy answers 500, or 504 after a while if it knows the address; later ones 404 and 410. The client then finds out
    that the sandbox has ended."""
    cube = cubes(version=version)
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    del cube.front.sandboxes[sandbox]
    if not is_cached:
        cube.front.cached.clear()
    for tool, more in ("run_command", {"command": "true"}), ("read_file", {"path": "/etc/hostname"}):
        said = mcp.error(tool, sandbox_id=sandbox, **more)
        assert "sandbox_ended" in said or "not found" in said or "no sandbox" in said, said
        said = said.replace(sandbox, "")  # which may have these digits
        assert "html" not in said and "410" not in said


def test_a_closed_port_of_cube_means_that_there_is_no_kernel(cube):
    """CubeProxy answers with nginx's page, not with E2B's text."""
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--template", "coder")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert mcp.tool("run_python_code", sandbox_id=sandbox, code="print(6 * 7)")["stdout"] == "42\n"


def test_a_create_that_cube_gives_up_leaks_nothing(cube, daemon):
    """CubeAPI answers 408 after 30 s, and the sandbox appears later."""
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    cube.front.given_up = 2
    said = mcp.error("create_sandbox")
    assert "408" in said and "late; it was ended" in said, said
    assert cube.front.sandboxes == {} and cube.front.unfinished == []
    assert daemon.request("GET", "/v2/sandboxes").json == []
    cube.front.given_up = None
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert sandbox in mcp.text("list_sandboxes")


def test_snapshots_rollback_and_forks_of_a_later_cube(cubes):
    cube = cubes(version=(0, 3))
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--sandbox-timeout", "600")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]

    def run(sandbox, command):
        return mcp.tool("run_command", sandbox_id=sandbox, command=command)["stdout"]
    run(sandbox, "echo one > /home/user/f")
    snapshot = mcp.tool("snapshot_sandbox", sandbox_id=sandbox)["snapshot_id"]
    run(sandbox, "echo two > /home/user/f")
    other = mcp.tool("create_sandbox", template=snapshot)["sandbox_id"]
    assert run(other, "cat /home/user/f") == "one\n"
    mcp.tool("rollback_sandbox", sandbox_id=sandbox, snapshot_id=snapshot)
    assert run(sandbox, "cat /home/user/f") == "one\n"
    children = [c["sandbox_id"] for c in mcp.tool("fork_sandbox", sandbox_id=sandbox, count=2)["forks"]]
    assert [run(child, "cat /home/user/f") for child in children] == ["one\n"] * 2
    for one in sandbox, other, *children:
        mcp.tool("kill_sandbox", sandbox_id=one)
    mcp.tool("delete_snapshot", snapshot_id=snapshot)
    asked = [r for r in cube.front.requests if r.path == "/snapshots" and r.query == "limit=1"]
    assert len(asked) == 1, "the version is asked for once"


def test_an_earlier_cube_has_no_snapshots(cube):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    for _ in range(2):
        assert "CubeSandbox has no snapshots" in mcp.error("snapshot_sandbox", sandbox_id=sandbox)
    assert [r.target for r in cube.front.requests if "snapshots" in r.path] == ["/snapshots?limit=1"]


def test_a_cube_of_0_7_ends_sandboxes_and_holds_them_to_a_policy(cubes, daemon):
    """The server has the time to live, the environment and the network policy; the version is found out at the first create."""
    cube = cubes(version=(0, 7))
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--sandbox-timeout", "600", "--network", "none")
    sandbox = mcp.tool("create_sandbox", envs=["A=b c"])["sandbox_id"]
    assert mcp.tool("run_command", sandbox_id=sandbox, command="echo $A")["stdout"] == "b c\n"
    inner = cube.front.sandboxes[sandbox]["id"]
    policy = daemon.get(inner).json["network"]
    assert (policy["allowOut"], policy["denyOut"]) == ([], ["0.0.0.0/0"])
    assert "denied" in mcp.error("download_file_from_internet_to_sandbox", sandbox_id=sandbox, url="http://192.0.2.1/", sandbox_file_path="/tmp/x")
    mcp.tool("extend_sandbox", sandbox_id=sandbox, timeout_s=300)
    paths = [r.target for r in cube.front.requests if r.where[0] == "api"]
    assert [p for p in paths if p in ("/snapshots?limit=1", "/volumes")] == ["/snapshots?limit=1", "/volumes"]
    assert f"/sandboxes/{sandbox}/timeout" in paths
    mcp.tool("kill_sandbox", sandbox_id=sandbox)
    assert "sandbox_ended" in mcp.error("run_command", sandbox_id=sandbox, command="true")


def test_a_sandbox_of_a_cube_of_0_6_ends_without_the_client(cubes, daemon):
    cube = cubes(version=(0, 6))
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--sandbox-timeout", "2")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    inner = cube.front.sandboxes[sandbox]["id"]
    mcp.finish()
    wait_for(lambda: daemon.get(inner).status == 404, 60, "its time is over")
    assert not any(r.method == "DELETE" for r in cube.front.requests)


# ---- CubeProxy holds streams back
def listed(place):
    return [r for r in place.front.requests if r.path == "/process.Process/List"]


def test_a_quiet_command_behind_cubes_proxy(cube):
    """Nothing of its stream comes until it ends, so envd's list tells that it runs."""
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    ran = mcp.tool("run_command", sandbox_id=sandbox, command="sleep 2; echo hi; exit 3")
    assert (ran["stdout"], ran["exit_code"]) == ("hi\n", 3)
    assert listed(cube)
    many = mcp.tool("run_command", sandbox_id=sandbox, command="sleep 1; seq 20000; sleep 1; echo end")
    assert many["stdout"].endswith("20000\nend\n")
    late = mcp.tool("run_command", sandbox_id=sandbox, command="echo before; sleep 60", timeout=2)
    assert late["timed_out"] and late["stdout"] == "before\n"


def test_a_named_shell_behind_cubes_proxy(cube):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    first = mcp.tool("run_command", sandbox_id=sandbox, session="s", command="cd /tmp; A=1; sleep 1")
    assert first["exit_code"] == 0
    second = mcp.tool("run_command", sandbox_id=sandbox, session="s", command="pwd; echo $A; exit 4")
    assert (second["stdout"], second["exit_code"]) == ("/tmp\n1\n", 4)


def test_python_behind_cubes_proxy(cube):
    """The kernel's lines come at the end. A run that takes too long is interrupted and keeps its
    variables."""
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--template", "coder")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    code = "import time; a = 6; print('on'); time.sleep({})"
    assert mcp.tool("run_python_code", sandbox_id=sandbox, code=code.format(2))["stdout"] == "on\n"
    late = mcp.tool("run_python_code", sandbox_id=sandbox, code=code.format(60), timeout=2)
    assert late["timed_out"] and late["stdout"] == "on\n", late
    assert mcp.tool("run_python_code", sandbox_id=sandbox, code="print(a * 7)")["stdout"] == "42\n"


def test_a_command_that_cannot_be_kept_behind_cubes_proxy(cube):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    said = mcp.error("start_command", sandbox_id=sandbox, command="sleep 60", envs={"CUBBY_COMMANDS": "/proc/none"})
    assert "cannot be kept" in said


def test_a_watch_behind_cubes_proxy(cube):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    mcp.tool("write_file", sandbox_id=sandbox, path="/tmp/watched", content="one")
    uri = f"sandbox://{sandbox}/tmp/watched"
    assert mcp.call("resources/subscribe", {"uri": uri})["result"] == {}
    mcp.tool("run_command", sandbox_id=sandbox, command="echo two > /tmp/watched")
    message = mcp.line()
    assert (message["method"], message["params"]) == ("notifications/resources/updated", {"uri": uri})
    paths = [r.path.rpartition("/")[2] for r in cube.front.requests]
    assert {"WatchDir", "CreateWatcher", "GetWatcherEvents"} <= set(paths)


def test_the_later_proxy_of_cube_passes_streams_on(cubes, tmp_path):
    cube = cubes(streams=True)
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", "--template", "coder")
    tour(mcp, tmp_path, "root")
    assert not [r for r in cube.front.requests if r.path.endswith("/CreateWatcher")]


@pytest.mark.parametrize("master", [False, True])
def test_a_paused_sandbox_of_cube_is_told_at_once(cube, master):
    """A request to it would wait for minutes, for its network stands still."""
    more = ("--cube-master", f"http://{SERVER}:8089") if master else ()
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000", *more)
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    mcp.tool("pause_sandbox", sandbox_id=sandbox)
    other = cube.mcp("--backend", f"https://{SERVER}:3000", *more)
    assert "is paused" in other.error("run_command", sandbox_id=sandbox, command="true")
    other.tool("resume_sandbox", sandbox_id=sandbox)
    assert other.tool("run_command", sandbox_id=sandbox, command="echo on")["stdout"] == "on\n"


def test_what_cube_makes_up_is_not_shown(cube):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    mcp.tool("pause_sandbox", sandbox_id=sandbox)
    listed, = mcp.tool("list_sandboxes")["sandboxes"]
    assert (listed["sandbox_id"], listed["state"], listed["created"]) == (sandbox, "", "")
    assert "ends_at" not in listed and "remaining_s" not in listed


def test_an_unknown_sandbox_of_cube_is_not_said_to_be_killed(cube):
    mcp = cube.mcp("--backend", f"https://{SERVER}:3000")
    for tool in "kill_sandbox", "pause_sandbox":
        said = mcp.error(tool, sandbox_id="ab" * 16)
        assert "not found" in said or "no sandbox" in said, said
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    mcp.tool("kill_sandbox", sandbox_id=sandbox)
    assert cube.front.sandboxes == {}


# ---- E2B
def test_e2b_by_wildcard_names(e2b, tmp_path):
    place = e2b("e2b.test")
    mcp = place.mcp(CUBBY_BACKEND=f"https://{SERVER}:8443", DEFAULT_TEMPLATE_ID="coder", **ME)
    tour(mcp, tmp_path, "user")
    hosts = {r.host.split(".", 1)[1] for r in place.front.requests if r.where[0] == "sandbox"}
    assert hosts == {"e2b.test"}
    assert all("e2b-sandbox-id" not in r.headers for r in place.front.requests)


def test_e2b_by_its_own_domain(e2b):
    """By the domain alone: api.<domain> and sandbox.<domain>, and no request to find out the kind."""
    place = e2b("e2b.dev")
    mcp = place.mcp("--backend", "https://api.e2b.dev:8443", "--dialect", "e2b", **ME)
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert mcp.tool("run_command", sandbox_id=sandbox, command="id -un")["stdout"] == "user\n"
    assert {r.host for r in place.front.requests} == {"api.e2b.dev", "sandbox.e2b.dev"}
    assert not any(r.path == "/health" for r in place.front.requests)


def test_e2b_has_no_tiers(e2b):
    """A tier that is asked for and would be ignored is refused."""
    place = e2b("e2b.test")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", "--tier", "gvisor", **ME)
    assert "E2B has no choice between tiers: only cubbyd offers tiers; leave the tier out" in mcp.error("create_sandbox")
    assert not [r for r in place.front.requests if r.method == "POST"]


def test_e2b_of_an_older_version(e2b, tmp_path):
    """Without the second version of its routes, and with envd 0.3.9, which wants a user's name."""
    place = e2b("e2b.test", only_v1=True, envd="0.3.9")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", **ME)
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert sandbox in mcp.text("list_sandboxes")
    assert mcp.tool("run_command", sandbox_id=sandbox, command="id -un; cat")["stdout"] == "user\n"
    files(mcp, sandbox, tmp_path)
    posts = [r.path for r in place.front.requests if r.where[0] == "api" and r.method == "POST"]
    assert posts[:2] == ["/v2/sandboxes", "/sandboxes"]
    uploads = [r for r in place.front.requests if (r.method, r.path) == ("POST", "/files")]
    assert uploads and all("multipart/form-data" in r.headers["content-type"] for r in uploads)


def test_e2b_without_the_right_key(e2b):
    place = e2b("e2b.test")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", E2B_API_KEY="e2b_wrong")
    assert "E2B_API_KEY" in mcp.error("create_sandbox")


# ---- refusals that pass, and those that do not
def test_a_limit_of_requests_is_waited_for(e2b):
    place = e2b("e2b.test")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", **ME)
    full = Answer(429, {"code": 429, "message": "slow down"}, Retry_After="0")
    place.front.refusals += [("/v2/sandboxes", full), ("/v2/sandboxes", full)]
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    place.front.refusals.append(("/process.Process/Start", full))
    assert mcp.tool("run_command", sandbox_id=sandbox, command="echo once")["stdout"] == "once\n"
    place.front.refusals += [("/v2/sandboxes", Answer(429, {"code": 429, "message": "the quota is used up"}))]
    assert "the quota is used up" in mcp.error("create_sandbox")
    assert place.front.refusals == []
    moving = Answer(409, {"code": 409, "message": "the sandbox is being resumed"})
    place.front.refusals += [(f"/sandboxes/{sandbox}", moving)] * 2
    mcp.tool("kill_sandbox", sandbox_id=sandbox)
    assert place.front.refusals == []


def test_nothing_that_may_have_started_is_sent_again(e2b):
    place = e2b("e2b.test")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", **ME)
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    for status in 500, 502, 503, 504:
        page = Answer(status, "<html><h1>a gateway's page</h1></html>", "text/html")
        place.front.refusals.append(("/process.Process/Start", page))
        before = sum(r.path.endswith("/Start") for r in place.front.requests)
        said = mcp.error("run_command", sandbox_id=sandbox, command="true")
        assert "html" not in said and "gateway's page" not in said, said
        assert sum(r.path.endswith("/Start") for r in place.front.requests) == before + 1


def test_a_certificate_that_is_not_trusted(e2b):
    place = e2b("e2b.test")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", trusted=False, **ME)
    said = mcp.error("create_sandbox")
    assert "certificate" in said and "--backend-ca" in said, said
    good = place.mcp("--backend", f"https://{SERVER}:8443", "--backend-ca", place.ca, trusted=False, **ME)
    good.tool("create_sandbox")


def test_a_list_of_many_pages(e2b, daemon):
    place = e2b("e2b.test")
    mcp = place.mcp("--backend", f"https://{SERVER}:8443", **ME)
    made = [mcp.tool("create_sandbox")["sandbox_id"] for _ in range(3)]
    page = daemon.request("GET", "/v2/sandboxes?limit=1")
    place.front.refusals.append(("/v2/sandboxes", Answer(
        200, page.json, X_Next_Token=page.headers["X-Next-Token"])))
    listed = mcp.text("list_sandboxes")
    assert all(sandbox in listed for sandbox in made)
