# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/recipes run as they stand there, and do what their pages say."""

import os
import pathlib
import re
import subprocess

import pytest
from frameworks import ENVIRONMENTS, environment
from harness import BIN
from mcp_http import Server
from model_scripts import DONE, fix_bug
from model_stub import Stub
from sdk import Guests

RECIPES = pathlib.Path(__file__).parents[2] / "docs/recipes"
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd"),
]


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d


@pytest.fixture
def run(daemon, tmp_path):
    """Runs the Python blocks of a page, in an environment. Returns what they printed.

    `main` replaces the page's function main and its call.
    """

    def run_page(page, interpreter, main=None, **env):
        text = (RECIPES / f"{page}.md").read_text()
        program = tmp_path / f"{page.replace('-', '_')}_recipe.py"
        blocks = "\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        program.write_text(blocks if not main else blocks[: blocks.index("async def main")] + main)
        path = f"{BIN}:{os.environ['PATH']}"
        done = subprocess.run(
            [ENVIRONMENTS / interpreter / "bin/python", program],
            env={**environment(), "PATH": path, "CUBBY_HOME": str(daemon.home), **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    yield run_page
    for sandbox in daemon.request("GET", "/v2/sandboxes").json:
        daemon.kill(sandbox["sandboxID"])


def test_openai_agents(run):
    with Stub(fix_bug("image")) as stub:
        said = run(
            "openai-agents",
            "openai-agents",
            OPENAI_BASE_URL=f"{stub.url}/v1",
            OPENAI_AGENTS_DISABLE_TRACING="1",
        )
        stub.model.check()
    assert DONE in said


def test_deepagents(run):
    with Stub(fix_bug("image")) as stub:
        said = run("deepagents", "langchain", ANTHROPIC_BASE_URL=stub.url)
        stub.model.check()
    assert DONE in said


def test_miroflow(run):
    said = run("miroflow", "langchain")
    assert "a" in said and "42" in said


def test_autogen(run):
    assert run("autogen", "autogen").split("\n")[0:2] == ["3 hello from /tmp", "42"]


@pytest.mark.parametrize("page", ["rock", "swe-rex"])
def test_sandbox_classes(run, page):
    said = run(page, "rock").split("\n")
    assert said[0:2] == ["b in /tmp", " 0"]
    assert said[2:5] == ["written", "3", "import asyncio"]


SESSIONS = """
async def main():
    sandbox = CLASS()

    async def said(command, session):
        return (await sandbox.run_in_session(BashAction(session=session, command=command))).output

    await sandbox.create_session(CreateBashSessionRequest(session="kept"))
    await said("A=kept", "kept")
    for i in range(40):
        name = f"session-{i}"
        await sandbox.create_session(CreateBashSessionRequest(session=name))
        assert await said("echo [$A]; A=old; cd /usr", name) == "[]\\n", i
        assert await said("echo $A in $PWD", name) == "old in /usr\\n", i
        await sandbox.close_session(CloseBashSessionRequest(session=name))
    assert await said("echo $A", "kept") == "kept\\n"

    text = "".join(f"line {i} of a long file\\n" for i in range(5000)) + "é" * 600000
    await sandbox.write_file(WriteFileRequest(path="/tmp/long.txt", content=text))
    read = (await sandbox.read_file(ReadFileRequest(path="/tmp/long.txt"))).content
    assert read == text, len(read)
    await sandbox.close()


from PACKAGE import CloseBashSessionRequest

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "page, name, package",
    [
        ("rock", "CubbySandbox", "rock.actions"),
        ("swe-rex", "CubbyRuntime", "swerex.runtime.abstract"),
    ],
)
def test_sessions_that_are_closed_and_long_files(run, page, name, package):
    run(page, "rock", SESSIONS.replace("CLASS", name).replace("PACKAGE", package))


FUNCTIONS = """
RESULTS = {
    "plain": "def plain(size):\\n    return {'size': size}",
    "loud": "def loud(size):\\n    print('RESULT 1\\\\nRESULT')\\n    return {'size': size}",
    "big": "def big(size):\\n    return ['a\\\\n\\u00e9' * size, size]",
}


async def main():
    headers = {"Authorization": f"Bearer {os.environ['CUBBY_TOKEN']}"}
    server = {"transport": "streamable_http", "url": os.environ["CUBBY_URL"], "headers": headers}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"cubby": server}).get_tools()}
    sandbox_id = text_of(await tools["create_sandbox"].ainvoke({})).rsplit(" ", 1)[1]

    async def result_of(name, size):
        return await exec_code(tools, sandbox_id, RESULTS[name], name, {"size": size})

    assert await result_of("plain", 1) == {"size": 1}
    assert await result_of("loud", 2) == {"size": 2}
    for size in 14000, 100000:
        assert await result_of("big", size) == ["a\\n\u00e9" * size, size]
    try:
        await result_of("big", 200000)
    except RuntimeError as e:
        assert "longer than 1 MB" in str(e), e
    else:
        raise AssertionError("a result that is too long")
    try:
        await exec_code(tools, sandbox_id, "def wrong():\\n    return 1 / 0", "wrong", {})
    except RuntimeError as e:
        assert "ZeroDivisionError" in str(e), e
    else:
        raise AssertionError("a function that fails")


asyncio.run(main())
"""


@pytest.fixture
def maxkb(run, daemon, tmp_path):
    """Runs the page maxkb against a server with a token."""
    tokens = tmp_path / "tokens.json"
    env = {**environment(), "CUBBY_HOME": str(daemon.home)}
    made = subprocess.run(
        [BIN / "cubby-mcp", "--new-token", "maxkb", "--token-file", tokens],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    server = Server("--token-file", tokens, "--images", "path", env=env, cwd=tmp_path)
    packages = next(ENVIRONMENTS.glob("langchain/lib/python3.*/site-packages"))
    yield lambda main=None: run(
        "maxkb",
        "langchain",
        main,
        CUBBY_URL=server.url,
        CUBBY_TOKEN=made.stdout.strip(),
        SANDBOX_PYTHON=f"env PYTHONPATH={packages} python3",  # a machine has the host's files
    )
    server.stop()


def test_maxkb(maxkb):
    said = maxkb().splitlines()
    assert said[0] == "{'area': 42}" and "HELLO" in said and said[-1] == "count_words 3"


def test_results_of_maxkb(maxkb):
    """A result of any length up to the limit; a function that prints; one that fails."""
    maxkb(FUNCTIONS)
