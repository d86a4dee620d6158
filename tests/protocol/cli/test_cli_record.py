# SPDX-License-Identifier: Apache-2.0
"""cubby record: shown, exported, verified, and a terminal session as asciicast."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from cubbyd import Daemon
from guests_fixtures import *  # noqa: F401,F403
from network_files import contact, refusal, write

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"


@pytest.fixture
def daemon():
    with Daemon() as running:
        yield running


def cubby(daemon, *words, status=0):
    done = subprocess.run([CUBBY, *map(str, words)], env=dict(os.environ, CUBBY_HOME=str(daemon.home)),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done.stderr
    return done.stdout if status in (0, 3) else done.stderr


def test_shown_for_people_and_as_json(guests):
    sandbox = guests.create(templateID="bare")["sandboxID"]
    cubby(guests, "exec", sandbox, "--", "sh", "-c", "printf 'one\\ntwo \\033[31m'; echo bad >&2; exit 3", status=3)
    shown = cubby(guests, "record", sandbox)
    assert re.search(r"\d+ command .*printf .* \(socket", shown)
    assert "    | one\n    | two \\x1b[31m\n    ! bad\n" in shown  # nothing that a terminal would obey
    assert re.search(r"end of \d+: exit status 3 \[\d+ ms, in \d+ B, out 13 B, err 4 B\]", shown)
    lines = [json.loads(line) for line in cubby(guests, "record", "--json", sandbox).splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["stdout"] == "one\ntwo \033[31m"
    cubby(guests, "kill", sandbox)
    assert cubby(guests, "record", sandbox).splitlines()[:len(shown.splitlines())] == shown.splitlines()


def test_the_network_is_shown(daemon):
    sandbox = daemon.create()["sandboxID"]
    write(daemon, sandbox, [refusal(1, b"not an allowed name", name=b"evil.example", port=443)],
          reached=[contact(n, b"h%d.example" % n) for n in range(2, 34)], allowed=33)
    shown = cubby(daemon, "record", sandbox)
    assert re.search(r"\d+ refused port 443 protocol tcp address 10\.0\.0\.1 name evil\.example why not an allowed name\n", shown)
    assert re.search(r"\d+ allowed port 443 protocol tcp address 93\.184\.216\.34 name h2\.example\n", shown)
    assert re.search(r"name h33\.example and others\n", shown)


def test_follow(daemon):
    sandbox = daemon.create()["sandboxID"]
    running = subprocess.Popen([CUBBY, "record", "--follow", sandbox], env=dict(os.environ, CUBBY_HOME=str(daemon.home)),
                               stdout=subprocess.PIPE, text=True)
    assert "life created" in running.stdout.readline()
    daemon.request("POST", f"/sandboxes/{sandbox}/pause", {})
    assert "request pause" in running.stdout.readline()
    assert "life paused" in running.stdout.readline()
    daemon.kill(sandbox)
    rest = running.stdout.read()
    assert "life killed why killed" in rest and running.wait(60) == 0
    running.stdout.close()


def test_exported_and_verified(daemon, tmp_path):
    sandbox = daemon.create()["sandboxID"]
    for seconds in range(60, 80):
        daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": seconds})
    daemon.kill(sandbox)
    file = tmp_path / "record.jsonl"
    cubby(daemon, "record", "--export", file, sandbox)
    assert "exists" in cubby(daemon, "record", "--export", file, sandbox, status=1)  # never over a file
    told = cubby(daemon, "record", "--verify", sandbox)
    assert told == cubby(daemon, "record", "--verify", "--from", file)
    count = len(file.read_bytes().splitlines())
    assert f"lines 1 to {count} fit\nthe sandbox has ended\n" in told
    last = told.split()[-1]
    cubby(daemon, "record", "--verify", "--hash", last, "--from", file)
    assert "no line has the hash" in cubby(daemon, "record", "--verify", "--hash", "0" * 64, "--from", file, status=1)
    assert cubby(daemon, "record", "--from", file) == cubby(daemon, "record", sandbox)


def rewritten(lines, place, line):
    """A forger's line, with the right hash of the one before: the next one shows it."""
    return [*lines[:place], line, *lines[place + 1:]]


@pytest.mark.parametrize("forge, told", [
    (lambda lines: rewritten(lines, 4, lines[4].replace(b'"socket"', b'"nobody"')), "line 6 does not fit: line 5 was changed"),
    (lambda lines: lines[:4] + lines[5:], "line 6 does not fit: it follows line 4"),
    (lambda lines: lines[:4] + [lines[4]] + lines[4:], "line 5 does not fit: it follows line 5"),
    (lambda lines: lines[2:], "lines 1 to 2 are missing"),
    (lambda lines: lines[:3] + [b"no line"] + lines[3:], "the line after line 3 is not a line of a record"),
    (lambda lines: [lines[0].replace(b"0" * 64, b"1" * 64), *lines[1:]], "line 1 does not fit"),
    (lambda lines: [], "no lines"),
])
def test_forged(daemon, tmp_path, forge, told):
    sandbox = daemon.create()["sandboxID"]
    for seconds in range(60, 66):
        daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": seconds})
    file = daemon.home / "calls" / f"{sandbox}.jsonl"
    lines = forge(file.read_bytes().splitlines())
    copy = tmp_path / "forged"
    copy.write_bytes(b"".join(line + b"\n" for line in lines))
    assert told in cubby(daemon, "record", "--verify", "--from", copy, status=1)


def test_what_was_dropped_and_not_written_is_told(tmp_path):
    with Daemon("--record-size", "64K") as daemon:
        made = daemon.create()
        sandbox = made["sandboxID"]
        path = daemon.home / "calls" / f"{sandbox}.jsonl"
        kept = path.with_suffix(".kept")
        for turn in range(300):
            if turn == 150:  # no line can be written for a while
                path.rename(kept)
                path.mkdir()
            if turn == 160:
                path.rmdir()
                kept.rename(path)
            daemon.through(sandbox, "GET", "/files?path=/" + "x" * 200, token=made["envdAccessToken"])
        told = cubby(daemon, "record", "--verify", sandbox)
        assert re.search(r"lines 1 to \d+ were dropped for space", told)


def test_cast(guests, tmp_path):
    made = guests.create(templateID="bare")
    body = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "printf 'first\\n'; printf \"it's\\033[0m\""]},
                       "pty": {"size": {"cols": 91, "rows": 31}}}).encode()
    for _ in range(2):
        assert guests.through(made["sandboxID"], "POST", "/process.Process/Start", b"\0" + len(body).to_bytes(4, "big") + body,
                              headers={"Content-Type": "application/connect+json"}, token=made["envdAccessToken"]).status == 200
    file = tmp_path / "session.cast"
    cubby(guests, "record", "--cast", file, made["sandboxID"])
    assert file.stat().st_mode & 0o777 == 0o600
    head, *events = [json.loads(line) for line in file.read_text().splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 91, 31) and head["timestamp"] > 1e9
    assert all(code == "o" for _, code, _ in events) and [e[0] for e in events] == sorted(e[0] for e in events)
    assert "".join(data for *_, data in events) == "first\r\nit's\033[0m"
    lines = [json.loads(line) for line in cubby(guests, "record", "--json", made["sandboxID"]).splitlines()]
    first, second = [line["n"] for line in lines if line["kind"] == "terminal"]
    other = tmp_path / "other.cast"
    cubby(guests, "record", "--cast", other, "--call", first, made["sandboxID"])
    _, *events = [json.loads(line) for line in other.read_text().splitlines()]
    assert "".join(data for *_, data in events) == "first\r\nit's\033[0m"
    assert "is not a terminal" in cubby(guests, "record", "--cast", tmp_path / "x", "--call", 1, made["sandboxID"], status=1)
    assert not (tmp_path / "x").exists() and first < second


@pytest.mark.parametrize("cmd, args, shown", [
    ("/bin/sh", ["-c", "true; false"], "true; false"),
    ("/bin/bash", ["-l", "-c", "true; false"], "true; false"),
    ("/bin/bash", ["-lc", "true; false"], "true; false"),
    ("/bin/sh", ["-c", "rm -rf x", "-c", "true"], "/bin/sh '-c' 'rm -rf x' '-c' 'true'"),
    ("/bin/bash", ["--rcfile", "/tmp/x", "-c", "true"], "/bin/bash '--rcfile' '/tmp/x' '-c' 'true'"),
    ("/tmp/evil/sh", ["-c", "true"], "/tmp/evil/sh '-c' 'true'"),
    ("/bin/sh", ["-c"], "/bin/sh '-c'"),
])
def test_a_command_is_shown_whole(daemon, tmp_path, cmd, args, shown):
    """A shell is left out only if nothing but its text decides what is run."""
    file = tmp_path / "record"
    file.write_text(json.dumps({"n": 1, "at": "now", "kind": "command", "cmd": cmd, "args": args, "who": "socket"}) + "\n")
    assert cubby(daemon, "record", "--from", file) == f"now    1 command {shown} (socket)\n"


def test_a_record_that_could_not_be_read():
    done = subprocess.run([CUBBY.parent / "cubbyd", "--record-size", "2G"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "record-size" in done.stderr


@pytest.mark.parametrize("words, told", [
    ([], "takes the id of one sandbox"),
    (["a", "b"], "takes the id of one sandbox"),
    (["--json", "--verify", "a"], "exclude each other"),
    (["--follow", "--verify", "a"], "--follow goes with --json only"),
    (["--call", "3", "a"], "--call goes with --cast"),
    (["--hash", "00", "a"], "--hash goes with --verify"),
    (["--from", "x", "a"], "takes no id with --from"),
])
def test_wrong_words(daemon, words, told):
    assert told in cubby(daemon, "record", *words, status=2)


def test_no_record(daemon):
    assert "has no record" in cubby(daemon, "record", "a" * 20, status=1)
