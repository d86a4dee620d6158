# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium: signing in, the list with its live figures, create, pause, resume, kill, and its looks."""

import http.server
import json
import signal
import threading

import pytest

from conftest import Page, until
from web_server import Web

BUDGET = 250_000  # bytes over the wire, everything opened


def row_of(made):
    return f".row[data-id='{made['sandboxID']}']"


def test_the_link_signs_this_browser_in_and_no_other(page, context, chromium, web):
    page.open()
    assert web.token not in page.tab.url
    assert not context.cookies()
    page.tab.reload()
    page.tab.wait_for_selector("#list .empty")
    Page(context, web).open(f"http://{web.host}/")  # another tab of the same browser
    other = chromium.new_context().new_page()
    for link in (web.link, f"http://{web.host}/"):
        other.goto(link)
        other.wait_for_selector("text=This browser is not signed in.")
        assert "press Enter" in other.text_content("#detail")
    other.context.close()


def test_sandboxes_come_live_change_and_go(page, daemon):
    page.open()
    page.tab.wait_for_selector("text=No sandboxes yet.")
    page.screen("empty")
    made = daemon.create(metadata={"name": "busy"}, timeout=900)
    row = page.tab.locator(row_of(made))
    row.wait_for()
    assert row.locator(".title").text_content() == "busy"
    s = daemon.open_command(made, "while :; do :; done")
    until(page.tab, lambda: int(row.locator(".figure").nth(0).text_content().split("%")[0]) > 3, what="it is busy")
    assert row.locator(".figure").nth(1).text_content().endswith("MB")
    page.choose(made["sandboxID"])
    until(page.tab, lambda: int(page.tab.locator(".card strong").nth(0).text_content().rstrip("%")) > 3)
    assert page.tab.locator(".card .spark polyline").count() >= 2
    page.screen("overview")
    s.close()
    daemon.kill(made["sandboxID"])
    page.tab.wait_for_selector("text=This sandbox has ended.")
    page.tab.wait_for_selector("#detail .quiet:has-text('has ended: ')")  # and the daemon says why
    assert row.count() == 0


def test_create_pause_resume_kill(page, daemon):
    page.open()
    page.tab.click("#new")
    page.tab.wait_for_selector("dialog")
    page.screen("new")
    page.dialog(name="my box", network="none", timeout="900")
    page.tab.wait_for_selector(".head h2:has-text('my box')")
    made = daemon.request("GET", "/v2/sandboxes").json[0]
    assert made["metadata"] == {"name": "my box"}
    assert daemon.request("GET", f"/sandboxes/{made['sandboxID']}/network").json["policy"]["mode"] == "none"
    state = lambda: daemon.get(made["sandboxID"]).json["state"]  # noqa: E731
    page.tab.click("#tab-overview")
    page.tab.click(".head button:has-text('Pause')")
    page.says("Paused")
    page.tab.wait_for_selector(".head .state[data-state=paused]")
    assert state() == "paused"
    page.tab.click(".head button:has-text('Resume')")
    page.tab.wait_for_selector(".head .state[data-state=running]")
    assert state() == "running"
    page.tab.click(".head button:has-text('Kill')")
    page.tab.click("#ask-cancel")
    assert state() == "running"
    page.tab.click(".head button:has-text('Kill')")
    page.dialog()
    page.says("Killed")
    page.tab.wait_for_selector("text=This sandbox has ended.")
    assert daemon.get(made["sandboxID"]).status == 404


def test_an_error_says_what_to_do(page):
    page.open()
    page.tab.route("**/api/v2/templates*", lambda route: route.fulfill(status=200, body="[]"))
    page.tab.click("#new")
    page.says("cubby setup")


def test_names_are_text(page, daemon):
    """Metadata is an agent's: markup, marks that turn the line around, a very long name."""
    evil = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    turned = "safe\u202etxt.exe\u2066\x1b[31m\n"
    long = "x" * 2000
    made = [daemon.create(metadata={"name": text, text[:60]: text}, timeout=900) for text in (evil, turned, long)]
    page.open()
    for one, text in zip(made, (evil, "safe\\u{202e}txt.exe\\u{2066}\\u{1b}[31m\\u{a}", long)):
        page.choose(one["sandboxID"], "overview")
        assert page.tab.locator(".head h2 bdi").text_content() == text
        assert page.tab.locator(row_of(one) + " .title").text_content() == text
        page.tab.wait_for_selector("dd bdi")
        page.check_layout()
    page.screen("names")
    assert page.tab.title() == "Cubby" and page.tab.locator("main img, main script").count() == 0


def test_keys_alone(page, daemon):
    first, second = (daemon.create(metadata={"name": n}, timeout=900)["sandboxID"] for n in ("one", "two"))
    page.open()
    page.tab.wait_for_selector(f".row[data-id='{first}']")
    page.tab.wait_for_selector(f".row[data-id='{second}']")
    focus = lambda js: page.tab.evaluate(f"document.activeElement.{js}")  # noqa: E731
    page.tab.keyboard.press("Tab")
    assert focus("className") == "skip"
    for _ in range(3):
        page.tab.keyboard.press("Tab")
    assert focus("dataset.id") == second  # the newest comes first
    page.tab.keyboard.press("ArrowDown")
    assert focus("dataset.id") == first
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector(".head h2:has-text('one')")
    assert page.tab.locator(".row[aria-current=true]").get_attribute("data-id") == first
    page.tab.focus("#tab-overview")
    page.tab.keyboard.press("End")
    assert focus("id") == "tab-log"
    page.tab.wait_for_selector(".log li")
    page.tab.keyboard.press("ArrowLeft")
    page.tab.wait_for_selector("#tab-calls[aria-selected=true]:focus")
    page.tab.focus(".head button:has-text('Kill')")
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector("dialog")
    page.tab.keyboard.press("Escape")
    page.tab.wait_for_selector("dialog", state="detached")


def test_every_control_has_a_name(page, daemon):
    made = daemon.create(timeout=900)
    page.open().choose(made["sandboxID"])
    nameless = """[...document.querySelectorAll('button, input:not([hidden]), select, textarea, a, [role=tab]')].filter(e => e.offsetParent &&
        !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)"""
    for tab in ("overview", "terminal", "files", "network", "ports", "snapshots", "log"):
        page.tab.click(f"#tab-{tab}")
        page.tab.wait_for_selector(f".panel-{tab} > *")
        if tab == "files":
            page.tab.wait_for_selector(".files table, .files .empty")
        assert page.tab.evaluate(nameless) == [], tab
        assert page.tab.get_attribute("#panel", "aria-labelledby") == f"tab-{tab}"
    assert page.tab.get_attribute("html", "lang") == "en"


def contrast(page, selector):
    return page.tab.evaluate("""selector => {
        const parse = c => c.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
        const element = document.querySelector(selector);
        let at = element, ground = [0, 0, 0, 0];
        for (; at && (ground.length > 3 && ground[3] === 0); at = at.parentElement) ground = parse(getComputedStyle(at).backgroundColor);
        const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground)];
        return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    }""", selector)


def test_dark_and_light(page, daemon):
    made = daemon.create(timeout=900)
    page.tab.emulate_media(reduced_motion="reduce")  # a colour that is on its way to the other theme is not judged
    page.open().choose(made["sandboxID"], "overview")
    ground = lambda: page.tab.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    seen = {}
    for theme in ("system", "light", "dark"):
        seen[theme] = ground()
        for selector in ("body", "#host", "#new", ".head .state", "dt", ".head .danger", "[role=tab]"):
            page.tab.wait_for_selector(selector)
            assert contrast(page, selector) >= 4.5, (theme, selector, contrast(page, selector))
        page.screen(f"theme-{theme}")
        page.tab.click("#theme")
    assert seen["system"] == seen["light"] != seen["dark"]
    page.tab.emulate_media(color_scheme="dark")
    assert ground() == seen["dark"]


def test_a_narrow_window(page, daemon):
    made = daemon.create(timeout=900)
    page.tab.set_viewport_size({"width": 380, "height": 760})
    page.open().choose(made["sandboxID"], "overview")
    for tab in ("overview", "network", "snapshots", "log"):
        page.tab.click(f"#tab-{tab}")
        page.tab.wait_for_selector(f".panel-{tab} > *")
        page.screen(f"narrow-{tab}")


def test_it_is_small(page, daemon):
    """Everything the page can load, as it comes over the wire."""
    made = daemon.create(timeout=900)
    page.open().choose(made["sandboxID"], "terminal")
    page.tab.wait_for_selector(".xterm-rows")
    files = [r for r in page.requests if "/api/" not in r.url and "/box/" not in r.url and "/session" not in r.url]
    sizes = {r.url.split("/", 3)[3]: r.sizes()["responseBodySize"] + r.sizes()["responseHeadersSize"] for r in files}
    print(json.dumps(sizes, indent=1))
    assert sum(sizes.values()) < BUDGET, sizes


def test_cubby_web_ends_and_comes_again(page, daemon, web):
    made = daemon.create(timeout=900)
    page.open().choose(made["sandboxID"])
    web.process.send_signal(signal.SIGKILL)
    web.process.wait()
    page.tab.wait_for_selector("#banner:has-text('Start it again')")
    again = Web(daemon.env, "--port", str(web.port))
    try:
        assert again.host != web.host  # so the old tab hears nothing of it
        page.web = again
        page.tab.goto(again.link)
        page.tab.wait_for_selector(row_of(made))
        assert page.tab.is_hidden("#banner")
    finally:
        assert again.close() == 0


def test_the_daemon_ends_and_comes_again(page, daemon):
    made = daemon.create(timeout=900)
    page.open().choose(made["sandboxID"])
    daemon.stop(signal.SIGUSR1)  # the sandbox stays
    page.tab.wait_for_selector("#banner:has-text('cubbyd does not run')")
    page.screen("no-daemon")
    daemon.start()
    page.tab.wait_for_selector("#banner", state="hidden")
    page.tab.wait_for_selector(row_of(made))


def test_fifty_tabs(page, daemon, context, web):
    """A browser makes six requests at a time to one server; fifty tabs and a terminal still work."""
    made = daemon.create(timeout=900)
    page.open()
    tabs = [Page(context, web).open(f"http://{web.host}/") for _ in range(50)]
    page.choose(made["sandboxID"], "terminal")
    page.shows(r"\$$")
    page.type("echo $((6*7))\n")
    page.shows("^42$")
    for other in tabs:
        assert not other.faults
        other.tab.close()


class Earlier(http.server.BaseHTTPRequestHandler):
    """A server that had the port before: its service worker answers every navigation by a page that tells the address."""

    WORKER = b"""self.oninstall = () => self.skipWaiting();
        self.onactivate = event => event.waitUntil(self.clients.claim());
        const page = '<title>taken</title><script>document.title = "taken " + location.hash</script>';
        self.onfetch = event => event.respondWith(new Response(page, { headers: { 'Content-Type': 'text/html' } }));"""

    def do_GET(self):
        body = self.WORKER if self.path == "/worker.js" else b"<p>earlier</p>"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if self.path == "/worker.js" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_a_worker_of_an_earlier_page_at_this_port_sees_nothing(context, daemon):
    """A sandbox's tenant may choose the port, and have a page there before cubby web starts."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Earlier)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_port
    tab = context.new_page()
    for name in ("127.0.0.1", "localhost"):
        tab.goto(f"http://{name}:{port}/")
        tab.evaluate("navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => null)")
    server.shutdown()
    server.server_close()
    tab.goto(f"http://127.0.0.1:{port}/#x")  # nobody listens: the worker answers
    assert tab.title() == "taken #x"
    web = Web(daemon.env, "--port", str(port))
    try:
        page = Page(context, web).open()
        assert "taken" not in page.tab.title()
        assert web.send("POST", "/session", {"token": web.token})[0] == 401  # the page itself has used it
        assert not page.faults
    finally:
        assert web.close() == 0


@pytest.mark.parametrize("path", ["/app.js", "/xterm/xterm.mjs", "/api/sandboxes/stats", "/live"])
def test_a_page_of_another_origin_gets_nothing(page, context, daemon, path):
    """A page on another port of this host, as a sandbox's is: no script, no data, no socket, no frame."""
    daemon.create(timeout=900)
    page.open()
    stranger = context.new_page()
    stranger.route("http://127.0.0.1:9/**", lambda route: route.fulfill(status=200, content_type="text/html", body="<p>stranger</p>"))
    stranger.goto("http://127.0.0.1:9/")
    got = stranger.evaluate("""async ([host, path]) => {
        const url = `http://${host}${path}`;
        const script = await new Promise(done => { const s = document.createElement('script'); s.type = 'text/javascript'; s.src = url;
            s.onload = () => done('loaded'); s.onerror = () => done('refused'); document.body.append(s); });
        const read = await fetch(url).then(r => r.text(), () => 'refused');
        const blind = await fetch(url, { mode: 'no-cors', credentials: 'include' }).then(r => r.status || r.type, () => 'refused');
        const socket = await new Promise(done => { const w = new WebSocket(`ws://${host}/live`, ['cubby', 'key.0']);
            w.onopen = () => done('open'); w.onerror = () => done('refused'); });
        return [script, read, blind, socket];
    }""", [page.web.host, path])
    assert got[0] == "refused" and got[1] == "refused" and got[3] == "refused"
    assert got[2] in ("refused", "opaque")
