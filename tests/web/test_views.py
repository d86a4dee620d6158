# SPDX-License-Identifier: Apache-2.0
"""The views of cubby-mcp in Chromium, in a host made of the official package: real results of a real sandbox, and
hostile ones."""

import base64
import http.server
import os
import pathlib
import threading

import pytest

from conftest import SCREENS, until
from harness import Mcp

HOST = pathlib.Path(os.environ.get("APPS_HOST", "build/mcp-apps/host.mjs"))
SHOWS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
# What a host must use for a view that asks for nothing (the extension, "Host Behavior"). A frame inherits it.
POLICY = ("default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
          "media-src 'self' data:; connect-src 'none'")
PAGE = (b"<!doctype html><meta charset=utf-8><title>Host</title><style>body { margin: 20px } iframe { width: 720px; border: 0 }</style>"
        b"<body><script type=module src=/host.mjs></script>")


class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_script = self.path == "/host.mjs"
        body = HOST.read_bytes() if is_script else PAGE
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_script else "text/html")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def files():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def agent(daemon, tmp_path):
    """A client that shows views."""
    made = Mcp(daemon, cwd=tmp_path)
    assert "io.modelcontextprotocol/ui" in made.initialize(capabilities=SHOWS)["capabilities"]["extensions"]
    yield made
    assert made.close()[0] == 0


class Host:
    """A page with a view in it. No test may reach another address, or see a dialog or an error of a script."""

    def __init__(self, context, files, agent):
        self.tab = context.new_page()
        self.agent = agent
        self.faults = []
        self.tab.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.tab.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.tab.on("request", lambda r: r.url.startswith((files + "/", "data:", "about:srcdoc")) or self.faults.append(f"another host: {r.url}"))
        self.tab.goto(files + "/")
        # Playwright's own wait_for_function would need a policy that allows eval.
        until(self.tab, lambda: self.tab.evaluate("typeof window.showView") == "function", what="the host is loaded")

    def show(self, tool, context=None):
        """The frame of the tool's view, and its name."""
        listed = {t["name"]: t for t in self.agent.request("tools/list", {})["tools"]}
        uri = listed[tool]["_meta"]["ui"]["resourceUri"]
        html = self.agent.request("resources/read", {"uri": uri})["contents"][0]["text"]
        self.tab.evaluate("([html, context]) => showView(html, context)", [html, context or {"theme": "light"}])
        self.view = self.tab.frame_locator("iframe").locator("#view")
        return self.view

    def run(self, tool, **arguments):
        """Calls the tool, and gives the view what a host gives it."""
        result = self.agent.answer(self.agent.start_tool(tool, **arguments), 300)["result"]
        self.tab.evaluate("input => giveInput(input)", arguments)
        self.tab.evaluate("result => giveResult(result)", result)
        return result

    def give(self, result):
        self.tab.evaluate("result => giveResult(result)", result)

    def screen(self, name):
        SCREENS.mkdir(parents=True, exist_ok=True)
        self.tab.screenshot(path=SCREENS / f"{name}.png")


@pytest.fixture
def host(context, files, agent):
    made = Host(context, files, agent)
    yield made
    assert not made.faults, made.faults


@pytest.fixture
def box(daemon):
    return daemon.create(timeout=900)["sandboxID"]


def test_a_command_as_in_a_terminal(host, box):
    view = host.show("run_command")
    result = host.run("run_command", sandbox_id=box, command="printf 'a \\033[1;31mred\\033[0m word\\n50%%\\r100%%\\n'; echo bad >&2; exit 3")
    assert result["structuredContent"]["exit_code"] == 3
    view.locator(".end").wait_for()
    assert view.locator(".prompt").text_content().startswith("$ printf")
    assert view.locator("pre").nth(1).text_content() == "a red word\n100%\n"
    assert view.locator(".c1.bold").text_content() == "red"
    assert view.locator("pre.error").text_content() == "bad\n"
    assert view.locator(".end[data-failed]").text_content().startswith("exit status 3")
    until(host.tab, lambda: host.tab.evaluate("sizes.length && sizes.at(-1).height > 60"), what="the host knows its size")
    host.screen("app-output")


def test_a_figure(host, box):
    view = host.show("run_python_code", {"theme": "dark"})
    result = host.run("run_python_code", sandbox_id=box, code_block="import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.show()\nprint('plotted')")
    assert [c["type"] for c in result["content"]].count("image") == 1
    picture = view.locator("img.figure")
    picture.wait_for()
    until(host.tab, lambda: picture.evaluate("i => i.complete && i.naturalWidth > 100"), what="the picture is drawn")
    assert view.locator("pre").text_content() == "plotted\n"
    assert host.tab.frame_locator("iframe").locator("html").get_attribute("data-theme") == "dark"
    host.screen("app-figure")
    host.run("run_python_code", sandbox_id=box, code_block="1 / 0")
    view.locator("pre.error:has-text('ZeroDivisionError')").wait_for()
    assert view.locator("img").count() == 0


def test_hostile_output_is_text(host, box):
    view = host.show("run_command")
    attack = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    code = (f"printf '%s' '{attack}'; printf '\\033]0;title\\007\\033]8;;http://evil.example\\007link\\033]8;;\\007 \\342\\200\\256turned \\033[31'")
    host.run("run_command", sandbox_id=box, command=code)
    view.locator(".end").wait_for()
    shown = view.locator("pre").nth(1).text_content()
    assert attack in shown and "link \\u{202e}turned" in shown and "evil.example" not in shown and "\x1b" not in shown
    assert view.locator("img, script, a, iframe").count() == 0
    assert host.tab.title() == "Host"


def test_hostile_figures_are_not_shown(host, box):
    """Under the name of a picture: HTML, vectors with a script, an address, and a picture that would fill the memory."""
    view = host.show("run_python_code")
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60000).to_bytes(4, "big") * 2 + bytes(100)
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><image href='http://evil.example/x'/></svg>"
    pictures = [(svg, "image/svg+xml"), (b"<html><script>alert(1)</script>", "text/html"), (bomb, "image/png"), (b"\xff\xd8\xff", "image/jpeg")]
    blocks = [{"type": "image", "mimeType": kind, "data": base64.b64encode(data).decode()} for data, kind in pictures]
    blocks += [{"type": "image", "mimeType": "image/png", "data": "x\" onerror=\"alert(1)"}]
    host.give({"content": blocks + [{"type": "text", "text": "told"}], "structuredContent": {"stdout": "", "stderr": "<b>x</b>", "error": {"traceback": 7}}})
    view.locator(".quiet").nth(4).wait_for()
    assert view.locator("img, b, svg").count() == 0 and view.locator("pre").text_content() == "<b>x</b>"


def test_errors_and_odd_results(host):
    view = host.show("run_command")
    for result, text in [({"content": [{"type": "text", "text": "sandbox_not_found: there is no sandbox"}], "isError": True}, "sandbox_not_found"),
                         ({"content": [{"type": "text", "text": "as text only"}]}, "as text only"),
                         ({"content": [], "structuredContent": {"stdout": "only this", "exit_code": 0, "status": "exit status 0"}}, "only this")]:
        host.give(result)
        view.locator(f"pre:has-text('{text}')").wait_for()
    assert host.tab.evaluate("tearDown()") == {}


def test_the_theme_follows_the_host(host):
    view = host.show("run_command", {"theme": "light", "styles": {"variables": {"--color-text-primary": "rgb(1, 2, 3)", "background": "url(http://evil.example/)"}}})
    host.give({"content": [], "structuredContent": {"stdout": "x", "exit_code": 0, "status": "exit status 0"}})
    view.locator("pre").wait_for()
    assert view.locator("pre").evaluate("e => getComputedStyle(e).color") == "rgb(1, 2, 3)"
    host.tab.evaluate("changeTheme('dark')")
    until(host.tab, lambda: host.tab.frame_locator("iframe").locator("html").get_attribute("data-theme") == "dark", what="it is dark")


def test_much_output_does_not_stop_the_browser(host):
    view = host.show("run_command")
    host.give({"content": [], "structuredContent": {"stdout": "\x1b[31mx\x1b[0m" * 50000 + "\x1b]" * 50000, "exit_code": 0, "status": "exit status 0"}})
    view.locator(".end").wait_for(timeout=60000)
    assert view.locator("span").count() <= 4000
