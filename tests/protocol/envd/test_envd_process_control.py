# SPDX-License-Identifier: Apache-2.0
"""process.Process: ends of commands, killing, deadlines, input, selectors, and what an ended
command leaves behind.
"""

import json
import os
import pathlib
import re
import signal
import socket
import threading

import pytest

from envd_fixtures import envd  # noqa: F401
from envd_peer import SLEEP, Envd, Result, alive, b64, wait_for
from receive import receive_until

CAT = "/bin/cat"


def read_pid(path):
    """A pid that a command writes into a file."""
    return wait_for(lambda: path.exists() and path.read_text().strip() and int(path.read_text()))


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
    """Its output comes after the command's end, and before envd, which stands still meanwhile, has
    read the pipe."""
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
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL",
                     group=True)[0] == 200
    r = Result(stream)
    assert r.end["status"] == "signal: killed"
    for pid in pids:
        wait_for(lambda: not alive(pid), what=f"{pid} is gone")


@pytest.mark.parametrize("number", ["SIGNAL_SIGTERM", "SIGNAL_SIGKILL"])
def test_a_signal_goes_to_the_process_alone(envd, tmp_path, number):
    """So does E2B's envd: what the command left behind goes on."""
    stream = envd.begin("/bin/sh", "-c", f"sleep 60 & echo $! > {tmp_path}/a; wait")
    child = read_pid(tmp_path / "a")
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal=number)[0] == 200
    assert Result(stream).end["status"] == f"signal: {'killed' if 'KILL' in number else 'terminated'}"
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_a_shell_that_traps_terminate_waits_for_its_child(envd, tmp_path):
    """With a signal to the group the child would end, too, and the shell at once."""
    os.mkfifo(tmp_path / "fifo")
    stream = envd.begin("/bin/sh", "-c", "trap 'exit 7' TERM; (echo ready; read x < "
                        f"{tmp_path}/fifo; echo child); echo over")
    assert "data" in stream.event()
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGTERM")[0] == 200
    with open(tmp_path / "fifo", "w") as f:
        f.write("go\n")
    r = Result(stream)
    assert (r.code, b"child" in r.stdout) == (7, True)


def test_terminate_goes_to_the_group_when_that_is_asked_for(envd):
    stream = envd.begin("/bin/sh", "-c", "sleep 60; echo not reached")
    assert envd.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGTERM",
                     group=True)[0] == 200
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
    assert len(refused) == 2
    for s in waiting:
        s.settimeout(60)
    for s in refused:
        receive_until(s, b"resource_exhausted")
    envd.proc("SendSignal", process={"pid": stream.pid}, signal=9)
    left = [s for s in waiting if s not in refused]
    for s in left:
        receive_until(s, b'"internal"')
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
        e.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL", group=True)
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
