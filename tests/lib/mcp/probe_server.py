# SPDX-License-Identifier: Apache-2.0
"""A small MCP server over stdio, made with the official library, which shows how it was started.

Arguments: "silent" never answers; "broken" complains and ends; "chatty" writes no MCP messages;
"listless" answers a request for its tools with an error.
"""

import os
import sys
import threading

if "silent" in sys.argv:
    print("probe: waiting for the database", file=sys.stderr, flush=True)
    threading.Event().wait()
if "broken" in sys.argv:
    print("probe: reading settings\nprobe: no DATABASE_URL is set", file=sys.stderr, flush=True)
    sys.exit(3)
if "chatty" in sys.argv:
    print("Welcome!", flush=True)
    sys.exit(0)

from mcp.server.mcpserver import Context, MCPServer  # noqa: E402

NAME = os.environ.get("PROBE", "probe")


class Listless(MCPServer):
    async def list_tools(self):
        raise RuntimeError("probe: the database is locked")


server = (Listless if "listless" in sys.argv else MCPServer)(NAME)


@server.tool()
def started() -> dict:
    return {"arguments": sys.argv[1:], "directory": os.getcwd(), "environment": dict(os.environ), "pid": os.getpid()}


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for i in range(to):
        await ctx.report_progress(i + 1, to)
    return f"{NAME} counted to {to}"


@server.tool()
def leave() -> str:
    print("probe: out of memory", file=sys.stderr, flush=True)
    os._exit(4)


@server.prompt()
def greet(name: str) -> str:
    return f"{NAME} greets {name}"


@server.resource("probe://about")
def about() -> str:
    return f"about {NAME}"


@server.resource("probe://items/{key}")
def item(key: str) -> str:
    return f"item {key} of {NAME}"


server.run("stdio")
