# SPDX-License-Identifier: Apache-2.0
"""The official Python client against cubby-mcp."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest
from harness import BIN, wait_for
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_envd import real  # noqa: F401
from mcp_stdio import backend  # noqa: F401


@asynccontextmanager
async def session(backend, tmp_path, *args):
    parameters = StdioServerParameters(command=str(BIN / "cubby-mcp"), args=list(args),
                                       env=backend.environment(), cwd=str(tmp_path))
    with open(os.devnull, "w") as errors:
        async with stdio_client(parameters, errors) as (read, write):
            async with ClientSession(read, write) as s:
                await s.initialize()
                yield s


@pytest.mark.parametrize("profile", ["default", "miroflow"])
def test_all_of_it(backend, tmp_path, profile):
    async def main():
        async with session(backend, tmp_path, "--profile", profile) as s:
            tools = (await s.list_tools()).tools
            assert len(tools) >= 6 and all(t.description for t in tools)
            assert (await s.send_ping()) is not None
            made = await s.call_tool("create_sandbox", {})
            sandbox = made.content[0].text.split(": ")[1]
            # The client itself checks structuredContent against outputSchema.
            done = await s.call_tool("run_command", {"sandbox_id": sandbox, "command": "echo hi"})
            assert "hi" in done.content[0].text and not done.isError
            done = await s.call_tool("run_python_code", {"sandbox_id": sandbox, "code_block": "1/0"})
            assert "ZeroDivisionError" in done.content[0].text and not done.isError
            (tmp_path / "f.txt").write_text("text")
            done = await s.call_tool("upload_file_from_local_to_sandbox", {
                "sandbox_id": sandbox, "local_file_path": str(tmp_path / "f.txt")})
            assert "/home/user/f.txt" in done.content[0].text
            done = await s.call_tool("download_file_from_sandbox_to_local", {
                "sandbox_id": sandbox, "sandbox_file_path": "/home/user/f.txt"})
            assert f"sandbox_{sandbox}_f.txt" in done.content[0].text
            done = await s.call_tool("run_command", {"sandbox_id": "default", "command": "x"})
            assert done.isError == (profile == "default")
            with pytest.raises(McpError):
                await s.call_tool("nothing", {})

    asyncio.run(asyncio.wait_for(main(), 120))


def test_progress_reaches_its_callback(backend, tmp_path):
    seen = []

    async def on_progress(progress, total, message):
        seen.append((progress, message))

    async def main():
        async with session(backend, tmp_path) as s:
            await s.call_tool("run_command", {"sandbox_id": backend.sandbox(), "command": "sleep 1.5"},
                              progress_callback=on_progress)

    asyncio.run(asyncio.wait_for(main(), 120))
    assert seen and seen[0][0] > 0.5 and all(text for _, text in seen)


def test_a_process_for_every_call(backend, tmp_path):
    """Real clients do this: the next process knows the sandbox."""
    async def one(tool, **arguments):
        async with session(backend, tmp_path) as s:
            return (await s.call_tool(tool, arguments)).content[0].text

    async def main():
        sandbox = (await one("create_sandbox")).split(": ")[1]
        await one("run_command", sandbox_id=sandbox, command="echo kept > file")
        assert (await one("run_command", sandbox_id=sandbox, command="cat file")).startswith("kept\n")

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_call_the_client_gives_up_is_ended_with_it(backend, tmp_path):
    async def main():
        async with session(backend, tmp_path) as s:
            call = asyncio.create_task(s.call_tool("run_command", {
                "sandbox_id": backend.sandbox(), "command": "sleep 1000"}))
            while not backend.running:
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert backend.running

    asyncio.run(asyncio.wait_for(main(), 120))
    wait_for(lambda: not backend.running, 30, "the command went with the server")


def test_a_directory_goes_in_and_its_changes_come_out(real, tmp_path):  # noqa: F811
    (tmp_path / "here").mkdir()
    (tmp_path / "here/a.py").write_text("print(1)\n")
    there = tmp_path / "there"

    async def main():
        async with session(real, tmp_path, "--project-dir", str(tmp_path / "here")) as s:
            words = {"sandbox_id": real.sandbox(), "sandbox_directory": str(there)}
            done = await s.call_tool("upload_directory", words)
            assert not done.isError and done.structuredContent["files"] == 1, done
            (there / "b.py").write_text("print(2)\n")
            done = await s.call_tool("download_directory", words)
            assert not done.isError and done.structuredContent["files"] == 1, done
            assert (tmp_path / "here/b.py").read_text() == "print(2)\n"
            refused = await s.call_tool("download_directory", {**words, "local_directory": str(tmp_path)})
            assert refused.isError and "local_path_denied" in refused.content[0].text

    asyncio.run(main())
