# SPDX-License-Identifier: Apache-2.0
"""Files and commands in the background, in real sandboxes, by the shipped programs."""

import urllib.error
import urllib.request

import pytest
from harness import Mcp
from tiers import tier  # noqa: F401


@pytest.fixture
def sandbox(mcp):
    sandbox_id = mcp.tool("create_sandbox")["sandbox_id"]
    yield sandbox_id
    mcp.tool("kill_sandbox", sandbox_id=sandbox_id)


def until(mcp, sandbox, command, done, cursor=0):
    output = ""
    for _ in range(60):
        page = mcp.tool("read_output", sandbox_id=sandbox, command_id=command, cursor=cursor, wait_seconds=10)
        output += page["output"]
        cursor = page["next_cursor"]
        if done(output, page):
            return output, page
    raise AssertionError(f"not done: {output[-500:]!r}")


def test_a_web_server_in_the_background(home, mcp, sandbox, tmp_path):
    """The server serves files that are written and edited meanwhile, also by a URL of the host;
    another cubby-mcp process ends it. It listens on the guest's loopback."""
    def run(command):
        return mcp.tool("run_command", sandbox_id=sandbox, command=command)

    mcp.tool("write_file", sandbox_id=sandbox, path="site/index.html", content="<p>one</p>\n")
    started = mcp.tool("start_command", sandbox_id=sandbox, cwd="/home/user/site",
                       command="exec python3 -um http.server 8123 --bind 127.0.0.1")
    command = started["command_id"]
    assert started["running"]
    until(mcp, sandbox, command, lambda o, p: "Serving HTTP" in o)
    assert run("curl -s localhost:8123/")["stdout"] == "<p>one</p>\n"
    edited = mcp.tool("edit_file", sandbox_id=sandbox, path="site/index.html", old_text="one", new_text="two")
    assert edited["replacements"] == 1
    assert run("curl -s localhost:8123/")["stdout"] == "<p>two</p>\n"
    url = mcp.tool("expose_port", sandbox_id=sandbox, port=8123)["program_url"]
    with urllib.request.urlopen(url, timeout=60) as page:
        assert page.read() == b"<p>two</p>\n"
    output, _ = until(mcp, sandbox, command, lambda o, p: o.count('"GET / HTTP/1.1" 200') == 3)

    other = Mcp(home, "--local-dir", tmp_path, cwd=tmp_path)
    other.initialize()
    stopped = other.tool("stop_command", sandbox_id=sandbox, command_id=command)
    assert stopped["was_running"] and not stopped["killed"] and stopped["exit_code"] == 143
    page = other.tool("read_output", sandbox_id=sandbox, command_id=command)
    assert not page["running"] and page["exit_code"] == 143 and page["output"].count("GET /") == 3
    other.close()
    assert run("curl -s localhost:8123/")["exit_code"] == 7
    with pytest.raises(urllib.error.HTTPError) as closed:
        urllib.request.urlopen(url, timeout=60)
    assert closed.value.code == 502


def test_as_root_and_with_input(mcp, sandbox):
    started = mcp.tool("start_command", sandbox_id=sandbox, user="root",
                       command="id -un; read -r x; echo \"got $x\"; trap '' TERM; while :; do sleep 1; done")
    command = started["command_id"]
    assert command.endswith("-root")
    until(mcp, sandbox, command, lambda o, p: o == "root\n")
    mcp.tool("send_input", sandbox_id=sandbox, command_id=command, text="it\n", close_stdin=True)
    until(mcp, sandbox, command, lambda o, p: o.endswith("got it\n"))
    stopped = mcp.tool("stop_command", sandbox_id=sandbox, command_id=command, grace_seconds=0.5)
    assert stopped["killed"] and stopped["exit_code"] == 137
    left = mcp.tool("run_command", sandbox_id=sandbox, command="ps -eo args | grep -c '[s]leep 1' || true")
    assert left["stdout"] == "0\n"


def test_files_of_a_user_and_of_root(mcp, sandbox):
    made = mcp.tool("write_file", sandbox_id=sandbox, path="~/a/b.txt", content="1\n2\n3\n")
    assert made["path"] == "/home/user/a/b.txt" and not made["existed"]
    page = mcp.tool("read_file", sandbox_id=sandbox, path="a/b.txt", start_line=2, end_line=2)
    assert page["content"] == "2\n" and page["path"] == "/home/user/a/b.txt"
    listed = mcp.tool("list_files", sandbox_id=sandbox, depth=2)
    assert listed["path"] == "/home/user" and "a/b.txt" in [e["name"] for e in listed["entries"]]
    with pytest.raises(Exception, match="ermission denied"):
        mcp.tool("write_file", sandbox_id=sandbox, path="/etc/motd", content="x")
    mcp.tool("write_file", sandbox_id=sandbox, path="/etc/motd", content="old\n", user="root")
    with pytest.raises(Exception, match="ermission denied"):
        mcp.tool("edit_file", sandbox_id=sandbox, path="/etc/motd", old_text="old", new_text="new")
    mcp.tool("edit_file", sandbox_id=sandbox, path="/etc/motd", old_text="old", new_text="new", user="root")
    seen = mcp.tool("run_command", sandbox_id=sandbox, command="cat /etc/motd; stat -c %U:%a /etc/motd")
    assert seen["stdout"] == "new\nroot:644\n"


def test_a_picture_that_was_drawn(mcp, sandbox):
    mcp.tool("run_python_code", sandbox_id=sandbox, code_block=(
        "import struct, zlib\n"
        "def part(kind, data):\n"
        "    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n"
        "open('p.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + part(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0))\n"
        "    + part(b'IDAT', zlib.compress(b'\\0\\x80')) + part(b'IEND', b''))\n"))
    got = mcp.tool("read_file", sandbox_id=sandbox, path="p.png")
    assert got["mime_type"] == "image/png" and got["size"] > 50
