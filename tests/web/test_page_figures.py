# SPDX-License-Identifier: Apache-2.0
"""Measures the page, for docs/web.md: what it loads, how soon it shows, and how soon a terminal answers. Each time is
beside that of a baseline in the same run. Nothing here fails because something took long."""

import http.server
import json
import os
import statistics
import subprocess
import threading
import time

from conftest import SCREENS, until
from harness import BIN

ROUNDS = 7
VIEWS = 20


class Empty(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"<p>row</p>")

    def log_message(self, *args):
        pass


# Milliseconds from the navigation to the frame after the selector is there.
SHOWN = """selector => new Promise(done => {
    const look = () => document.querySelector(selector) ? requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0)) : setTimeout(look, 1);
    look();
})"""


def wire(request):
    """Bytes of the answer; 0 if a reload cut it off."""
    if request.failure or not request.response():
        return 0
    sizes = request.sizes()
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]


def views(tab, pages):
    """Medians of the pages' first views, by turns in one tab: a new tab also loads Chromium's own pages."""
    found = [[] for _ in pages]
    for _ in range(VIEWS):
        for times, (url, selector) in zip(found, pages):
            tab.goto(url, wait_until="commit")
            times.append(tab.evaluate(SHOWN, selector))
            tab.goto("about:blank")
    return [statistics.median(times) for times in found]


def first_output(command, env):
    """Seconds until a terminal shows a prompt, with `cubby shell` in a terminal of this host."""
    ours, theirs = os.openpty()
    began = time.monotonic()
    process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    text = b""
    while b"$ " not in text:
        text += os.read(ours, 65536)
    took = time.monotonic() - began
    process.kill()
    process.wait()
    os.close(ours)
    return took * 1000


def test_figures(page, daemon, web):
    made = daemon.create(timeout=900)
    page.open()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    figures = {}
    first, empty = views(page.tab, [(f"http://{web.host}/", "#list .row"), (f"http://127.0.0.1:{server.server_port}/", "p")])
    server.shutdown()
    page.faults = [fault for fault in page.faults if f"//127.0.0.1:{server.server_port}/" not in fault]
    figures["first view, ms"] = first
    figures["an empty page of Python's http.server, ms"] = empty
    page.tab.goto(f"http://{web.host}/")
    page.tab.wait_for_selector("#list .row")
    del page.requests[:]
    page.tab.reload()
    page.tab.wait_for_selector("#list .row")
    figures["first view, requests and bytes"] = [len(page.requests), sum(map(wire, page.requests))]
    page.choose(made["sandboxID"])
    shown, shell, echo = [], [], []
    prompt = "() => [...document.querySelectorAll('.shell:not([hidden]) .xterm-rows > div')].some(e => e.textContent.includes('$'))"
    for _ in range(ROUNDS):
        page.tab.click("#tab-overview")
        page.tab.reload()
        page.tab.wait_for_selector(".cards")
        for process in daemon.rpc(made, "process.Process/List", {}).get("processes", []):
            if process.get("tag", "").startswith("web-"):
                daemon.rpc(made, "process.Process/SendSignal", {"process": {"pid": process["pid"]}, "signal": "SIGNAL_SIGKILL"})
        until(page.tab, lambda: "web-" not in json.dumps(daemon.rpc(made, "process.Process/List", {})))
        began = time.monotonic()
        page.tab.click("#tab-terminal")
        page.tab.wait_for_function(prompt, polling=5)
        shown.append((time.monotonic() - began) * 1000)
        shell.append(first_output([BIN / "cubby", "shell", made["sandboxID"]], daemon.env))
    for key in "abcdefghijklmnopqrstuvwxyz":
        began = time.monotonic()
        page.tab.keyboard.type(key)
        page.tab.wait_for_function(f"() => [...document.querySelectorAll('.xterm-rows > div')].some(e => e.textContent.replace(/\\s/g, '')"
                                   f".endsWith('$' + {'abcdefghijklmnopqrstuvwxyz'[:ord(key) - 96]!r}))", polling=1)
        echo.append((time.monotonic() - began) * 1000)
    figures["click to the first prompt, ms"] = statistics.median(shown)
    figures["cubby shell to the first prompt, ms"] = statistics.median(shell)
    figures["key to its letter on the page, ms"] = statistics.median(echo)
    files = {r.url: wire(r) for r in page.requests if r.url.endswith((".js", ".mjs", ".css", ".svg", "/"))}
    figures["all files, number and bytes"] = [len(files), sum(files.values())]
    figures["memory of cubby web, MB"] = web.rss() / 1e6
    SCREENS.mkdir(parents=True, exist_ok=True)
    (SCREENS / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
