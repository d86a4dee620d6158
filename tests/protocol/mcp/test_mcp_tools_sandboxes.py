# SPDX-License-Identifier: Apache-2.0
"""list_sandboxes, kill_sandbox, the owner of a sandbox, and which tools are offered."""

import datetime
import json
import subprocess
import threading

import pytest
from harness import BIN, wait_for
from mcp_http import http_start, modern, tool  # noqa: F401
from mcp_schemas import OFFERED, SCHEMAS, checked
from mcp_stdio import Stdio, backend, fresh, server, start  # noqa: F401

SIX = ["create_sandbox", "run_command", "run_python_code", "upload_file_from_local_to_sandbox",
       "download_file_from_internet_to_sandbox", "download_file_from_sandbox_to_local"]
LOCAL = {SIX[3], SIX[5]}


def listed(backend, name, seconds=600, **more):  # noqa: F811
    """Adds the times that a daemon reports for a sandbox."""
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    backend.sandboxes[name].update(startedAt="2026-01-02T03:04:05.678Z",
                                   endAt=end.isoformat().replace("+00:00", "Z"), **more)
    return name


# ---- list_sandboxes
def test_list(server, backend):  # noqa: F811
    names = [listed(backend, backend.sandbox(), 100 * (i + 1)) for i in range(2)]
    o, text, _ = checked(server, "list_sandboxes")
    assert [s["sandbox_id"] for s in o["sandboxes"]] == names and o["total"] == 2
    first = o["sandboxes"][0]
    assert (first["template"], first["state"], first["created"]) == ("default", "running", "2026-01-02T03:04:05.678Z")
    assert 80 < first["remaining_s"] <= 100 and 180 < o["sandboxes"][1]["remaining_s"] <= 200
    head, *lines = text.splitlines()
    assert head.split() == ["sandbox_id", "template", "state", "tier", "created", "ends", "in"]
    assert [line.split()[:5] for line in lines] == [[n, "default", "running", "-", "2026-01-02T03:04:05"] for n in names]


def test_list_paused(server, backend):  # noqa: F811
    listed(backend, backend.sandbox(), -5, state="paused")
    o, text, _ = checked(server, "list_sandboxes")
    assert o["sandboxes"][0]["state"] == "paused"
    assert not {"ends_at", "remaining_s"} & o["sandboxes"][0].keys(), "it has no end"
    assert text.endswith("  no end while it is paused")


def test_list_very_many(server, backend):  # noqa: F811
    for _ in range(103):
        listed(backend, backend.sandbox())
    o, text, _ = checked(server, "list_sandboxes")
    assert len(o["sandboxes"]) == 100 and o["total"] == 103 and text.endswith("[3 more are not shown]")


@pytest.fixture
def alone(home, tmp_path):
    """A server with its own home, in which no daemon runs."""
    s = Stdio(env=home.env, cwd=tmp_path)
    s.initialize()
    yield s
    s.finish()


def test_no_daemon_is_started_for_an_empty_list(home, alone):
    o, text, _ = checked(alone, "list_sandboxes")
    assert o["sandboxes"] == [] and text == "No sandboxes. Create one first."
    assert home.daemon() is None and not (home.path / "cubbyd.log").exists()


def test_a_daemon_that_left_sandboxes_is_started(home, alone):
    """The earlier daemon ended without ending its sandboxes, so that the next one takes them over."""
    (home.path / "sandboxes" / "x").mkdir(parents=True)
    assert checked(alone, "list_sandboxes")[0]["sandboxes"] == []
    assert home.daemon()
    (home.path / "sandboxes" / "x").rmdir()


# ---- kill_sandbox
def test_kill(server, backend):  # noqa: F811
    name = backend.sandbox()
    o, text, _ = checked(server, "kill_sandbox", sandbox_id=name)
    assert not o["already_ended"] and text == f"Sandbox {name} killed" and name not in backend.sandboxes
    o, text, _ = checked(server, "kill_sandbox", sandbox_id=name)
    assert o["already_ended"] and text == f"Sandbox {name} had already ended"
    assert server.error("kill_sandbox", sandbox_id="a" * 20).startswith("sandbox_not_found: there is no sandbox")


# ---- whose a sandbox is
class Tokens:
    """Callers with names."""

    def __init__(self, path):
        self.path = path
        self.tokens = {}

    def add(self, name, **limits):
        made = subprocess.run([BIN / "cubby-mcp", "--new-token", name, "--token-file", self.path],
                              capture_output=True, text=True, timeout=30, check=True)
        entries = json.loads(self.path.read_text())
        entries["tokens"][-1].update(limits)
        self.path.write_text(json.dumps(entries))
        self.tokens[name] = made.stdout.strip()

    def ask(self, server, who, method, params=None):  # noqa: F811
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        answer = modern(server, method, params, headers=headers)
        assert answer.status == 200, answer.body
        return answer.json()["result"]

    def call(self, server, who, name, /, **arguments):  # noqa: F811
        return self.ask(server, who, "tools/call", tool(name, arguments))


@pytest.fixture
def tokens(tmp_path):
    made = Tokens(tmp_path / "tokens.json")
    made.add("ann")
    made.add("bob")
    return made


def arguments_of(name):
    """Valid arguments of a tool, without a sandbox."""
    some = {"command": "true", "code_block": "1", "path": "x", "content": "", "old_text": "a", "new_text": "b",
            "command_id": "0123abcd", "text": "x", "url": "http://192.0.2.1/", "sandbox_file_path": "/tmp/x",
            "local_file_path": "tokens.json", "snapshot_id": "snap-0", "port": 8000, "language": "python", "timeout_s": 60, "new_path": "y"}
    return {k: some[k] for k in SCHEMAS[name]["inputSchema"].get("required", []) if k in some}


@pytest.mark.parametrize("name", [n for n, t in SCHEMAS.items() if "sandbox_id" in t["inputSchema"]["properties"]])
def test_a_foreign_sandbox_is_an_unknown_one(http_start, backend, tokens, tmp_path, name):  # noqa: F811
    server = http_start("--token-file", tokens.path, "--local-dir", tmp_path, "--project-dir", tmp_path)
    mine = tokens.call(server, "ann", "create_sandbox")["structuredContent"]["sandbox_id"]
    nobodys = backend.sandbox()
    unknown = "u" * 20
    said = {}
    for sandbox in mine, nobodys, unknown:
        result = tokens.call(server, "bob", name, sandbox_id=sandbox, **arguments_of(name))
        assert result["isError"]
        said[sandbox] = result["content"][-1]["text"].replace(sandbox, "ID")
    assert len(set(said.values())) == 1 and said[mine].startswith("sandbox_not_found: there is no sandbox ID")
    assert mine in backend.sandboxes and nobodys in backend.sandboxes and not backend.started


def test_each_sees_their_own(http_start, backend, tokens):  # noqa: F811
    server = http_start("--token-file", tokens.path)
    mine = {who: tokens.call(server, who, "create_sandbox")["structuredContent"]["sandbox_id"] for who in ("ann", "bob")}
    backend.sandbox()
    for who, sandbox in mine.items():
        all_ = tokens.call(server, who, "list_sandboxes")["structuredContent"]
        assert [s["sandbox_id"] for s in all_["sandboxes"]] == [sandbox] and all_["total"] == 1
        assert "isError" not in tokens.call(server, who, "run_command", sandbox_id=sandbox, command="true")
    assert backend.sandboxes[mine["ann"]]["metadata"] == {"cubby-owner": "token:ann"}
    assert tokens.call(server, "bob", "kill_sandbox", sandbox_id=mine["ann"])["isError"]
    assert "isError" not in tokens.call(server, "ann", "kill_sandbox", sandbox_id=mine["ann"])


def test_a_yes_is_remembered(http_start, backend, tokens):  # noqa: F811
    sandbox = backend.sandbox()
    backend.sandboxes[sandbox]["metadata"] = {"cubby-owner": "token:ann"}
    server = http_start("--token-file", tokens.path)
    for expected in 1, 1, 1:
        assert "isError" not in tokens.call(server, "ann", "run_command", sandbox_id=sandbox, command="true")
        assert backend.count("/sandboxes/" + sandbox) == expected
    assert tokens.call(server, "bob", "run_command", sandbox_id=sandbox, command="true")["isError"]
    backend.end(sandbox, "The sandbox expired")
    said = tokens.call(server, "ann", "run_command", sandbox_id=sandbox, command="true")["content"][-1]["text"]
    assert said.startswith("sandbox_ended: The sandbox expired"), "to whom it was"
    said = tokens.call(server, "bob", "run_command", sandbox_id=sandbox, command="true")["content"][-1]["text"]
    assert said.startswith("sandbox_not_found: ")


def test_without_tokens_what_has_an_owner_is_not_there(http_start, backend, tokens):  # noqa: F811
    open_one, owned = backend.sandbox(), backend.sandbox()
    backend.sandboxes[owned]["metadata"] = {"cubby-owner": "token:ann"}
    server = http_start()
    assert "isError" not in tokens.call(server, None, "run_command", sandbox_id=open_one, command="true")
    said = tokens.call(server, None, "run_command", sandbox_id=owned, command="true")["content"][-1]["text"]
    assert said.startswith("sandbox_not_found: ")
    shown = tokens.call(server, None, "list_sandboxes")["structuredContent"]["sandboxes"]
    assert [s["sandbox_id"] for s in shown] == [open_one]


def test_over_stdio_nobody_is_asked(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    backend.sandboxes[sandbox]["metadata"] = {"cubby-owner": "token:ann"}
    assert not server.result("run_command", sandbox_id=sandbox, command="true").get("isError")
    assert [p for _, p in backend.requests if p.startswith("/sandboxes/" + sandbox)] in ([], ["/sandboxes/" + sandbox])
    assert checked(server, "list_sandboxes")[0]["total"] == 1


# ---- how many
def test_a_limit_of_sandboxes(http_start, backend, tokens):  # noqa: F811
    tokens.add("eve", max_sandboxes=2)
    server = http_start("--token-file", tokens.path)
    made = [tokens.call(server, "eve", "create_sandbox")["structuredContent"]["sandbox_id"] for _ in range(2)]
    said = tokens.call(server, "eve", "create_sandbox")["content"][-1]["text"]
    assert said.startswith("limit_reached: you have 2 of at most 2 sandboxes, so 1 more cannot be created") and "kill_sandbox" in said
    assert len(backend.created) == 2
    tokens.call(server, "ann", "create_sandbox")
    tokens.call(server, "eve", "kill_sandbox", sandbox_id=made[0])
    assert "isError" not in tokens.call(server, "eve", "create_sandbox")


def test_the_limit_holds_for_creations_side_by_side(http_start, backend, tokens):  # noqa: F811
    tokens.add("eve", max_sandboxes=3)
    server = http_start("--token-file", tokens.path)
    backend.create_gate = threading.Event()
    results = []
    threads = [threading.Thread(target=lambda: results.append(tokens.call(server, "eve", "create_sandbox")))
               for _ in range(8)]
    for t in threads:
        t.start()
    wait_for(lambda: len(backend.created) == 3, what="three are being made")
    wait_for(lambda: backend.count("/v2/sandboxes") >= 3 + 8, what="each has asked")
    assert len(backend.created) == 3
    backend.create_gate.set()
    for t in threads:
        t.join(30)
    assert sorted(bool(r.get("isError")) for r in results) == [False] * 3 + [True] * 5
    assert len(backend.created) == 3


def test_a_creation_that_fails_makes_room(http_start, backend, tokens):  # noqa: F811
    tokens.add("eve", max_sandboxes=1)
    server = http_start("--token-file", tokens.path)
    backend.create_error = 500, {"code": 500, "message": "qemu ended"}
    assert tokens.call(server, "eve", "create_sandbox")["content"][-1]["text"].startswith("failed: ")
    backend.create_error = None
    assert "isError" not in tokens.call(server, "eve", "create_sandbox")


# ---- which tools there are
def names_of(server):  # noqa: F811
    return [t["name"] for t in server.call("tools/list")["result"]["tools"]]


@pytest.mark.parametrize("args, names", [
    ([], OFFERED),
    (["--tools", "run,background"], ["run_command", "run_python_code", "run_code", "start_command", "read_output", "send_input",
                                     "stop_command", "expose_port"]),
    (["--tools", "kill_sandbox", "--tools", "files"], ["kill_sandbox", "read_file", "write_file", "edit_file", "list_files", "search_files",
                                                   "move_file", "delete_file"]),
    (["--tools", "sandboxes,transfer", "--disable-tool", "kill_sandbox"], ["list_sandboxes", "create_sandbox", "list_templates", "extend_sandbox", *SIX[3:]]),
    (["--disable-tool", "background"], [n for n in OFFERED if n not in ("start_command", "read_output", "send_input", "stop_command",
                                                                   "expose_port")]),
    (["--profile", "miroflow"], SIX),
    (["--profile", "miroflow", "--tools", "run_command,list_files"], ["run_command", "list_files"]),
    (["--profile", "miroflow", "--disable-tool", "run_command"], [n for n in SIX if n != "run_command"])])
def test_a_choice_of_tools(start, args, names):  # noqa: F811
    server = start(*args)
    assert names_of(server) == names
    told = server.modern("server/discover")["result"]["instructions"]
    assert "Paths in a sandbox are not paths" in told
    assert ("the upload and download tools" in told) == (SIX[3] in names and SIX[5] in names)
    for name in set(SCHEMAS) - set(names):
        assert name not in told
        assert server.call("tools/call", {"name": name})["error"]["code"] == -32602


@pytest.mark.parametrize("option", ["--tools", "--disable-tool"])
def test_a_tool_that_there_is_not(backend, option):  # noqa: F811
    ended = subprocess.run([BIN / "cubby-mcp", option, "run_comand"], env=backend.environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2 and ended.stdout == ""
    assert f'{option}: there is no tool "run_comand". Toolsets: sandboxes, run, ' in ended.stderr
    assert all(name in ended.stderr for name in SCHEMAS)


def test_local_files_over_http(http_start, backend, tokens, tmp_path):  # noqa: F811
    """Local means the server's machine there: only files below --local-dir are touched."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "secret").write_text("s")
    (allowed / "f").write_text("f")
    sandbox = backend.sandbox()
    shut = http_start(LOGS_DIR=str(tmp_path / "logs"))
    assert LOCAL & {t["name"] for t in modern(shut, "tools/list").json()["result"]["tools"]} == set()
    assert not (tmp_path / "logs").exists()
    for name in LOCAL:
        asked = modern(shut, "tools/call", tool(name, {"sandbox_id": sandbox, **arguments_of(name)}))
        assert asked.json()["error"]["code"] == -32602
    opened = http_start("--local-dir", allowed, LOGS_DIR=str(tmp_path / "logs"))
    assert LOCAL <= {t["name"] for t in modern(opened, "tools/list").json()["result"]["tools"]}
    denied = tokens.call(opened, None, SIX[3], sandbox_id=sandbox, local_file_path=str(tmp_path / "secret"))
    assert denied["content"][-1]["text"].startswith("local_path_denied: ")
    fine = tokens.call(opened, None, SIX[3], sandbox_id=sandbox, local_file_path=str(allowed / "f"))
    assert "isError" not in fine
    got = tokens.call(opened, None, SIX[5], sandbox_id=sandbox, sandbox_file_path="/home/user/f")
    assert got["structuredContent"]["path"] == f"{allowed}/sandbox_{sandbox}_f"
    assert not (tmp_path / "logs").exists()
