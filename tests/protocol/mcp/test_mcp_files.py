# SPDX-License-Identifier: Apache-2.0
"""The tools that move files: directories, limits, and paths that must not be reached."""

import http.server
import json
import os
import pathlib
import socket
import threading
import urllib.parse

import jsonschema
import mcp_backend
import pytest
from harness import wait_for
from mcp_stdio import backend, server, start  # noqa: F401

SCHEMAS = {t["name"]: t for t in json.loads(
    (pathlib.Path(__file__).parents[3] / "schemas/tools.json").read_text())}
UPLOAD = "upload_file_from_local_to_sandbox"
INTERNET = "download_file_from_internet_to_sandbox"
LOCAL = "download_file_from_sandbox_to_local"


def good(server, tool, **arguments):
    result = server.result(tool, **arguments)
    assert not result.get("isError"), result
    jsonschema.validate(result["structuredContent"], SCHEMAS[tool]["outputSchema"])
    return result["structuredContent"]


# ---- upload
def test_upload(server, backend, tmp_path):
    (tmp_path / "a b.txt").write_bytes(b"\x00\xffdata")
    sandbox = backend.sandbox()
    got = good(server, UPLOAD, sandbox_id=sandbox, local_file_path=str(tmp_path / "a b.txt"))
    assert (got["path"], got["bytes"]) == ("/home/user/a b.txt", 6)
    assert (backend.files / "a b.txt").read_bytes() == b"\x00\xffdata"
    text = server.text(UPLOAD, sandbox_id=sandbox, local_file_path="a b.txt")
    assert text == "File uploaded to /home/user/a b.txt (6 bytes)"


@pytest.mark.parametrize("wanted, path", [
    ("/home/user", "/home/user/f.csv"), ("/home/user/", "/home/user/f.csv"),
    ("/home/user/new/deep", "/home/user/new/deep/f.csv"), ("/home/user/x.d/", "/home/user/x.d/f.csv"),
    ("/home/user/g.csv", "/home/user/g.csv"), ("/home/user/is.dir", "/home/user/is.dir/f.csv"),
    ("/home/user/.hidden", "/home/user/.hidden/f.csv"), ("rel", "rel/f.csv")])
def test_upload_place(server, backend, tmp_path, wanted, path):
    (tmp_path / "f.csv").write_text("x")
    (backend.files / "is.dir").mkdir()
    got = good(server, UPLOAD, sandbox_id=backend.sandbox(), local_file_path="f.csv",
               sandbox_file_path=wanted)
    assert got["path"] == path
    name = path.removeprefix("/home/user/")
    assert (backend.files / name).read_text() == "x"


@pytest.mark.parametrize("wanted, path", [
    ("/home/user/Makefile", "/home/user/Makefile"), ("/home/user/sub", "/home/user/sub/Makefile"),
    ("/home/user/Makefile/", "/home/user/Makefile/Makefile"), ("/home/user/of/Makefile", "/home/user/of/Makefile/Makefile")])
def test_upload_place_of_a_file_without_extension(server, backend, tmp_path, wanted, path):
    """The file keeps its name, except where a directory has that name."""
    (tmp_path / "Makefile").write_text("all:")
    (backend.files / "of/Makefile").mkdir(parents=True)
    assert good(server, UPLOAD, sandbox_id=backend.sandbox(), local_file_path="Makefile",
                sandbox_file_path=wanted)["path"] == path
    assert (backend.files / path.removeprefix("/home/user/")).read_text() == "all:"


def test_upload_of_an_empty_and_of_a_big_file(server, backend, tmp_path):
    sandbox = backend.sandbox()
    (tmp_path / "empty").write_bytes(b"")
    assert good(server, UPLOAD, sandbox_id=sandbox, local_file_path="empty")["bytes"] == 0
    data = os.urandom(1 << 20) * 40
    (tmp_path / "big").write_bytes(data)
    assert good(server, UPLOAD, sandbox_id=sandbox, local_file_path="big")["bytes"] == len(data)
    assert (backend.files / "big").read_bytes() == data
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    if "asan" not in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text():
        assert int(status.split("VmHWM:")[1].split()[0]) < 32 * 1024


@pytest.fixture
def places(tmp_path):
    """A working directory with links that lead out of it, and a secret outside."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / "sub").mkdir()
    (inside / "sub/file").write_text("fine")
    (inside / "link").symlink_to("../outside/secret")
    (inside / "absolute").symlink_to(outside / "secret")
    (inside / "linked").symlink_to("../outside")
    (inside / "good").symlink_to("sub/file")
    os.mkfifo(inside / "fifo")
    return inside, outside


@pytest.mark.parametrize("path", [
    "../outside/secret", "link", "absolute", "linked/secret", "sub/../../outside/secret",
    "{outside}/secret", "{inside}/../outside/secret", "{inside}/link", "/etc/passwd", "/proc/self/environ",
    "{inside}x", "/", "//etc/passwd"])
def test_upload_does_not_leave_its_directories(start, backend, places, path):
    inside, outside = places
    server = start(cwd=inside)
    text = server.error(UPLOAD, sandbox_id=backend.sandbox(),
                        local_file_path=path.format(inside=inside, outside=outside))
    assert text.startswith("local_path_denied: ") and "or to allow its directory (--local-dir of cubby-mcp)" in text
    assert backend.requests == []


@pytest.mark.parametrize("path", ["sub/file", "good", "sub/../sub/file", "./sub//file",
                                  "{inside}/sub/file", "{inside}/good"])
def test_upload_within(start, backend, places, path):
    server = start(cwd=places[0])
    good(server, UPLOAD, sandbox_id=backend.sandbox(), local_file_path=path.format(inside=places[0]))


@pytest.mark.parametrize("path, code", [
    ("missing", "local_file_not_found"), ("sub", "local_file_unusable"),
    ("fifo", "local_file_unusable"), (".", "local_file_unusable")])
def test_upload_of_what_is_no_file(start, backend, places, path, code):
    server = start(cwd=places[0])
    assert server.error(UPLOAD, sandbox_id=backend.sandbox(), local_file_path=path).startswith(code)


def test_more_directories(start, backend, places, tmp_path):
    inside, outside = places
    sandbox = backend.sandbox()
    alias = tmp_path / "alias"
    alias.symlink_to(outside)
    server = start("--local-dir", outside, "--local-dir", tmp_path / "missing", cwd=inside)
    good(server, UPLOAD, sandbox_id=sandbox, local_file_path=str(outside / "secret"))
    server = start("--local-dir", alias, cwd=inside)
    good(server, UPLOAD, sandbox_id=sandbox, local_file_path=str(alias / "secret"))
    good(server, UPLOAD, sandbox_id=sandbox, local_file_path=str(outside / "secret"))


def test_a_directory_that_is_missing_is_told_at_the_start(start, tmp_path):
    server = start("--local-dir", tmp_path / "typo", cwd=tmp_path)
    server.initialize()
    assert f'dir={tmp_path}/typo error="No such file or directory": tools cannot use it' in server.stderr()


def test_the_root_directory_is_not_opened_by_accident(start, backend):
    server = start(cwd="/")
    for tool, path in (UPLOAD, "local_file_path"), (LOCAL, "sandbox_file_path"):
        text = server.error(tool, sandbox_id=backend.sandbox(), **{path: "etc/passwd"})
        assert text.startswith("local_path_denied: no local directory is allowed") and text.count("--local-dir") == 1
        assert "local_filename" not in text


def test_started_in_the_root_directory_with_one_that_is_allowed(start, backend, tmp_path):
    """Desktop clients start servers this way."""
    sandbox = backend.sandbox()
    (backend.files / "r.txt").write_text("x")
    server = start("--local-dir", tmp_path, cwd="/")
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="r.txt")
    assert got["path"] == str(tmp_path / f"sandbox_{sandbox}_r.txt")
    good(server, UPLOAD, sandbox_id=sandbox, local_file_path=got["path"])
    assert server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="r.txt", local_filename="/srv/x").endswith(
        "Give local_filename a plain name, or ask the user to allow the directory (--local-dir of cubby-mcp)")


# ---- download to local
def test_download(server, backend, tmp_path):
    sandbox = backend.sandbox()
    (backend.files / "r.txt").write_bytes(b"report\xff")
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/r.txt")
    assert got["path"] == str(tmp_path / f"sandbox_{sandbox}_r.txt") and got["bytes"] == 7
    assert pathlib.Path(got["path"]).read_bytes() == b"report\xff"
    assert [p.name for p in tmp_path.iterdir()] == [f"sandbox_{sandbox}_r.txt"]


def test_download_replaces_as_a_whole(server, backend, tmp_path):
    sandbox = backend.sandbox()
    target = tmp_path / f"sandbox_{sandbox}_r.txt"
    target.write_text("old")
    (backend.files / "r.txt").write_text("new")
    old = os.open(target, os.O_RDONLY)
    good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="r.txt")
    assert target.read_text() == "new" and os.read(old, 10) == b"old"
    os.close(old)
    server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="missing", local_filename="r.txt")
    assert target.read_text() == "new"


@pytest.mark.parametrize("name", [None, "", "  ", "other.txt"])
def test_download_name(server, backend, tmp_path, name):
    sandbox = backend.sandbox()
    (backend.files / "r.txt").write_text("x")
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/r.txt",
               local_filename=name)
    want = name if name and name.strip() else "r.txt"
    assert got["path"] == str(tmp_path / f"sandbox_{sandbox}_{want}")


def test_download_to_logs(start, backend, tmp_path):
    sandbox = backend.sandbox()
    (backend.files / "r.txt").write_text("x")
    server = start(cwd=tmp_path, LOGS_DIR="./logs")
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/r.txt")
    where = tmp_path / "logs/tmpfiles" / f"sandbox_{sandbox}_r.txt"
    assert where.read_text() == "x" and os.path.samefile(got["path"], where)
    (tmp_path / "d").mkdir()
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="r.txt", local_filename="d/n.txt")
    assert got["path"] == str(tmp_path / "d/n.txt")


@pytest.mark.parametrize("name", [
    "../x", "/etc/x", "linked/x", "{outside}/x", "sub/../../outside/x", "..", "sub/..", "missing/x",
    "n" * 300])
def test_download_does_not_leave_its_directories(start, backend, places, name):
    inside, outside = places
    (backend.files / "r.txt").write_text("x")
    server = start(cwd=inside)
    before = sorted(p.name for p in inside.iterdir()), sorted(p.name for p in outside.iterdir())
    result = server.result(LOCAL, sandbox_id=backend.sandbox(), sandbox_file_path="r.txt",
                           local_filename=name.format(outside=outside))
    if name == "..":  # a name like any other once the sandbox's id is before it
        assert not result.get("isError")
        return
    assert result["isError"]
    assert before == (sorted(p.name for p in inside.iterdir()),
                      sorted(p.name for p in outside.iterdir()))


@pytest.mark.parametrize("name", ["./a.txt", "{inside}/a.txt", "sub/file", "./good", "./dangling",
                                  "./sub", "./fifo"])
def test_download_to_a_path_replaces_nothing(start, backend, places, name):
    inside, _ = places
    (inside / "a.txt").write_text("mine")
    (inside / "dangling").symlink_to("nowhere")
    (backend.files / "r.txt").write_text("new")
    server = start(cwd=inside)
    before = sorted(p.name for p in inside.iterdir())
    text = server.error(LOCAL, sandbox_id=backend.sandbox(), sandbox_file_path="r.txt",
                        local_filename=name.format(inside=inside))
    assert text.startswith("local_file_exists: ")
    assert text.endswith(" already exists; choose another local_filename")
    assert (inside / "a.txt").read_text() == "mine" and (inside / "sub/file").read_text() == "fine"
    assert sorted(p.name for p in inside.iterdir()) == before
    assert not backend.requests


def test_download_to_a_name_that_appears_meanwhile(start, backend, tmp_path, monkeypatch):
    server, gate = start(cwd=tmp_path), threading.Event()

    def half(handler, query):
        handler.send_response(200)
        handler.send_header("Content-Length", "8")
        handler.end_headers()
        handler.wfile.write(b"half")
        gate.wait(60)
        handler.wfile.write(b"more")

    monkeypatch.setattr(mcp_backend.Handler, "read_file", half)
    request = server.start_tool(LOCAL, sandbox_id=backend.sandbox(), sandbox_file_path="slow",
                                local_filename="./mine")
    wait_for(lambda: list(tmp_path.glob(".cubby-*.part")), what="it is being written")
    (tmp_path / "mine").write_text("mine")
    gate.set()
    text = server.answer(request)["result"]["content"][-1]["text"]
    assert text.startswith("local_file_exists: ")
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("name, word", [
    ("./.mcp.json", ".mcp.json"), (".git/hooks/post-checkout", ".git"), ("sub/.vscode/x", ".vscode"),
    ("{inside}/.git/x", ".git"), ("./...", "..."), ("togit/post-checkout", ".git")])
def test_download_writes_no_hidden_names(start, backend, places, name, word):
    inside, _ = places
    for made in ".git/hooks", "sub/.vscode":
        (inside / made).mkdir(parents=True)
    (inside / "togit").symlink_to(".git/hooks")
    (backend.files / "r.txt").write_text("new")
    text = start(cwd=inside).error(LOCAL, sandbox_id=backend.sandbox(), sandbox_file_path="r.txt",
                                   local_filename=name.format(inside=inside))
    assert text.startswith(f"local_path_denied: '{word}' begins with '.'")
    assert not list((inside / ".git/hooks").iterdir()) and not (inside / ".mcp.json").exists()
    assert not backend.requests


def test_download_below_a_hidden_directory_that_is_allowed(start, backend, tmp_path):
    (tmp_path / ".work/sub").mkdir(parents=True)
    (backend.files / "r.txt").write_text("new")
    server = start("--local-dir", tmp_path / ".work", cwd=tmp_path)
    good(server, LOCAL, sandbox_id=backend.sandbox(), sandbox_file_path="r.txt",
         local_filename=f"{tmp_path}/.work/sub/r.txt")
    assert (tmp_path / ".work/sub/r.txt").read_text() == "new"


def test_download_of_a_name_with_control_characters(server, backend, tmp_path):
    sandbox = backend.sandbox()
    (backend.files / "a\n\x1b[2J\x7f.txt").write_text("x")
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="a\n\x1b[2J\x7f.txt")
    assert got["path"] == str(tmp_path / f"sandbox_{sandbox}_a__[2J_.txt")
    (tmp_path / "d").mkdir()
    text = server.text(LOCAL, sandbox_id=sandbox, sandbox_file_path="a\n\x1b[2J\x7f.txt",
                       local_filename="d/x\ny")
    assert text == f"File downloaded successfully to: {tmp_path}/d/x\\x0ay (1 bytes)"
    text = server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="a\n\x1b[2J\x7f.txt",
                        local_filename="d/x\ny")
    assert "d/x\\x0ay already exists" in text
    # nor one that reads as another, or that is no UTF-8 on the disk
    (backend.files / "a\u202egpj\u009b.\u200bsh").write_text("x")
    got = good(server, LOCAL, sandbox_id=sandbox, sandbox_file_path="a\u202egpj\u009b.\u200bsh")
    assert pathlib.Path(got["path"]).name == f"sandbox_{sandbox}_a___gpj__.___sh"


def test_download_to_a_name_that_is_too_long(server, backend, tmp_path):
    sandbox = backend.sandbox()
    (backend.files / ("n" * 250)).write_text("x")
    assert server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="n" * 250) == (
        "local_file_unusable: the file name is too long (279 bytes; at most 255)")


def test_download_over_a_link_replaces_the_link(start, backend, places):
    inside, outside = places
    sandbox = backend.sandbox()
    (backend.files / "r.txt").write_text("new")
    (inside / f"sandbox_{sandbox}_r.txt").symlink_to(outside / "secret")
    good(start(cwd=inside), LOCAL, sandbox_id=sandbox, sandbox_file_path="r.txt")
    assert (outside / "secret").read_text() == "secret"
    assert (inside / f"sandbox_{sandbox}_r.txt").read_text() == "new"


def test_download_of_what_cannot_be(start, backend, tmp_path):
    server = start("--max-download-bytes", "10")
    sandbox = backend.sandbox()
    (backend.files / "dir").mkdir()
    (backend.files / "long").write_text("x" * 11)
    text = server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/missing")
    assert text == "file_not_found: there is no file or directory /home/user/missing in the sandbox"
    assert "directory" in server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/dir")
    assert server.error(LOCAL, sandbox_id=sandbox, sandbox_file_path="/home/user/long").startswith(
        "too_large: ")
    assert list(tmp_path.iterdir()) == []


# ---- download from the internet
class Site(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), SiteHandler)
        self.seen = []
        self.gate = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path, host="127.0.0.1"):
        return f"http://{host}:{self.server_address[1]}{path}"


class SiteHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def give(self, body, **headers):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.seen.append(self.path)
        path = urllib.parse.urlsplit(self.path).path
        if path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", urllib.parse.unquote(path[4:]))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/loop":
            self.send_response(301)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif path == "/named":
            self.give(b"named", Content_Disposition="attachment; filename=\"../n m.txt\"")
        elif path == "/slow":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"some")
            self.wfile.flush()
            self.server.gate.wait(20)
        elif path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"short")
        elif path.startswith("/big"):
            self.give(b"0123456789" * 1_000_000)
        elif path == "/404":
            self.send_error(404)
        else:
            self.give(b"data")


@pytest.fixture
def site():
    s = Site()
    yield s
    s.gate.set()
    s.shutdown()
    s.server_close()


@pytest.fixture
def allowed(start):
    return start("--allow-download-from", "127.0.0.1")


def test_fetch(allowed, backend, site):
    sandbox = backend.sandbox()
    got = good(allowed, INTERNET, sandbox_id=sandbox, url=site.url("/a/f.csv?q=1"))
    assert (got["path"], got["bytes"], got["url"]) == ("/home/user/f.csv", 4, site.url("/a/f.csv?q=1"))
    assert (backend.files / "f.csv").read_bytes() == b"data"
    text = allowed.text(INTERNET, sandbox_id=sandbox, url=site.url("/x.y"))
    assert text == "File downloaded to /home/user/x.y (4 bytes)"


@pytest.mark.parametrize("path, wanted, name", [
    ("/", None, "downloaded_file"), ("/a/", "/home/user/d", "d/downloaded_file"),
    ("/named", None, "n m.txt"), ("/x.txt", "/home/user/y.txt", "y.txt"),
    ("/to/%2Freal.txt", None, "real.txt"), ("/a%20b", None, "a b")])
def test_fetch_place(allowed, backend, site, path, wanted, name):
    more = {"sandbox_file_path": wanted} if wanted else {}
    got = good(allowed, INTERNET, sandbox_id=backend.sandbox(), url=site.url(path), **more)
    assert got["path"] == f"/home/user/{name}" and (backend.files / name).exists()


def test_fetch_big(allowed, backend, site):
    got = good(allowed, INTERNET, sandbox_id=backend.sandbox(), url=site.url("/big.bin"))
    assert got["bytes"] == 10_000_000
    assert (backend.files / "big.bin").read_bytes() == b"0123456789" * 1_000_000


def test_fetch_fails(start, backend, site):
    server = start("--allow-download-from", "127.0.0.0/8", "--max-download-bytes", "1000")
    sandbox = backend.sandbox()

    def error(path, **more):
        return server.error(INTERNET, sandbox_id=sandbox, url=site.url(path), **more)

    assert error("/404") == "http_error: the url answered HTTP 404 (Not Found)"
    assert error("/big").startswith("too_large: ") and "1000" in error("/big")
    assert "redirect" in error("/loop").lower()
    assert error("/slow", timeout=0.3).startswith("timeout: ")
    assert not error("/short").startswith("http_error")
    with socket.socket() as s:  # a port that is nobody else's, and closed
        s.bind(("127.0.0.1", 0))
        text = server.error(INTERNET, sandbox_id=sandbox, url=f"http://127.0.0.1:{s.getsockname()[1]}/")
    assert not text.startswith("denied")
    assert list(backend.files.iterdir()) == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "file:///etc/passwd", "x", "//h/x",
                                 "javascript:1", " http://h/"])
def test_fetch_other_schemes(server, backend, url):
    text = server.error(INTERNET, sandbox_id=backend.sandbox(), url=url)
    assert text.startswith("invalid_argument: invalid url")
    assert backend.requests == []


def test_fetch_empty_url(server, backend):
    assert server.error(INTERNET, sandbox_id=backend.sandbox(), url="") == (
        "invalid_argument: argument 'url' must not be empty")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433",
                                  "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "0177.0.0.1"])
def test_fetch_does_not_reach_this_machine(server, backend, site, host):
    text = server.error(INTERNET, sandbox_id=backend.sandbox(), url=site.url("/secret", host))
    assert text.startswith("denied: ") or host == "0177.0.0.1", text
    assert site.seen == []


def test_fetch_does_not_reach_this_machine_by_redirect(start, backend, site):
    """One address is allowed; it redirects to another that is not."""
    server = start("--allow-download-from", "127.0.0.1")
    target = urllib.parse.quote(site.url("/secret", "127.0.0.2"), safe="")
    text = server.error(INTERNET, sandbox_id=backend.sandbox(), url=site.url(f"/to/{target}"))
    assert text.startswith("denied: ")
    assert len(site.seen) == 1
    for scheme in "file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/":
        server.error(INTERNET, sandbox_id=backend.sandbox(),
                     url=site.url("/to/" + urllib.parse.quote(scheme, safe="")))
    assert list(backend.files.iterdir()) == []


def test_fetch_does_not_go_through_a_proxy_of_the_environment(start, backend, site):
    server = start("--allow-download-from", "127.0.0.1",
                   http_proxy=site.url(""), ALL_PROXY=site.url(""), HTTP_PROXY=site.url(""))
    server.error(INTERNET, sandbox_id=backend.sandbox(), url="http://192.0.2.1/x", timeout=2)
    assert site.seen == []


def test_fetch_for_an_unknown_sandbox_fetches_nothing(allowed, site):
    text = allowed.error(INTERNET, sandbox_id="q" * 20, url=site.url("/x"))
    assert text.startswith("sandbox_not_found: ")
    assert site.seen == []


def test_fetch_cancelled(allowed, backend, site):
    request = allowed.start_tool(INTERNET, sandbox_id=backend.sandbox(), url=site.url("/slow"))
    wait_for(lambda: site.seen, what="it is fetching")
    allowed.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    allowed.silent()
    assert list(backend.files.iterdir()) == []
