# SPDX-License-Identifier: Apache-2.0
"""envd's codecs and compressions: the Connect project's own client in each of them, and malformed
messages.
"""

import gzip
import json
import os
import struct
import time

import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from google.protobuf import json_format

from envd_peer import Envd, Result, envelope, wait_for
from envd_proto import MESSAGES, Peer

KILL = 9
FLAVOURS = [(codec, packed) for codec in ("proto", "json") for packed in (True, False)]


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


@pytest.fixture(params=FLAVOURS, ids=lambda f: f"{f[0]}-{'gzip' if f[1] else 'identity'}")
def peer(request, envd):
    p = Peer(envd, *request.param)
    yield p
    p.close()


def sh(script, **more):
    return {"process": {"cmd": "/bin/sh", "args": ["-c", script], **more}, "stdin": False}


def started(stream):
    """The pid in a stream's first event."""
    return next(stream).event.start.pid


def outcome(stream):
    """(stdout, stderr, pty, end event) from the rest of a stream."""
    out = {"stdout": b"", "stderr": b"", "pty": b""}
    end = None
    for message in stream:
        assert end is None, "nothing follows the end"
        kind = message.event.WhichOneof("one")
        if kind == "data":
            field = message.event.data.WhichOneof("one")
            out[field] += getattr(message.event.data, field)
        elif kind == "end":
            end = message.event.end
    return out["stdout"], out["stderr"], out["pty"], end


# ---- an independent peer, in every flavour


def test_a_command(peer):
    stream = peer.stream("Start", **sh("echo $A; pwd; echo er >&2; exit 3", envs={"A": "b"}, cwd="/usr"))
    assert started(stream) > 0
    out, err, _, end = outcome(stream)
    assert (out, err) == (b"b\n/usr\n", b"er\n")
    assert (end.exit_code, end.exited, end.status, end.error) == (3, True, "exit status 3", "exit status 3")


def test_all_bytes_and_much_of_them(peer):
    script = "import sys\nfor i in range(100): sys.stdout.buffer.write(bytes(range(256)) * 333)"
    stream = peer.stream("Start", process={"cmd": "/usr/bin/python3", "args": ["-c", script]}, stdin=False)
    started(stream)
    out, _, _, end = outcome(stream)
    assert out == bytes(range(256)) * 33300 and end.exited and not end.HasField("error")


def test_feeding_listing_and_killing(peer):
    stream = peer.stream("Start", process={"cmd": "/bin/cat"}, tag="the cat")
    pid = started(stream)
    listed = peer.call("List").processes
    assert [(p.pid, p.tag, p.config.cmd) for p in listed] == [(pid, "the cat", "/bin/cat")]
    peer.call("SendInput", process={"tag": "the cat"}, input={"stdin": b"\0\xff\n"})
    assert next(stream).event.data.stdout == b"\0\xff\n"
    second = peer.stream("Connect", process={"pid": pid})
    assert started(second) == pid
    peer.call("Update", process={"pid": pid})
    peer.call("SendSignal", process={"pid": pid}, signal=KILL)
    for s in (stream, second):
        end = outcome(s)[3]
        assert (end.exit_code, end.exited, end.error) == (-1, False, "signal: killed")
    with pytest.raises(ConnectError) as gone:
        peer.call("SendSignal", process={"pid": pid}, signal=KILL)
    assert (gone.value.code, gone.value.message) == (Code.NOT_FOUND, f"process with pid {pid} not found")


def test_closing_stdin(peer):
    stream = peer.stream("Start", process={"cmd": "/bin/sh", "args": ["-c", "cat; sleep 60"]})
    selector = {"pid": started(stream)}
    peer.call("SendInput", process=selector, input={"stdin": b"x"})
    for _ in range(2):
        peer.call("CloseStdin", process=selector)
    assert next(stream).event.data.stdout == b"x"
    with pytest.raises(ConnectError) as closed:
        peer.call("SendInput", process=selector, input={"stdin": b"x"})
    assert closed.value.code == Code.INTERNAL
    peer.call("SendSignal", process=selector, signal=KILL)
    outcome(stream)


def test_a_stream_of_input(peer):
    stream = peer.stream("Start", process={"cmd": "/usr/bin/sha256sum"})
    pid = started(stream)
    chunk = os.urandom(70000)

    def messages():
        yield "start", {"process": {"pid": pid}}
        for i in range(30):
            yield "data", {"input": {"stdin": chunk}}
            if i % 10 == 0:
                yield "keepalive", {}
    peer.feed(messages())
    peer.call("CloseStdin", process={"pid": pid})
    import hashlib
    assert outcome(stream)[0].split()[0].decode() == hashlib.sha256(chunk * 30).hexdigest()


def test_a_terminal(peer):
    stream = peer.stream("Start", process={"cmd": "/bin/sh", "args": ["-c", "stty size; read x; stty size"]},
                         pty={"size": {"cols": 80, "rows": 24}})
    selector = {"pid": started(stream)}
    assert next(stream).event.data.pty == b"24 80\r\n"
    peer.call("Update", process=selector, pty={"size": {"cols": 100, "rows": 30}})
    peer.call("SendInput", process=selector, input={"pty": b"\n"})
    _, _, pty, end = outcome(stream)
    assert pty.endswith(b"30 100\r\n") and end.exited


def test_errors_of_streams(peer):
    stream = peer.stream("Start", process={"cmd": "/bin/true", "cwd": "/nope"})
    with pytest.raises(ConnectError) as refused:
        next(stream)
    assert refused.value.code == Code.INVALID_ARGUMENT
    assert "cwd '/nope' does not exist" in refused.value.message
    stream = peer.stream("Start", timeout_ms=3000, **sh("sleep 60"))
    pid = started(stream)
    with pytest.raises(ConnectError) as late:
        outcome(stream)
    assert late.value.code == Code.DEADLINE_EXCEEDED
    wait_for(lambda: pid not in [p.pid for p in peer.call("List").processes])


def test_files(peer, tmp_path):
    base = tmp_path / "ä"
    made = peer.call("MakeDir", path=str(base / "sub"))
    assert (made.entry.name, made.entry.type, made.entry.path) == ("sub", 2, str(base / "sub"))
    with pytest.raises(ConnectError) as exists:
        peer.call("MakeDir", path=str(base))
    assert exists.value.code == Code.ALREADY_EXISTS
    file = base / "f"
    file.write_bytes(b"12345")
    os.utime(file, ns=(0, 1_700_000_000_123_000_000))
    file.chmod(0o640)
    entry = peer.call("Stat", path=str(file)).entry
    assert (entry.name, entry.type, entry.size, entry.mode) == ("f", 1, 5, 0o640)
    assert (entry.permissions, entry.owner != "", entry.group != "") == ("-rw-r-----", True, True)
    assert entry.modified_time.ToNanoseconds() == 1_700_000_000_123_000_000
    assert not entry.HasField("symlink_target")
    os.symlink("f", base / "link")
    assert peer.call("Stat", path=str(base / "link")).entry.symlink_target == str(file)
    peer.call("Move", source=str(file), destination=str(base / "sub" / "g"))
    names = [e.name for e in peer.call("ListDir", path=str(base), depth=2).entries]
    assert names == ["link", "sub", "g"]
    assert [e.name for e in peer.call("ListDir", path=str(base)).entries] == ["link", "sub"]
    peer.call("Remove", path=str(base))
    with pytest.raises(ConnectError) as missing:
        peer.call("Stat", path=str(base))
    assert missing.value.code == Code.NOT_FOUND


def test_times_that_nanoseconds_do_not_reach(peer, tmp_path):
    file = tmp_path / "f"
    stream = peer.stream("WatchDir", path=str(tmp_path), include_entry=True)
    assert next(stream).WhichOneof("one") == "start"
    file.touch()
    os.utime(file, (10413792000, 10413792000))
    if file.stat().st_mtime != 10413792000:
        pytest.skip("the file system does not keep such a time")
    assert peer.call("Stat", path=str(file)).entry.modified_time.seconds == 10413792000
    entries = peer.call("ListDir", path=str(tmp_path)).entries
    assert [e.modified_time.seconds for e in entries] == [10413792000]
    event = next(e for e in stream if e.filesystem.entry.modified_time.seconds == 10413792000)
    assert event.filesystem.name == "f", "the stream has not failed"


def test_a_long_listing(peer, tmp_path):
    for i in range(1500):
        (tmp_path / f"{i:04}").touch()
    entries = peer.call("ListDir", path=str(tmp_path), headers={"Accept-Encoding": "gzip"}).entries
    assert [e.name for e in entries] == [f"{i:04}" for i in range(1500)]


def test_watching(peer, tmp_path):
    stream = peer.stream("WatchDir", path=str(tmp_path), include_entry=True)
    assert next(stream).WhichOneof("one") == "start"
    watcher = peer.call("CreateWatcher", path=str(tmp_path), allow_network_mounts=True).watcher_id
    (tmp_path / "new").write_text("x")
    event = next(stream).filesystem
    assert (event.name, event.type, event.entry.path) == ("new", 1, str(tmp_path / "new"))

    def polled():
        return peer.call("GetWatcherEvents", watcher_id=watcher).events
    assert wait_for(polled)[0].name == "new"
    peer.call("RemoveWatcher", watcher_id=watcher)
    with pytest.raises(ConnectError) as removed:
        polled()
    assert removed.value.code == Code.NOT_FOUND


# ---- the bytes themselves


PROTO = {"Content-Type": "application/proto"}
STREAM_PROTO = {"Content-Type": "application/connect+proto"}


def field(number, payload):
    """A protobuf field of bytes; lengths below 128 only."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def selector(pid):
    return MESSAGES["SendSignalRequest"](process={"pid": pid}, signal=15).SerializeToString()


def test_unknown_fields_are_skipped(envd):
    # A varint, eight bytes, bytes, four bytes, and a group with a group in it.
    unknown = (b"\xf8\x01\xff\xff\x03" + b"\xf9\x01" + b"x" * 8 + b"\xfa\x01\x03abc" + b"\xfd\x01xxxx"
               + b"\xfb\x01\x08\x01\x13\x14\xfc\x01")
    status, _, body = envd.request("POST", "/process.Process/SendSignal", unknown + selector(999999) + unknown,
                                   PROTO)
    assert (status, json.loads(body)["code"]) == (404, "not_found")


def test_what_comes_twice(envd):
    # Messages are merged, the last member of a oneof counts, and so does the last scalar.
    tag_then_pid = field(1, field(2, b"some tag")) + field(1, b"\x08\x01\x08\xbf\x84\x3d")
    status, _, body = envd.request("POST", "/process.Process/SendSignal", tag_then_pid + b"\x10\x09", PROTO)
    assert json.loads(body) == {"code": "not_found", "message": "process with pid 999999 not found"}


def test_a_field_of_another_wire_type_is_unknown(envd):
    status, _, body = envd.request("POST", "/process.Process/SendSignal", b"\x08\x01", PROTO)
    assert (status, json.loads(body)["code"]) == (501, "unimplemented"), "no selector"


@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x00\x01",
                                  b"\x0b\x08", b"\x0c", b"\x0f\x01", b"\x80" * 11, b"\xff" * 9 + b"\x02",
                                  field(1, field(2, b"\xff")), field(1, field(2, b"a\0b")), b"\x0b" * 40])
def test_malformed_messages(envd, body):
    status, _, answer = envd.request("POST", "/process.Process/SendSignal", body, PROTO)
    assert (status, json.loads(answer)["code"]) == (400, "invalid_argument"), answer
    stream = envd.stream("Connect", envelope(body), STREAM_PROTO)
    assert stream.status == 200 and list(stream) == []
    assert stream.end["error"]["code"] == "invalid_argument"
    stream.close()


def test_more_values_than_anybody_needs(envd):
    body = field(1, b"\x0a\x01x") + field(1, b"\x12\0" * 60) * 5000
    stream = envd.stream("Start", envelope(body), STREAM_PROTO)
    assert list(stream) == [] and "values" in stream.end["error"]["message"]
    stream.close()
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 64 << 10


def test_no_bytes_are_a_message(envd):
    status, headers, body = envd.request("POST", "/process.Process/List", b"", PROTO)
    assert (status, headers["content-type"], body) == (200, "application/proto", b"")
    assert envd.rpc("process.Process/List", headers={"Content-Type": "application/json; charset=utf-8"})[0] == 200
    status, _, body = envd.request("POST", "/process.Process/List", b"", {"Content-Type": "application/json"})
    assert (status, json.loads(body)["code"]) == (400, "invalid_argument"), "JSON has no message of no bytes"


def test_answers_say_what_they_are(envd):
    message = MESSAGES["StartRequest"](**sh("exit 0"))
    stream = envd.stream("Start", envelope(message.SerializeToString()), STREAM_PROTO)
    assert stream.headers["content-type"] == "application/connect+proto"
    stream.close()
    status, headers, body = envd.request("POST", "/process.Process/CloseStdin", b"", PROTO)
    assert (status, headers["content-type"]) == (501, "application/json"), "errors are JSON in any codec"
    assert json.loads(body)["code"] == "unimplemented"


def test_json_by_both_names(envd, tmp_path):
    status, answer = envd.fs("CreateWatcher", path=str(tmp_path), include_entry=True)
    assert status == 200
    watcher = answer["watcherId"]
    (tmp_path / "f").touch()
    events = wait_for(lambda: envd.fs("GetWatcherEvents", watcher_id=watcher)[1].get("events"))
    assert events[0]["entry"]["path"] == str(tmp_path / "f")
    status, answer = envd.fs("RemoveWatcher", watcher_id=watcher, watcherId=watcher)
    assert (status, answer["code"]) == (400, "invalid_argument") and "twice" in answer["message"]
    assert envd.fs("RemoveWatcher", watcherId=None, watcher_id=watcher)[0] == 200
    status, answer = envd.proc("SendSignal", process={"pid": 1, "tag": "x"}, signal=9)
    assert (status, answer["code"]) == (400, "invalid_argument") and "both" in answer["message"]


def test_list_shows_the_config_and_nothing_else(envd):
    stream = envd.stream("Start", {"process": {"cmd": "/bin/cat", "cwd": None, "future": 1}})
    stream.event()
    assert envd.list()[0]["config"] == {"cmd": "/bin/cat"}
    stream.close()


def test_json_is_what_google_reads(envd, tmp_path):
    (tmp_path / "f").write_text("x")
    status, _, body = envd.request("POST", "/filesystem.Filesystem/ListDir", json.dumps({"path": str(tmp_path)}),
                                   {"Content-Type": "application/json"})
    assert status == 200
    parsed = json_format.Parse(body, MESSAGES["ListDirResponse"]())
    again = json.loads(json_format.MessageToJson(parsed))
    ours = json.loads(body)
    assert ours["entries"] == again["entries"]


# ---- compression


def test_compressed_unary_requests(envd):
    body = gzip.compress(json.dumps({"process": {"pid": 999999}}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    status, _, answer = envd.request("POST", "/process.Process/CloseStdin", body, headers)
    assert (status, json.loads(answer)["code"]) == (404, "not_found")
    status, _, answer = envd.request("POST", "/process.Process/CloseStdin", body[:-4], headers)
    assert (status, json.loads(answer)["code"]) == (400, "invalid_argument")
    status, _, answer = envd.request("POST", "/process.Process/CloseStdin", b"{}", headers)
    assert (status, json.loads(answer)["code"]) == (400, "invalid_argument"), "it is not gzip"


def test_compressed_envelopes(envd):
    message = json.dumps(sh("echo through")).encode()
    declared = {"Connect-Content-Encoding": "gzip"}
    for body in (envelope(gzip.compress(message), 1), envelope(message)):
        assert Result(envd.stream("Start", body, declared)).stdout == b"through\n"
    r = Result(envd.stream("Start", envelope(gzip.compress(message), 1)))
    assert r.error["code"] == "invalid_argument" and "Connect-Content-Encoding" in r.error["message"]


def test_unknown_compression(envd):
    status, headers, answer = envd.request("POST", "/process.Process/List", b"x", {
        "Content-Type": "application/json", "Content-Encoding": "br"})
    assert (status, json.loads(answer)["code"], headers["accept-encoding"]) == (501, "unimplemented", "gzip")
    r = Result(envd.stream("Start", sh("exit"), {"Connect-Content-Encoding": "zstd"}))
    assert r.error["code"] == "unimplemented" and '"zstd"' in r.error["message"]


def test_a_bomb_is_refused(envd):
    bomb = gzip.compress(b" " * (64 << 20))
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    status, _, answer = envd.request("POST", "/process.Process/List", bomb, headers)
    assert (status, json.loads(answer)["code"]) == (429, "resource_exhausted")
    status, _, answer = envd.request("POST", "/process.Process/List", bomb * 40, headers)
    assert (status, json.loads(answer)["code"]) == (429, "resource_exhausted")
    r = Result(envd.stream("Start", envelope(bomb, 1),
                           {"Connect-Content-Encoding": "gzip", **STREAM_PROTO}))
    assert r.error["code"] == "resource_exhausted"
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 32 << 10


def test_compressed_answers(envd, tmp_path):
    for i in range(100):
        (tmp_path / ("n" * 60 + str(i))).touch()
    body = json.dumps({"path": str(tmp_path)})

    def ask(accept):
        status, headers, answer = envd.request("POST", "/filesystem.Filesystem/ListDir", body, {
            "Content-Type": "application/json", "Accept-Encoding": accept})
        assert status == 200
        return headers.get("content-encoding"), answer
    plain = ask("gzip, deflate")
    assert plain[0] is None, "it costs more than it saves, unless the client prefers it"
    packed = ask("gzip, identity;q=0.5")
    assert packed[0] == "gzip" and len(packed[1]) < len(plain[1]) / 3
    assert gzip.decompress(packed[1]) == plain[1]


def test_messages_that_are_too_long(envd):
    size = (4 << 20) + 100
    status, _, answer = envd.request("POST", "/process.Process/List", b" " * size,
                                     {"Content-Type": "application/json"})
    assert (status, json.loads(answer)["code"]) == (429, "resource_exhausted")
    stream = envd.stream("Start", struct.pack(">BI", 0, size))
    assert list(stream) == [] and stream.end["error"]["code"] == "resource_exhausted"
    stream.close()


# ---- what a call must be


@pytest.mark.parametrize("path,unary", [("/process.Process/List", True), ("/process.Process/Start", False),
                                        ("/process.Process/StreamInput", False)])
def test_types_and_methods(envd, path, unary):
    both = (["application/json", "application/proto"] if unary
            else ["application/connect+json", "application/connect+proto"])
    for wrong in ("application/xml", "application/grpc", "application/jsonx",
                  "application/connect+json" if unary else "application/json"):
        status, headers, _ = envd.request("POST", path, b"{}", {"Content-Type": wrong})
        assert (status, headers["accept-post"]) == (415, ", ".join(both)), wrong
    status, headers, _ = envd.request("POST", path, b"{}")
    assert status == 415
    for method in ("GET", "PUT", "DELETE"):
        status, headers, _ = envd.request(method, path, None, {"Content-Type": both[0]})
        assert (status, headers["allow"]) == (405, "POST")


def test_protocol_version_and_timeout_headers(envd):
    for headers in ({"Connect-Protocol-Version": "2"}, {"Connect-Timeout-Ms": "12345678901"},
                    {"Connect-Timeout-Ms": "-1"}, {"Connect-Timeout-Ms": "1s"}):
        status, answer = envd.rpc("process.Process/List", headers=headers)
        assert (status, answer["code"]) == (400, "invalid_argument"), headers
        assert Result(envd.stream("Start", sh("exit"), headers)).error["code"] == "invalid_argument"
    assert envd.rpc("process.Process/List", headers={"Connect-Protocol-Version": "1",
                                                     "Connect-Timeout-Ms": "9999999999"})[0] == 200


def test_a_unary_call_ends_at_its_deadline(envd):
    stream = envd.begin("/bin/sleep", "60", request={"stdin": True})
    body = json.dumps({"process": {"pid": stream.pid}, "input": {"stdin": "AAAA" * 100000}})
    began = time.monotonic()
    status, answer = envd.json("POST", "/process.Process/SendInput", body,
                               {"Content-Type": "application/json", "Connect-Timeout-Ms": "300"})
    assert (status, answer["code"]) == (504, "deadline_exceeded")
    assert time.monotonic() - began > 0.25
    assert envd.listed(stream.pid), "the process is not the call's"
    stream.close()


def test_a_unary_call_that_waits_does_not_hold_the_end_of_envd(envd):
    stream = envd.begin("/bin/sleep", "60", request={"stdin": True})
    body = json.dumps({"process": {"pid": stream.pid}, "input": {"stdin": "AAAA" * 100000}})
    s = envd.connect()
    s.sendall((f"POST /process.Process/SendInput HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
               f"Connect-Timeout-Ms: 3600000\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
    wait_for(lambda: envd.listed(stream.pid))
    envd.stop()  # within its limit
    s.close()


# ---- who may call


def test_token_and_user_in_every_codec(envd):
    assert envd.init(accessToken="the token")[0] == 204
    peer = Peer(envd)
    for call in (lambda h: peer.call("List", headers=h),
                 lambda h: list(peer.stream("Start", headers=h, **sh("exit")))):
        with pytest.raises(ConnectError):
            call({})
        call({"X-Access-Token": "the token"})
    status, headers, body = envd.request("POST", "/process.Process/List", b"", PROTO)
    assert (status, json.loads(body)["code"]) == (401, 401)
    assert headers["content-type"] == "application/json; charset=utf-8"
    known = {"X-Access-Token": "the token", "Authorization": "Basic bm9zdWNoOg=="}
    status, _, body = envd.request("POST", "/filesystem.Filesystem/ListDir", b"", {**PROTO, **known})
    assert (status, json.loads(body)) == (401, {"code": "unauthenticated",
                                                "message": "invalid username: 'nosuch'"})
    with pytest.raises(ConnectError) as unknown:
        list(peer.stream("Start", headers=known, **sh("exit")))
    assert unknown.value.code == Code.UNAUTHENTICATED
    peer.close()


@pytest.mark.parametrize("method,path", [("POST", "/process.Process/List"), ("GET", "/health"), ("GET", "/metrics"),
                                         ("GET", "/files?path=/etc/hostname"), ("GET", "/no/such/path"),
                                         ("POST", "/process.Process/NoSuch")])
def test_browsers_may_call_everything(envd, method, path):
    origin = {"Origin": "https://example.com"}
    status, headers, body = envd.request("OPTIONS", path, None, {
        **origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "x-access-token"})
    assert (status, body) == (204, b"")
    assert headers["access-control-allow-origin"] == "*" and method in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "x-access-token"
    assert headers["access-control-max-age"] == "7200"
    _, headers, _ = envd.request(method, path, "{}" if method == "POST" else None,
                                 {**origin, "Content-Type": "application/json"})
    assert headers["access-control-allow-origin"] == "*"
    exposed = [name.strip().lower() for name in headers["access-control-expose-headers"].split(",")]
    assert {"location", "cache-control", "x-content-type-options", "connect-content-encoding"} <= set(exposed)


def test_unknown_paths(envd):
    for method in ("GET", "POST"):
        for path in ("/", "/nope", "/process.Process/Nope", "/process.Process"):
            assert envd.request(method, path)[0] == 404
