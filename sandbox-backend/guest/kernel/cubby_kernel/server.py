# SPDX-License-Identifier: Apache-2.0
"""The Python kernel's server: options, socket, start and stop."""
import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket

from . import limits, web
from .contexts import Contexts
from .environment import Environment
from .nursery import Nursery
from .routes import Routes

log = logging.getLogger("kernel")

PORT = 49999
RUN_DIR = "/run/e2b"


class Server:
    """What a connection needs from the server."""

    def __init__(self, routes):
        self._routes = routes
        self._connections = set()

    def admit(self, connection):
        if len(self._connections) >= limits.CONNECTIONS_MAX:
            return False
        self._connections.add(connection)
        return True

    def dismiss(self, connection):
        self._connections.discard(connection)

    async def handle(self, request, connection):
        try:
            await self._routes.handle(request, connection)
        except (web.WebError, ConnectionError):
            raise
        except Exception as e:
            log.exception("%s %s", request.method, request.path)
            raise web.WebError(500, f"the kernel failed: {type(e).__name__}: {e}") from e


def _listen(host, port):
    """Listen on IPv6 and IPv4 if the machine has both."""
    if host:
        return socket.create_server((host, port), backlog=limits.CONNECTIONS_MAX)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=limits.CONNECTIONS_MAX
            )
    return socket.create_server(("", port), backlog=limits.CONNECTIONS_MAX)


async def _serve(options):
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    nursery = Nursery()
    routes = Routes(Contexts(nursery, Environment(options.run_dir), options.cwd))
    server = Server(routes)
    sock = _listen(options.host, options.port)
    listener = await loop.create_server(lambda: web.Connection(server), sock=sock)
    print(f"kernel: listening on port {sock.getsockname()[1]}", flush=True)
    # The server listens already: after a restart by init it is reachable at once, and its first runs wait.
    preparing = asyncio.ensure_future(nursery.prepare())
    await stop.wait()
    preparing.cancel()
    listener.close()
    await nursery.close()


def _options():
    parser = argparse.ArgumentParser(prog="kernel", description="The code interpreter of a sandbox.")
    parser.add_argument("--port", type=int, default=PORT, help="0: the system chooses, and it is printed")
    parser.add_argument("--host", default="", help="the address to listen on (default: all)")
    parser.add_argument("--run-dir", default=RUN_DIR, help=f"where envd leaves environment.json (default {RUN_DIR})")
    parser.add_argument("--cwd", default=os.path.expanduser("~"), help="of contexts that name none")
    for name, text in (("keepalive", "between two lines of a run"), ("grace", "for a run that ignores an interrupt")):
        parser.add_argument(f"--{name}", type=float, default=_seconds(name), metavar="SECONDS", help=text)
    return parser.parse_args()


def _seconds(name):
    return getattr(limits, f"{name.upper()}_SECONDS")


def main():
    logging.basicConfig(level=logging.INFO, format="kernel: %(message)s")
    asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    options = _options()
    limits.KEEPALIVE_SECONDS, limits.GRACE_SECONDS = options.keepalive, options.grace
    asyncio.run(_serve(options))
    return 0
