# SPDX-License-Identifier: Apache-2.0
"""An agent finds, fixes and proves five bugs with its six tools, through the official MCP client.

For each bug: create a sandbox, upload the package, run its tests (RED: a known number must fail),
upload the right module, run the tests again (GREEN: all pass), download the report, kill the
sandbox. Real clients start a new server process for every tool call, so that is the first mode; in
the second mode one process serves all calls. A wrong count is a failure. Every message is kept in a
transcript.

With --mode agent a model finds and fixes the bugs: react.py is the loop around it, and its variables
name the model. The tests of the bug decide whether it did.

With --mode fork the right patch is not known: one sandbox is prepared for a bug and forked for
three candidates (bugs/candidates.json has two wrong ones for each bug), which are applied and
tested side by side. A fork must not change the other forks or the prepared sandbox.

BIN names the directory of the programs, CUBBY_HOME the state directory.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import react
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

BUGS = pathlib.Path(__file__).parent / "bugs"
CASES = 5
TESTS_TIMEOUT_S = 120
STEPS = ["create", "upload", "red", "patch", "green", "download", "kill"]
AGENT_STEPS = ["create", "upload", "model", "green", "kill"]
FORK_STEPS = ["create", "upload", "red", "fork", "try", "download", "kill"]
SUMMARY = re.compile(r"(?:(\d+) failed)?(?:, )?(?:(\d+) passed)? in [0-9.]+s")


class Failure(Exception):
    """A step of the scenario had another result than it must."""


class Agent:
    """Calls tools and keeps a transcript.

    tier: what its sandboxes run in; None is the host's best.
    """

    def __init__(self, one_process, work, transcript, tier=None):
        self.one_process = one_process
        self.work = work
        self.transcript = transcript
        self.session = None
        self.tier = tier
        self.tiers = set()  # of the sandboxes that were made

    def parameters(self):
        program = pathlib.Path(os.environ["BIN"]) / "cubby-mcp"
        args = ["--local-dir", str(self.work), *(["--tier", self.tier] if self.tier else [])]
        return StdioServerParameters(command=str(program), args=args, env=dict(os.environ), cwd=str(self.work))

    async def create(self):
        """A new sandbox's id."""
        made = (await self.call("create_sandbox")).structuredContent
        self.tiers.add(made.get("tier", "unknown"))
        return made["sandbox_id"]

    @contextlib.asynccontextmanager
    async def connect(self):
        async with stdio_client(self.parameters()) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                yield session

    async def call(self, tool, **arguments):
        """Call a tool; return its result, or raise Failure with its error text."""
        result = await self.try_call(tool, **arguments)
        if result.isError:
            raise Failure(f"{tool}: {result.content[-1].text}")
        return result

    async def try_call(self, tool, **arguments):
        """Call a tool; return its result, which may be an error."""
        if self.session:
            result = await self.session.call_tool(tool, arguments)
        else:
            async with self.connect() as session:
                result = await session.call_tool(tool, arguments)
        self.transcript.append({"tool": tool, "arguments": arguments,
                                "result": result.model_dump(mode="json", exclude_none=True)})
        return result


def counts(text):
    """(failed, passed) of pytest's last line."""
    found = [m for m in SUMMARY.finditer(text) if m.group(1) or m.group(2)]
    if not found:
        raise Failure(f"no pytest summary in: {text[-2000:]}")
    return int(found[-1].group(1) or 0), int(found[-1].group(2) or 0)


async def run_tests(agent, sandbox, command):
    """Run pytest in a sandbox; give (failed, passed). A machine under load takes its time, so the limit is high."""
    ran = (await agent.call("run_command", sandbox_id=sandbox, command=command,
                            timeout=TESTS_TIMEOUT_S)).structuredContent
    if ran["timed_out"]:
        raise Failure(f"pytest timed out after {TESTS_TIMEOUT_S} s; its output so far: {ran['stdout'][-2000:]}"
                      f"{ran['stderr'][-2000:]}")
    return counts(ran["stdout"])


def kill(sandbox_id):
    program = pathlib.Path(os.environ["BIN"]) / "cubby"
    subprocess.run([program, "kill", sandbox_id], check=True, capture_output=True, timeout=30)


def stopwatch():
    """({label: seconds}, a context manager that puts the seconds of a step there)."""
    times = {}

    @contextlib.contextmanager
    def step(label):
        start = time.perf_counter()
        yield
        times[label] = time.perf_counter() - start

    return times, step


async def fix_one(agent, name, expected):
    """Fix one bug, from create to kill. Return the seconds of each step."""
    times, step = stopwatch()
    there = f"/home/user/{name}"
    test = f"cd {there} && python3 -m pytest -q --junitxml=report.xml"
    source = agent.work / name
    with step("create"):
        sandbox = await agent.create()
    try:
        with step("upload"):
            for file in sorted(source.glob("*.*")):
                await agent.call("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                                 local_file_path=str(file), sandbox_file_path=there + "/")
        with step("red"):
            red = await run_tests(agent, sandbox, test)
        if red != (expected["red"], CASES - expected["red"]):
            raise Failure(f"{name}: RED is {red[0]} failed, {red[1]} passed")
        with step("patch"):
            await agent.call("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                             local_file_path=str(source / "fixed" / expected["module"]),
                             sandbox_file_path=there + "/")
        with step("green"):
            green = await run_tests(agent, sandbox, test)
        if green != (0, CASES):
            raise Failure(f"{name}: GREEN is {green[0]} failed, {green[1]} passed")
        with step("download"):
            report = await agent.call("download_file_from_sandbox_to_local", sandbox_id=sandbox,
                                      sandbox_file_path=f"{there}/report.xml",
                                      local_filename=f"{name}-report.xml")
        local = agent.work / report.structuredContent["path"]
        if 'tests="5"' not in local.read_text():
            raise Failure(f"{name}: the report {local} is not that of five tests")
    finally:
        with step("kill"):
            await asyncio.to_thread(kill, sandbox)
    return times


# ---- a model that looks for the bug
async def upload(agent, sandbox, name, pattern="*.*"):
    for file in sorted((agent.work / name).glob(pattern)):
        await agent.call("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                         local_file_path=str(file), sandbox_file_path=f"/home/user/{name}/")


async def ask_model(agent, name, expected):
    """Let a model fix one bug. Return the seconds of each step."""
    times, step = stopwatch()
    test = f"cd /home/user/{name} && python3 -m pytest -q"
    with step("create"):
        sandbox = await agent.create()
    try:
        with step("upload"):
            await upload(agent, sandbox, name)
        with step("model"):
            said, calls = await react.solve(
                agent, f"The sandbox {sandbox} has a Python package in /home/user/{name}. Its tests "
                       f"fail: `{test}`. Find the bug and fix it.")
        with step("green"):
            await upload(agent, sandbox, name, "test_*.py")  # those of the bug, whatever the model did
            green = await run_tests(agent, sandbox, test)
        if green != (0, CASES):
            raise Failure(f"{name}: after {calls} calls of the model, {green[0]} tests fail; it said: {said}")
    except react.NoAnswer as e:
        raise Failure(f"{name}: {e}") from e
    finally:
        with step("kill"):
            await asyncio.to_thread(kill, sandbox)
    return times


# ---- candidates side by side
def candidates_of(work, name, module):
    """The module's text for each candidate; the right one is in the middle."""
    broken = (work / name / module).read_text()
    texts = []
    for edits in json.loads((BUGS / "candidates.json").read_text())[name]:
        text = broken
        for old, new in edits:
            if text.count(old) != 1:
                raise Failure(f"{name}: a candidate changes {old!r}, which is not there once")
            text = text.replace(old, new)
        texts.append(text)
    return [texts[0], (work / name / "fixed" / module).read_text(), *texts[1:]]


async def try_one(agent, fork, there, module, text, test):
    """Try a candidate in its own fork. Return how many tests fail."""
    lasting = await agent.call("run_python_code", sandbox_id=fork, code_block="prepared")
    if there not in lasting.content[0].text:
        raise Failure(f"{fork}: the parent's variables are lost: {lasting.content[0].text}")
    await agent.call("write_file", sandbox_id=fork, path=f"{there}/{module}", content=text)
    return (await run_tests(agent, fork, test))[0]


async def check_untouched(agent, sandboxes, there, module):
    """Check that each of [(sandbox, text)] still has its own text of the module."""
    for sandbox, text in sandboxes:
        has = await agent.call("run_command", sandbox_id=sandbox, command=f"cat {there}/{module}")
        if has.structuredContent["stdout"] != text:
            raise Failure(f"{sandbox}: {module} is not its own any more: {has.structuredContent}")


async def prepare(agent, name, expected, step, there, test):
    """Prepare a sandbox that lacks only the patch."""
    with step("create"):
        sandbox = await agent.create()
    with step("upload"):
        for file in sorted((agent.work / name).glob("*.*")):
            await agent.call("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                             local_file_path=str(file), sandbox_file_path=there + "/")
        await agent.call("run_python_code", sandbox_id=sandbox, code_block=f"prepared = {there!r}")
    with step("red"):
        red = await run_tests(agent, sandbox, test)
    if red[0] != expected["red"]:
        raise Failure(f"{name}: RED is {red[0]} failed, {red[1]} passed")
    return sandbox


async def try_all(agent, name, expected, step, sandbox, forks, there, test):
    """Try all candidates. Return the fork in which all tests pass."""
    module = expected["module"]
    texts = candidates_of(agent.work, name, module)
    with step("try"):
        failed = await asyncio.gather(*(try_one(agent, fork, there, module, text, test)
                                        for fork, text in zip(forks, texts, strict=True)))
    good = [fork for fork, count in zip(forks, failed, strict=True) if count == 0]
    if good != [forks[1]]:
        raise Failure(f"{name}: the tests say {failed}, and the second one is right")
    broken = (agent.work / name / module).read_text()
    await check_untouched(agent, [(sandbox, broken), *zip(forks, texts, strict=True)], there, module)
    return good[0]


async def fork_one(agent, name, expected):
    """Fix one bug with three candidates. Return the seconds of each step."""
    times, step = stopwatch()
    there = f"/home/user/{name}"
    test = f"cd {there} && python3 -m pytest -q --junitxml=report.xml"
    sandbox = await prepare(agent, name, expected, step, there, test)
    forks = []
    try:
        with step("fork"):
            forked = (await agent.call("fork_sandbox", sandbox_id=sandbox, count=3)).structuredContent
        forks += [f["sandbox_id"] for f in forked["forks"] if "sandbox_id" in f]
        if len(set(forks)) != 3:
            raise Failure(f"{name}: {forked}")
        good = await try_all(agent, name, expected, step, sandbox, forks, there, test)
        with step("download"):
            await agent.call("download_file_from_sandbox_to_local", sandbox_id=good,
                             sandbox_file_path=f"{there}/report.xml", local_filename=f"{name}-report.xml")
    finally:
        with step("kill"):
            for one in [sandbox, *forks]:
                await asyncio.to_thread(kill, one)
    return times


async def run(one_process, work, transcript, fix=fix_one, bugs=None, tier=None):
    """Fix all bugs, or the named ones. Return {bug: {step: seconds}} and the tiers."""
    expected = json.loads((BUGS / "expected.json").read_text())
    agent = Agent(one_process, work, transcript, tier)
    async with contextlib.AsyncExitStack() as stack:
        if one_process:
            agent.session = await stack.enter_async_context(agent.connect())
        return {name: await fix(agent, name, expected[name]) for name in bugs or expected}, agent.tiers


def table(times, columns):
    lines = ["| bug (ms) | " + " | ".join(columns) + " | whole |",
             "|---|" + "---:|" * (len(columns) + 1)]
    rows = dict(times)
    rows["median"] = {s: statistics.median(t[s] for t in times.values()) for s in columns}
    for name, steps in rows.items():
        cells = [f"{steps[s] * 1000:.0f}" for s in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {sum(steps.values()) * 1000:.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["per-call", "one-process", "both", "fork", "agent"], default="both")
    parser.add_argument("--tier", help="what the sandboxes run in (default: what cubbyd chooses)")
    parser.add_argument("--bugs", help="these only, comma separated")
    parser.add_argument("--transcript", type=pathlib.Path, help="write every call here, a JSON line each")
    options = parser.parse_args()
    modes = {"per-call": [False], "both": [False, True]}.get(options.mode, [True])
    fix, columns = {"fork": (fork_one, FORK_STEPS), "agent": (ask_model, AGENT_STEPS)}.get(
        options.mode, (fix_one, STEPS))
    bugs = options.bugs.split(",") if options.bugs else None
    transcript = []
    try:
        for one_process in modes:
            with tempfile.TemporaryDirectory(prefix="cubby-scenario-") as directory:
                work = pathlib.Path(directory)
                subprocess.run(["cp", "-r", f"{BUGS}/.", directory], check=True)
                print("one server process for all calls" if one_process
                      else "a new server process for every call", flush=True)
                times, tiers = asyncio.run(run(one_process, work, transcript, fix, bugs, options.tier))
                print(f"tier: {', '.join(tiers)}")
                print(table(times, columns), flush=True)
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    except BaseExceptionGroup as group:
        if not group.subgroup(Failure):
            raise
        print(f"FAILED: {group.subgroup(Failure).exceptions}", file=sys.stderr)
        return 1
    finally:
        if options.transcript:
            options.transcript.write_text("".join(json.dumps(t, ensure_ascii=False) + "\n"
                                                  for t in transcript))
    print({"fork": "three candidates for each bug, and the right one was found",
           "agent": "the model fixed each bug"}.get(options.mode, "five bugs, RED and GREEN as they must be"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
