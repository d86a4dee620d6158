# SPDX-License-Identifier: Apache-2.0
"""process.Process: commands, the form of their streams, their environment, output and
back-pressure.
"""

import base64
import os
import pathlib
import signal
import struct
import sys
import threading
import time

import pytest

from envd_fixtures import envd  # noqa: F401
from envd_peer import IS_ROOT, SLEEP, Result, alive, b64, basic, envelope, wait_for


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
    assert r.end == {"exitCode": -1, "status": "signal: killed",
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


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
@pytest.mark.parametrize("user", ["daemon", "root"])
def test_streams_by_their_names(envd, user):
    stream = envd.begin("/bin/sh", "-c", "echo err > /dev/stderr; echo out > /dev/stdout; cat /dev/stdin",
                        headers=basic(user), cwd="/", request={"stdin": True})
    process = {"pid": stream.pid}
    envd.proc("SendInput", process=process, input={"stdin": b64(b"in\n")})
    envd.proc("CloseStdin", process=process)
    r = Result(stream)
    assert (r.stdout, r.stderr, r.code) == (b"out\nin\n", b"err\n", 0)
    r = envd.sh("echo out > /dev/stdout; cat /dev/stdin", headers=basic(user), cwd="/")
    assert (r.stdout, r.stderr, r.code) == (b"out\n", b"", 0), "without an input"


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
    """Two pipes of a megabyte, full when the command ends: envd buffers no more than for a slow reader."""
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
