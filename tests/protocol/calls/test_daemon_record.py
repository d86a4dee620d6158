# SPDX-License-Identifier: Apache-2.0
"""The call log: what was done in a sandbox, by whom; what must not be in it; and how long it is kept."""

import base64
import hashlib
import json
import os
import re
import signal
import urllib.request

import pytest

from cubbyd import Daemon, MicroVMs, read_head, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from guests_fixtures import *  # noqa: F401,F403
from network_files import refusal, write
from records import is_chained, kernel, raw, record
from sdk import run_program
from tenants import Tenants

SECRETS = {"create": "planted-in-the-create-1", "request": "planted-in-the-request-2",
           "kernel": "planted-in-the-kernel-3"}


def files(daemon):
    return {str(p.relative_to(daemon.home / "calls")) for p in (daemon.home / "calls").rglob("*.jsonl")}


def start(daemon, made, user="user", **message):
    """Runs a command with these members of Start, and waits for its end."""
    body = json.dumps({"stdin": False, **message}).encode()
    who = base64.b64encode(f"{user}:".encode()).decode()
    answer = daemon.through(made["sandboxID"], "POST", "/process.Process/Start", b"\0" + len(body).to_bytes(4, "big") + body,
                            headers={"Content-Type": "application/connect+json", "Authorization": f"Basic {who}"},
                            token=made["envdAccessToken"])
    assert answer.status == 200, answer.body
    return answer


# ---- what is in it

def test_commands(guests):
    made = guests.create(templateID="bare")
    start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", "echo out; echo err >&2; exit 3"]}, user="root")
    command, end = record(guests, made["sandboxID"], "command", "end")
    assert command["who"] == "socket" and command["user"] == "root" and command["sandbox"] == made["sandboxID"]
    assert command["cmd"] == "/bin/sh" and command["args"] == ["-c", "echo out; echo err >&2; exit 3"]
    assert end["of"] == command["n"] and end["exit"] == 3 and end["status"] == "exit status 3"
    assert (end["stdout"], end["out"], end["stderr"], end["err"]) == ("out\n", 4, "err\n", 4)
    assert end["in"] > 20 and "fate" not in end and "cut" not in end


def test_long_output_is_counted_and_cut(guests):
    made = guests.create(templateID="bare")
    start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2"]})
    end = record(guests, made["sandboxID"], "end")[0]
    assert end["out"] == 3000000 and end["stdout"] == "x" * 4096 and end["cut"]
    assert end["stderr"] == "end\n"


def test_output_of_a_request_that_was_not_read(guests):
    """It has too many values. Its environment is not known, so that its output may hold anything."""
    made = guests.create(templateID="bare")
    answer = start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", "echo $A_SECRET", *["x"] * 30000],
                                          "envs": {"A_SECRET": SECRETS["request"]}})
    assert base64.b64encode(SECRETS["request"].encode())[:-4] in answer.body
    command, end = record(guests, made["sandboxID"], "command", "end")
    assert command["unread"] and end["exit"] == 0 and end["out"] == len(SECRETS["request"]) + 1 and "stdout" not in end


def test_the_client_leaves(guests):
    made = guests.create(templateID="bare")
    s = MicroVMs.open_command(guests, made, "echo begun; sleep 1000")
    wait_for(lambda: record(guests, made["sandboxID"], "command"), 30, "the command has a line")
    s.close()
    wait_for(lambda: record(guests, made["sandboxID"], "end"), 30, "its end has one")
    end = record(guests, made["sandboxID"], "end")[0]
    assert end["fate"] == "client left" and "exit" not in end


def test_files(guests):
    made = guests.create(templateID="bare")
    sandbox, token = made["sandboxID"], made["envdAccessToken"]
    part = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="/home/user/x"\r\n\r\nabc\r\n--b--\r\n')
    assert guests.through(sandbox, "POST", "/files", part, token=token,
                          headers={"Content-Type": "multipart/form-data; boundary=b"}).status == 200
    assert guests.through(sandbox, "GET", "/files?path=/home/user/x", token=token).body == b"abc"
    assert guests.through(sandbox, "GET", "/files?path=/home/user/none", token=token).status == 404
    for method, message in (("MakeDir", {"path": "/home/user/d"}), ("Move", {"source": "/home/user/x", "destination": "/home/user/y"}),
                            ("Stat", {"path": "/home/user/y"}), ("Remove", {"path": "/home/user/y"})):
        MicroVMs.rpc(guests, made, f"filesystem.Filesystem/{method}", message)
    lines = record(guests, sandbox, "file")
    assert [line["what"] for line in lines] == ["write", "read", "read", "mkdir", "move", "remove"]
    assert lines[0]["paths"] == ["/home/user/x"] and lines[0]["in"] == len(part)
    assert lines[1]["path"] == "/home/user/x" and lines[1]["out"] == 3
    assert lines[2]["http"] == 404 and "/home/user/none" in lines[2]["error"]
    assert (lines[4]["source"], lines[4]["destination"]) == ("/home/user/x", "/home/user/y")


def test_code(guests):
    made = guests.create()
    body = {"code": "import sys\nprint('a'); print('b', file=sys.stderr)\n6 * 7", "env_vars": {"K": SECRETS["kernel"]}}
    bad = {"code": "1 / 0"}
    for message in (body, bad):
        assert guests.through(made["sandboxID"], "POST", "/execute", message, port=49999,
                              token=made["envdAccessToken"], timeout=120).status == 200
    code, end, _, failed = record(guests, made["sandboxID"], "code", "end")
    assert code["code"] == body["code"] and code["env"] == ["K"]
    assert (end["stdout"], end["stderr"], end["result"], end["results"]) == ("a\n", "b\n", "42", 1)
    assert failed["error"] == "ZeroDivisionError: division by zero"


def test_terminals(guests):
    made = guests.create(templateID="bare")
    start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", "printf 'one \\033[1mtwo'; exit 4"]},
          pty={"size": {"cols": 90, "rows": 30}})
    terminal, screen, end = record(guests, made["sandboxID"], "terminal", "screen", "end")
    assert (terminal["cols"], terminal["rows"]) == (90, 30)
    assert screen["of"] == end["of"] == terminal["n"] and end["exit"] == 4 and end["out"] == 11
    assert "".join(text for _, text in screen["events"]) == "one \033[1mtwo"


def test_what_the_network_refused(daemon):
    sandbox = daemon.create()["sandboxID"]
    write(daemon, sandbox, [refusal(1, why=b"name not allowed", name=b"evil.example", port=443)])
    line, = record(daemon, sandbox, "refused")
    assert (line["name"], line["port"], line["why"], line["protocol"]) == ("evil.example", 443, "name not allowed", "tcp")
    assert len(record(daemon, sandbox, "refused")) == 1  # once


def test_life_and_who(daemon):
    sandbox = daemon.create()["sandboxID"]
    daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 77})
    daemon.request("POST", f"/sandboxes/{sandbox}/ports", {"port": 8000})
    daemon.request("POST", f"/sandboxes/{sandbox}/pause", {})
    daemon.request("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 60})
    child = daemon.request("POST", f"/sandboxes/{sandbox}/fork", {}).json[0]["sandbox"]["sandboxID"]
    daemon.kill(sandbox)
    lines = record(daemon, sandbox, "life", "request")
    assert [line["what"] for line in lines] == ["created", "timeout", "updated", "ports", "pause", "paused", "resume",
                                                "resumed", "updated", "fork", "forked", "kill", "killed"] or \
        [line["what"] for line in lines if line["what"] != "updated"] == \
        ["created", "timeout", "ports", "pause", "paused", "resume", "resumed", "fork", "forked", "kill", "killed"]
    asked = {line["what"]: line for line in lines if line["kind"] == "request"}
    assert all(line["who"] == "socket" for line in asked.values())
    assert asked["timeout"]["timeout"] == 77 and asked["ports"]["port"] == 8000
    told = {line["what"]: line for line in lines if line["kind"] == "life"}
    assert told["forked"]["child"] == child and told["killed"]["why"] == "killed"
    assert record(daemon, child, "life")[0]["parent"] == sandbox
    assert daemon.get(child).json["parentSandboxID"] == sandbox


def test_sdks(guests):
    """E2B's SDKs: JSON and, from JavaScript, their own way of streams."""
    for program in ("python", "js"):
        before = {path.name for path in (guests.home / "calls").rglob("*.jsonl")}
        results = run_program(program, guests.variables(), ["commands_run", "files_text", "pty_input"])
        assert set(results.values()) == {None}, results
        new = [path for path in (guests.home / "calls").rglob("*.jsonl") if path.name not in before]
        lines = [json.loads(line) for path in new for line in path.read_bytes().splitlines()]
        assert {"command", "end", "file", "terminal", "screen"} <= {line["kind"] for line in lines}
        assert not [line for line in lines if "unread" in line]
        assert [line for line in lines if line["kind"] == "end" and line.get("exit") == 0 and line.get("stdout")]


# ---- what is not in it

def test_no_secret_is_in_it(guests):
    made = guests.create(templateID="bare", envVars={"A_SECRET": SECRETS["create"]})
    tokens = [made["envdAccessToken"]]
    start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", f"env; echo {made['envdAccessToken']}"],
                                 "envs": {"B_SECRET": SECRETS["request"]}})
    start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", "cat /proc/self/environ"]},
          pty={"size": {"cols": 90, "rows": 30}})
    start(guests, made, process={"cmd": "/bin/echo", "args": [SECRETS["create"]]})
    data = raw(guests, made["sandboxID"])
    command, end = record(guests, made["sandboxID"], "command", "end")[:2]
    assert command["env"] == ["B_SECRET"] and "A_SECRET=***" in end["stdout"] and "B_SECRET=***" in end["stdout"]
    for value in (SECRETS["create"], SECRETS["request"], *tokens):
        assert value.encode() not in data
        assert value not in (guests.home / "sandboxes" / made["sandboxID"] / "sandbox.json").read_text() or value in tokens


def test_no_secret_after_a_restart_and_in_a_fork():
    with Daemon() as daemon:
        made = daemon.create(envVars={"A_SECRET": SECRETS["create"]})
        child = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/fork", {}).json[0]["sandbox"]
        snapshot = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}).json["snapshotID"]
        daemon.stop(signal.SIGUSR1)
        daemon.start()
        late = daemon.create(templateID=snapshot)
        for one in (made, child, late):
            start(daemon, one, process={"cmd": "/bin/echo", "args": [SECRETS["create"]]})
            assert record(daemon, one["sandboxID"], "command")[0]["args"] == ["*" * len(SECRETS["create"])]


def test_values_of_secrets_are_hidden(tmp_path):
    """The guest has only a placeholder, but a client may know the value and write it into a command."""
    value = "sk-planted-in-the-file-4"
    (tmp_path / "key").write_text(value + "\n")
    (tmp_path / "secrets.json").write_text(json.dumps({"API": {"file": str(tmp_path / "key"), "hosts": ["api.example"]}}))
    with Daemon("--secrets", str(tmp_path / "secrets.json")) as daemon:
        made = daemon.create(secrets=["API"])
        for _ in range(2):
            start(daemon, made, process={"cmd": "/usr/bin/curl", "args": ["-H", f"X-Key: {value}"]})
            daemon.stop(signal.SIGUSR1)
            daemon.start()
        commands = record(daemon, made["sandboxID"], "command")
        assert [line["args"][1] for line in commands] == ["X-Key: " + "*" * len(value)] * 2
        assert value.encode() not in b"".join(p.read_bytes() for p in daemon.home.rglob("*") if p.is_file() and p != daemon.log
                                              and p.name != "started" and p.name != "memory")


def test_files_are_the_users(daemon):
    sandbox = daemon.create()["sandboxID"]
    calls = daemon.home / "calls"
    assert [calls.stat().st_mode & 0o777, (calls / "ended").stat().st_mode & 0o777] == [0o700, 0o700]
    assert [(calls / name).stat().st_mode & 0o777 for name in (f"{sandbox}.jsonl", "key")] == [0o600, 0o600]


def test_strangers_leave_no_line(daemon):
    made = daemon.create()
    body = json.dumps({"process": {"cmd": "/bin/true"}}).encode()
    daemon.through(made["sandboxID"], "POST", "/process.Process/Start", b"\0" + len(body).to_bytes(4, "big") + body,
                   headers={"Content-Type": "application/connect+json"}, token="wrong" * 10)
    daemon.through(made["sandboxID"], "GET", "/files?path=/etc/passwd")
    assert [line["kind"] for line in record(daemon, made["sandboxID"])] == ["head", "life"]


def test_no_record():
    with Daemon("--no-record") as daemon:
        made = daemon.create()
        start(daemon, made, process={"cmd": "/bin/true"})
        answer = daemon.request("GET", f"/sandboxes/{made['sandboxID']}/record")
        assert answer.status == 404 and "--no-record" in answer.json["message"]
        assert not files(daemon)


def test_no_record_by_the_configuration():
    daemon = Daemon()
    (daemon.home / "cubbyd.json").write_text('{"no_record": true}')
    with daemon:
        daemon.create()
        assert not files(daemon)


def test_values_of_one_request_with_many(guests):
    """All values of a request are hidden in its own output; if they are too many, none of it is kept."""
    for count, known in ((300, True), (500, False)):
        made = guests.create(templateID="bare")
        lines = [f"planted-line-{i:06}" for i in range(count)]
        start(guests, made, process={"cmd": "/bin/sh", "args": ["-c", "echo \"$MANY\" | head -1"],
                                     "envs": {"MANY": "\n".join(lines)}})
        command, end = record(guests, made["sandboxID"], "command", "end")
        assert command["env"] == ["MANY"] and end["out"] == len(lines[0]) + 1
        assert end.get("stdout") == ("*" * len(lines[0]) + "\n" if known else None)


def test_a_variable_does_not_change_who_did_what():
    """A tenant's values are names and words that lines have, and more of them than are hidden."""
    daemon = Tenants()
    digest = hashlib.sha256(Tenants.KEYS[0].encode()).hexdigest()
    (daemon.home / "keys.json").write_text(json.dumps({"tokens": [{"name": "somebodys-key", "sha256": digest}]}))
    with daemon:
        for value in ("somebodys-key", "\n".join(["somebodys-key", *(f"line-{i:06}" for i in range(5000))])):
            made = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default", "envVars": {
                "A": value, "B": "killed\nrequest\ntimeout\ndaemon_restarted"}})[1]["sandboxID"]
            assert daemon.ask(0, "POST", f"/sandboxes/{made}/timeout", {"timeout": 70})[0] == 204
            daemon.ask(0, "DELETE", f"/sandboxes/{made}")
            head, asked = record(daemon, made, "head", "request")[:2]
            assert (head["owner"], asked["who"], asked["what"]) == ("somebodys-key", "key somebodys-key", "timeout")
            assert daemon.request("GET", f"/sandboxes/{made}/record").status == 200
            request = urllib.request.Request(f"{daemon.url}/sandboxes/{made}/record", headers={"X-API-KEY": daemon.KEYS[0]})
            assert urllib.request.urlopen(request, timeout=60).status == 200


def test_a_long_request_is_cut(daemon):
    sandbox = daemon.create(envVars={"MANY": "\n".join(f"line-{i:06}" for i in range(4090))})["sandboxID"]
    names = [f"{'x' * 50}{i:04}.example" for i in range(900)]
    daemon.request("PUT", f"/sandboxes/{sandbox}/network", {"allowOut": names, "denyOut": ["0.0.0.0/0"]})
    line, = [line for line in raw(daemon, sandbox).splitlines() if b'"what":"network"' in line]
    assert len(line) < 4096 and json.loads(line)["cut"] and json.loads(line)["allowOut"][0] == names[0]


def test_a_path_of_the_host_is_the_operators(tmp_path):
    with Tenants() as daemon:
        theirs = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default"})[1]["sandboxID"]
        mine = daemon.create()["sandboxID"]
        for sandbox in (theirs, mine):
            daemon.request("POST", f"/sandboxes/{sandbox}/mounts", {"source": str(tmp_path), "target": "/project"})
        for sandbox, source in ((theirs, None), (mine, str(tmp_path))):
            asked, = record(daemon, sandbox, "request")
            assert asked["target"] == "/project" and asked.get("source") == source


# ---- a guest that wants to hide what clients ask for

def execute(daemon, made, length):
    return daemon.open(made["sandboxID"], 49999, "POST /execute HTTP/1.1",
                       f"Content-Length: {length}\r\nX-Access-Token: {made['envdAccessToken']}\r\n")


def test_a_guest_that_answers_before_the_request_is_complete(daemon):
    value = SECRETS["kernel"]
    body = json.dumps({"code": "6 * 7", "env_vars": {"K": value}}).encode()

    def serve(connection):
        _, rest = read_head(connection)
        said = json.dumps({"type": "stdout", "text": value + "\n"}).encode() + b"\n"
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(said), said))
        while len(rest) < len(body):
            rest += connection.recv(65536)
        connection.sendall(b"0\r\n\r\n")

    with kernel(daemon, serve) as made:
        s = execute(daemon, made, len(body))
        read = s.recv(65536)
        while value.encode() not in read:
            read += s.recv(65536)
        s.sendall(body)
        wait_for(lambda: record(daemon, made["sandboxID"], "end"), 30, "the request has its lines")
        s.close()
        code, end = record(daemon, made["sandboxID"], "code", "end")
        assert code["code"] == "6 * 7" and code["env"] == ["K"] and "unread" not in code
        assert end["of"] == code["n"] and end["stdout"] == "*" * len(value) + "\n"


@pytest.mark.parametrize("answer, http", [(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", 401), (b"", None)])
def test_a_guest_that_says_no(daemon, answer, http):
    """401, as envd says it to a stranger, or nothing."""
    body = json.dumps({"code": "6 * 7"}).encode()

    def serve(connection):
        _, rest = read_head(connection)
        while len(rest) < len(body):
            rest += connection.recv(65536)
        connection.sendall(answer)

    with kernel(daemon, serve) as made:
        s = execute(daemon, made, len(body))
        s.sendall(body)
        read_head(s)
        s.close()
        wait_for(lambda: record(daemon, made["sandboxID"], "end"), 30, "the request has its lines")
        code, end = record(daemon, made["sandboxID"], "code", "end")
        assert code["code"] == "6 * 7" and end.get("http") == http and end.get("fate") == (None if http else "connection lost")


def test_half_sent_requests_blind_no_other_sandbox(daemon):
    """Five of almost 4 MiB wait in one sandbox."""
    part, got = b"x" * (4000 << 10), []

    def serve(connection):
        head, rest = read_head(connection)
        length = int(re.search(r"(?i)content-length: (\d+)", head)[1])
        while len(rest) < length:
            chunk = connection.recv(1 << 20)
            if not chunk:
                return
            got.append(len(chunk))
            rest += chunk
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def run(made, code):
        body = json.dumps({"code": code}).encode()
        assert daemon.through(made["sandboxID"], "POST", "/execute", body, port=49999, token=made["envdAccessToken"]).status == 200
        return record(daemon, made["sandboxID"], "code")[-1]

    with kernel(daemon, serve) as loud, kernel(daemon, serve) as other:
        held = [execute(daemon, loud, len(part) + 1) for _ in range(5)]
        for s in held:
            s.sendall(part)
        wait_for(lambda: sum(got) > 4 * len(part), 60, "they came")
        assert "unread" not in run(other, "#" * (1 << 20)) and "unread" not in run(other, "6 * 7")
        assert "unread" not in run(loud, "6 * 7") and run(loud, "#" * (1 << 20))["unread"]
        for s in held:
            s.close()


# ---- who may read it

def test_owners():
    with Tenants() as daemon:
        mine = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default"})[1]["sandboxID"]
        local = daemon.create()["sandboxID"]

        def status(key, sandbox):
            request = urllib.request.Request(f"{daemon.url}/sandboxes/{sandbox}/record",
                                             headers={"X-API-KEY": daemon.KEYS[key]} if key is not None else {})
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        assert [status(key, mine) for key in (0, 1, None)] == [200, 404, 401]
        assert [status(key, local) for key in (0, 1)] == [404, 404]
        daemon.kill(mine)
        wait_for(lambda: files(daemon) == {f"{local}.jsonl", f"ended/{mine}.jsonl"}, 30, "its record is put away")
        assert [status(key, mine) for key in (0, 1, None)] == [200, 404, 401]
        assert record(daemon, mine)[0]["owner"] == "key0"


def test_who_came_with_a_key():
    with Tenants() as daemon:
        made = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default"})[1]
        body = json.dumps({"process": {"cmd": "/bin/true"}}).encode()
        for headers in ({"X-API-KEY": daemon.KEYS[0]}, {}):
            request = urllib.request.Request(
                daemon.url + "/process.Process/Start", b"\0" + len(body).to_bytes(4, "big") + body, method="POST",
                headers={"Content-Type": "application/connect+json", "X-Access-Token": made["envdAccessToken"],
                         "E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983", "User-Agent": "tester/1",
                         **headers})
            urllib.request.urlopen(request, timeout=60).read()
        data = raw(daemon, made["sandboxID"])
        lines = [json.loads(line) for line in data.splitlines()]
        commands = [line for line in lines if line["kind"] == "command"]
        assert [(line["who"], line["from"], line["client"]) for line in commands] == \
            [("key key0", "127.0.0.1", "tester/1"), ("token", "127.0.0.1", "tester/1")]
        assert daemon.KEYS[0].encode() not in data


def test_a_sandbox_of_another_node_that_ended_here():
    """It was moved. Its record is here, whatever node its id names."""
    with Daemon("--node", "one") as daemon:
        sandbox = daemon.create()["sandboxID"]
        daemon.kill(sandbox)
        wait_for(lambda: files(daemon) == {f"ended/{sandbox}.jsonl"}, 30, "its record is put away")
        daemon.stop()
        daemon.args = ["--node", "two"]
        (daemon.home / "ended.jsonl").unlink(missing_ok=True)
        daemon.start()
        assert record(daemon, sandbox)[-1]["what"] == "killed"
        other = daemon.request("GET", f"/sandboxes/{sandbox[:-1]}{'a' if sandbox[-1] != 'a' else 'b'}/record")
        assert other.status in (404, 421) and "record" not in other.json["message"]


@pytest.mark.parametrize("query", ["?after=x", "?after=-1", "?from=1"])
def test_bad_queries(daemon, query):
    sandbox = daemon.create()["sandboxID"]
    assert daemon.request("GET", f"/sandboxes/{sandbox}/record{query}").status == 400


@pytest.mark.parametrize("sandbox", ["nosuchsandbox", "a" * 20, "..%2f..%2fkeys", "%2e%2e"])
def test_unknown(daemon, sandbox):
    assert daemon.request("GET", f"/sandboxes/{sandbox}/record").status == 404


# ---- how it is kept

def test_chain_over_a_killed_daemon():
    with Daemon() as daemon:
        made = daemon.create()
        start(daemon, made, process={"cmd": "/bin/true"})
        daemon.stop(signal.SIGKILL)
        path = daemon.home / "calls" / f"{made['sandboxID']}.jsonl"
        with open(path, "ab") as file:
            file.write(b'{"n":5,"at":"20')
        daemon.start()
        start(daemon, made, process={"cmd": "/bin/false"})
        data = raw(daemon, made["sandboxID"])
        assert is_chained(data)
        lines = [json.loads(line) for line in data.splitlines()]
        assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
        assert [(line["why"], line["bytes"]) for line in lines if line["kind"] == "gap"] == [("torn", 15)]
        assert [line["cmd"] for line in lines if line["kind"] == "command"] == ["/bin/true", "/bin/false"]


def test_a_sandbox_that_ended_with_its_daemon():
    with Daemon() as daemon:
        made = daemon.create()
        daemon.stop(signal.SIGKILL)
        os.kill(daemon.machine(made["sandboxID"]), signal.SIGKILL)
        daemon.start()
        wait_for(lambda: files(daemon) == {f"ended/{made['sandboxID']}.jsonl"}, 30, "its record is put away")
        assert record(daemon, made["sandboxID"])[-1]["kind"] in ("head", "life")


def test_cap_and_retention():
    with Daemon("--record-size", "64K", "--record-keep", "1000") as daemon:
        made = daemon.create()
        for _ in range(300):
            daemon.through(made["sandboxID"], "GET", "/files?path=/" + "x" * 200, token=made["envdAccessToken"])
        path = daemon.home / "calls" / f"{made['sandboxID']}.jsonl"
        assert sum(p.stat().st_size for p in (daemon.home / "calls").glob("*.jsonl")) < 66000
        head = json.loads(path.read_bytes().splitlines()[0])
        assert head["kind"] == "head" and head["dropped"] > 1
        assert record(daemon, made["sandboxID"])[0]["n"] == head["dropped"] + 1
        daemon.kill(made["sandboxID"])
        ended = daemon.home / "calls/ended" / f"{made['sandboxID']}.jsonl"
        wait_for(ended.exists, 30, "its record is put away")
        assert record(daemon, made["sandboxID"])
        os.utime(ended, (1, 1))
        assert daemon.request("GET", f"/sandboxes/{made['sandboxID']}/record").status == 404
        daemon.stop()
        daemon.start()
        wait_for(lambda: not ended.exists(), 30, "an old record is removed")


def test_space_of_ended_sandboxes():
    with Daemon() as daemon:
        ids = [daemon.create()["sandboxID"] for _ in range(3)]
        for sandbox in ids:
            daemon.kill(sandbox)
        ended = daemon.home / "calls/ended"
        wait_for(lambda: len(list(ended.iterdir())) == 3, 30, "three records are put away")
        for age, sandbox in enumerate(reversed(ids)):
            path = ended / f"{sandbox}.jsonl"
            os.utime(path, (path.stat().st_mtime - age - 1,) * 2)
        one = (ended / f"{ids[0]}.jsonl").stat().st_blocks * 512
        daemon.stop()
        daemon.start("--record-space", str(2 * one))
        wait_for(lambda: sorted(p.stem for p in ended.iterdir()) == sorted(ids[1:]), 30, "the oldest one is removed")


def test_a_full_disk_stops_nothing():
    """A file may not grow: a write fails as on a full disk."""
    with Daemon() as daemon:
        made = daemon.create()
        path = daemon.home / "calls" / f"{made['sandboxID']}.jsonl"
        path.rename(path.with_suffix(".kept"))
        path.mkdir()  # no line can be written
        for _ in range(3):
            start(daemon, made, process={"cmd": "/bin/true"})
        path.rmdir()
        path.with_suffix(".kept").rename(path)
        start(daemon, made, process={"cmd": "/bin/false"})
        data = raw(daemon, made["sandboxID"])
        assert is_chained(data)
        lines = [json.loads(line) for line in data.splitlines()]
        gap, = [line for line in lines if line["kind"] == "gap"]
        assert gap["why"] == "not_written" and gap["last"] - gap["first"] == 5
        assert [line["cmd"] for line in lines if line["kind"] == "command"] == ["/bin/false"]
