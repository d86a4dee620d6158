# SPDX-License-Identifier: Apache-2.0
"""An agent fixes the five bugs, in both of the modes that clients use."""

import asyncio
import json
import pathlib
import subprocess
import sys
import types

import pytest
import scenario
from harness import BIN
from model_stub import Call, Stub, expect

SCENARIO = pathlib.Path(__file__).parent / "scenario.py"
SECONDS = 570  # five bugs take a minute in emulated guests, and three beside other builds of templates
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("mode", ["per-call", "one-process"])
def test_five_bugs(home, tmp_path, mode):
    transcript = tmp_path / "transcript.jsonl"
    run = subprocess.run([sys.executable, SCENARIO, "--mode", mode, "--transcript", transcript],
                         env=home.env, capture_output=True, text=True, timeout=SECONDS)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    calls = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert len(calls) == 5 * (1 + 3 + 1 + 1 + 1 + 1)
    assert home.sandboxes() == []


@pytest.mark.skipif(not (BIN / "runsc").exists(), reason="runsc is not built: make runsc")
def test_five_bugs_in_the_tier_that_is_asked_for(home):
    home.env["CUBBY_TIERS_ALLOWED"] = "microvm,gvisor"
    run = subprocess.run([sys.executable, SCENARIO, "--mode", "one-process", "--tier", "gvisor"],
                         env=home.env, capture_output=True, text=True, timeout=SECONDS)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    assert "tier: gvisor\n" in run.stdout
    assert home.sandboxes() == []


def test_candidates_side_by_side(home, tmp_path):
    """Only one bug, because the machine is slow: `scenario.py --mode fork` does all five."""
    transcript = tmp_path / "transcript.jsonl"
    run = subprocess.run([sys.executable, SCENARIO, "--mode", "fork", "--bugs", "pager", "--transcript", transcript],
                         env=home.env, capture_output=True, text=True, timeout=SECONDS)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    calls = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [c["tool"] for c in calls].count("fork_sandbox") == 1
    assert len({c["arguments"]["sandbox_id"] for c in calls if c["tool"] == "write_file"}) == 3
    assert home.sandboxes() == []


def test_tests_that_take_too_long_are_told_as_such():
    """The limit is higher than a tool's own; the failure says that it has passed and shows the
    output so far."""
    asked = {}

    class Slow:
        async def call(self, tool, **arguments):
            asked.update(arguments)
            return types.SimpleNamespace(structuredContent={"stdout": "FFF..", "stderr": "", "timed_out": True})

    with pytest.raises(scenario.Failure, match="timed out after 120 s.*FFF"):
        asyncio.run(scenario.run_tests(Slow(), "s", "pytest"))
    assert asked["timeout"] == 120


def test_a_wrong_count_is_a_failure(home, tmp_path):
    """The scenario itself can fail: it reports an expectation that does not hold."""
    bugs = tmp_path / "acceptance"
    subprocess.run(["cp", "-r", SCENARIO.parent, bugs], check=True)
    expected = json.loads((bugs / "bugs/expected.json").read_text())
    (bugs / "bugs/expected.json").write_text(json.dumps({"slug": dict(expected["slug"], red=4)}))
    run = subprocess.run([sys.executable, bugs / "scenario.py", "--mode", "one-process"],
                         env=home.env, capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 1
    assert "RED is" in run.stderr


# ---- a model that looks for the bug
def script_of(name, module, fixed):
    """What the scripted model does: it looks, breaks a rule of Cubby, and writes the right module."""
    def steps():
        there = f"/home/user/{name}"
        bug = yield Call("read_file", {"sandbox_id": sandbox[0], "path": f"{there}/{module}"})
        expect(bug, "def ")
        wrong = yield Call("run_command", {"sandbox_id": "made-up", "command": "ls"})
        expect(wrong, "invalid_sandbox_id", "call create_sandbox")
        yield Call("write_file", {"sandbox_id": sandbox[0], "path": f"{there}/{module}", "content": fixed})
        green = yield Call("run_command", {"sandbox_id": sandbox[0], "command": f"cd {there} && python3 -m pytest -q",
                                           "timeout": 120})
        if fixed:
            expect(green, "5 passed")
        return "All tests pass."

    sandbox = []
    return steps, sandbox


def run_agent(home, transcript, fixed):
    """The scenario with a scripted model, which learns the sandbox's id from the task."""
    steps, sandbox = script_of("pager", "pager.py", fixed)
    with Stub(steps()) as stub:
        turn_of = stub.model.reply

        def reply(turn):
            task = stub.model.requests[-1][1]["messages"][1]["content"]
            sandbox[:] = [task.split()[2]]
            return turn_of(turn)

        stub.model.reply = reply
        env = {**home.env, "OPENAI_BASE_URL": stub.url + "/v1"}
        run = subprocess.run([sys.executable, SCENARIO, "--mode", "agent", "--bugs", "pager", "--transcript", transcript],
                             env=env, capture_output=True, text=True, timeout=SECONDS)
        stub.model.check()
    return run


def test_a_model_fixes_a_bug(home, tmp_path):
    fixed = (SCENARIO.parent / "bugs/pager/fixed/pager.py").read_text()
    run = run_agent(home, tmp_path / "transcript.jsonl", fixed)
    assert run.returncode == 0, run.stderr
    assert "| pager |" in run.stdout
    assert home.sandboxes() == []


def test_a_model_that_only_says_so_has_failed(home, tmp_path):
    run = run_agent(home, tmp_path / "transcript.jsonl", "")
    assert run.returncode == 1
    assert "no pytest summary" in run.stderr or "tests fail" in run.stderr
    assert home.sandboxes() == []


def test_no_model_is_said_in_a_sentence(home):
    env = {**home.env, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    run = subprocess.run([sys.executable, SCENARIO, "--mode", "agent", "--bugs", "pager"], env=env,
                         capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 1
    assert "set OPENAI_BASE_URL" in run.stderr
