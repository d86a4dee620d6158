# SPDX-License-Identifier: Apache-2.0
"""The exact bytes that cubby-mcp sends to each kind of backend, compared with golden recordings.

Values that change from run to run are masked: ids, tokens, boundaries, ports, the program's
version. A difference is a change of the protocol as backends see it: look it up in their documents,
then write new recordings with GOLDEN=write.
"""

import os
import pathlib
import re

import pytest

from cube_front import CubeFront
from e2b_front import KEY, E2bFront
from front import Front, authority, listener
from harness import BIN
from mcp_stdio import Stdio
from sdk import OURS
from test_backend_dialects import Bare

GOLDEN = pathlib.Path(__file__).parent / "golden"


class Recorder(Front):
    """cubbyd itself, with a record of the requests to it."""

    async def handle(self, request, reader, writer):
        up, to = await self._upstream(request.method, request.target, {
            k: v for k, v in request.fields if k.lower() not in ("host", "content-length", "transfer-encoding")},
            request.body)
        while data := await up.read(65536):
            writer.write(data)
        await writer.drain()
        to.transport.abort()


@pytest.fixture(scope="module")
def daemon():
    with Bare() as d:
        yield d


def play(options, env, cwd):
    """Create, list, run, upload, read, kill: the least that a user of a sandbox does."""
    environment = {k: v for k, v in os.environ.items() if k not in OURS}
    mcp = Stdio("--local-dir", cwd, *options, env={**environment, "CUBBY_HOME": str(cwd / "nobody"), **env}, cwd=cwd,
                program=BIN / "cubby-mcp")
    mcp.initialize()
    sandbox = mcp.tool("create_sandbox")["sandbox_id"]
    assert sandbox in mcp.text("list_sandboxes")
    assert mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")["stdout"] == "hi\n"
    (cwd / "in.txt").write_text("content\n")
    mcp.tool("upload_file_from_local_to_sandbox", sandbox_id=sandbox, local_file_path=str(cwd / "in.txt"),
             sandbox_file_path="/tmp/in.txt")
    assert "content" in mcp.text("read_file", sandbox_id=sandbox, path="/tmp/in.txt")
    mcp.tool("kill_sandbox", sandbox_id=sandbox)
    mcp.finish()
    return sandbox


def masked(request, sandbox):
    """A request as text: its bytes, with values that change from run to run replaced by names."""
    data = request.wire
    if request.headers.get("content-type") == "application/connect+json":
        head, _, body = data.partition(b"\r\n\r\n")
        data = head + b"\r\n\r\n" + f"<{body[0]:02x} {len(body) - 5 - int.from_bytes(body[1:5], 'big')}>".encode() + body[5:]
    text = data.decode()
    text = text.replace(sandbox, "SANDBOX")
    for pattern, name in ((r"127\.0\.0\.1:\d+", "ADDRESS"), (r"(?<=X-Access-Token: )\S+", "TOKEN"),
                          (r"(?<=boundary=)[0-9a-f]{32}", "BOUNDARY"), (r"(?<=\n--)[0-9a-f]{32}", "BOUNDARY"),
                          (r'"cubby\.owner": ?"[^"]*"', '"cubby.owner":"OWNER"'),
                          (r'"cubby\.create": ?"[0-9a-f]{32}"', '"cubby.create":"MARK"'),
                          (r'"tag": ?"cubby-[0-9a-f]{16}"', '"tag":"TAG"')):
        text = re.sub(pattern, name, text)
    return text.replace("\r\n", "\\r\\n\n")


def compare(name, front, sandbox):
    # Steps that go side by side are in no order of their own.
    seen = sorted(masked(r, sandbox) for r in front.requests)
    text = "\n========\n".join(dict.fromkeys(seen)) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_cubbyd(daemon, tmp_path):
    front = Recorder(daemon, {"all": (listener(), None)})
    address = "http://127.0.0.1:%d" % front.port("all")
    sandbox = play(["--backend", address], {"E2B_API_KEY": KEY}, tmp_path)
    front.close()
    compare("cubbyd", front, sandbox)


def test_e2b(daemon, tmp_path):
    ca, tls = authority(tmp_path / "tls", "IP:127.0.0.1", "*.e2b.test")
    front = E2bFront(daemon, {"api": (listener(), tls), "sandbox": (listener(), tls)}, "e2b.test")
    sandbox = play(["--backend", f"https://127.0.0.1:{front.port('api')}",
                    "--backend-proxy", f"https://127.0.0.1:{front.port('sandbox')}", "--backend-ca", ca],
                   {"E2B_API_KEY": KEY}, tmp_path)
    front.close()
    assert front.wrong == []
    compare("e2b", front, sandbox)


def test_cube(daemon, tmp_path):
    ca, tls = authority(tmp_path / "tls", "IP:127.0.0.1", "*.cube.app")
    front = CubeFront(daemon, {"api": (listener(), tls), "proxy": (listener(), tls)})
    sandbox = play(["--backend", f"https://127.0.0.1:{front.port('api')}",
                    "--backend-proxy", f"https://127.0.0.1:{front.port('proxy')}", "--backend-ca", ca], {}, tmp_path)
    front.close()
    assert front.wrong == []
    compare("cube", front, sandbox)
