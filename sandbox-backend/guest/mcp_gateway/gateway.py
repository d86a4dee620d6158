# SPDX-License-Identifier: Apache-2.0
"""The process that serves: MCP servers as child processes, and one HTTP server in front of them.

Both sides are the official MCP library. Each server has a task, which starts it and keeps its
session. All clients share the servers. A failure while they start ends all of them, with a reason
that names the server.
"""

import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket
import time

import anyio
import uvicorn
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR
from pydantic import ValidationError

import router

ADDRESS = "0.0.0.0"
CLOSE_S = 1
LINES = 10
LINES_BYTES = 2000


class Upstream:
    """One MCP server: its process, and the session with it."""

    def __init__(self, what, env, log):
        self.name = what["name"]
        self.parameters = StdioServerParameters(command=what["command"][0], args=what["command"][1:],
                                                env=env | what["env"], cwd=what["cwd"])
        self.log = log
        self.begin = log.stat().st_size if log.exists() else 0  # of what this process writes
        self.client = None
        self.error = None  # why it did not start
        self.ended = None  # that it ended later

    async def run(self, on_change):
        """Starts the server, and keeps it until it is cancelled."""
        try:
            with open(self.log, "ab") as errors:
                async with Client(stdio_client(self.parameters, errors), mode="legacy", cache=None) as client:
                    self.client = client
                    on_change()
                    await anyio.sleep_forever()
        except Exception as error:  # the library raises groups of all kinds
            self.error = f"the server {self.name!r} did not start: {reason(error)}{self.last_lines()}"
            on_change()

    def last_lines(self):
        with open(self.log, "rb") as file:
            file.seek(max(self.begin, os.fstat(file.fileno()).st_size - LINES_BYTES))
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return ". The last lines of its stderr:\n" + "\n".join(lines[-LINES:]) if lines else ". It wrote nothing to stderr"

    @property
    def offers(self):
        return self.client.server_capabilities

    async def ask(self, request, result, on_progress=None, seconds=None):
        """Sends a request to the server, and returns its result unchanged."""
        try:
            return await self.client.session.send_request(request, result, request_read_timeout_seconds=seconds,
                                                          progress_callback=on_progress)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise
            self.ended = f"the server {self.name!r} has ended{self.last_lines()}"
            raise MCPError(CONNECTION_CLOSED, self.ended) from None
        except ValidationError as error:
            what = f"the server {self.name!r} gave an invalid answer to {request.method}"
            raise MCPError(INTERNAL_ERROR, f"{what}: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from None


def reason(error):
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "it ended, or wrote something else than MCP messages to stdout"
    return str(error)


class Guard:
    """Lets requests through that have the token."""

    def __init__(self, app, token):
        self.app = app
        self.expected = b"Bearer " + token.encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self.expected):
                await refuse(send)
                return
        await self.app(scope, receive, send)


async def refuse(send):
    body = json.dumps({"error": "send the header Authorization: Bearer TOKEN, with the token of getMcpToken"}).encode()
    await send({"type": "http.response.start", "status": 401,
                "headers": [(b"www-authenticate", b"Bearer"), (b"content-type", b"application/json"),
                            (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


async def started(tasks, upstreams, seconds):
    """Starts all servers. Returns why that failed, or None."""
    changed = anyio.Event()

    def on_change():
        if any(u.error for u in upstreams) or all(u.client for u in upstreams):
            changed.set()

    for upstream in upstreams:
        tasks.start_soon(upstream.run, on_change)
    with anyio.move_on_after(seconds):
        if upstreams:
            await changed.wait()
    return "\n".join(u.error for u in upstreams if u.error)


async def main(order, places, channel):
    upstreams = [Upstream(what, order["env"], places.log(what["name"])) for what in order["servers"]]
    listener = socket.create_server((ADDRESS, order["port"]), backlog=128)
    app = router.Router(upstreams).server().streamable_http_app(host=ADDRESS)
    config = uvicorn.Config(Guard(app, order["token"]), log_level="warning", access_log=False, server_header=False,
                            timeout_graceful_shutdown=CLOSE_S)
    async with anyio.create_task_group() as tasks:
        # uvicorn raises the signal again when it has closed its connections.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, tasks.cancel_scope.cancel)
        error = await started(tasks, upstreams, order["deadline"] - time.monotonic())
        late = [u.name for u in upstreams if not u.client]
        if not error and late:
            lines = "\n".join(f"{u.name}{u.last_lines()}" for u in upstreams if not u.client)
            error = f"no answer from {', '.join(late)} within {order['timeout']:g} s. {lines}"
        answer(channel, {"error": error} if error else {"port": listener.getsockname()[1]})
        if not error:
            await uvicorn.Server(config).serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def answer(channel, what):
    with contextlib.suppress(OSError):
        print(json.dumps(what), file=channel, flush=True)


def run(order, places, channel):
    try:
        anyio.run(main, order, places, channel)
    except OSError as error:
        answer(channel, {"error": str(error)})
        raise
