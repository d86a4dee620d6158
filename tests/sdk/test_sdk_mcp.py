# SPDX-License-Identifier: Apache-2.0
"""The option `mcp` of E2B's SDKs, unmodified: Sandbox.create, getMcpUrl and getMcpToken, and an MCP client at that URL.

The template mcp-gateway of these tests has the shipped program and one package. tests/templates/test_recipes.py
has the template that users build.
"""

import json
import os
import pathlib
import subprocess
import urllib.parse

import pytest
from sdk import CLIENTS, KEY, NODE, OURS, Guests
from wildcard import DOMAIN, Wildcard, certificate

pytestmark = [pytest.mark.timeout(600),
              pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd")]
PROGRAM = pathlib.Path(os.environ["GUEST"]) / "mcp_gateway"
PROBE = pathlib.Path(__file__).parents[1] / "lib/mcp/probe_server.py"
SECRET = "key-of-the-sdk-test-51c8"
# Keys as the SDKs write them in JSON and quote them for the shell.
ODD = ["/key+that/begins-like-a-path", 'with"a-double-quote', "with\\a-backslash", "with'one-apostrophe", "mit-umlaut-\u00e4nderung"]
# What the guest has: the command, and the server of time as the template installs it. The tests' Python may be
# below /root, so the machine's script must leave that open to the user of the servers.
PLACES = """
chmod() {{ if [ "$*" = "700 /root" ]; then set -- 755 /root; fi; command chmod "$@"; }}
mount -t tmpfs tmpfs /usr/local/sbin
mount -t tmpfs tmpfs /opt
mount -t tmpfs tmpfs /var/lib
printf '#!/bin/sh\\nexec {python} -I {program} "$@"\\n' >/usr/local/sbin/mcp-gateway
chmod 755 /usr/local/sbin/mcp-gateway
mkdir -p /opt/mcp-gateway/time/bin /opt/mcp-gateway-github/acme/probe/.git
ln -s {server} /opt/mcp-gateway/time/bin/mcp-server-time
printf %s '{package}' >/opt/mcp-gateway/time/.mcp-gateway-installed
"""
PYTHON_CLIENT = """
import asyncio, os, ssl, sys, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    verify = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + sys.argv[2]}, verify=verify) as http:
        async with Client(streamable_http_client(sys.argv[1], http_client=http)) as client:
            print(sorted(tool.name for tool in (await client.list_tools()).tools))
            print((await client.call_tool("convert_time", {"source_timezone": "UTC", "time": "12:00",
                "target_timezone": "Asia/Tokyo"})).structured_content["time_difference"])
asyncio.run(main())
"""
SEEN = "['convert_time', 'count', 'get_current_time', 'leave', 'started']\n+9.0h\n"
PYTHON = f"""
import json, os, subprocess, urllib.request
from e2b import Sandbox
sandbox = Sandbox.create(mcp={{"time": {{}}, "github/acme/probe": {{"run_cmd": os.environ["PROBE_COMMAND"],
                              "envs": {{"KEY": "{SECRET}", **json.loads(os.environ["ODD"])}}}}}})
assert sandbox.get_info().template_id == "mcp-gateway"
url, token = sandbox.get_mcp_url(), sandbox.get_mcp_token()
assert url == f"https://50005-{{sandbox.sandbox_id}}.{DOMAIN}/mcp", url
assert Sandbox.connect(sandbox.sandbox_id).get_mcp_token() == token
words = [os.environ["CLIENTS"] + "/venv/bin/python", "-c", os.environ["MCP_CLIENT"], url]
print(subprocess.run([*words, token], text=True, capture_output=True, check=True).stdout, end="")
try:
    urllib.request.urlopen(urllib.request.Request(url, b"{{}}", {{"Authorization": "Bearer wrong"}}))
except urllib.error.HTTPError as error:
    assert error.code == 401
else:
    raise AssertionError("another token opens it")
print(sandbox.sandbox_id)
"""
ASYNC = f"""
import asyncio, os, subprocess
from e2b import AsyncSandbox
async def main():
    sandbox = await AsyncSandbox.create(mcp={{"time": {{}}, "github/acme/probe": {{"runCmd": os.environ["PROBE_COMMAND"],
                                             "envs": {{"KEY": "{SECRET}"}}}}}})
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    assert await again.get_mcp_token() == await sandbox.get_mcp_token()
    words = [os.environ["CLIENTS"] + "/venv/bin/python", "-c", os.environ["MCP_CLIENT"], again.get_mcp_url()]
    print(subprocess.run([*words, await again.get_mcp_token()], text=True, capture_output=True, check=True).stdout, end="")
    print(sandbox.sandbox_id)
asyncio.run(main())
"""
JAVASCRIPT = f"""
import assert from 'node:assert/strict'
import {{ createRequire }} from 'node:module'
const here = createRequire(process.env.CLIENTS + '/')
const {{ Sandbox }} = here('e2b')
const {{ Client, StreamableHTTPClientTransport }} = here('@modelcontextprotocol/client')
const mcp = {{ time: {{}}, 'github/acme/probe': {{ runCmd: process.env.PROBE_COMMAND, envs: {{ KEY: '{SECRET}', ...JSON.parse(process.env.ODD) }} }} }}
const sandbox = await Sandbox.create({{ mcp }})
assert.equal((await sandbox.getInfo()).templateId, 'mcp-gateway')
const url = sandbox.getMcpUrl(), token = await sandbox.getMcpToken()
assert.equal(url, `https://50005-${{sandbox.sandboxId}}.{DOMAIN}/mcp`)
assert.equal(await (await Sandbox.connect(sandbox.sandboxId)).getMcpToken(), token)
const connect = async (bearer) => {{
  const client = new Client({{ name: 'test', version: '1' }})
  const requestInit = {{ headers: {{ Authorization: 'Bearer ' + bearer }} }}
  await client.connect(new StreamableHTTPClientTransport(new URL(url), {{ requestInit }}))
  return client
}}
const client = await connect(token)
const names = (await client.listTools()).tools.map((tool) => tool.name).sort()
console.log('[' + names.map((name) => `'${{name}}'`).join(', ') + ']')
const asked = {{ source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' }}
console.log((await client.callTool({{ name: 'convert_time', arguments: asked }})).structuredContent.time_difference)
await client.close()
await assert.rejects(connect('wrong'), (error) => error.data.status === 401)
console.log(sandbox.sandboxId)
"""
SDKS = {"python": [CLIENTS / "e2b/bin/python", "-c", PYTHON], "python-async": [CLIENTS / "e2b/bin/python", "-c", ASYNC],
        "js": [NODE, "--input-type=module", "-e", JAVASCRIPT]}


class Gateways(Guests):
    def templates(self):
        super().templates()
        self.guest("mcp-gateway")
        row = json.loads((PROGRAM / "servers.json").read_text())["time"]
        with open(self.home / "templates/mcp-gateway/guest.env", "a") as file:
            file.write(PLACES.format(python=CLIENTS / "venv/bin/python", program=PROGRAM, package=row["pip"],
                                     server=CLIENTS / "venv/bin/mcp-server-time"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """(daemon, its certificate, a directory)"""
    where = tmp_path_factory.mktemp("place")
    cert, key = certificate(where)
    with Gateways("--tls-cert", cert, "--tls-key", key, "--domain", DOMAIN) as daemon:
        yield daemon, cert, where


def run(words, place):
    """A program of a user, where names of sandboxes lead to the daemon."""
    daemon, cert, where = place
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    environment |= {"CLIENTS": str(CLIENTS), "E2B_API_KEY": KEY, "E2B_DOMAIN": DOMAIN, "SSL_CERT_FILE": str(cert),
                    "NODE_EXTRA_CA_CERTS": str(cert), "MCP_CLIENT": PYTHON_CLIENT, "ODD": json.dumps({f"ODD_{i}": value for i, value in enumerate(ODD)}),
                    "PROBE_COMMAND": f"exec {CLIENTS}/venv/bin/python {PROBE}"}
    room = Wildcard(urllib.parse.urlsplit(daemon.url).port, where)
    process = subprocess.Popen([*room.wrap, *map(str, words)], env=environment, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, pass_fds=[room.theirs.fileno()])
    room.started()
    said, complaints = process.communicate(timeout=300)
    return process.returncode, said, complaints


@pytest.mark.parametrize("sdk", SDKS)
def test_mcp_servers_behind_one_url(place, sdk):
    status, said, complaints = run(SDKS[sdk], place)
    assert status == 0, said + complaints[-3000:]
    tools, sandbox = said.rsplit("\n", 2)[0] + "\n", said.split()[-1]
    assert tools == SEEN
    daemon = place[0]
    lines = daemon.request("GET", f"/sandboxes/{sandbox}/record?after=0").body
    lines = lines if isinstance(lines, str) else lines.decode()
    assert "mcp-gateway --config" in lines and SECRET not in lines
    for shown in ("begins-like-a-path", "a-double-quote", "a-backslash", "one-apostrophe", "mit-umlaut", "nderung"):
        assert shown not in lines
    daemon.request("DELETE", f"/sandboxes/{sandbox}")


FAILS = {
    "python": """
from e2b import Sandbox, SandboxException
try:
    Sandbox.create(mcp={"time": {}, "nope": {}})
except SandboxException as error:
    print(error)
""", "js": """
import { createRequire } from 'node:module'
const { Sandbox, SandboxError } = createRequire(process.env.CLIENTS + '/')('e2b')
const error = await Sandbox.create({ mcp: { time: {}, nope: {} } }).catch((e) => e)
console.log(error instanceof SandboxError ? error.message : error)
"""}


@pytest.mark.parametrize("sdk", FAILS)
def test_a_server_that_cannot_start(place, sdk):
    """The SDK shows the reason, and ends the sandbox."""
    status, said, complaints = run([*SDKS[sdk][:-1], FAILS[sdk]], place)
    assert status == 0 and said.startswith("Failed to start MCP gateway: mcp-gateway: there is no server 'nope' here"), \
        said + complaints
    assert place[0].request("GET", "/v2/sandboxes").json == []
