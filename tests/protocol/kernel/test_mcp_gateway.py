# SPDX-License-Identifier: Apache-2.0
"""mcp-gateway, the program of the template mcp-gateway: real servers over stdio, and a real client at its URL.

tests/sdk/test_sdk_mcp.py has what E2B's SDKs do with it, and tests/templates/test_recipes.py the template.
"""

import asyncio
import concurrent.futures
import fcntl
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

CLIENTS = pathlib.Path(os.environ["CLIENTS"])
PYTHON = CLIENTS / "venv/bin/python"  # it has the library
PROGRAM = pathlib.Path(os.environ["GUEST"]) / "mcp_gateway"
PROBE = pathlib.Path(__file__).parents[2] / "lib/mcp/probe_server.py"
TABLE = json.loads((PROGRAM / "servers.json").read_text())
TOKEN = "token-of-the-test-7e1b"
KEY = "key-of-the-test-91d4"


def probe(*words):
    return shlex.join([str(PYTHON), str(PROBE), *words])


class Gateway:
    """The program with files of its own, and GitHub's repositories in a directory."""

    def __init__(self, where):
        self.root, self.hub = where / "root", where / "hub"
        self.root.mkdir()
        self.port = None
        self.env = os.environ | {
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{self.hub}/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/", "npm_config_registry": "http://127.0.0.1:1/", "npm_config_fetch_retries": "0"}

    def run(self, *words, **more):
        return subprocess.run([PYTHON, "-I", PROGRAM, "--root", self.root, *words], env=self.env | more,
                              text=True, capture_output=True, timeout=120)

    def start(self, config, token=TOKEN, seconds=60):
        text = config if isinstance(config, str) else json.dumps(config)
        done = self.run("--port", "0", "--timeout", str(seconds), "--config", text, GATEWAY_ACCESS_TOKEN=token)
        found = re.search(r"at port (\d+), path /mcp$", done.stdout.strip())
        self.port = int(found[1]) if found else None
        return done

    def serves(self, config, **more):
        done = self.start(config, **more)
        assert done.returncode == 0, done.stderr

    def refuses(self, config, **more):
        done = self.start(config, **more)
        assert done.returncode == 1 and done.stderr.startswith("mcp-gateway: "), done
        return done.stderr

    def repository(self, name, files):
        """A repository at GitHub."""
        where = self.hub / name.removeprefix("github/")
        where.mkdir(parents=True)
        for file, text in files.items():
            (where / file).write_text(text)
        for words in ["init -q", "add .", "-c user.name=t -c user.email=t@example.org commit -qm first"]:
            subprocess.run(["git", *words.split()], cwd=where, check=True)
        return name

    def probe(self, owner="one", *words, project="probe", **settings):
        """{name: settings} of a server that is a repository."""
        name = f"github/{owner}/{project}"
        if not (self.hub / owner / project).exists():
            self.repository(name, {"README": owner})
        return {name: {"runCmd": f"exec {probe(*words)}", "envs": {"PROBE": owner}, **settings}}

    def installed(self, name):
        """As if the template had the package, with the probe for its command."""
        command = self.root / "opt/mcp-gateway" / name / TABLE[name]["run"]
        command.parent.mkdir(parents=True)
        command.write_text(f'#!/bin/sh\nexec {probe()} "$@"\n')
        command.chmod(0o755)
        package = TABLE[name].get("npm") or TABLE[name]["pip"]
        (self.root / "opt/mcp-gateway" / name / ".mcp-gateway-installed").write_text(package)

    def pid(self):
        """The process that serves, or None."""
        with open(self.root / "var/lib/mcp-gateway/running") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
        return None

    def status(self, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
                           {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def ask(self, use):
        """Runs `use` with a session of the official client."""
        async def main():
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with streamablehttp_client(f"http://127.0.0.1:{self.port}/mcp", headers=headers) as (read, write, _):
                async with ClientSession(read, write) as session:
                    await session.initialize()
                    return await use(session)
        return asyncio.run(main())

    def tools(self):
        async def use(session):
            return [tool.name for tool in (await session.list_tools()).tools]
        return self.ask(use)

    def call(self, name, arguments=None):
        async def use(session):
            result = await session.call_tool(name, arguments or {})
            assert not result.isError, result
            return json.loads(result.content[0].text)
        return self.ask(use)


@pytest.fixture
def gateway(tmp_path):
    one = Gateway(tmp_path)
    yield one
    one.run("stop")


def gone(process):
    """It has ended; its parent may not have heard of it."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


# ---- what it serves
def test_all_servers_are_one(gateway):
    gateway.serves({**gateway.probe("one"), **gateway.probe("two")})
    names = [f"github_{owner}_probe_{tool}" for owner in ("one", "two") for tool in ("started", "count", "leave")]
    seen = []

    async def on_progress(progress, total, message):
        seen.append((progress, total))

    async def use(session):
        assert [t.name for t in (await session.list_tools()).tools] == names
        counted = await session.call_tool("github_two_probe_count", {"to": 3}, progress_callback=on_progress)
        assert counted.content[0].text == "two counted to 3"
        prompts = [p.name for p in (await session.list_prompts()).prompts]
        assert prompts == ["github_one_probe_greet", "github_two_probe_greet"]
        greeting = await session.get_prompt(prompts[1], {"name": "Ada"})
        assert greeting.messages[0].content.text == "two greets Ada"
        resources = (await session.list_resources()).resources
        assert [str(r.uri) for r in resources] == ["probe://about"] * 2
        assert (await session.read_resource("probe://about")).contents[0].text == "about one"
        templates = (await session.list_resource_templates()).resourceTemplates
        assert [t.uriTemplate for t in templates] == ["probe://items/{key}"] * 2
        assert (await session.read_resource("probe://items/7")).contents[0].text == "item 7 of one"

    gateway.ask(use)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_package_beside_a_repository(gateway):
    """The names of tools stay, where only one server has them."""
    (gateway.root / "opt/mcp-gateway/time/bin").mkdir(parents=True)
    (gateway.root / "opt/mcp-gateway/time" / TABLE["time"]["run"]).symlink_to(CLIENTS / "venv/bin/mcp-server-time")
    (gateway.root / "opt/mcp-gateway/time/.mcp-gateway-installed").write_text(TABLE["time"]["pip"])
    gateway.serves({"time": {}, **gateway.probe()})
    assert gateway.tools() == ["get_current_time", "convert_time", "started", "count", "leave"]
    assert gateway.call("get_current_time", {"timezone": "Asia/Tokyo"})["datetime"].endswith("+09:00")


def test_names_that_become_alike_stay_apart(gateway):
    gateway.serves(gateway.probe(project="pro.be", envs={"PROBE": "dot"}) | gateway.probe(project="pro_be", envs={"PROBE": "line"}))
    names = gateway.tools()
    assert names[1::3] == ["github_one_pro_be_count", "github_one_pro_be_count_2"] and len(set(names)) == 6

    async def use(session):
        return [(await session.call_tool(name, {"to": 1})).content[0].text for name in names[1::3]]

    assert gateway.ask(use) == ["dot counted to 1", "line counted to 1"]


def test_no_servers(gateway):
    gateway.serves({})
    assert gateway.tools() == []


def test_unknown_names_of_a_client(gateway):
    gateway.serves(gateway.probe())

    async def use(session):
        for request, what in [(session.get_prompt("nope"), "'nope'"), (session.read_resource("probe://x/y/z"), "probe://x/y/z")]:
            with pytest.raises(McpError, match=re.escape(what)):
                await request

    gateway.ask(use)


# ---- the token
def test_only_the_token_opens(gateway):
    gateway.serves(gateway.probe())
    for headers in [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"},
                    {"Authorization": f"Bearer {TOKEN} "[:-2]}, {"X-Access-Token": TOKEN}]:
        status, answered, body = gateway.status(**headers)
        assert status == 401 and answered["WWW-Authenticate"] == "Bearer" and "Authorization: Bearer" in body
    assert gateway.status(Authorization=f"Bearer {TOKEN}")[0] != 401
    kept = gateway.root / "etc/mcp-gateway/.token"
    assert kept.read_text() == TOKEN and kept.stat().st_mode & 0o777 == 0o600


def test_no_token_no_gateway(gateway):
    assert "GATEWAY_ACCESS_TOKEN" in gateway.refuses(gateway.probe(), token="")


def test_secrets_are_in_no_command_line(gateway):
    """Every process of a sandbox can read the others' command lines. The servers do not get the token."""
    gateway.serves(gateway.probe(envs={"SECRET": KEY}, installCmd="env > environment"))
    assert TOKEN not in (gateway.root / "opt/mcp-gateway-github/one/probe/environment").read_text()
    seen = gateway.call("started")
    assert seen["environment"]["SECRET"] == KEY and TOKEN not in seen["environment"].values()
    for pid in (gateway.pid(), seen["pid"]):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        assert words and TOKEN not in words and KEY not in words
    assert TOKEN not in pathlib.Path(f"/proc/{gateway.pid()}/environ").read_text()


# ---- servers that do not start, or end
@pytest.mark.parametrize("word, said", [
    ("broken", "probe: reading settings\nprobe: no DATABASE_URL is set"), ("chatty", "It wrote nothing to stderr")])
def test_a_server_that_ends(gateway, word, said):
    error = gateway.refuses({**gateway.probe("good"), **gateway.probe("bad", word)})
    assert "the server 'github/bad/probe' did not start: it ended, or wrote something else" in error and said in error
    assert "github/good" not in error and gateway.pid() is None
    assert not (gateway.root / "etc/mcp-gateway/.token").exists()


def test_a_command_that_is_not_there(gateway):
    gateway.installed("time")
    (gateway.root / "opt/mcp-gateway/time" / TABLE["time"]["run"]).unlink()
    assert "the server 'time' did not start: [Errno 2]" in gateway.refuses({"time": {}})


def test_a_server_that_never_answers(gateway):
    error = gateway.refuses(gateway.probe("slow", "silent"), seconds=15)
    assert "no answer from github/slow/probe within 15 s" in error and "probe: waiting for the database" in error
    assert gateway.pid() is None


def test_a_server_without_a_list_leaves_the_others_theirs(gateway):
    gateway.serves({**gateway.probe("one", "listless"), **gateway.probe("two")})
    assert gateway.tools() == ["started", "count", "leave"]
    assert gateway.call("started")["environment"]["PROBE"] == "two"
    log = (gateway.root / "var/lib/mcp-gateway/log/gateway.log").read_text()
    assert "github/one/probe: no list of tools: " in log


def test_a_server_that_ends_later(gateway):
    gateway.serves({**gateway.probe("one"), **gateway.probe("two")})

    async def use(session):
        for tool in ("github_one_probe_leave", "github_one_probe_started"):
            with pytest.raises(McpError, match="the server 'github/one/probe' has ended(.|\n)*probe: out of memory"):
                result = await session.call_tool(tool, {})
                raise McpError(result)
        assert not (await session.call_tool("github_two_probe_started", {})).isError

    gateway.ask(use)


# ---- the configuration
def test_settings_become_words_and_variables(gateway):
    for name in "filesystem", "brave", "apify", "git":
        gateway.installed(name)
    gateway.serves({"filesystem": {"paths": ["/tmp", "/var/tmp"]}})
    assert gateway.call("started")["arguments"] == ["/tmp", "/var/tmp"]
    gateway.serves({"brave": {"apiKey": KEY}})
    assert gateway.call("started")["environment"]["BRAVE_API_KEY"] == KEY
    gateway.serves({"apify": {"apifyToken": KEY, "tools": "docs,actors"}})
    seen = gateway.call("started")
    assert seen["arguments"] == ["--tools", "docs,actors"] and seen["environment"]["APIFY_TOKEN"] == KEY
    gateway.serves({"git": {"paths": ["/home"]}})
    assert gateway.call("started")["arguments"] == []


@pytest.mark.parametrize("config, said", [
    ("{", "--config is not JSON"),
    ("[]", "must be a JSON object"),
    ({"time": 7}, "the settings of the server 'time' must be an object"),
    ({"time": {"zone": "x"}}, "the server 'time' takes no 'zone'; it takes no member"),
    ({"brave": {}}, "the server 'brave' needs 'apiKey'"),
    ({"filesystem": {"paths": []}}, "the server 'filesystem' needs 'paths'"),
    ({"nope": {}}, "there is no server 'nope' here. Installed in the template are fetch, filesystem, git"),
    ({"nope": {}}, 'given as "github/OWNER/REPO"'),
    ({"github/a": {"runCmd": "x"}}, "there is no server 'github/a'"),
    ({"github/a/..": {"runCmd": "x"}}, "there is no server 'github/a/..'"),
    ({"github/../b": {"runCmd": "x"}}, "there is no server 'github/../b'"),
    ({"github/a/b": {"runCmd": 7}}, "runCmd and installCmd must be strings, and envs an object"),
    ({"github/a/b": {"runCmd": "x", "installCmd": ["y"]}}, "runCmd and installCmd must be strings"),
    ({"github/a/b": {"runCmd": "x", "envs": "A=b"}}, "and envs an object"),
    ({"github/a/b": {}}, "the server 'github/a/b' needs 'runCmd'"),
    ({"github/a/b": {"runCmd": "x", "cwd": "/"}}, "takes no 'cwd'; it takes runCmd, installCmd and envs"),
])
def test_refused(gateway, config, said):
    assert said in gateway.refuses(config)


def test_a_repository_with_commands(gateway):
    """As Python's SDK names the members."""
    name = gateway.repository("github/acme/tools.mcp", {"words": "alpha"})
    gateway.serves({name: {"install_cmd": "cat words > made", "run_cmd": f"exec {probe()} $(cat made)", "envs": {"A": "b"}}})
    seen = gateway.call("started")
    assert seen["arguments"] == ["alpha"] and seen["environment"]["A"] == "b"
    assert seen["directory"] == str(gateway.root / "opt/mcp-gateway-github/acme/tools.mcp")


def test_a_package_named_github_leaves_repositories_alone(gateway):
    gateway.serves(gateway.probe())
    assert "npm install @modelcontextprotocol/server-github@" in gateway.refuses({"github": {"personalAccessToken": KEY}})
    (gateway.hub / "one").rename(gateway.hub / "gone")
    (gateway.hub / "one").mkdir()
    gateway.serves(gateway.probe())


def test_an_installation_that_leaves_a_process(gateway):
    """It holds the output, and the start does not wait for it."""
    gateway.serves(gateway.probe(installCmd="setsid sleep 600 & echo $! > left"))
    left = int((gateway.root / "opt/mcp-gateway-github/one/probe/left").read_text())
    assert not gone(left)
    os.kill(left, signal.SIGKILL)


def test_two_starts_at_once(gateway):
    """The second replaces the first."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        both = list(pool.map(gateway.start, [gateway.probe("one"), gateway.probe("two")]))
    assert [done.returncode for done in both] == [0, 0], both
    assert gateway.pid() and gateway.run("stop").returncode == 0 and gateway.pid() is None


def test_what_needs_a_network_says_so(gateway):
    missing = gateway.refuses({"github/acme/absent": {"runCmd": "x"}})
    assert "git clone of github/acme/absent failed; that needs a network" in missing
    fetched = gateway.refuses({"exa": {"apiKey": KEY}})
    assert "npm install exa-mcp-server@" in fetched and "that needs a network" in fetched
    failed = gateway.refuses(gateway.probe(installCmd="echo half done; exit 5"))
    assert "installCmd of github/one/probe failed" in failed and "half done" in failed


def test_an_installation_that_takes_too_long(gateway):
    error = gateway.refuses(gateway.probe(installCmd="echo begun; sleep 600 & wait"), seconds=3)
    assert "installCmd of github/one/probe took too long" in error and "begun" in error


def test_pull(gateway):
    name = gateway.repository("github/acme/tools", {"words": "x"})
    assert gateway.run("pull", name).returncode == 0
    (gateway.hub / "acme/tools").rename(gateway.hub / "gone")
    gateway.serves({name: {"runCmd": f"exec {probe()}"}})
    refused = gateway.run("pull", "nope")
    assert refused.returncode == 1 and "there is no server 'nope' here" in refused.stderr


# ---- one gateway after the other
def test_the_next_start_replaces_the_servers(gateway):
    """As in a sandbox made from a snapshot of one that had a gateway."""
    gateway.serves(gateway.probe("one"), token="token-before")
    before = gateway.pid()
    gateway.serves(gateway.probe("two"))
    assert gateway.status(Authorization="Bearer token-before")[0] == 401
    assert gateway.call("started")["environment"]["PROBE"] == "two"
    assert gateway.pid() != before and gone(before)


def test_stop_ends_the_servers(gateway):
    gateway.serves(gateway.probe())
    server, process = gateway.call("started")["pid"], gateway.pid()
    assert gateway.run("stop").returncode == 0
    assert gone(process) and gone(server) and not (gateway.root / "etc/mcp-gateway/.token").exists()
    with pytest.raises(ConnectionRefusedError):
        gateway.status()


def test_a_process_that_waits_serves(gateway):
    """The template's machine is saved with it. Its environment is that of the template, not of the sandbox."""
    waiting = subprocess.Popen([PYTHON, "-I", PROGRAM, "--root", gateway.root, "wait"], stdout=subprocess.PIPE,
                               env=gateway.env | {"OLD": "yes"})
    assert waiting.stdout.readline() == b"waiting\n"
    gateway.env["NEW"] = "yes"
    gateway.serves(gateway.probe())
    environment = gateway.call("started")["environment"]
    assert gateway.pid() == waiting.pid and environment["NEW"] == "yes" and "OLD" not in environment
    gateway.run("stop")
    waiting.wait(30)
    gateway.serves(gateway.probe())
    assert gateway.pid() != waiting.pid


# ---- the table
def test_the_table_has_the_members_of_e2b():
    """Each server of the table is one of E2B's type, with the same members."""
    source = "import e2b.sandbox.mcp as m, json, typing\n" \
        "hints = typing.get_type_hints(m.McpServer)\n" \
        "print(json.dumps({n: sorted(getattr(h, '__annotations__', {})) for n, h in hints.items()}))"
    done = subprocess.run([CLIENTS / "e2b/bin/python", "-c", source], text=True, capture_output=True, check=True)
    theirs = json.loads(done.stdout)
    assert {n: sorted(row.get("members", {})) for n, row in TABLE.items()} == {n: theirs.get(n) for n in TABLE}


def test_the_table_is_whole():
    for name, row in TABLE.items():
        assert ("npm" in row) != ("pip" in row), name
        package = row.get("npm") or row["pip"].split()[0]
        assert re.search(r"[a-z](@|==)\d[\w.]*$", package), f"{name} has no version"
        for how in row.get("members", {}).values():
            assert len(how.keys() & {"variable", "option", "mounted"}) == 1, name
