# SPDX-License-Identifier: Apache-2.0
"""pause, resume, snapshot, rollback, fork and delete_snapshot: their requests to a backend, their
results for a model, the owners of snapshots, and other tools with a sandbox that is paused.
"""

import threading

import jsonschema
import pytest
from harness import wait_for
from lifecycle_backend import Lifecycle
from mcp_http import http_start  # noqa: F401
from mcp_schemas import OFFERED, SCHEMAS, checked
from mcp_stdio import server, start  # noqa: F401
from test_mcp_tools_sandboxes import names_of, tokens  # noqa: F401

TOOLS = ["pause_sandbox", "resume_sandbox", "snapshot_sandbox", "rollback_sandbox", "fork_sandbox",
         "delete_snapshot"]


@pytest.fixture
def backend():
    b = Lifecycle()
    yield b
    b.close()


# ---- pause and resume
def test_pause_and_resume(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    o, text, _ = checked(server, "pause_sandbox", sandbox_id=sandbox)
    assert not o["already_paused"] and text == f"Sandbox {sandbox} is paused. Call resume_sandbox to let it run again"
    assert backend.sandboxes[sandbox]["state"] == "paused"
    o, text, _ = checked(server, "pause_sandbox", sandbox_id=sandbox)
    assert o["already_paused"] and "was already paused" in text, "which is what was wanted"
    o, text, _ = checked(server, "resume_sandbox", sandbox_id=sandbox)
    assert text.startswith(f"Sandbox {sandbox} is running again, with its files")
    checked(server, "resume_sandbox", sandbox_id=sandbox)
    assert backend.sent("POST", f"/sandboxes/{sandbox}/connect") == [{"timeout": 0}] * 2, "which keeps its life"
    assert backend.sent("POST", f"/sandboxes/{sandbox}/pause") == [{}] * 2


@pytest.mark.parametrize("tool, more", [
    ("run_command", {"command": "true"}), ("read_file", {"path": "x"}), ("write_file", {"path": "x", "content": ""}),
    ("run_python_code", {"code_block": "1"}), ("start_command", {"command": "true"}), ("list_files", {}),
    ("snapshot_sandbox", {}), ("fork_sandbox", {})])
def test_other_tools_say_what_resumes_it(server, backend, tool, more):  # noqa: F811
    sandbox = backend.sandbox(state="paused")
    said = server.error(tool, sandbox_id=sandbox, **more)
    assert said.startswith("sandbox_paused: ") and said.endswith("Call resume_sandbox, then try again"), said
    assert backend.started == [] and len(backend.sandboxes) == 1


def test_a_sandbox_that_is_not_there(server, backend):  # noqa: F811
    ended = backend.sandbox()
    backend.end(ended, "The sandbox expired")
    for tool in TOOLS[:5]:
        more = {"snapshot_id": "snap-0"} if tool == "rollback_sandbox" else {}
        if more:
            backend.snapshots["snap-0"] = {"snapshotID": "snap-0", "names": []}
        assert server.error(tool, sandbox_id="a" * 20, **more).startswith("sandbox_not_found: ")
        assert server.error(tool, sandbox_id=ended, **more).startswith("sandbox_ended: The sandbox expired")
        assert server.error(tool, sandbox_id="mine", **more).startswith("invalid_sandbox_id: ")


# ---- snapshots
def test_checkpoint_and_roll_back(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    o, text, _ = checked(server, "snapshot_sandbox", sandbox_id=sandbox)
    (snapshot,) = backend.snapshots
    assert (o["sandbox_id"], o["snapshot_id"]) == (sandbox, snapshot)
    assert "taken; the sandbox is unchanged" in text, "also of one that is paused"
    assert snapshot in text and all(word in text for word in ("rollback_sandbox", "create_sandbox", "delete_snapshot"))
    o, text, _ = checked(server, "rollback_sandbox", sandbox_id=sandbox, snapshot_id=snapshot)
    assert (o["sandbox_id"], o["snapshot_id"]) == (sandbox, snapshot) and snapshot in text
    assert backend.sent("POST", f"/sandboxes/{sandbox}/rollback") == [{"snapshotID": snapshot}]
    o, _, _ = checked(server, "create_sandbox", template=snapshot)
    assert o["template"] == snapshot and backend.created[-1]["templateID"] == snapshot


def test_snapshots_are_listed_and_deleted(server, backend):  # noqa: F811
    sandbox = backend.sandbox(startedAt="2026-01-02T03:04:05Z", endAt="2026-01-02T03:04:05Z")
    first = backend.snapshot(sandbox)["snapshotID"]
    second = backend.snapshot(sandbox, name="before \u0007 it")["snapshotID"]
    o, text, _ = checked(server, "list_sandboxes")
    assert [s["snapshot_id"] for s in o["snapshots"]] == [first, second] and o["total_snapshots"] == 2
    assert o["snapshots"][1] == {"snapshot_id": second, "name": "before \u0007 it", "sandbox_id": sandbox,
                                 "tier": "microvm", "created": "2026-01-02T03:04:05.678Z"}
    *_, head, one, two = text.splitlines()
    assert head.split()[0] == "snapshot_id" and one.split() == [first, sandbox, "microvm", "2026-01-02T03:04:05"]
    assert two.endswith(r"  before \x07 it")
    o, text, _ = checked(server, "delete_snapshot", snapshot_id=first)
    assert o["snapshot_id"] == first and text == f"Snapshot {first} deleted" and list(backend.snapshots) == [second]
    said = server.error("delete_snapshot", snapshot_id=first)
    assert said.startswith(f"snapshot_not_found: there is no snapshot '{first}'") and "list_sandboxes" in said


def test_what_is_no_snapshot_is_not_deleted(server, backend):  # noqa: F811
    """Templates are deleted under the same path."""
    for name in "default", "../default", "default:latest", "..":
        assert server.error("delete_snapshot", snapshot_id=name).startswith("snapshot_not_found: ")
    assert not any(method == "DELETE" for method, _, _ in backend.bodies)


def test_a_snapshot_in_use(server, backend):  # noqa: F811
    snapshot = backend.snapshot(backend.sandbox())["snapshotID"]
    why = {"code": 409, "message": "sandbox x goes on from it", "error_code": "snapshot_in_use"}
    backend.refusals["DELETE", f"/templates/{snapshot}"] = 409, why
    assert server.error("delete_snapshot", snapshot_id=snapshot).startswith("in_use: could not delete the snapshot: sandbox x")


@pytest.mark.parametrize("status, code", [(404, "snapshot_not_found"), (429, "limit_reached"), (507, "failed"), (503, "unavailable")])
def test_refusals_are_passed_on(server, backend, status, code):  # noqa: F811
    sandbox = backend.sandbox()
    if status == 404:
        said = server.error("rollback_sandbox", sandbox_id=sandbox, snapshot_id="snap-nothing")
        assert "there is no snapshot 'snap-nothing'. list_sandboxes" in said and "template" not in said
        backend.refusals["POST", f"/sandboxes/{sandbox}/rollback"] = 400, {"code": 400, "message": "it is a template"}
        refused = server.error("rollback_sandbox", sandbox_id=sandbox, snapshot_id="default")
        assert refused.startswith("invalid_argument: ") and "it is a template. list_sandboxes" in refused
    else:
        backend.refusals["POST", f"/sandboxes/{sandbox}/snapshots"] = status, {"code": status, "message": "no room"}
        said = server.error("snapshot_sandbox", sandbox_id=sandbox)
        assert "no room" in said
        assert len(backend.sent("POST", f"/sandboxes/{sandbox}/snapshots")) == 1, "nothing is tried again"
    assert said.startswith(code + ": ")


def test_a_template_that_there_is_not(server, backend):  # noqa: F811
    backend.create_error = 404, {"code": 404, "message": 'there is no template "x"'}
    said = server.error("create_sandbox", template="snap-x")
    assert said.startswith("snapshot_not_found: there is no snapshot 'snap-x'. list_sandboxes")
    said = server.error("create_sandbox", template="x")
    assert said.startswith("template_not_found: there is no template 'x'") and "list_sandboxes" in said
    assert "cubby template build" not in said


# ---- forks
def test_fork(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    o, text, _ = checked(server, "fork_sandbox", sandbox_id=sandbox, count=3)
    forks = [f["sandbox_id"] for f in o["forks"]]
    assert o["sandbox_id"] == sandbox and len(set(forks)) == 3 and sandbox not in forks
    assert text.splitlines()[1:4] == [f"{i}. {f}" for i, f in enumerate(forks, 1)]
    assert "sandbox_id" in text and "kill_sandbox" in text
    assert backend.sent("POST", f"/sandboxes/{sandbox}/fork") == [{"timeout": 0, "count": 3}], "the life of the original"
    for fork in forks:
        assert not server.result("run_command", sandbox_id=fork, command="true").get("isError")
    o, _, _ = checked(server, "fork_sandbox", sandbox_id=sandbox)
    assert len(o["forks"]) == 1


def test_one_fork_that_fails_is_only_its_own(server, backend):  # noqa: F811
    backend.fork_errors = [None, {"code": 503, "message": "no memory is left"}, None]
    o, text, _ = checked(server, "fork_sandbox", sandbox_id=backend.sandbox(), count=3)
    assert [set(f) for f in o["forks"]] == [{"sandbox_id"}, {"error"}, {"sandbox_id"}]
    assert "\n2. failed: no memory is left\n" in text
    backend.fork_errors = [{"code": 503, "message": "no memory is left"}] * 2
    said = server.error("fork_sandbox", sandbox_id=o["sandbox_id"], count=2)
    assert said == "failed: no copy was made: no memory is left"


@pytest.mark.parametrize("count", [-1, 101, "three", 1.5])
def test_a_count_that_cannot_be(server, backend, count):  # noqa: F811
    sandbox = backend.sandbox()
    assert server.error("fork_sandbox", sandbox_id=sandbox, count=count).startswith("invalid_argument: argument 'count'")
    assert backend.bodies == []


@pytest.mark.parametrize("tool, kind", [("fork_sandbox", "sandboxes"), ("snapshot_sandbox", "snapshots")])
def test_a_call_that_is_cancelled_leaves_nothing(server, backend, tool, kind):  # noqa: F811
    sandbox = backend.sandbox()
    backend.fork_gate = threading.Event()
    if tool == "snapshot_sandbox":
        gate, make = backend.fork_gate, backend.snapshot
        backend.snapshot = lambda *words, **more: gate.wait(30) and make(*words, **more)
    request = server.start_tool(tool, sandbox_id=sandbox, **({"count": 3} if kind == "sandboxes" else {}))
    wait_for(lambda: backend.bodies, what="the request is there")
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    server.silent()
    backend.fork_gate.set()
    ended = 3 if kind == "sandboxes" else 1
    wait_for(lambda: sum(m == "DELETE" for m, _, _ in backend.bodies) == ended, what="what was made is removed")
    wait_for(lambda: backend.snapshots == {} and list(backend.sandboxes) == [sandbox], what="nothing is left")
    server.silent()


# ---- whose they are
def call(server, tokens, who, tool, **arguments):  # noqa: F811
    result = tokens.call(server, who, tool, **arguments)
    if not result.get("isError"):
        jsonschema.validate(result["structuredContent"], SCHEMAS[tool]["outputSchema"])
    return result


def test_snapshots_of_others_are_not_there(http_start, backend, tokens):  # noqa: F811
    server = http_start("--token-file", tokens.path)  # noqa: F811
    mine = call(server, tokens, "ann", "create_sandbox")["structuredContent"]["sandbox_id"]
    his = call(server, tokens, "bob", "create_sandbox")["structuredContent"]["sandbox_id"]
    snapshot = call(server, tokens, "ann", "snapshot_sandbox", sandbox_id=mine)["structuredContent"]["snapshot_id"]
    nobodys = backend.snapshot(backend.sandbox(), name="named")["snapshotID"]
    silent = backend.snapshot(his)["snapshotID"]
    del backend.snapshots[silent]["metadata"]  # a server that does not say whose it is
    said = set()
    for wanted in snapshot, snapshot + ":default", nobodys, "named", "named:latest", silent, "snap-unknown":
        for tool, more in ("rollback_sandbox", {"sandbox_id": his}), ("delete_snapshot", {}):
            result = call(server, tokens, "bob", tool, snapshot_id=wanted, **more)
            assert result["isError"]
            said.add(result["content"][-1]["text"].replace(wanted, "ID"))
    assert len(said) == 1 and said.pop().startswith("snapshot_not_found: there is no snapshot 'ID'")
    for wanted in snapshot, nobodys, "named", silent:
        result = call(server, tokens, "bob", "create_sandbox", template=wanted)
        assert result["content"][-1]["text"].startswith("snapshot_not_found: ")
    assert len(backend.created) == 2 and len(backend.snapshots) == 3
    assert not any("rollback" in path or method == "DELETE" for method, path, _ in backend.bodies)
    assert "isError" not in call(server, tokens, "bob", "create_sandbox", template="minimal")


def test_own_snapshots_are_found_by_another_process(http_start, backend, tokens):  # noqa: F811
    first = http_start("--token-file", tokens.path)
    mine = call(first, tokens, "ann", "create_sandbox")["structuredContent"]["sandbox_id"]
    snapshot = call(first, tokens, "ann", "snapshot_sandbox", sandbox_id=mine)["structuredContent"]["snapshot_id"]
    second = http_start("--token-file", tokens.path)
    for who, shown in ("ann", [snapshot]), ("bob", []):
        listed = call(second, tokens, who, "list_sandboxes")["structuredContent"]
        assert [s["snapshot_id"] for s in listed["snapshots"]] == shown
    assert "isError" not in call(second, tokens, "ann", "rollback_sandbox", sandbox_id=mine, snapshot_id=snapshot)
    assert "isError" not in call(second, tokens, "ann", "create_sandbox", template=snapshot)
    assert "isError" not in call(second, tokens, "ann", "delete_snapshot", snapshot_id=snapshot)
    assert backend.snapshots == {}


def test_forks_are_their_parents_owners(http_start, backend, tokens):  # noqa: F811
    server = http_start("--token-file", tokens.path)  # noqa: F811
    mine = call(server, tokens, "ann", "create_sandbox")["structuredContent"]["sandbox_id"]
    (fork,) = call(server, tokens, "ann", "fork_sandbox", sandbox_id=mine)["structuredContent"]["forks"]
    ran = {who: call(server, tokens, who, "run_command", sandbox_id=fork["sandbox_id"], command="true")
           for who in ("ann", "bob")}
    assert "isError" not in ran["ann"] and ran["bob"]["content"][-1]["text"].startswith("sandbox_not_found: ")


def test_forks_count_among_a_callers_sandboxes(http_start, backend, tokens):  # noqa: F811
    tokens.add("eve", max_sandboxes=4)
    server = http_start("--token-file", tokens.path)  # noqa: F811
    mine = call(server, tokens, "eve", "create_sandbox")["structuredContent"]["sandbox_id"]
    said = call(server, tokens, "eve", "fork_sandbox", sandbox_id=mine, count=4)["content"][-1]["text"]
    assert said.startswith("limit_reached: you have 1 of at most 4 sandboxes, so 4 more cannot be created. End one")
    assert backend.sent("POST", f"/sandboxes/{mine}/fork") == []
    assert "isError" not in call(server, tokens, "eve", "fork_sandbox", sandbox_id=mine, count=3)
    assert call(server, tokens, "eve", "fork_sandbox", sandbox_id=mine)["isError"]


# ---- without them
def test_the_toolset_can_be_left_out(start, backend):  # noqa: F811
    server = start("--disable-tool", "lifecycle")  # noqa: F811
    assert names_of(server) == [n for n in OFFERED if n not in TOOLS]
    sandbox = backend.sandbox(state="paused")
    backend.snapshot(sandbox)
    said = server.error("run_command", sandbox_id=sandbox, command="true")
    assert said.startswith("sandbox_paused: ") and "resume_sandbox" not in said
    o, _, _ = checked(server, "list_sandboxes")
    assert "snapshots" not in o and ("GET", "/snapshots", None) not in backend.bodies
    assert names_of(start("--tools", "lifecycle")) == TOOLS


def test_a_list_where_snapshots_cannot_be_had(server, backend):  # noqa: F811
    sandbox = backend.sandbox(startedAt="2026-01-02T03:04:05Z", endAt="2026-01-02T03:04:05Z")
    backend.refusals["GET", "/snapshots"] = 501, {"code": 501, "message": "not implemented"}
    o, text, _ = checked(server, "list_sandboxes")
    assert "snapshots" not in o and sandbox in text and "snapshot_id" not in text
