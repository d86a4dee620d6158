# SPDX-License-Identifier: Apache-2.0
"""process.Process: commands, their streams and ends, killing, deadlines, back-pressure."""

import base64
import json
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import threading
import time

import pytest

from envd_peer import IS_ROOT, Envd, Result, alive, b64, basic, envelope, wait_for

SLEEP = "/bin/sleep"
CAT = "/bin/cat"


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def read_pid(path):
    """A pid that a command writes into a file."""
    return wait_for(lambda: path.exists() and path.read_text().strip() and int(path.read_text()))


# ---- the shape of the stream


def test_the_order_of_events(envd):
    # A home of its own: this user's profile may say something, or wait for a lock.
    r = envd.run("/bin/bash", "-l", "-c", "echo hi; echo er >&2; exit 3", envs={"HOME": "/nonexistent"})
    assert [next(iter(e)) for e in r.events] == ["start", "data", "data", "end"]
    assert {"data": {"stdout": "aGkK"}} in r.events and {"data": {"stderr": "ZXIK"}} in r.events
    assert r.end == {"exitCode": 3, "exited": True, "status": "exit status 3",
                     "error": "exit status 3"}
    assert r.end_stream == {}
    assert envd.run("/bin/true").end == {"exited": True, "status": "exit status 0"}


def test_start_comes_at_once(envd):
    stream = envd.begin(SLEEP, "60")
    assert envd.listed(stream.pid)
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL") == (200, {})
    r = Result(stream)
    assert r.end == {"exitCode": -1, "exited": False, "status": "signal: killed",
                     "error": "signal: killed"}
    assert not envd.listed(stream.pid)


@pytest.mark.parametrize("name,text", [("TERM", "terminated"), ("HUP", "hangup"), ("INT", "interrupt"),
                                       ("SEGV", "segmentation fault"), ("USR2", "user defined signal 2"),
                                       ("URG", "signal 23")])
def test_names_of_signals(envd, name, text):
    end = envd.sh(f"ulimit -c 0; kill -{name} $$; kill -CONT $$; sleep 1", cwd="/").end
    if name == "URG":  # is ignored by default
        assert end == {"exited": True, "status": "exit status 0"}
    else:
        assert (end["status"], end["exitCode"]) == (f"signal: {text}", -1)


def test_real_time_signal(envd):
    assert envd.sh("kill -34 $$; sleep 5").end["status"] == "signal: signal 34"


def test_stream_is_not_compressed_and_typed(envd):
    stream = envd.begin("/bin/true", headers={"Connect-Accept-Encoding": "gzip"})
    assert stream.status == 200
    assert stream.headers["content-type"] == "application/connect+json"
    assert Result(stream).end_stream == {}


def test_byte_by_byte_request(envd):
    body = envelope({"process": {"cmd": "/bin/echo", "args": ["x"]}, "stdin": False})
    with envd.connect() as s:
        for byte in (b"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                     b"Content-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n"
                     % len(body)) + body:
            s.sendall(bytes([byte]))
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    assert b'"stdout":"eAo="' in answer and answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("body", [b"", b"\0\0\0", envelope({}) + envelope({}), envelope(b"{"),
                                  envelope(b""), envelope(b"{}", 2), envelope(b"{}", 1),
                                  envelope([]), struct.pack(">BI", 0, 1 << 31),
                                  envelope({}), envelope({"process": 1}),
                                  envelope({"process": {"cmd": 1}}),
                                  envelope({"process": {"cmd": "x", "args": [1]}}),
                                  envelope({"process": {"cmd": "x", "envs": {"a=b": "c"}}}),
                                  envelope({"process": {"cmd": "x", "envs": {"a": 1}}})])
def test_malformed_starts(envd, body):
    stream = envd.stream("Start", body)
    assert stream.status == 200 and list(stream) == []
    assert stream.end["error"]["code"] in ("invalid_argument", "unimplemented",
                                           "resource_exhausted")
    stream.close()
    assert envd.list() == []


def test_unknown_fields_and_strings_for_numbers(envd):
    r = envd.sh("exit 0", request={"future": {"x": 1}, "tag": None})
    assert r.end["status"] == "exit status 0"
    stream = envd.begin(SLEEP, "60")
    assert envd.proc("SendSignal", process={"pid": str(stream.pid)}, signal=9) == (200, {})
    assert Result(stream).end["exitCode"] == -1


# ---- what is run, where, with what


def test_unknown_command(envd):
    for cmd in ["no-such-command", "/no/such/command", ""]:
        r = envd.run(cmd)
        assert (r.code, r.stdout, r.end_stream) == (127, b"", {})
        assert b"not found" in r.stderr and cmd.encode() in r.stderr


def test_not_executable(envd, tmp_path):
    (tmp_path / "plain").write_text("x")
    r = envd.run(str(tmp_path / "plain"))
    assert r.code == 126 and b"ermission denied" in r.stderr
    assert envd.run(str(tmp_path)).code == 126


def test_script_without_interpreter_line(envd, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo $0 $1\n")
    script.chmod(0o755)
    assert envd.run(str(script), "a b").stdout.decode() == f"{script} a b\n"


def test_found_in_the_path_of_its_environment(envd, tmp_path):
    tool = tmp_path / "some-tool"
    tool.write_text("#!/bin/sh\necho tool\n")
    assert envd.run("some-tool", envs={"PATH": f"/nonexistent:{tmp_path}"}).code == 126
    tool.chmod(0o755)
    assert envd.run("some-tool", envs={"PATH": f"/nonexistent:{tmp_path}:/bin"}).stdout == b"tool\n"
    assert envd.run("some-tool").code == 127
    assert envd.run("./some-tool", cwd=str(tmp_path)).stdout == b"tool\n"


def test_cwd(envd, tmp_path):
    assert envd.run("/bin/pwd", cwd=str(tmp_path)).stdout.decode().strip() == str(tmp_path)
    home = os.path.expanduser("~")
    assert envd.sh("pwd").stdout.decode().strip() == home
    r = envd.run("/bin/true", cwd="/nope")
    assert r.events == [] and r.error["code"] == "invalid_argument"
    assert "cwd '/nope' does not exist" in r.error["message"]
    assert envd.run("/bin/true", cwd="/etc/passwd").error["code"] == "invalid_argument"
    assert envd.run("/bin/true", cwd="~nobody").error["code"] == "invalid_argument"


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_cwd_that_the_user_may_not_enter(envd, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    r = envd.run("/bin/true", cwd=str(closed), headers=basic("daemon"))
    assert r.error["code"] == "invalid_argument"
    assert "error starting process '/bin/true'" in r.error["message"]
    assert envd.list() == []


def test_environment(envd):
    envd.init(envVars={"GLOBAL": "g", "BOTH": "g"})
    env = dict(line.split("=", 1) for line in envd.run(
        "/usr/bin/env", envs={"BOTH": "r", "EMPTY": "", "Ü": "ü=x"}).stdout.decode().splitlines())
    assert env["GLOBAL"] == "g" and env["BOTH"] == "r" and env["EMPTY"] == "" and env["Ü"] == "ü=x"
    assert env["HOME"] and env["USER"] == env["LOGNAME"] and "/bin" in env["PATH"]


def test_nothing_of_ours_is_inherited(envd):
    # Descriptors, the signal mask, ignored signals, the session, the limit of descriptors.
    # A pipeline's shell holds its pipe for a moment, so the list is made by a process without one.
    r = envd.sh("exec ls /proc/self/fd")
    assert r.stdout.split() == [b"0", b"1", b"2", b"3"], "3 is the directory that ls reads"
    r = envd.sh("cat /proc/self/status | grep -E 'SigBlk|SigIgn|SigCgt'; ulimit -n; umask;"
                "cut -d' ' -f1,5,6 /proc/$$/stat; cat /proc/$$/oom_score_adj")
    lines = r.stdout.decode().splitlines()
    # glibc keeps 32 and 33 for itself; make's children may have them ignored.
    assert all(int(line.split()[1], 16) & ~0x180000000 == 0 for line in lines[0:3]), lines
    assert lines[3] == str(os.sysconf("SC_OPEN_MAX")), lines
    assert lines[4] == "0022"
    assert lines[5] == f"{r.pid} {r.pid} {r.pid}"
    assert lines[6] == "100"


def test_many_and_long_arguments(envd):
    args = [f"{i}" * 20 for i in range(2000)] + ["", "x" * 100000, "ü\n\t\"'"]
    r = envd.run("/usr/bin/python3", "-c",
                 "import sys,hashlib;print(hashlib.sha1(repr(sys.argv[1:]).encode()).hexdigest())",
                 *args)
    import hashlib
    assert r.stdout.decode().strip() == hashlib.sha1(repr(args).encode()).hexdigest()
    r = envd.run("/bin/true", "x" * 300000)
    assert r.code == 126 and b"too long" in r.stderr


# ---- output


def test_binary_output(envd):
    r = envd.run("/usr/bin/python3", "-c",
                 "import sys;sys.stdout.buffer.write(bytes(range(256))*100);"
                 "sys.stderr.buffer.write(bytes(range(255,-1,-1)))")
    assert r.stdout == bytes(range(256)) * 100
    assert r.stderr == bytes(range(255, -1, -1))


def test_ten_megabytes_in_memory_bounds(envd):
    size = 10 << 20
    r = envd.run("/usr/bin/python3", "-c",
                 f"import sys\nfor i in range({size >> 16}): sys.stdout.buffer.write(b'%08d' % i * 8192)")
    assert r.stdout == b"".join(b"%08d" % i * 8192 for i in range(size >> 16))
    assert max(len(base64.b64decode(e["data"]["stdout"])) for e in r.events if "data" in e) <= 32768
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 16 << 10


def test_all_output_comes_before_the_end(envd):
    for _ in range(20):
        r = envd.sh("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; exit 7")
        assert (len(r.stdout), len(r.stderr), r.code) == (60000, 60000, 7)
        assert "end" in r.events[-1]


def test_fifty_silent_commands_at_once(envd, tmp_path):
    results = {}

    def one(i):
        results[i] = envd.sh(f"echo x >> {tmp_path}/{i}; sleep 0.2")
    threads = [threading.Thread(target=one, args=(i,)) for i in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(50):
        r = results[i]
        assert (r.code, r.stdout, r.stderr, r.end_stream) == (0, b"", b"", {}), r.events
        assert (tmp_path / str(i)).read_text() == "x\n", "it ran exactly once"
    assert len({r.pid for r in results.values()}) == 50
    assert envd.list() == []


def test_fifty_talking_commands_at_once(envd):
    streams = [envd.begin("/bin/sh", "-c", f"for n in 1 2 3; do echo {i}-$n; done; exit {i}")
               for i in range(50)]
    for i, stream in enumerate(streams):
        r = Result(stream)
        assert r.stdout.decode().split() == [f"{i}-1", f"{i}-2", f"{i}-3"]
        assert r.code == i


def test_slow_reader_stops_the_command_not_the_others(envd, tmp_path):
    mark = tmp_path / "done"
    stream = envd.begin("/bin/sh", "-c", f"head -c 50000000 /dev/zero; echo done > {mark}")
    pid = stream.pid
    assert envd.sh("echo other").stdout == b"other\n"

    def waits():  # in write(2) on its pipe, as all buffers on the way are full
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return children and "pipe" in pathlib.Path(f"/proc/{children[0]}/wchan").read_text()
    wait_for(waits, what="the command waits for its reader")
    assert not mark.exists()
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 16 << 10
    assert len(Result(stream).stdout) == 50000000
    assert mark.exists()


def test_output_left_at_the_exit_is_not_all_taken_at_once(envd, tmp_path):
    """Two pipes of a megabyte, full when the command ends: no more is held than for a slow reader."""
    script = ("import fcntl, os, sys, time\n"
              "for fd in 1, 2: fcntl.fcntl(fd, 1031, 1 << 20)\n"  # F_SETPIPE_SZ
              "os.write(1, b'r')\n"
              f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
              "for fd in 1, 2: os.write(fd, b'x' * (1 << 20))\n")
    stream = envd.begin(sys.executable, "-c", script)
    assert "data" in stream.event(), "it is ready"
    before = envd.peak_kb()
    envd.process.send_signal(signal.SIGSTOP)
    try:
        (tmp_path / "go").touch()
        wait_for(lambda: not alive(stream.pid), what="the command has ended")
    finally:
        envd.process.send_signal(signal.SIGCONT)
    r = Result(stream)
    assert (len(r.stdout), len(r.stderr), r.code) == (1 << 20, 1 << 20, 0)
    if not os.environ.get("SAN"):
        assert envd.peak_kb() - before < 2048


def test_slow_reader_that_leaves_frees_the_command(envd, tmp_path):
    mark = tmp_path / "done"
    stream = envd.begin("/bin/sh", "-c", f"head -c 50000000 /dev/zero; echo done > {mark}")
    assert len(stream.event()) == 1
    stream.close()
    wait_for(mark.exists, what="the command runs to its end without a reader")


def test_keepalive(envd):
    began = time.monotonic()
    stream = envd.begin(SLEEP, "60", headers={"Keepalive-Ping-Interval": "1"})
    assert stream.event() == {"keepalive": {}}, "not that of 90 s: nobody waits so long for a read"
    assert time.monotonic() - began > 0.9
    stream.close()


# ---- the end


def test_grandchild_in_the_background_does_not_hold_the_end(envd, tmp_path):
    r = envd.sh(f"sleep 600 & echo $! > {tmp_path}/pid; echo hi; exit 4")
    assert (r.stdout, r.code) == (b"hi\n", 4)
    pid = read_pid(tmp_path / "pid")
    assert alive(pid), "it goes on running"
    os.kill(pid, signal.SIGKILL)


def test_grandchild_that_writes_on_is_not_broken(envd, tmp_path):
    script = (f"(while [ ! -e {tmp_path}/stop ]; do echo noise || exit 1; done;"
              f" echo fine > {tmp_path}/end) & exit 0")
    assert envd.sh(script).code == 0
    (tmp_path / "stop").write_text("")
    wait_for((tmp_path / "end").exists, what="the writer was not ended by SIGPIPE")


def test_output_of_a_short_lived_grandchild_is_not_lost(envd, tmp_path):
    """It comes after the command's end, and before envd, which stands still meanwhile, has looked."""
    stream = envd.begin("/bin/bash", "-c", f"cd {tmp_path}; exec > >(until [ -e go ]; do sleep 0.01; done; cat; : > done);"
                                           "echo through; : > up; until [ -e exit ]; do sleep 0.01; done")
    wait_for((tmp_path / "up").exists, what="the command runs")
    envd.process.send_signal(signal.SIGSTOP)
    try:
        (tmp_path / "exit").touch()
        wait_for(lambda: not alive(stream.pid), what="the command has ended")
        (tmp_path / "go").touch()
        wait_for((tmp_path / "done").exists, what="the grandchild has written")
    finally:
        envd.process.send_signal(signal.SIGCONT)
    r = Result(stream)
    assert (r.stdout, r.code) == (b"through\n", 0)


def test_kill_ends_the_children_too(envd, tmp_path):
    script = f"sleep 60 & echo $! > {tmp_path}/a; setsid sleep 61 & echo $! > {tmp_path}/b; wait"
    stream = envd.begin("/bin/sh", "-c", script)
    pids = [read_pid(tmp_path / "a"), read_pid(tmp_path / "b"), stream.pid]
    wait_for(lambda: os.getsid(pids[1]) == pids[1], what="the child has left the session")
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL")[0] == 200
    r = Result(stream)
    assert r.end["status"] == "signal: killed"
    for pid in pids:
        wait_for(lambda: not alive(pid), what=f"{pid} is gone")


def test_terminate_goes_to_the_group(envd):
    stream = envd.begin("/bin/sh", "-c", "sleep 60; echo not reached")
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGTERM")[0] == 200
    r = Result(stream)
    assert (r.end["status"], r.stdout) == ("signal: terminated", b"")


def test_command_that_ignores_terminate(envd):
    stream = envd.begin("/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    assert "data" in stream.event()
    selector = {"pid": stream.pid}
    assert envd.proc("SendSignal", process=selector, signal="SIGNAL_SIGTERM")[0] == 200
    assert envd.listed(stream.pid)
    assert envd.proc("SendSignal", process=selector, signal="SIGNAL_SIGKILL")[0] == 200
    assert Result(stream).end["status"] == "signal: killed"


def test_deadline_kills(envd, tmp_path):
    r = envd.sh(f"trap '' TERM; echo out; sleep 600 & echo $! > {tmp_path}/pid; wait",
                headers={"Connect-Timeout-Ms": "4000"})
    assert r.stdout == b"out\n" and r.end is None
    assert r.error["code"] == "deadline_exceeded"
    assert not envd.listed(r.pid) and not alive(r.pid)
    wait_for(lambda: not alive(read_pid(tmp_path / "pid")), what="the child is gone")


def test_deadline_while_the_reader_is_slow(envd):
    stream = envd.begin("/usr/bin/yes", headers={"Connect-Timeout-Ms": "300"})
    wait_for(lambda: not alive(stream.pid), what="the command is killed though nobody reads")
    assert Result(stream).error["code"] == "deadline_exceeded"


def test_deadline_outlives_the_client(envd, tmp_path):
    stream = envd.begin("/bin/sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait",
                        headers={"Connect-Timeout-Ms": "4000"})
    child = read_pid(tmp_path / "pid")
    stream.close()
    wait_for(lambda: not alive(stream.pid), what="the command is killed though nobody follows")
    wait_for(lambda: not alive(child), what="the child is gone")
    wait_for(lambda: not envd.listed(stream.pid), what="it is no longer listed")


def test_deadline_of_start_and_one_who_connected(envd):
    first = envd.begin(SLEEP, "60", headers={"Connect-Timeout-Ms": "4000"})
    second = envd.stream("Connect", {"process": {"pid": first.pid}})
    assert second.event() == {"start": {"pid": first.pid}}
    first.close()
    r = Result(second)
    assert (r.end["status"], r.end_stream) == ("signal: killed", {})


def test_deadline_is_over_with_the_command(envd, tmp_path):
    r = envd.sh(f"sleep 60 & echo $! > {tmp_path}/pid; exit 4",
                headers={"Connect-Timeout-Ms": "2000"})
    assert (r.code, r.end_stream) == (4, {})
    # A later command of the same limit ends after the first one's would have.
    later = envd.run(SLEEP, "60", headers={"Connect-Timeout-Ms": "2000"})
    assert later.error["code"] == "deadline_exceeded"
    pid = read_pid(tmp_path / "pid")
    assert alive(pid), "what it left in the background goes on"
    os.kill(pid, signal.SIGKILL)


def test_no_deadline_of_zero(envd):
    assert envd.sh("sleep 0.3; echo x", headers={"Connect-Timeout-Ms": "0"}).stdout == b"x\n"


def test_client_that_leaves_does_not_kill(envd, tmp_path):
    stream = envd.begin("/bin/sh", "-c", f"sleep 0.3; head -c 1000000 /dev/zero; echo x > {tmp_path}/f;"
                                         "sleep 60")
    pid = stream.pid
    stream.close()
    wait_for((tmp_path / "f").exists, what="it runs on, its output is thrown away")
    assert envd.listed(pid)
    envd.proc("SendSignal", process={"pid": pid}, signal=9)
    wait_for(lambda: not envd.listed(pid))


def test_envd_that_ends_takes_its_commands_along(tmp_path):
    e = Envd()
    stream = e.begin(SLEEP, "60")
    e.close()
    wait_for(lambda: not alive(stream.pid))
    with pytest.raises((ConnectionError, ValueError)):
        list(stream)
    stream.close()


# ---- stdin


def test_stdin(envd):
    stream = envd.begin(CAT, request={"stdin": True})
    selector = {"pid": stream.pid}
    assert envd.proc("SendInput", process=selector, input={"stdin": "eA=="}) == (200, {})
    assert stream.event() == {"data": {"stdout": "eA=="}}
    assert envd.proc("SendInput", process=selector, input={"stdin": ""}) == (200, {})
    assert envd.proc("SendInput", process=selector, input={"stdin": "_-8"}) == (200, {})
    assert stream.event() == {"data": {"stdout": b64(b"\xff\xef")}}
    assert envd.proc("CloseStdin", process=selector) == (200, {})
    assert envd.proc("CloseStdin", process=selector)[0] in (200, 404)  # it may have ended
    assert Result(stream).code == 0


def test_close_stdin_twice(envd):
    stream = envd.begin("/bin/sh", "-c", "cat; sleep 60", request={"stdin": True})
    for _ in range(2):
        assert envd.proc("CloseStdin", process={"pid": stream.pid}) == (200, {})
    status, answer = envd.proc("SendInput", process={"pid": stream.pid}, input={"stdin": "eA=="})
    assert (status, answer["code"]) == (500, "internal")
    stream.close()


def test_stdin_is_on_unless_refused(envd):
    message = {"process": {"cmd": CAT}}
    stream = envd.stream("Start", message)
    pid = stream.event()["start"]["pid"]
    assert envd.proc("CloseStdin", process={"pid": pid}) == (200, {})
    assert Result(stream).end["status"] == "exit status 0"


def test_stdin_that_is_off(envd):
    assert envd.run(CAT).code == 0
    stream = envd.begin(SLEEP, "60")
    status, answer = envd.proc("SendInput", process={"pid": stream.pid}, input={"stdin": "eA=="})
    assert (status, answer["code"], answer["message"]) == (500, "internal",
                                                           "stdin not enabled or closed")
    stream.close()


def test_much_stdin_waits_for_the_reader(envd):
    stream = envd.begin("/bin/sh", "-c", "read x; wc -c", request={"stdin": True})
    selector = {"pid": stream.pid}
    data = b"\n" + b"x" * (2 << 20)
    done = []
    t = threading.Thread(target=lambda: done.append(
        envd.proc("SendInput", process=selector, input={"stdin": b64(data)})))
    t.start()
    t.join()
    assert done == [(200, {})]
    assert envd.proc("CloseStdin", process=selector)[0] == 200
    assert Result(stream).stdout.split() == [str(2 << 20).encode()]


def test_stdin_nobody_reads_is_bounded(envd):
    stream = envd.begin(SLEEP, "60", request={"stdin": True})
    body = json.dumps({"process": {"pid": stream.pid}, "input": {"stdin": b64(b"x" * (2 << 20))}})
    head = (f"POST /process.Process/SendInput HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
            f"\r\nContent-Length: {len(body)}\r\n\r\n")
    waiting = [envd.connect() for _ in range(6)]
    for s in waiting:
        s.sendall((head + body).encode())
    wait_for(lambda: len([s for s in waiting if _answer(s)]) >= 2, what="two are refused")
    refused = [s for s in waiting if _answer(s)]
    assert len(refused) == 2 and all(b"resource_exhausted" in s.recv(1000) for s in refused)
    envd.proc("SendSignal", process={"pid": stream.pid}, signal=9)
    left = [s for s in waiting if s not in refused]
    for s in left:
        s.setblocking(True)
        assert b'"internal"' in s.recv(1000), "those that waited are told"
    for s in waiting:
        s.close()
    Result(stream)


def _answer(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


def test_input_that_is_none(envd):
    stream = envd.begin(CAT, request={"stdin": True})
    selector = {"pid": stream.pid}
    assert envd.proc("SendInput", process=selector, input={"pty": "eA=="})[1] == {
        "code": "internal", "message": "tty not assigned to process"}
    assert envd.proc("SendInput", process=selector, input={})[1]["code"] == "unimplemented"
    assert envd.proc("SendInput", process=selector, input={"stdin": "*"})[0] == 400
    assert envd.proc("Update", process=selector) == (200, {})
    status, answer = envd.proc("Update", process=selector, pty={"size": {"cols": 1, "rows": 1}})
    assert (status, answer["code"]) == (500, "internal") and "resizing tty" in answer["message"]
    stream.close()


# ---- List, Connect, selectors


def test_list(envd):
    assert envd.proc("List") == (200, {"processes": []})
    config = {"cmd": SLEEP, "args": ["60"], "envs": {"A": "b"}, "cwd": "/"}
    stream = envd.stream("Start", {"process": config, "tag": "t", "stdin": False})
    pid = stream.event()["start"]["pid"]
    assert envd.list() == [{"config": config, "pid": pid, "tag": "t"}]
    stream.close()


def test_connect_gets_what_comes_after(envd):
    first = envd.begin("/bin/sh", "-c", "echo one; read x; echo two; exit 5",
                       request={"stdin": True, "tag": "talk"})
    assert first.event() == {"data": {"stdout": b64(b"one\n")}}
    second = envd.stream("Connect", {"process": {"tag": "talk"}})
    assert second.event() == {"start": {"pid": first.pid}}
    envd.proc("SendInput", process={"tag": "talk"}, input={"stdin": b64(b"\n")})
    for r in [Result(first), Result(second)]:
        assert (r.stdout, r.end["exitCode"], r.end_stream) == (b"two\n", 5, {})


def test_connect_after_the_end(envd):
    pid = envd.sh("exit 6", request={"tag": "gone"}).pid
    for selector in [{"pid": pid}, {"tag": "gone"}]:
        r = Result(envd.stream("Connect", {"process": selector}))
        assert r.events == [{"start": {"pid": pid}},
                            {"end": {"exitCode": 6, "exited": True, "status": "exit status 6",
                                     "error": "exit status 6"}}]
    status, answer = envd.proc("SendSignal", process={"pid": pid}, signal="SIGNAL_SIGKILL")
    assert (status, answer) == (404, {"code": "not_found",
                                      "message": f"process with pid {pid} not found"})


def test_deadline_of_connect_does_not_kill(envd):
    stream = envd.begin(SLEEP, "60")
    r = Result(envd.stream("Connect", {"process": {"pid": stream.pid}},
                           {"Connect-Timeout-Ms": "200"}))
    assert r.error["code"] == "deadline_exceeded"
    assert alive(stream.pid) and envd.listed(stream.pid)
    stream.close()


def test_unknown_selectors(envd):
    r = Result(envd.stream("Connect", {"process": {"pid": 999999999}}))
    assert r.error == {"code": "not_found", "message": "process with pid 999999999 not found"}
    for method in ["SendSignal", "SendInput", "CloseStdin", "Update"]:
        assert envd.proc(method, process={"tag": "no"})[1] == {
            "code": "not_found", "message": "process with tag no not found"}
        assert envd.proc(method, process={})[0] == 501
        assert envd.proc(method)[0] == 501


def test_invalid_signals(envd):
    stream = envd.begin(SLEEP, "60")
    for value in [None, 0, 1, "SIGNAL_UNSPECIFIED"]:
        status, answer = envd.proc("SendSignal", process={"pid": stream.pid}, signal=value)
        assert (status, answer["code"]) == (501, "unimplemented")
        assert "invalid signal" in answer["message"]
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_X")[0] == 400
    assert alive(stream.pid)
    stream.close()


# ---- leaks, and cgroups


def test_nothing_is_left_of_ended_commands(envd):
    def descriptors():
        return len(os.listdir(f"/proc/{envd.process.pid}/fd"))
    envd.sh("exit")
    before = descriptors()
    for _ in range(50):
        envd.sh("echo x")
    wait_for(lambda: descriptors() <= before, what="descriptors are closed")
    assert not pathlib.Path(f"/proc/{envd.process.pid}/task/{envd.process.pid}/children"
                            ).read_text().split(), "no child, no zombie"


def test_the_table_forgets_the_oldest(envd):
    first = envd.run("/bin/true").pid
    last = [envd.run("/bin/true").pid for _ in range(1030)][-1]
    assert Result(envd.stream("Connect", {"process": {"pid": last}})).code == 0
    assert Result(envd.stream("Connect", {"process": {"pid": first}})).error["code"] == "not_found"


def cgroup2():
    """A writable cgroup2 hierarchy, or None."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(where, os.W_OK):
            return pathlib.Path(where)
    return None


@pytest.mark.skipif(not cgroup2(), reason="no writable cgroup2 here; the guest has one")
def test_kill_reaches_a_daemon_in_its_cgroup(tmp_path):
    root = cgroup2() / f"envd-test-{os.getpid()}"
    root.mkdir()
    e = Envd("--cgroup", str(root))
    try:
        # Parents gone, session left: neither group, session nor parentage leads to it.
        script = (f"setsid sh -c 'sh -c \"echo \\$\\$ > {tmp_path}/pid; exec sleep 60\" & exit' & "
                  "sleep 60")
        stream = e.begin("/bin/sh", "-c", script)
        pid = read_pid(tmp_path / "pid")
        wait_for(lambda: re.search(r"PPid:\t(\d+)",
                                   pathlib.Path(f"/proc/{pid}/status").read_text())[1] != stream.pid)
        assert f"/commands/" in pathlib.Path(f"/proc/{stream.pid}/cgroup").read_text()
        e.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL")
        assert Result(stream).end["status"] == "signal: killed"
        wait_for(lambda: not alive(pid), what="the daemon is gone too")
        for i in range(5):
            r = e.begin(SLEEP, "60")
            e.proc("SendSignal", process={"pid": r.pid}, signal="SIGNAL_SIGKILL")
            assert Result(r).end["status"] == "signal: killed"
            assert e.sh(f"exit {i}").code == i, "a killed group kills no later command"
        groups = [p for p in (root / "commands").iterdir() if p.is_dir()]
        assert len(groups) <= 2, "groups are used again"
    finally:
        e.close()
        left = [p for p in root.rglob("*") if p.is_dir()]
        for p in sorted(left, reverse=True):
            p.rmdir()
        root.rmdir()
    assert not left, "envd removes its groups"
