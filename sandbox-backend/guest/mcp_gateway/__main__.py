# SPDX-License-Identifier: Apache-2.0
"""mcp-gateway: starts MCP servers in the sandbox and serves them behind one URL with a token.

E2B's SDKs run `mcp-gateway --config JSON` as root, with the token in GATEWAY_ACCESS_TOKEN, and wait
at most 60 seconds for its end. It ends with 0 when all servers have started; a process stays behind
that serves them at http://ADDRESS:50005/mcp. Otherwise it ends with 1, and its stderr has the
reason. `mcp-gateway pull` is what E2B's template builder runs for addMcpServer.
"""

import argparse
import json
import os
import pathlib
import sys

import catalog
import install
import launch
from places import Places

START_S = 50  # less than the minute that the SDKs wait
PORT = 50005
TOKEN_VARIABLE = "GATEWAY_ACCESS_TOKEN"


def arguments(words):
    parser = argparse.ArgumentParser(prog="mcp-gateway", description="MCP servers behind one URL.")
    parser.add_argument("--config", help='the servers, such as {"time": {}}')
    parser.add_argument("--timeout", type=float, default=START_S, help="seconds until all servers must have started")
    parser.add_argument("--port", type=int, default=PORT, help="0: any free port, which is printed")
    parser.add_argument("--root", type=pathlib.Path, default="/", help="where the gateway keeps its files, for tests")
    commands = parser.add_subparsers(dest="command")
    pull = commands.add_parser("pull", help="install servers, so that they start without a network")
    pull.add_argument("names", nargs="*", metavar="NAME", help="default: those that the template has")
    commands.add_parser("stop", help="end the servers")
    commands.add_parser("wait", help="load the libraries, and wait for a start")
    commands.add_parser("serve", help="serve what the process on standard input orders")
    return parser.parse_args(words)


def configuration(text):
    try:
        config = json.loads(text)
    except ValueError as error:
        raise catalog.Refused(f"--config is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise catalog.Refused("--config must be a JSON object of servers")
    return config


def start(options, places):
    token = os.environ.pop(TOKEN_VARIABLE, None)  # neither servers nor installers get it
    if not token:
        raise catalog.Refused(f"{TOKEN_VARIABLE} must have the token that clients will send")
    servers = [catalog.server(name, settings, places) for name, settings in configuration(options.config).items()]
    launch.start(servers, token, options, places)


def main():
    options = arguments(sys.argv[1:])
    places = Places(options.root)
    try:
        if options.command == "pull":
            install.pull(options.names or catalog.installed(), places)
        elif options.command == "stop":
            launch.stop(places)
        elif options.command == "wait":
            launch.wait(places)
        elif options.command == "serve":
            launch.serve(places)
        elif options.config is None:
            raise catalog.Refused("give --config JSON, or pull NAME ...; --help has the options")
        else:
            start(options, places)
    except (catalog.Refused, install.Failed, launch.Failed, OSError) as error:
        sys.exit(f"mcp-gateway: {error}")


if __name__ == "__main__":
    main()
