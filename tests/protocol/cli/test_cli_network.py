# SPDX-License-Identifier: Apache-2.0
"""cubby network, and policies at creation, from the CLI and from cubby-mcp's configuration."""

import json
import subprocess

import pytest

from cubbyd import Daemon
from harness import BIN
from network_files import contact, policy, refusal, write

CUBBY = BIN / "cubby"


@pytest.fixture
def daemon():
    with Daemon(env={"CUBBY_POOL": "off"}) as d:
        yield d


def run(daemon, *args, program=CUBBY, **options):
    return subprocess.run([program, *args], env=daemon.env, capture_output=True, text=True, timeout=60,
                          **(options or {"stdin": subprocess.DEVNULL}))


def cubby(daemon, *args):
    done = run(daemon, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_create_with_a_policy(daemon, tmp_path):
    made = cubby(daemon, "create", "--allow", "example.com:443", "--allow", "*.example.org", "--deny",
                 "bad.example.org").strip()
    assert policy(daemon, made)["allowOut"] == ["example.com:443", "*.example.org"]
    assert policy(daemon, made)["denyOut"] == ["bad.example.org"] and not policy(daemon, made)["internet"]
    none = cubby(daemon, "create", "--network", "none").strip()
    assert policy(daemon, none)["internet"] is False and policy(daemon, none)["allowOut"] == []
    deny = cubby(daemon, "create", "--deny", "9.9.9.9").strip()
    assert policy(daemon, deny)["internet"] is True and policy(daemon, deny)["denyOut"] == ["9.9.9.9/32"]
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"mode": "allow", "allow": ["a.example"], "limits": {"connections": 5}}))
    both = cubby(daemon, "create", "--network", str(file), "--allow", "b.example").strip()
    assert policy(daemon, both)["allowOut"] == ["a.example", "b.example"]
    assert policy(daemon, both)["limits"] == {"connections": 5}


@pytest.mark.parametrize("words, what", [
    (["--allow", "*.com"], "two labels"), (["--network", "none", "--allow", "1.1.1.1"], "cannot be used with allow"),
    (["--network", "/no/such/file"], "none, public, allow or a file"), (["--deny", "x.example"], "cannot be denied")])
def test_what_is_refused_before_anything_is_made(daemon, words, what):
    done = run(daemon, "create", *words)
    assert done.returncode == 2 and what in done.stderr
    assert daemon.directories() == []


@pytest.mark.parametrize("words", [["--allow", "1.1.1.1"], ["--deny", "1.1.1.1"], ["--network", "public"]])
def test_no_internet_and_a_policy(daemon, words):
    done = run(daemon, "create", "--no-internet", *words)
    assert done.returncode == 2 and "--no-internet cannot be combined with" in done.stderr
    assert daemon.directories() == []


def test_show_and_change(daemon):
    made = daemon.create()["sandboxID"]
    assert cubby(daemon, "network", made) == "mode: public\n"
    write(daemon, made, [refusal(2, b"not an allowed name", name=b"\x1b[31mevil", count=2),
                         refusal(1, b"unknown ethertype", "0.0.0.0", 0, 0)], [(2, b"x")], refused=2, reached=[contact(1, b"a.example")])
    cubby(daemon, "network", "--allow", "a.example", "--deny", "10.0.0.0/8", made[:10])
    text = cubby(daemon, "network", made)
    assert text.startswith("mode: allow\nallow: a.example\ndeny: 10.0.0.0/8\nreceived: 100 bytes, 2 packets\n"
                           "sent: 200 bytes, 4 packets\nrefused: 2\n")
    assert text.endswith("allowed: 1\n" + text.splitlines()[-1] + "\n") and text.endswith("Z tcp 93.184.216.34 a.example port 443\n")
    assert "tcp 10.0.0.1 ?[31mevil port 5432: not an allowed name (2 times)\n" in text and "\x1b" not in text
    assert " other: unknown ethertype\n" in text, "no address, and no port"
    assert json.loads(cubby(daemon, "network", "--json", made))["sequence"] == 2
    cubby(daemon, "network", "--network", "none", made)
    assert policy(daemon, made)["internet"] is False
    refused = run(daemon, "network", "--allow", "10.0.0.1", made)
    assert refused.returncode == 1 and "not public" in refused.stderr, "only the server knows whether it may"
    assert run(daemon, "network").returncode == 2


def test_mcp_gives_its_sandboxes_a_policy(daemon, tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"mode": "allow", "allow": ["a.example"]}))
    calls = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
             {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
              "params": {"name": "create_sandbox", "arguments": {}}}]
    with subprocess.Popen([BIN / "cubby-mcp", "--network", str(file)], env=daemon.env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as mcp:
        for call in calls:
            mcp.stdin.write(json.dumps(call) + "\n")
        mcp.stdin.flush()
        answers = [json.loads(mcp.stdout.readline()) for _ in range(2)]
        mcp.stdin.close()
        assert mcp.wait(60) == 0
    assert not answers[1]["result"].get("isError"), answers
    (made,) = daemon.directories()
    assert policy(daemon, str(made).rsplit("/", 1)[-1])["allowOut"] == ["a.example"]
    bad = run(daemon, "--network", str(tmp_path / "none.json"), program=BIN / "cubby-mcp")
    assert bad.returncode == 2 and "none.json" in bad.stderr
