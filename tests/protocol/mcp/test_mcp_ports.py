# SPDX-License-Identifier: Apache-2.0
"""expose_port and `cubby expose`, and the hint after a command that the sandbox's network refused a
connection.
"""

import asyncio
import datetime
import http.server
import json
import os
import shlex
import subprocess
import threading
import urllib.request

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import kernel_peer
from cubbyd import Daemon, Web, closed_port
from harness import BIN
from mcp_backend import Backend, Handler
from mcp_schemas import checked
from mcp_stdio import server, start  # noqa: F401
from sdk import OURS


class NetHandler(Handler):
    """cubbyd's ports and network, as a test sets them."""

    def control(self, path, body):
        b = self.backend
        if path.endswith("/ports") and self.command == "POST":
            b.asked.append(json.loads(body))
            self.answer(*b.port)
        elif path.endswith("/network") and self.command == "GET":
            b.goes_on.wait(120)
            self.answer(*b.network)
        else:
            super().control(path, body)


class NetBackend(Backend):
    handler = NetHandler

    def __init__(self):
        self.asked = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.port = (201, {"port": 8000, "hostPort": 43211, "protocol": "http", "url": "http://127.0.0.1:43211",
                           "browserUrl": "http://8000-x.localhost:43211/", "token": None})
        self.network = (404, {"code": 404, "message": "no"})
        super().__init__()

    def refuse(self, *refusals, mode="allow", allow=("example.com:443",), ago_s=-60, exactly=False):
        """The default time is a minute ahead, and so later than any command's start."""
        now = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=ago_s)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if exactly else "%Y-%m-%dT%H:%M:%SZ")
        self.network = (200, {
            "policy": {"mode": mode, "allow": list(allow), "deny": [], "denyWins": False, "limits": {}},
            "counters": None, "sequence": len(refusals),
            "refusals": [{"sequence": i + 1, "count": 1, "timestamp": stamp, "protocol": "tcp", "address": "10.0.0.1",
                          "port": 443, "name": "", "reason": "not allowed", **one}
                         for i, one in enumerate(refusals)]})

    def asks(self):
        return sum(1 for _, path in self.requests if "/network" in path)


@pytest.fixture
def backend():
    b = NetBackend()
    yield b
    b.close()


# ---- expose_port
def test_a_url_for_a_person(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    o, text, _ = checked(server, "expose_port", sandbox_id=sandbox, port=8000)
    assert backend.asked == [{"port": 8000, "hostPort": 0, "protocol": "http", "wait": 20}]
    assert (o["url"], o["program_url"], o["port"]) == ("http://8000-x.localhost:43211/", "http://127.0.0.1:43211", 8000)
    assert "token" not in o
    assert text == (f"Port 8000 of sandbox {sandbox}: http://8000-x.localhost:43211/\nGive this URL to the "
                    "user, to open in a browser on this computer. The URL stops working when the sandbox ends. For programs "
                    "such as curl, use http://127.0.0.1:43211")
    backend.port[1].update(token="t0k", browserUrl="http://8000-x.localhost:43211/?cubby_token=t0k")
    o, text, _ = checked(server, "expose_port", sandbox_id=sandbox, port=8000, token=True, wait_seconds=300)
    assert backend.asked[1] == {"port": 8000, "hostPort": 0, "protocol": "http", "wait": 50, "token": True}
    assert o["token"] == "t0k" and "Anyone who has this URL can open it." in text
    assert text.endswith("with the header X-Access-Token: t0k")


def test_beyond_this_computer(server, backend):  # noqa: F811
    url = "https://here.example:43211"
    backend.port[1].update(url=url, browserUrl=f"{url}/?cubby_token=t", token="t")
    _, text, _ = checked(server, "expose_port", sandbox_id=backend.sandbox(), port=8000)
    assert text.endswith("Give this URL to the user, to open in a browser. The URL stops working when the sandbox ends.")


@pytest.mark.parametrize("answer, said", [
    ((504, {"code": 504, "error_code": "port_closed", "message": "Nothing listens on port 8000 of sandbox yet"}),
     "port_closed: Nothing listens on port 8000 of sandbox yet. Start the server first with "
     "start_command"),
    ((409, {"code": 409, "error_code": "port_exposed", "message": "Port 8000 is already exposed"}),
     "failed: could not expose the port: Port 8000 is already exposed"),
    ((409, {"code": 409, "error_code": "sandbox_paused", "message": "The sandbox is paused"}), "sandbox_paused: "),
    ((429, {"code": 429, "error_code": "limit_reached", "message": "32 ports"}), "limit_reached: "),
    ((201, {"url": 7}), "failed: could not expose the port: the answer of cubbyd"),
])
def test_what_is_refused(server, backend, answer, said):  # noqa: F811
    backend.port = answer
    assert server.error("expose_port", sandbox_id=backend.sandbox(), port=8000).startswith(said)


def test_a_port_that_is_none(server, backend):  # noqa: F811
    for port in (0, 65536, "80a", 8.5):
        assert "port" in server.error("expose_port", sandbox_id=backend.sandbox(), port=port)
    assert backend.asked == []


# ---- a download by the host keeps to the sandbox's policy
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *words):
        pass


@pytest.fixture(name="page")
def fixture_page():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        page.asked = []
        threading.Thread(target=page.serve_forever, daemon=True).start()
        yield page
        page.shutdown()


def download(client, backend, page, path="/x?told=this&and='that'"):
    """The error text that the model gets, or None when the download succeeds."""
    call = {"sandbox_id": backend.sandbox(), "url": f"http://127.0.0.1:{page.server_port}{path}"}
    tool = "download_file_from_internet_to_sandbox"
    before = len(page.asked)
    result = client.result(tool, **call)
    if not result.get("isError"):
        assert len(page.asked) == before + 1
        return None
    assert len(page.asked) == before, "nothing was asked for"
    return result["content"][0]["text"]


@pytest.mark.parametrize("policy, comes", [
    ({"mode": "public", "deny": []}, True), ({"mode": "public", "deny": ["9.9.9.9/32"]}, False),
    ({"mode": "allow", "allow": ["127.0.0.1"]}, False), ({"mode": "none"}, False), ({}, False)],
    ids=lambda p: str(p.get("mode")) + ("-deny" if p.get("deny") else "") if isinstance(p, dict) else "")
def test_a_download_keeps_to_the_policy(start, backend, page, policy, comes):  # noqa: F811
    client = start("--allow-download-from", "127.0.0.1")
    backend.network = (200, {"policy": policy, "counters": None, "sequence": 0, "refusals": []})
    told = download(client, backend, page)
    if comes:
        assert told is None
        return
    command = told.partition("run_command: ")[2]
    assert told.startswith("denied")
    assert shlex.split(command) == ["curl", "-fLO", f"http://127.0.0.1:{page.server_port}/x?told=this&and='that'"]
    assert download(client, backend, page, "/" + "x" * 2000).endswith("curl -fLO URL")


@pytest.mark.parametrize("option, comes", [(None, True), ("public", True), ("none", False)])
def test_a_download_where_no_policy_is_told(start, backend, page, option, comes):  # noqa: F811
    client = start("--allow-download-from", "127.0.0.1", *(["--network", option] if option else []))
    backend.network = (501, {"code": 501, "message": "an older one"})
    assert (download(client, backend, page) is None) == comes


def test_a_download_when_the_policy_cannot_be_asked_for(start, backend, page):  # noqa: F811
    client = start("--allow-download-from", "127.0.0.1")
    backend.network = (500, {"code": 500, "message": "broken"})
    assert "could not read the sandbox's network policy" in download(client, backend, page)


# ---- with a daemon
@pytest.fixture(scope="module")
def daemon():
    with Daemon() as d:
        yield d


@pytest.fixture(scope="module")
def env(daemon):
    return {**{k: v for k, v in os.environ.items() if k not in OURS}, "CUBBY_HOME": str(daemon.home)}


def test_the_official_client(daemon, env, tmp_path):
    async def main(guest):
        parameters = StdioServerParameters(command=str(BIN / "cubby-mcp"), env=env, cwd=str(tmp_path))
        with open(os.devnull, "w") as errors:
            async with stdio_client(parameters, errors) as (read, write), ClientSession(read, write) as s:
                await s.initialize()
                made = await s.call_tool("create_sandbox", {})
                sandbox = made.structuredContent["sandbox_id"]
                with closed_port() as closed:
                    done = await s.call_tool("expose_port", {"sandbox_id": sandbox, "wait_seconds": 1,
                                                             "port": closed.getsockname()[1]})
                assert done.isError and done.content[0].text.startswith("port_closed: Nothing listens on port")
                done = await s.call_tool("expose_port", {"sandbox_id": sandbox, "port": guest.port, "token": True})
                assert not done.isError
                return done.structuredContent

    with Web() as guest:
        o = asyncio.run(asyncio.wait_for(main(guest), 120))
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(o["program_url"], timeout=30)
        request = urllib.request.Request(o["program_url"], headers={"X-Access-Token": o["token"]})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.read() == b"hello\n"
        page = subprocess.run(["curl", "-sSL", "-b", "", "-H", "Accept: text/html", o["url"]], capture_output=True,
                              timeout=60, check=True)
        assert page.stdout == b"hello\n"


def test_the_command_line(daemon, env):
    def cubby(*args, status=0):
        done = subprocess.run([BIN / "cubby", "expose", *map(str, args)], env=env, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == status, done.stderr
        return done.stdout.strip() if status == 0 else done.stderr

    sandbox = daemon.create()["sandboxID"]
    with Web() as guest:
        url = cubby("--wait", 30, sandbox, guest.port)
        assert url.startswith(f"http://{guest.port}-{sandbox}.localhost:") and url.endswith("/")
        assert subprocess.run(["curl", "-sS", url], capture_output=True, timeout=60, check=True).stdout == b"hello\n"
        assert "already exposed" in cubby("--token", sandbox, guest.port, status=1)
        assert cubby("--tcp", sandbox, 9).startswith("tcp://127.0.0.1:")
        rows = [row.split() for row in cubby(sandbox).splitlines()]
        assert rows[0] == ["PORT", "PROTOCOL", "URL"] and rows[1][:2] == ["9", "tcp"]
        assert rows[2] == [str(guest.port), "http", url]
        assert [p["port"] for p in json.loads(cubby("--json", sandbox))] == [9, guest.port]
        cubby("--close", sandbox, 9)
        assert "not exposed" in cubby("--close", sandbox, 9, status=1)
        cubby("--close", sandbox)
        assert json.loads(cubby("--json", sandbox)) == []
        assert "from 1 to 65535" in cubby(sandbox, 0, status=2)


# ---- what the network policy refused
def test_a_command_that_failed_is_told(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    backend.refuse({"name": "evil.example\x1b[1m"}, {"address": "10.0.0.5", "port": 5432, "reason": "private"},
                   {"protocol": "other", "address": "", "port": 0, "reason": "unknown ethertype"})
    o, text, _ = checked(server, "run_command", sandbox_id=sandbox, command="exit 3")
    hint = ("The sandbox's network policy refused: tcp evil.example\\x1b[1m:443 (not allowed), tcp 10.0.0.5:5432 "
            "(private), other (unknown ethertype). The policy allows: example.com:443")
    assert o["network_hint"] == hint and text.splitlines()[-1] == hint and text.splitlines()[-2].startswith("[exit code 3")
    assert backend.asks() == 1


def test_one_that_succeeds_costs_nothing(server, backend):  # noqa: F811
    """Each call is one request to the backend, once the sandbox has been looked up."""
    backend.refuse({"name": "evil.example"})
    sandbox = backend.sandbox()
    checked(server, "run_command", sandbox_id=sandbox, command="true")
    for tool, arguments in [
            ("run_command", {"command": "true"}), ("run_command", {"command": "seq 20000; seq 10 >&2"}),
            ("run_command", {"command": "echo connected to the network, resolved, fetched"}),
            ("run_python_code", {"code_block": "print(1)\n2"}), ("start_command", {"command": "echo out"})]:
        before = len(backend.requests)
        o, text, _ = checked(server, tool, sandbox_id=sandbox, **arguments)
        new = [path for _, path in backend.requests[before:] if path not in ("/health", "/execute")]
        assert "network_hint" not in o and "Refused" not in text and backend.asks() == 0
        uploads = 1 if o.get("truncated") else 0
        assert new.count("/process.Process/Start") == 1 and len(new) == 1 + uploads, new


APT = ("W: Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease  Temporary failure resolving "
       "'deb.debian.org'")
PIP = ("WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError: Failed to establish a new "
       "connection: [Errno 111] Connection refused': /simple/requests/")


@pytest.mark.parametrize("tool, arguments", [
    ("run_command", {"command": f"echo \"{APT}\" >&2"}), ("run_command", {"command": f"echo \"{PIP}\"; seq 20000"}),
    ("run_python_code", {"code_block": f"print({PIP!r})"}), ("start_command", {"command": f"echo \"{APT}\"; sleep 0.01"})])
def test_one_that_says_so_is_told_although_it_succeeds(server, backend, tool, arguments):  # noqa: F811
    """Examples are `apt-get update`, which ends with 0, and `!pip`, whose exit code Python does not see."""
    backend.refuse({"name": "evil.example"})
    o, text, _ = checked(server, tool, sandbox_id=backend.sandbox(), **arguments)
    assert o.get("exit_code", 0) == 0 and "evil.example" in o["network_hint"] and backend.asks() == 1
    assert text.splitlines()[-1] == o["network_hint"]


def test_the_kernel_says_so_too(server, backend):  # noqa: F811
    kernel = kernel_peer.shared()
    backend.kernel = ("127.0.0.1", kernel.port)
    backend.refuse({"name": "evil.example"})
    sandbox = backend.sandbox()
    o, _, _ = checked(server, "run_python_code", sandbox_id=sandbox, code_block="!echo fine")
    assert o["status"] == "ok" and "network_hint" not in o and backend.asks() == 0
    o, text, _ = checked(server, "run_python_code", sandbox_id=sandbox, code_block=f'!echo "{PIP}"; exit 1')
    assert o["status"] == "ok" and "evil.example" in o["network_hint"] and backend.asks() == 1
    assert text.splitlines()[-1] == o["network_hint"]


def test_saying_so_is_not_enough(server, backend):  # noqa: F811
    """A command prints such an error, but nothing was refused meanwhile: there is no hint."""
    backend.refuse({"name": "evil.example"}, ago_s=30)
    o, text, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command=f"echo \"{APT}\"")
    assert "network_hint" not in o and "Refused" not in text and backend.asks() == 1


def test_what_was_refused_before_is_no_reason(server, backend):  # noqa: F811
    backend.refuse({"name": "evil.example"}, ago_s=30)
    o, text, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="false")
    assert "network_hint" not in o and "Refused" not in text and backend.asks() == 1


def test_the_command_before_was_refused_it(server, backend):  # noqa: F811
    """The refusal is of the same second but earlier than the command; netd's times are exact. The
    control: a refusal after the command's start."""
    sandbox = backend.sandbox()
    backend.refuse({"name": "evil.example"}, exactly=True, ago_s=0.05)
    o, text, _ = checked(server, "run_command", sandbox_id=sandbox, command="cat /nonexistent")
    assert "network_hint" not in o and "Refused" not in text and backend.asks() == 1
    backend.refuse({"name": "evil.example"}, exactly=True, ago_s=-60)
    o, _, _ = checked(server, "run_command", sandbox_id=sandbox, command="cat /nonexistent")
    assert "evil.example" in o["network_hint"]


def test_a_backend_that_cannot_tell(server, backend):  # noqa: F811
    for backend.network in ((404, {}), (500, {"message": "x"}), (200, {"policy": {}}), (200, [])):
        o, _, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="exit 2")
        assert o["exit_code"] == 2 and "network_hint" not in o


def test_a_backend_that_says_nothing(server, backend):  # noqa: F811
    """The result does not wait for the hint: it comes before the client gives the call up."""
    backend.refuse({"name": "evil.example"})
    backend.goes_on.clear()
    try:
        o, _, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="exit 2")
    finally:
        backend.goes_on.set()
    assert o["exit_code"] == 2 and "network_hint" not in o and backend.asks() == 1


def test_many_refusals_are_one_line(server, backend):  # noqa: F811
    backend.refuse(*({"name": f"h{i}.example"} for i in range(9)), allow=[f"a{i}.example" for i in range(9)])
    o, _, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="false")
    assert "h2.example" in o["network_hint"] and "h3.example" not in o["network_hint"]
    assert ", and 6 more. The policy allows: a0.example" in o["network_hint"] and o["network_hint"].endswith(", and 3 more")


@pytest.mark.parametrize("mode, said", [("none", "nothing"), ("public", "the public internet, no private addresses")])
def test_what_is_allowed(server, backend, mode, said):  # noqa: F811
    backend.refuse({"port": 0, "protocol": "icmp"}, mode=mode, allow=[])
    o, _, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="false")
    assert o["network_hint"].endswith(f"icmp 10.0.0.1 (not allowed). The policy allows: {said}")


def test_what_a_secret_was_refused_is_not_the_policys(server, backend):  # noqa: F811
    """The hint leaves the policy out, because the policy allows the connection. The control: the
    hint names the policy when something else was refused too."""
    of_secret = {"name": "other.example", "reason": "secret KEY: not for this host"}
    backend.refuse(of_secret, mode="public", allow=[])
    o, text, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="exit 22")
    hint = "The sandbox's network policy refused: tcp other.example:443 (secret KEY: not for this host)"
    assert o["network_hint"] == hint and text.splitlines()[-1] == hint
    backend.refuse(of_secret, {"reason": "private"}, mode="public", allow=[])
    o, _, _ = checked(server, "run_command", sandbox_id=backend.sandbox(), command="exit 22")
    assert o["network_hint"] == f"{hint}, tcp 10.0.0.1:443 (private). The policy allows: the public internet, no private addresses"


def test_python_that_failed_is_told(server, backend):  # noqa: F811
    backend.refuse({"name": "evil.example"})
    o, text, _ = checked(server, "run_python_code", sandbox_id=backend.sandbox(), code_block="1/0")
    assert "evil.example" in o["network_hint"] and text.endswith("The policy allows: example.com:443")


def test_a_background_command_that_failed_is_told(server, backend):  # noqa: F811
    sandbox = backend.sandbox()
    backend.refuse({"name": "evil.example"}, ago_s=30)  # it may have run for a while
    o, _, _ = checked(server, "start_command", sandbox_id=sandbox, command="exec tail -f /dev/null")
    assert o["running"] and "network_hint" not in o
    checked(server, "stop_command", sandbox_id=sandbox, command_id=o["command_id"], signal="KILL")
    o, text, _ = checked(server, "read_output", sandbox_id=sandbox, command_id=o["command_id"], wait_seconds=30)
    assert not o["running"] and "evil.example" in o["network_hint"] and text.endswith("The policy allows: example.com:443")
