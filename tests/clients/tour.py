# SPDX-License-Identifier: Apache-2.0
"""Uses cubby-mcp with the official Python clients as a user would, one call after the other.

The first argument is JSON: {client: "mcp1"|"mcp2"|"fastmcp", mode, server: {command, args, env,
cwd}|{url}, fixtures: whether the server has those of tests/fixtures}. Prints the results as JSON;
tests/lib/mcp/clients.py judges them. The release of the packages is that of the interpreter that
runs this.
"""

import asyncio
import json
import os
import sys
import warnings
from contextlib import asynccontextmanager

warnings.simplefilter("ignore")
PLAN = json.loads(sys.argv[1])
CLIENT, MODE, SERVER = PLAN["client"], PLAN.get("mode"), PLAN["server"]
seen = {}


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Mcp1:
    """mcp 1.x: the handshake era."""

    @classmethod
    @asynccontextmanager
    async def connect(cls):
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamablehttp_client
        with open(os.devnull, "w") as errors:
            if "url" in SERVER:
                streams = streamablehttp_client(SERVER["url"], headers=SERVER.get("headers"))
            else:
                streams = stdio_client(StdioServerParameters(**SERVER), errors)
            async with streams as (read, write, *_), ClientSession(read, write) as session:
                made = cls()
                made.s = session
                init = await session.initialize()
                seen["version"] = init.protocolVersion
                seen["server"] = plain(init.serverInfo)
                seen["capabilities"] = plain(init.capabilities)
                seen["instructions"] = init.instructions
                yield made

    async def tools(self):
        return (await self.s.list_tools()).tools

    async def call(self, name, arguments, progress=None):
        return await self.s.call_tool(name, arguments, progress_callback=progress)

    def next_request(self):
        return self.s._request_id

    async def give_up(self, request, call):
        """Cancels by hand: this client tells the server nothing when a call is given up."""
        from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification
        await self.s.send_notification(ClientNotification(CancelledNotification(
            method="notifications/cancelled", params=CancelledNotificationParams(requestId=request))))
        call.cancel()

    async def templates(self):
        return (await self.s.list_resource_templates()).resourceTemplates

    async def resources(self):
        return (await self.s.list_resources()).resources

    async def read(self, uri):
        return (await self.s.read_resource(uri)).contents

    async def prompts(self):
        return (await self.s.list_prompts()).prompts

    async def prompt(self, name, arguments):
        return await self.s.get_prompt(name, arguments)

    async def complete(self, uri, name, value):
        from mcp.types import ResourceTemplateReference
        ref = ResourceTemplateReference(type="ref/resource", uri=uri)
        return (await self.s.complete(ref, {"name": name, "value": value})).completion

    async def listen(self):
        pass


class Mcp2(Mcp1):
    """mcp 2.x: both eras."""

    @classmethod
    @asynccontextmanager
    async def connect(cls):
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        with open(os.devnull, "w") as errors:
            to = SERVER["url"] if "url" in SERVER else \
                stdio_client(StdioServerParameters(**SERVER), errors)
            answers = {"elicitation_callback": cls.answer} if PLAN.get("fixtures") else {}
            async with Client(to, mode=MODE, **answers) as client:
                made = cls()
                made.s = client
                made.note()
                yield made

    @staticmethod
    async def answer(context, params):
        from mcp_types import ElicitResult
        return ElicitResult(action="accept", content={"name": "Ada", "username": "ada", "email": "a@example.org"})

    def note(self):
        seen["version"] = self.s.protocol_version
        seen["server"] = self.s.server_info and plain(self.s.server_info)
        seen["capabilities"] = plain(self.s.server_capabilities)
        seen["instructions"] = self.s.instructions

    def next_request(self):
        return None

    async def give_up(self, request, call):
        call.cancel()

    async def templates(self):
        return (await self.s.list_resource_templates()).resource_templates

    async def complete(self, uri, name, value):
        from mcp_types import ResourceTemplateReference
        ref = ResourceTemplateReference(type="ref/resource", uri=uri)
        return (await self.s.complete(ref, {"name": name, "value": value})).completion

    async def listen(self):
        if seen["version"] < "2026":
            return
        async with self.s.listen(tools_list_changed=True, resources_list_changed=True) as stream:
            seen["honoured"] = plain(stream.honored)


class Fastmcp(Mcp2):
    @classmethod
    @asynccontextmanager
    async def connect(cls):
        from pathlib import Path

        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport
        to = SERVER["url"] if "url" in SERVER else \
            StdioTransport(**SERVER, log_file=Path(os.devnull), keep_alive=False)
        async with Client(to, mode=MODE) as client:
            made = cls()
            made.s = client
            made.note()
            yield made

    async def tools(self):
        return await self.s.list_tools()

    async def call(self, name, arguments, progress=None):
        return await self.s.call_tool_mcp(name, arguments, progress_handler=progress)

    async def templates(self):
        return await self.s.list_resource_templates()

    async def resources(self):
        return await self.s.list_resources()

    async def read(self, uri):
        return await self.s.read_resource(uri)

    async def prompts(self):
        return await self.s.list_prompts()

    async def complete(self, uri, name, value):
        from mcp_types import ResourceTemplateReference
        ref = ResourceTemplateReference(type="ref/resource", uri=uri)
        return await self.s.complete(ref, {"name": name, "value": value})

    async def listen(self):
        pass  # it has none of its own


async def code(awaitable):
    """The error's code, or its text; None when there is none."""
    try:
        await awaitable
    except Exception as e:
        error = getattr(e, "error", e)
        return getattr(error, "code", None) or str(e)


async def until(condition, what):
    async with asyncio.timeout(20):
        while not (value := await condition()):
            pass
    return value


async def tools(c):
    seen["tools"] = [plain(t) for t in await c.tools()]
    seen["created"] = plain(await c.call("create_sandbox", {}))
    sandbox = seen["created"]["structuredContent"]["sandbox_id"]
    to = {"sandbox_id": sandbox}
    seen["command"] = plain(await c.call("run_command", {**to, "command": "echo out; echo err >&2; exit 3"}))
    seen["python"] = plain(await c.call("run_python_code", {**to, "code_block": 'print("p")\n6 * 7'}))
    seen["tool_error"] = plain(await c.call("run_command", {"sandbox_id": "nosuchsandbox", "command": "true"}))
    seen["wrong_argument"] = plain(await c.call("run_command", {**to, "command": 7}))
    seen["unknown_tool"] = await code(c.call("nothing", {}))
    return to


async def progress(c, to):
    seen["progress"] = []

    async def on_progress(value, total, message):
        seen["progress"].append({"progress": value, "message": message})

    await c.call("run_command", {**to, "command": "echo first; sleep 0.3; echo second"}, on_progress)


async def cancel(c, to):
    """Stopping a call stops its command; another call checks that."""
    async def run(command):
        return plain(await c.call("run_command", {**to, "command": command}))["structuredContent"]

    async def pid():
        return (await run("cat pid || true"))["stdout"].strip()

    async def gone():
        return (await run(f"kill -0 {number}"))["exit_code"] != 0

    request = c.next_request()
    call = asyncio.create_task(c.call("run_command", {**to, "command": "echo $$ > pid; exec sleep 1000"}))
    await asyncio.sleep(0)  # it goes first, and has that number
    number = await until(pid, "the command starts")
    await c.give_up(request, call)
    try:
        await call
    except asyncio.CancelledError:
        seen["cancelled"] = True
    seen["cancelled_command_gone"] = await until(gone, "the command is gone")


async def resources(c, to):
    if "resources" not in seen["capabilities"]:
        return
    seen["resources"] = [plain(r) for r in await c.resources()]
    seen["templates"] = [plain(t) for t in await c.templates()]
    await c.call("run_command", {**to, "command": "echo content > tour.txt"})
    base = f"sandbox://{to['sandbox_id']}/home/user/"
    seen["resource"] = [plain(p) for p in await c.read(base + "tour.txt")]
    seen["unknown_resource"] = await code(c.read(base + "none"))


async def prompts(c):
    if "prompts" in seen["capabilities"]:
        seen["prompts"] = [plain(p) for p in await c.prompts()]
        first = seen["prompts"][0]
        given = {a["name"]: "value" for a in first.get("arguments", [])}
        seen["prompt"] = plain(await c.prompt(first["name"], given))
        seen["unknown_prompt"] = await code(c.prompt("nothing", {}))
    if "completions" in seen["capabilities"]:
        seen["completion"] = plain(await c.complete(seen["templates"][0]["uriTemplate"], "path", "t"))


async def fixtures(c):
    """Questions that the client answers by itself, and arguments that it repeats in headers."""
    await c.tools()
    if seen["era"] == "modern":
        seen["asked"] = plain(await c.call("test_input_required_result_elicitation", {}))
    else:
        seen["asked"] = plain(await c.call("test_elicitation", {"message": "who?"}))
    seen["in_header"] = plain(await c.call("test_x_mcp_header", {"region": "größe ", "query": "q"}))


async def tour(c):
    to = await tools(c)
    await progress(c, to)
    await cancel(c, to)
    await resources(c, to)
    await prompts(c)
    await c.listen()


async def main():
    async with {"mcp1": Mcp1, "mcp2": Mcp2, "fastmcp": Fastmcp}[CLIENT].connect() as c:
        seen["era"] = "modern" if seen["version"] >= "2026" else "legacy"
        await (fixtures if PLAN.get("fixtures") else tour)(c)
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(main(), 60))
