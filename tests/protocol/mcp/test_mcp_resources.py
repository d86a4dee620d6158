# SPDX-License-Identifier: Apache-2.0
"""Files of sandboxes as resources, with a real envd. Numbers: reference/mcp.md, section 14."""

import base64
import json
import os

import pytest
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401
from mcp_stdio import META

MIB = 1024 * 1024


def uri_of(sandbox, path):
    return f"sandbox://{sandbox}{path}"


def read(server, uri):
    (content,) = server.call("resources/read", {"uri": uri})["result"]["contents"]
    assert content["uri"] == uri
    return content


def error(server, uri):
    return server.call("resources/read", {"uri": uri})["error"]


def test_text(server, sandbox, tmp_path):
    f = tmp_path / "x.txt"
    f.write_text("zwölf\n")
    content = read(server, uri_of(sandbox, f))
    assert content == {"uri": uri_of(sandbox, f), "mimeType": "text/plain", "text": "zwölf\n"}


def test_empty(server, sandbox, tmp_path):
    (tmp_path / "empty").touch()
    content = read(server, uri_of(sandbox, tmp_path / "empty"))
    assert content["text"] == "" and content["mimeType"] == "text/plain"


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe", bytes(range(256)) * 100])
def test_blob(server, sandbox, tmp_path, data):
    (tmp_path / "f").write_bytes(data)
    content = read(server, uri_of(sandbox, tmp_path / "f"))
    assert base64.b64decode(content["blob"], validate=True) == data
    assert content["mimeType"] == "application/octet-stream" and "text" not in content


@pytest.mark.parametrize("name, data, kind", [
    ("a.json", b"{}", "application/json"), ("A.MD", b"# x", "text/markdown"),
    ("a.csv", b"a,b", "text/csv"), ("a.csv", b"\0\xff", "application/octet-stream"),
    ("no-extension", b"\x89PNG\r\n\x1a\n\0", "image/png"), ("lies.txt", b"\xff\xd8\xff\xe0", "image/jpeg"),
    ("a.xlsx", b"PK\x03\x04\xff", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("a.unknown", b"text", "text/plain")])
def test_kind(server, sandbox, tmp_path, name, data, kind):
    (tmp_path / name).write_bytes(data)
    assert read(server, uri_of(sandbox, tmp_path / name))["mimeType"] == kind


def test_ways_to_write_a_uri(server, sandbox, tmp_path):
    f = tmp_path / "a b#c?d%e ü.txt"
    f.write_text("here")
    escaped = str(tmp_path) + "/a%20b%23c%3Fd%25e%20%C3%BC.txt"
    for path in (escaped, "/" + escaped, escaped.replace("/", "//"), escaped.replace("%20", " "),
                 escaped.replace("%C3%BC", "ü"), escaped.replace("%c3%bc", "ü"),
                 f"{tmp_path}/nothing/../.{escaped[len(str(tmp_path)):]}",
                 "/../../.." + escaped, "/%2e%2e" + escaped, "/" + escaped[1:].replace("/", "%2F")):
        assert read(server, uri_of(sandbox, path))["text"] == "here", path
    assert read(server, "SANDBOX" + uri_of(sandbox, escaped)[7:])["text"] == "here"


@pytest.mark.parametrize("wrong", [
    "", "sandbox:", "sandbox://", "sandbox:///x", "sandbox://none/x", "sandbox://ID?x", "sandbox://ID/a?b",
    "sandbox://ID/a#b", "sandbox://ID/a%00b", "sandbox://ID/%", "sandbox://ID/%4", "sandbox://ID/%zz",
    "sandbox://ID/%ff", "sandbox://ID:80/x", "sandbox://me@ID/x", "sandbox://ID/" + "x" * 5000,
    "sandbox://ID%2Fx", "file:///etc/passwd", "http://localhost/", "nonsense", "sandbox://ID/" + "/.." * 20000])
def test_no_uri_of_ours(server, fresh, sandbox, real, wrong):
    uri = wrong.replace("ID", sandbox)
    answer = error(server, uri)
    assert answer["code"] == -32002 and answer["data"] == {"uri": uri}
    answer = fresh.modern("resources/read", uri=uri)["error"]
    assert answer["code"] == -32602 and answer["data"] == {"uri": uri}
    assert real.requests == []


def test_not_there(server, fresh, real, sandbox, tmp_path):  # 22, 34
    real.end("e" * 20, "The sandbox ended on its own")
    for uri, why in ((uri_of(sandbox, tmp_path / "none"), "none"), (uri_of("u" * 20, "/x"), "not found"),
                     (uri_of("e" * 20, "/x"), "ended on its own")):
        answer = error(server, uri)
        assert answer["code"] == -32002 and answer["data"] == {"uri": uri} and why in answer["message"]
        assert fresh.modern("resources/read", uri=uri)["error"]["code"] == -32602


def test_params(server):
    for params in {}, {"uri": 7}, {"uri": None}:
        assert server.call("resources/read", params)["error"]["code"] == -32602


def test_directory(server, sandbox, tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "b c.txt").write_text("12345")
    os.symlink("dir", tmp_path / "link")
    content = read(server, uri_of(sandbox, tmp_path))
    assert content["mimeType"] == "application/json"
    listing = json.loads(content["text"])
    assert listing["path"] == str(tmp_path) and listing["truncated"] is False
    entries = {e["name"]: e for e in listing["entries"]}
    assert {n: e["type"] for n, e in entries.items()} == {
        "dir": "directory", "link": "directory", "b c.txt": "file"}
    assert entries["b c.txt"]["size"] == 5 and entries["b c.txt"]["modified"]
    assert entries["b c.txt"]["uri"] == uri_of(sandbox, tmp_path) + "/b%20c.txt"
    assert read(server, entries["b c.txt"]["uri"])["text"] == "12345"
    root = json.loads(read(server, f"sandbox://{sandbox}")["text"])
    assert {e["uri"] for e in root["entries"]} >= {uri_of(sandbox, "/etc"), uri_of(sandbox, "/usr")}


def test_long_directory(server, sandbox, tmp_path):
    for i in range(1001):
        (tmp_path / f"{i:04}").touch()
    listing = json.loads(read(server, uri_of(sandbox, tmp_path))["text"])
    assert listing["truncated"] is True and len(listing["entries"]) == 1000


def test_large_file(server, sandbox, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"x" * (4 * MIB))
    assert len(read(server, uri_of(sandbox, f))["text"]) == 4 * MIB
    f.write_bytes(b"x" * (4 * MIB + 1))
    answer = error(server, uri_of(sandbox, f))
    assert answer["code"] == -32603 and answer["data"]["uri"] == uri_of(sandbox, f)
    assert "4 MiB" in answer["message"] and "tool" in answer["message"]


def test_text_that_json_makes_long_is_a_blob(server, sandbox, tmp_path):
    """Clients take lines of up to 10 MiB."""
    data = {"short": b"\x01\x1b[0m" * 1000, "long": b"\x01" * (4 * MIB), "lines": b"\n\"" * (2 * MIB)}
    for name, content in data.items():
        (tmp_path / name).write_bytes(content)
    assert read(server, uri_of(sandbox, tmp_path / "short"))["text"].encode() == data["short"]
    assert read(server, uri_of(sandbox, tmp_path / "lines"))["text"].encode() == data["lines"]
    assert base64.b64decode(read(server, uri_of(sandbox, tmp_path / "long"))["blob"]) == data["long"]


def test_read_is_private_and_stale_at_once(fresh, sandbox, tmp_path):
    (tmp_path / "f").touch()
    result = fresh.modern("resources/read", uri=uri_of(sandbox, tmp_path / "f"))["result"]
    assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (0, "private", "complete")


def test_list(server, fresh, real):
    assert server.call("resources/list")["result"] == {"resources": []}
    ids = sorted(real.sandbox() for _ in range(3))
    resources = server.call("resources/list")["result"]["resources"]
    assert [r["uri"] for r in resources] == [uri_of(i, "/home/user") for i in ids]
    assert [r["name"] for r in resources] == ids
    assert all(r["title"] and r["description"] and r["mimeType"] for r in resources)
    result = fresh.modern("resources/list")["result"]
    assert result["resources"] == resources
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


def test_pages(server, real):
    ids = sorted(real.sandbox() for _ in range(250))
    seen, cursor, pages = [], {}, 0
    while cursor is not None:
        result = server.call("resources/list", cursor)["result"]
        seen += [r["name"] for r in result["resources"]]
        cursor = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
        pages += 1
        if pages == 1:  # what goes in between is missed, and nothing else
            real.end(ids[99])
    assert (seen, pages) == (ids, 3)


def test_full_page_is_the_last(server, real):
    for _ in range(100):
        real.sandbox()
    result = server.call("resources/list")["result"]
    assert len(result["resources"]) == 100 and "nextCursor" not in result


@pytest.mark.parametrize("cursor", ["", "bogus", 7, None, "MCBmaWxlOi8vL3g=", "OSBzYW5kYm94Oi8veA==",
                                    "MSBzYW5kYm94Oi8veA==", "AAAA"])
def test_bad_cursor(server, cursor):
    for method in "resources/list", "resources/templates/list", "prompts/list", "tools/list":
        assert server.call(method, {"cursor": cursor})["error"]["code"] == -32602


def test_list_starts_no_daemon(start, tmp_path):
    server = start(CUBBY_HOME=str(tmp_path / "home"))
    assert server.call("resources/list")["result"] == {"resources": []}
    assert not (tmp_path / "home" / "cubbyd.log").exists()
    assert os.listdir(tmp_path / "home") == []


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_templates(start, version):
    server = start(version=version)
    (one,) = server.call("resources/templates/list")["result"]["resourceTemplates"]
    assert one["uriTemplate"] == "sandbox://{sandbox_id}/{+path}"
    assert one["name"] and one["description"]
    assert ("title" in one) == (version >= "2025-06-18")


def test_cancelled_read_is_silent(server, real, sandbox, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "f").write_text("x")
    for path in "fifo", "f":
        server.send({"jsonrpc": "2.0", "id": 5, "method": "resources/read",
                     "params": {"uri": uri_of(sandbox, tmp_path / path)}})
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        server.silent()


def test_both_eras_read_at_once(server, sandbox, tmp_path):  # 75
    for name in "abcdefgh":
        (tmp_path / name).write_text(name)
    for i, name in enumerate("abcdefgh"):
        params = {"uri": uri_of(sandbox, tmp_path / name)}
        server.send({"jsonrpc": "2.0", "id": i, "method": "resources/read",
                     "params": {**params, "_meta": META} if i % 2 else params})
    for _ in "abcdefgh":
        answer = server.line()
        assert answer["result"]["contents"][0]["text"] == "abcdefgh"[answer["id"]]
        assert ("ttlMs" in answer["result"]) == bool(answer["id"] % 2)


def test_neither_file_nor_directory(server, sandbox):
    answer = error(server, uri_of(sandbox, "/dev/zero"))
    assert answer["code"] == -32603 and "neither a file nor a directory" in answer["message"]
