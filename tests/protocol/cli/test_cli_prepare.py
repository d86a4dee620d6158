# SPDX-License-Identifier: Apache-2.0
"""cubby-mcp --prepare: the server answers at once, and tools tell what is still being prepared."""

import contextlib
import http.server
import os
import pathlib
import socketserver
import threading

import pytest

from harness import BIN
from mcp_stdio import backend, start  # noqa: F401  (fixtures)

SECRET = b"x" * 64


class Stalling(http.server.BaseHTTPRequestHandler):
    """Serves the beginning of an archive, and the rest when `go` is set."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(SECRET)
        self.wfile.flush()
        self.server.asked.set()
        self.server.go.wait(120)

    def log_message(self, *words):
        pass


class Threading(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


@contextlib.contextmanager
def stalling():
    server = Threading(("127.0.0.1", 0), Stalling)
    server.asked, server.go = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.go.set()
        server.shutdown()
        server.server_close()


def template(backend):
    directory = pathlib.Path(backend.home) / "templates/default"
    directory.mkdir(parents=True)
    (directory / "template.json").write_text("{}")


def programs(directory):
    """A PATH on which QEMU is there, as far as a preparation looks."""
    directory.mkdir(exist_ok=True)
    for name in "qemu-system-x86_64", "qemu-img":
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


@pytest.fixture
def nothing(backend, monkeypatch):  # noqa: F811
    """The environment of a user without a template."""
    monkeypatch.setenv("CUBBY_SYSTEM_TEMPLATES", "")
    return backend


def test_with_a_template_nothing_waits(nothing, start):  # noqa: F811
    template(nothing)
    server = start("--prepare")
    assert "sandbox" in server.text("list_sandboxes").lower()
    assert not (nothing.home / "prepare.log").read_text()


def test_without_the_option_nothing_is_prepared(nothing, start):  # noqa: F811
    server = start()
    server.text("list_sandboxes")
    assert not (nothing.home / "prepare.log").exists()


def test_a_missing_qemu_is_told_with_its_command(nothing, start, tmp_path):  # noqa: F811
    server = start("--prepare", PATH="/nonexistent", CUBBY_QEMU="")
    said = server.error("list_sandboxes")
    if not os.path.exists("/usr/sbin/qemu-img"):
        assert said.startswith("not_prepared: ") and "QEMU is not installed" in said and "Tell the user" in said
        assert "sudo apt-get install qemu-system-x86 qemu-utils" in said
    template(nothing)  # the next call tries again
    server.text("list_sandboxes")


def test_tools_wait_and_tell_while_a_template_is_downloaded(nothing, start, tmp_path):  # noqa: F811
    with stalling() as web:
        url = f"http://127.0.0.1:{web.server_port}/default.cubby"
        server = start("--prepare", PATH=programs(tmp_path / "bin"), CUBBY_TEMPLATE_ARCHIVE=url, version=None)
        server.initialize("2025-11-25")  # at once: the download never ends
        assert web.asked.wait(60)
        assert server.call("tools/list", request_id="t")["result"]["tools"]
        pending = server.start_tool("list_sandboxes")
        server.call("ping", request_id="p")  # the server is not blocked
        web.go.set()  # the connection ends before the archive does
        said = server.answer(pending)["result"]
        text = said["content"][0]["text"]
        assert said["isError"] and text.startswith("not_prepared: ") and url in text
        assert "CUBBY_TEMPLATE_ARCHIVE" in text  # what to do without a network


@pytest.mark.timeout(120)
def test_a_call_that_has_waited_long_enough_says_what_is_done(nothing, start, tmp_path):  # noqa: F811
    with stalling() as web:
        url = f"http://127.0.0.1:{web.server_port}/default.cubby"
        server = start("--prepare", PATH=programs(tmp_path / "bin"), CUBBY_TEMPLATE_ARCHIVE=url)
        assert web.asked.wait(60)
        said = server.error("list_sandboxes")
        assert said.startswith("preparing: ") and 'taking over "default" for this user' in said and "again" in said
        other = start("--prepare", PATH=programs(tmp_path / "bin"), CUBBY_TEMPLATE_ARCHIVE=url)
        pending = other.start_tool("list_sandboxes")  # a second client waits for the same preparation
        template(nothing)
        web.go.set()
        assert "error" not in other.answer(pending) and "isError" not in (other.result("list_sandboxes"))


def test_a_cancelled_call_waits_no_longer(nothing, start, tmp_path):  # noqa: F811
    with stalling() as web:
        url = f"http://127.0.0.1:{web.server_port}/default.cubby"
        server = start("--prepare", PATH=programs(tmp_path / "bin"), CUBBY_TEMPLATE_ARCHIVE=url)
        assert web.asked.wait(60)
        request = server.start_tool("list_sandboxes")
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
        assert server.call("ping", request_id="p")["result"] == {}


def test_a_source_with_a_wrong_digest_is_refused(nothing, start, tmp_path):  # noqa: F811
    """An installation whose default.url names an archive, and a server that has another one."""
    installed = tmp_path / "i"
    (installed / "bin").mkdir(parents=True)
    for name in "cubby", "cubbyd", "cubby-mcp":
        (installed / "bin" / name).write_bytes((BIN / name).read_bytes())
        (installed / "bin" / name).chmod(0o755)
    shared = installed / "share/cubby/templates"
    shared.mkdir(parents=True)
    (tmp_path / "default.cubby").write_bytes(SECRET)
    handler = lambda *words: http.server.SimpleHTTPRequestHandler(*words, directory=str(tmp_path))  # noqa: E731
    with Threading(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True).start()
        (shared / "default.url").write_text(f"http://127.0.0.1:{web.server_port}/default.cubby {'0' * 64}\n")
        server = start("--prepare", PATH=programs(tmp_path / "bin"), program=installed / "bin/cubby-mcp")
        said = server.error("list_sandboxes")
        web.shutdown()
    assert said.startswith("not_prepared: ") and "default.cubby" in said
    assert not list((nothing.home / "cache").iterdir())
