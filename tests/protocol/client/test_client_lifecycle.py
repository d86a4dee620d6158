# SPDX-License-Identifier: Apache-2.0
"""pause, resume, snapshot, rollback and fork by the client library, through cubby and cubby-mcp:
the exact JSON that each kind of server is sent, requests that a server is never sent, and the
message that the user gets instead.
"""

import http.server
import json
import os
import pathlib
import socketserver
import subprocess
import threading

import pytest
from harness import wait_for
from lifecycle_backend import Lifecycle
from mcp_stdio import Stdio

BIN = pathlib.Path(os.environ["BIN"])
CUBE = "0123456789abcdef" * 2
E2B = "ijklmnop0123456789abc"
SANDBOX = {"templateID": "base", "clientID": "c", "envdVersion": "0.5.7", "state": "running"}


def cubby(env, *words):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "CUBBY_"))}
    return subprocess.run([BIN / "cubby", *words], env={**kept, **env}, capture_output=True, text=True, timeout=60)


def said(run):
    assert run.returncode == 1 and run.stdout == "", run
    return run.stderr


# ---- cubbyd, on its socket
@pytest.fixture
def daemon():
    b = Lifecycle()
    yield b
    b.close()


@pytest.fixture
def local(daemon):
    return lambda *words: cubby({"CUBBY_HOME": str(daemon.home)}, *words)


def test_pause_by_depth(daemon, local):
    sandbox = daemon.sandbox()
    assert local("pause", sandbox).stdout == sandbox + "\n"
    assert "paused" in said(local("pause", "--hibernate", sandbox))
    assert local("resume", "--timeout", "70", sandbox).stdout == sandbox + "\n"
    assert daemon.sent("POST", f"/sandboxes/{sandbox}/pause") == [{}, {"depth": "hibernate"}]
    assert daemon.sent("POST", f"/sandboxes/{sandbox}/connect") == [{"timeout": 70}]


def test_a_command_in_a_paused_one_says_what_resumes_it(daemon, local):
    sandbox = daemon.sandbox(state="paused")
    run = local("exec", sandbox, "--", "true")
    assert run.returncode == 125 and "is paused" in run.stderr and "cubby resume" in run.stderr


def test_snapshots(daemon, local):
    sandbox = daemon.sandbox()
    first = local("snapshot", sandbox).stdout.strip()
    second = local("snapshot", "--name", "before", sandbox[:19] + sandbox[19]).stdout.strip()
    assert list(daemon.snapshots) == [first, second]
    assert daemon.sent("POST", f"/sandboxes/{sandbox}/snapshots") == [{}, {"name": "before"}]
    head, *lines = local("snapshot", "ls").stdout.splitlines()
    assert head.split() == ["SNAPSHOT", "NAME", "SANDBOX", "TEMPLATE", "TIER", "CREATED"]
    assert [line.split()[:5] for line in lines] == [
        [first, "-", sandbox, "default", "microvm"], [second, "before", sandbox, "default", "microvm"]]
    assert json.loads(local("snapshot", "ls", "--json").stdout) == list(daemon.snapshots.values())
    other = daemon.sandbox()
    assert json.loads(local("snapshot", "ls", "--json", other).stdout) == []
    assert local("rollback", sandbox, first).stdout == sandbox + "\n"
    assert daemon.sent("POST", f"/sandboxes/{sandbox}/rollback") == [{"snapshotID": first}]
    assert local("snapshot", "rm", "before:default", first).stdout == f"before:default\n{first}\n"
    assert daemon.snapshots == {}
    assert "there is no snapshot" in said(local("snapshot", "rm", "default"))
    assert [path for method, path, _ in daemon.bodies if method == "DELETE"] == [
        f"/templates/{second}", f"/templates/{first}"], "a template of that name is not ended"


def test_forks(daemon, local):
    sandbox = daemon.sandbox()
    ids = local("fork", "--count", "3", "--timeout", "50", sandbox).stdout.split()
    assert len(set(ids)) == 3 and set(ids) == set(daemon.sandboxes) - {sandbox}
    assert daemon.sent("POST", f"/sandboxes/{sandbox}/fork") == [{"timeout": 50, "count": 3}]
    daemon.fork_errors = [{"code": 429, "message": "no memory is left"}]
    run = local("fork", "--count", "2", sandbox)
    assert run.returncode == 1 and len(run.stdout.split()) == 1 and "no memory is left" in run.stderr
    daemon.fork_errors = [None, {"code": 429, "message": "no memory is left"}]
    run = local("fork", "--count", "2", "--json", sandbox)
    one, two = json.loads(run.stdout)
    assert run.returncode == 1 and "sandboxID" in one["sandbox"] and two["error"]["message"] == "no memory is left"


@pytest.mark.parametrize("words", [
    ["snapshot"], ["snapshot", "a", "b"], ["snapshot", "rm"], ["snapshot", "ls", "a", "b"], ["rollback", "a"],
    ["fork"], ["fork", "--count", "0", "a"], ["fork", "--count", "101", "a"], ["rollback"]])
def test_mistakes(daemon, local, words):
    run = local(*words)
    assert run.returncode == 2 and run.stdout == "" and run.stderr and daemon.bodies == []


@pytest.mark.parametrize("verb", ["snapshot", "rollback", "fork", "pause"])
def test_help(local, verb):
    run = local(verb, "--help")
    assert run.returncode == 0 and run.stdout.startswith(f"Usage: cubby {verb}")
    assert verb in local("--help").stdout


def test_no_daemon_is_started_to_list_what_cannot_be(tmp_path):
    run = cubby({"CUBBY_HOME": str(tmp_path)}, "snapshot", "ls")
    assert run.returncode == 0 and len(run.stdout.splitlines()) == 1 and not (tmp_path / "cubbyd.sock").exists()


# ---- servers of other kinds
class Scripted(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Gives a test's answers, by (method, path); answers any other request as a router without such
    a route."""

    daemon_threads = True

    def __init__(self, health):
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.answers = {("GET", "/health"): (200, health)}
        self.seen = []  # (method, path, JSON), without the questions who it is
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def cubby(self, *words):
        return cubby({"CUBBY_HOME": "/nonexistent", "CUBBY_BACKEND": self.url, "E2B_API_KEY": "k"}, *words)

    def close(self):
        self.shutdown()
        self.server_close()


class ScriptedHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/health":
            self.server.seen.append((self.command, self.path, json.loads(body) if body else None))
        answer = self.server.answers.get((self.command, self.path), (404, "404 page not found"))
        if answer is None:  # the connection breaks
            self.close_connection = True
            return
        status, value = answer
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(value, str) else "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if status != 204:
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do


@pytest.fixture
def server(request):
    made = Scripted(request.param)
    yield made
    made.close()


cube = pytest.mark.parametrize("server", [{"status": "ok", "sandboxes": 0}], indirect=True)
e2b = pytest.mark.parametrize("server", ["Health check successful"], indirect=True)


@cube
def test_cube_has_neither_snapshots_nor_forks_nor_rollback(server):
    """An early CubeAPI would answer a snapshot with an invented id, so the client asks for the version."""
    for words, what in ((["snapshot", CUBE], "snapshots"), (["snapshot", "ls"], "snapshots"),
                        (["snapshot", "rm", "x"], "snapshots"), (["fork", CUBE], "fork"),
                        (["rollback", CUBE, "x"], "rollback")):
        assert f"CubeSandbox has no {what}: " in said(server.cubby(*words))
    assert server.seen == [("GET", "/snapshots?limit=1", None)] * 5


@cube
def test_a_later_cube_without_forks(server):
    """Forks came after snapshots: their route is then not there."""
    server.answers["GET", "/snapshots?limit=1"] = 200, []
    assert "this CubeSandbox has no fork (it answered 404)" in said(server.cubby("fork", CUBE))
    server.answers["POST", f"/sandboxes/{CUBE}/snapshots"] = 404, {"code": 404, "message": f"sandbox {CUBE} not found"}
    assert "not found" in said(server.cubby("snapshot", CUBE))


@cube
def test_a_cube_that_does_not_tell_its_version(server):
    server.answers["GET", "/snapshots?limit=1"] = 500, {"code": 500, "message": "the database is gone"}
    assert "the database is gone" in said(server.cubby("snapshot", CUBE))
    assert server.seen == [("GET", "/snapshots?limit=1", None)]


@cube
def test_the_network_of_a_cube(server):
    """Lists are what it takes, since 0.6 for a create and since 0.7 for a sandbox that runs."""
    policy = ["network", "--allow", "example.com", CUBE]
    assert "CubeSandbox has no network policy as Cubby writes it: " in said(server.cubby(*policy))
    server.answers |= {("GET", "/snapshots?limit=1"): (200, []), ("GET", "/volumes"): (200, [])}
    assert "this CubeSandbox has no network policy as Cubby writes it (it answered 404)" in said(server.cubby(*policy))
    server.answers["PUT", f"/sandboxes/{CUBE}/network"] = 204, ""
    server.seen.clear()
    lists = {"allowOut": ["example.com"], "denyOut": ["0.0.0.0/0"]}
    for words, sent in (["--allow", "example.com"], lists), (["--network", "none"], {**lists, "allowOut": []}):
        run = server.cubby("network", *words, CUBE)
        assert run.returncode == 0, run.stderr
        assert server.seen.pop() == ("PUT", f"/sandboxes/{CUBE}/network", sent)
    for words in ["--allow", "example.com:443"], ["--allow", "example.com", "--deny", "a.example.com"], ["--deny", "1.1.1.1"]:
        assert "cannot hold a sandbox to this network policy" in said(server.cubby("network", *words, CUBE))
    assert "no way to show a sandbox's network policy" in said(server.cubby("network", CUBE))
    assert not any(method == "PUT" for method, _, _ in server.seen)


@cube
def test_cube_pauses_in_its_own_way(server):
    server.answers["POST", f"/sandboxes/{CUBE}/pause"] = 204, ""
    server.answers["POST", f"/sandboxes/{CUBE}/connect"] = 200, {**SANDBOX, "sandboxID": CUBE}
    for words in ["pause", CUBE], ["pause", "--hibernate", CUBE], ["resume", CUBE]:
        run = server.cubby(*words)
        assert (run.returncode, run.stdout) == (0, CUBE + "\n"), run.stderr
    assert server.seen == [("POST", f"/sandboxes/{CUBE}/pause", {})] * 2 + [
        ("POST", f"/sandboxes/{CUBE}/connect", {"timeout": 1800})]


@e2b
def test_e2b_has_no_rollback(server):
    run = server.cubby("rollback", E2B, "tpl:default")
    assert said(run) == "cubby: E2B has no rollback: create a sandbox from the snapshot instead\n"
    assert server.seen == []


@e2b
def test_e2b_is_sent_what_it_knows(server):
    name = "team/before it:v2"
    server.answers |= {
        ("POST", f"/sandboxes/{E2B}/pause"): (204, ""),
        ("POST", f"/sandboxes/{E2B}/connect"): (201, {**SANDBOX, "sandboxID": E2B}),
        ("POST", f"/sandboxes/{E2B}/snapshots"): (201, {"snapshotID": "abc:default", "names": []}),
        ("GET", "/snapshots"): (200, [{"snapshotID": "team/abc:default", "names": [name]}]),
        ("GET", f"/snapshots?sandboxID={E2B}"): (200, []),
        ("DELETE", "/templates/team%2Fabc%3Adefault"): (204, ""),
        ("POST", f"/sandboxes/{E2B}/fork"): (201, [{"sandbox": {**SANDBOX, "sandboxID": "child"}},
                                                   {"error": {"code": 500, "message": "no"}}])}
    for words, status, out in (
            (["pause", "--hibernate", E2B], 0, E2B), (["resume", E2B], 0, E2B),
            (["snapshot", "--name", "n", E2B], 0, "abc:default"), (["snapshot", "ls", "--json", E2B], 0, "[]"),
            (["snapshot", "rm", name], 0, name), (["fork", "--count", "2", E2B], 1, "child")):
        run = server.cubby(*words)
        assert (run.returncode, run.stdout) == (status, out + "\n"), run
    assert server.seen == [
        ("POST", f"/sandboxes/{E2B}/pause", {}),
        ("POST", f"/sandboxes/{E2B}/connect", {"timeout": 1800}),
        ("POST", f"/sandboxes/{E2B}/snapshots", {"name": "n"}),
        ("GET", f"/snapshots?sandboxID={E2B}", None),
        ("GET", "/snapshots", None),
        ("DELETE", "/templates/team%2Fabc%3Adefault", None),
        ("POST", f"/sandboxes/{E2B}/fork", {"timeout": 3600, "count": 2})]


@e2b
@pytest.mark.parametrize("status, body", [
    (404, "404 page not found"), (405, ""), (501, {"code": 501, "message": "not implemented"}),
    (404, {"code": 404, "message": "no matching operation was found"})])
def test_an_older_server_is_told_as_such(server, status, body):
    for words, what, path in ((["fork", E2B], "fork", f"/sandboxes/{E2B}/fork"),
                              (["snapshot", E2B], "snapshots", f"/sandboxes/{E2B}/snapshots")):
        server.answers["POST", path] = status, body
        assert said(server.cubby(*words)) == (
            f"cubby: this E2B has no {what} (it answered {status}); its version may be too old\n")


@e2b
def test_a_sandbox_that_is_not_there_is_told_as_such(server):
    answer = 404, {"code": 404, "message": "sandbox x not found"}
    for words, path in ((["fork", E2B], "fork"), (["snapshot", E2B], "snapshots"), (["pause", E2B], "pause")):
        server.answers["POST", f"/sandboxes/{E2B}/{path}"] = answer
        assert said(server.cubby(*words)) == "cubby: sandbox x not found\n"


@e2b
@pytest.mark.parametrize("answer", [(500, "no"), (502, "no"), (503, {"code": 503, "message": "no"}), (504, "no"), None])
def test_nothing_that_may_have_happened_is_sent_again(server, answer):
    for words, path in ((["fork", E2B], "fork"), (["snapshot", E2B], "snapshots"), (["pause", E2B], "pause")):
        server.answers["POST", f"/sandboxes/{E2B}/{path}"] = answer
        said(server.cubby(*words))
        assert len(server.seen) == 1
        server.seen.clear()


@e2b
def test_answers_that_make_no_sense(server):
    for path, words, answers in (
            ("fork", ["fork", E2B], [{}, [], "x", [{}], [{"sandbox": {}}]]),
            ("snapshots", ["snapshot", E2B], [{}, [], "x", {"snapshotID": ""}, {"snapshotID": "a b\n"}])):
        for answer in answers:
            server.answers["POST", f"/sandboxes/{E2B}/{path}"] = 201, answer
            assert said(server.cubby(*words)).startswith("cubby: ")


@e2b
def test_ids_that_cannot_be(server):
    for words in (["snapshot", "../x" * 8], ["fork", "a b" * 10], ["snapshot", "ls", "x?y" * 10],
                  ["rollback", E2B, ""], ["rollback", E2B, "a\nb"]):
        said(server.cubby(*words))
    assert server.seen == []


@cube
def test_a_paused_sandbox_of_a_server_that_keeps_no_time_has_no_end(server, tmp_path):
    """A second sandbox that was made later and is not paused is ended, so the first one would have been."""
    first, second = CUBE, CUBE[::-1]
    for sandbox in first, second:
        server.answers |= {("DELETE", f"/sandboxes/{sandbox}"): (204, ""),
                           ("GET", f"/sandboxes/{sandbox}"): (200, {**SANDBOX, "sandboxID": sandbox}),
                           ("POST", f"/sandboxes/{sandbox}/pause"): (204, ""),
                           ("POST", f"/sandboxes/{sandbox}/connect"): (200, {**SANDBOX, "sandboxID": sandbox})}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("E2B_")}
    mcp = Stdio("--backend", server.url, "--sandbox-url", server.url, "--sandbox-timeout", "5",
                env={**environment, "CUBBY_HOME": str(tmp_path)}, cwd=tmp_path)
    mcp.initialize()
    server.answers["POST", "/sandboxes"] = 201, {**SANDBOX, "sandboxID": first}
    assert mcp.tool("create_sandbox")["sandbox_id"] == first
    mcp.tool("pause_sandbox", sandbox_id=first)
    mcp.error("run_command", sandbox_id=first, command="true")  # whose use gives it no end either
    server.answers["POST", "/sandboxes"] = 201, {**SANDBOX, "sandboxID": second}
    mcp.tool("create_sandbox")
    wait_for(lambda: ("DELETE", f"/sandboxes/{second}", None) in server.seen, 60, "the second's time is over")
    assert ("DELETE", f"/sandboxes/{first}", None) not in server.seen
    mcp.tool("resume_sandbox", sandbox_id=first)
    wait_for(lambda: ("DELETE", f"/sandboxes/{first}", None) in server.seen, 60, "it goes on, and ends")
    mcp.finish()
