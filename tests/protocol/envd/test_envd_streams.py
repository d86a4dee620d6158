# SPDX-License-Identifier: Apache-2.0
"""Many streams, slow readers, streams of input: nothing is lost, and every buffer is bounded."""

import base64
import json
import os
import pathlib
import re
import selectors
import socket
import struct
import threading

import pytest

from envd_peer import Envd, Result, alive, b64, envelope, wait_for

CAT = "/bin/cat"
PYTHON = "/usr/bin/python3"


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def written(pid):
    """Return how many bytes a process has written so far."""
    return int(re.search(r"wchar: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text())[1])


def rss_kb(envd):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{envd.process.pid}/status").read_text())[1])


def stand_still(*pids):
    """Waits until none of the processes has written for a while, and returns how much each one has
    written."""
    seen = []

    def still():
        seen.append([written(pid) for pid in pids])
        return seen[-60:].count(seen[-1]) == 60
    wait_for(still, what="the processes wait for their readers", seconds=60)
    return seen[-1]


@pytest.fixture
def narrow(envd, monkeypatch):
    """An envd whose clients' sockets have small buffers."""
    def connect():
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.settimeout(60)
        sock.connect(("127.0.0.1", envd.port))
        return sock
    monkeypatch.setattr(envd, "connect", connect)
    return envd


# ---- many at once


def test_32_streaming_commands_at_once(narrow):
    # Each counts until it is told to end; what is read must be its numbers, all and in order.
    count = 32
    script = (f"import os\ni = 0\nwhile not os.path.exists({str(narrow.dir / 'stop')!r}):\n"
              "    os.write(1, b''.join(b'%0999d\\n' % n for n in range(i, i + 40)))\n    i += 40\n"
              "os.write(1, b'last %d\\n' % i)\n")
    streams = [narrow.begin(PYTHON, "-c", script) for _ in range(count)]
    results = {}
    begun = [threading.Event() for _ in range(count)]

    def read(i):
        n, rest, last = 0, b"", None
        for message in streams[i]:
            rest += base64.b64decode(message["event"].get("data", {}).get("stdout", ""))
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.startswith(b"last "):
                    last = int(line[5:])
                elif line != b"%0999d" % n:
                    results[i] = f"{line} in place of {n}"
                    return
                else:
                    n += 1
            if n > 100:
                begun[i].set()
        results[i] = n if n == last and streams[i].end == {} else f"{n} of {last}, {rest}, {streams[i].end}"
        streams[i].close()
    threads = [threading.Thread(target=read, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    assert all(b.wait(60) for b in begun), "all of them at once"
    threads[0].join(2)
    (narrow.dir / "stop").touch()
    for t in threads:
        t.join(120)
    assert sorted(results) == list(range(count))
    assert all(isinstance(n, int) and n > 100 for n in results.values()), results
    if not os.environ.get("SAN"):
        assert narrow.peak_kb() < (8 + count) << 10, "a megabyte a stream at the most"


def test_32_readers_that_do_not_read(narrow):
    count = 32
    size = 16 << 20
    streams = [narrow.begin("/usr/bin/head", "-c", str(size), "/dev/zero") for _ in range(count)]
    assert max(stand_still(*(s.pid for s in streams))) < size
    if not os.environ.get("SAN"):
        assert rss_kb(narrow) < (8 + count) << 10, "a megabyte a stream at the most"
    for stream in streams[1:]:
        stream.close()
    for stream in streams[1:]:
        wait_for(lambda: not alive(stream.pid), what="without a reader it runs to its end", seconds=60)
    assert len(Result(streams[0]).stdout) == size


# ---- several who follow one


def test_one_slow_reader_holds_all_until_it_leaves(narrow):
    envd = narrow
    size = 16 << 20
    fast = envd.begin(PYTHON, "-c", "import sys\nsys.stdin.read(1)\n"
                      f"for i in range({size >> 16}): sys.stdout.buffer.write(b'%08d' % i * 8192)",
                      request={"stdin": True})
    slow = envd.stream("Connect", {"process": {"pid": fast.pid}})
    assert slow.event() == {"start": {"pid": fast.pid}}
    got = []
    reader = threading.Thread(target=lambda: got.append(Result(fast)))
    reader.start()
    envd.proc("SendInput", process={"pid": fast.pid}, input={"stdin": b64(b"x")})
    assert stand_still(fast.pid)[0] < size and not got
    slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    slow.close()  # a reset, as from a client that was killed
    reader.join(60)
    assert got[0].stdout == b"".join(b"%08d" % i * 8192 for i in range(size >> 16))
    assert got[0].end_stream == {}


def test_connect_while_it_talks_misses_nothing_more(envd):
    # It counts until all have come; little enough that none is held up by one that is not read yet.
    stop = envd.dir / "stop"
    script = (f"import os, time\ni = 0\nwhile not os.path.exists({str(stop)!r}):\n"
              "    os.write(1, b'%d\\n' % i)\n    i += 1\n    time.sleep(0.0005)\nprint('done')")
    first = envd.begin(PYTHON, "-c", script)
    first_result = []
    reader = threading.Thread(target=lambda: first_result.append(Result(first)), daemon=True)
    reader.start()
    seconds = []
    for _ in range(5):
        second = envd.stream("Connect", {"process": {"pid": first.pid}})
        assert second.event() == {"start": {"pid": first.pid}}
        seconds.append(second)
    stop.touch()
    reader.join(60)
    *numbers, done, nothing = (whole := first_result[0].stdout).split(b"\n")
    assert (done, nothing) == (b"done", b"") and numbers == [b"%d" % i for i in range(len(numbers))]
    for second in seconds:
        r = Result(second)
        assert whole.endswith(r.stdout) and r.stdout, "all from some point on, up to the end"
        assert (r.code, r.end_stream) == (0, {})


def test_duplicate_tags(envd):
    streams = [envd.begin(CAT, request={"stdin": True, "tag": tag}) for tag in ("a", "b", "a", "c")]
    assert [p["tag"] for p in envd.list()].count("a") == 2
    assert envd.proc("SendInput", process={"tag": "b"}, input={"stdin": b64(b"to b")}) == (200, {})
    assert streams[1].event() == {"data": {"stdout": b64(b"to b")}}
    for left in (3, 2):  # one after the other
        assert envd.proc("SendSignal", process={"tag": "a"}, signal=9) == (200, {})
        wait_for(lambda: len(envd.list()) == left)
    assert [alive(s.pid) for s in streams] == [False, True, False, True]
    assert envd.proc("SendSignal", process={"tag": "a"}, signal=9)[0] == 404
    for s in streams:
        s.close()


# ---- StreamInput


class InputStream:
    """A StreamInput call that is written piece by piece, chunked."""

    def __init__(self, envd, headers=None):
        self.sock = envd.connect()
        lines = ["POST /process.Process/StreamInput HTTP/1.1", "Host: x", "Connection: close",
                 "Content-Type: application/connect+json", "Transfer-Encoding: chunked",
                 *(f"{k}: {v}" for k, v in (headers or {}).items())]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")

    def raw(self, data):
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def send(self, **message):
        self.raw(envelope(message))

    def data(self, data):
        self.send(data={"input": {"stdin": b64(data)}})

    def finish(self):
        self.sock.sendall(b"0\r\n\r\n")
        return self.answer()

    def answer(self):
        """(messages, end of stream)"""
        data = b""
        while chunk := self.sock.recv(65536):
            data += chunk
        self.sock.close()
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ") and b"application/connect+json" in head, data
        messages = []
        while body:
            flags, size = struct.unpack(">BI", body[:5])
            messages.append((flags, json.loads(body[5 : 5 + size])))
            body = body[5 + size :]
        assert messages[-1][0] == 2
        return [m for _, m in messages[:-1]], messages[-1][1]


def test_stream_input(envd):
    stream = envd.begin(CAT, request={"stdin": True, "tag": "cat"})
    s = InputStream(envd)
    s.send(start={"process": {"tag": "cat"}})
    s.data(b"one")
    assert stream.event() == {"data": {"stdout": b64(b"one")}}
    s.send(keepalive={})
    for byte in envelope({"data": {"input": {"stdin": b64(b"two")}}}):
        s.raw(bytes([byte]))
    assert stream.event() == {"data": {"stdout": b64(b"two")}}
    s.data(b"")
    assert s.finish() == ([{}], {})
    assert envd.listed(stream.pid), "the end of the stream is not the end of stdin"
    envd.proc("CloseStdin", process={"pid": stream.pid})
    assert Result(stream).code == 0


def test_stream_input_to_a_terminal(envd):
    stream = envd.stream("Start", {"process": {"cmd": "/bin/sh", "args": ["-c", "stty -echo; echo go; read x; echo $x"]},
                                   "pty": {"size": {"cols": 80, "rows": 24}}})
    pid = stream.event()["start"]["pid"]
    assert stream.event() == {"data": {"pty": b64(b"go\r\n")}}
    s = InputStream(envd)
    s.send(start={"process": {"pid": pid}})
    s.send(data={"input": {"pty": b64(b"typed\n")}})
    assert s.finish() == ([{}], {})
    assert stream.event() == {"data": {"pty": b64(b"typed\r\n")}}
    stream.close()


def test_stream_input_waits_for_the_process(envd):
    go = envd.dir / "go"
    stream = envd.begin("/bin/sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done; wc -c", request={"stdin": True})
    s = InputStream(envd)
    s.send(start={"process": {"pid": stream.pid}})
    chunk = envelope({"data": {"input": {"stdin": b64(b"x" * 60000)}}})
    s.sock.setblocking(False)
    sent, idle, out = 0, 0, b""
    with selectors.DefaultSelector() as selector:
        selector.register(s.sock, selectors.EVENT_WRITE)
        while idle < 20:  # until for a second nothing more was taken
            if not selector.select(0.05):
                idle += 1
                continue
            idle = 0
            if not out:
                out = b"%x\r\n%s\r\n" % (len(chunk), chunk)
                sent += 1
            out = out[s.sock.send(out) :]
            assert sent < 2000, "a process that does not read must make its client wait"
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 32 << 10
    s.sock.setblocking(True)
    go.touch()
    s.sock.sendall(out)
    assert s.finish() == ([{}], {})
    envd.proc("CloseStdin", process={"pid": stream.pid})
    assert Result(stream).stdout == b"%d\n" % (sent * 60000)


def test_stream_input_that_is_wrong(envd):
    stream = envd.begin(CAT, request={"stdin": True})
    start = {"process": {"pid": stream.pid}}
    data = {"input": {"stdin": "eA=="}}
    for messages, code in [([{"data": data}], "invalid_argument"), ([{}], "unimplemented"),
                           ([{"start": {"process": {"pid": 999999}}}], "not_found"),
                           ([{"start": {}}], "unimplemented"),
                           ([{"start": start}, {"start": start}], "invalid_argument"),
                           ([{"start": start, "data": data}], "invalid_argument"),
                           ([{"start": start}, {"data": {"input": {"pty": "eA=="}}}], "internal"),
                           ([{"start": start}, {"data": {"input": {"stdin": "*"}}}], "invalid_argument"),
                           ([{"start": start}, {"data": {}}], "unimplemented"),
                           ([{"start": start}, {"data": 1}], "invalid_argument")]:
        s = InputStream(envd)
        for m in messages:
            s.raw(envelope(m))
        got, end = s.answer()
        assert (got, end["error"]["code"]) == ([], code), messages
    for raw in (b"\0\0\0", envelope({"start": start})[:-1], envelope({}, 2), envelope({}, 1), envelope({}, 8),
                struct.pack(">BI", 0, 1 << 30)):
        s = InputStream(envd)
        s.raw(raw)
        got, end = s.finish()
        assert got == [] and end["error"]["code"] in ("invalid_argument", "resource_exhausted"), raw
    assert InputStream(envd).finish() == ([{}], {}), "a stream of nothing"
    stream.close()


def test_stream_input_and_the_end_of_its_process(envd):
    stream = envd.begin("/bin/sh", "-c", "read x; exit 3", request={"stdin": True})
    s = InputStream(envd)
    s.send(start={"process": {"pid": stream.pid}})
    s.data(b"\n")
    assert Result(stream).code == 3
    s.data(b"late")
    got, end = s.answer()
    assert (got, end["error"]["code"]) == ([], "internal") and "ended" in end["error"]["message"]


def test_stream_input_whose_client_leaves(envd):
    stream = envd.begin(CAT, request={"stdin": True})
    for _ in range(3):
        s = InputStream(envd)
        s.send(start={"process": {"pid": stream.pid}})
        s.data(b"x")
        assert stream.event() == {"data": {"stdout": b64(b"x")}}
        s.raw(envelope({"data": {"input": {"stdin": b64(b"lost")}}})[:-3])
        s.sock.close()
    assert envd.proc("SendInput", process={"pid": stream.pid}, input={"stdin": b64(b"y")}) == (200, {})
    assert stream.event() == {"data": {"stdout": b64(b"y")}}
    stream.close()


def test_stream_input_has_a_deadline(envd):
    stream = envd.begin("/bin/sleep", "60", request={"stdin": True})
    for send in (lambda s: None, lambda s: s.data(b"x" * 200000)):
        s = InputStream(envd, {"Connect-Timeout-Ms": "300"})
        s.send(start={"process": {"pid": stream.pid}})
        send(s)
        got, end = s.answer()
        assert (got, end["error"]["code"]) == ([], "deadline_exceeded")
    assert envd.listed(stream.pid)
    stream.close()
