# SPDX-License-Identifier: Apache-2.0
"""A real Chromium on the page of a real `cubby web`, with sandboxes of a real cubbyd."""

import os
import pathlib
import re

import pytest
from playwright.sync_api import sync_playwright

from cubbyd import Shipped, wait_for
from web_server import Web

SCREENS = pathlib.Path(os.environ.get("WEB_SCREENS", "build/web-screens"))
CHROMIUM = ["--no-sandbox"] if os.getuid() == 0 else []


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def daemon():
    with Shipped("--pool", "off", tier=os.environ.get("CUBBY_TIER", "microvm")) as running:
        yield running


@pytest.fixture(autouse=True)
def clean(daemon):
    """Each test begins and ends without sandboxes and snapshots."""
    yield
    for sandbox in daemon.request("GET", "/v2/sandboxes?state=running,paused").json:
        daemon.kill(sandbox["sandboxID"])
    for snapshot in daemon.request("GET", "/snapshots").json:
        daemon.request("DELETE", f"/templates/{snapshot['snapshotID']}")


@pytest.fixture
def web(daemon):
    made = Web(daemon.env)
    yield made
    assert made.close() in (0, -9)


class Page:
    """A tab on the page, which fails the test if a script fails, a policy is violated or another host is asked."""

    def __init__(self, context, web):
        self.tab = context.new_page()
        self.web = web
        self.faults = []
        self.requests = []
        self.tab.set_default_timeout(30000)
        self.tab.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.tab.on("console", self.on_console)
        self.tab.on("request", self.on_request)

    def on_console(self, message):
        if "Content Security Policy" in message.text or "Refused to" in message.text:
            self.faults.append(f"policy: {message.text}")

    def on_request(self, request):
        self.requests.append(request)
        if not re.match(rf"(https?|ws)://{self.web.host}/|blob:http://{self.web.host}/", request.url):
            self.faults.append(f"another host: {request.url}")

    def open(self, link=None):
        self.tab.goto(link or self.web.link)
        self.tab.wait_for_selector("#list .row, #list .empty")
        return self

    def choose(self, sandbox, tab=None):
        self.tab.click(f".row[data-id='{sandbox}']")
        self.tab.wait_for_selector(f".head code:has-text('{sandbox}')")
        if tab:
            self.tab.click(f"#tab-{tab}")
        return self

    def says(self, text):
        """Waits for a message of the page."""
        self.tab.wait_for_selector(f"#toasts .toast:has-text({text!r})")

    def dialog(self, **values):
        for name, value in values.items():
            control = self.tab.locator(f"dialog [name={name}]")
            if control.evaluate("e => e.tagName") == "SELECT":
                control.select_option(value)
            else:
                control.fill(str(value))
        self.tab.click("dialog button[type=submit]")
        self.tab.wait_for_selector("dialog", state="detached")

    def screen(self, name):
        SCREENS.mkdir(parents=True, exist_ok=True)
        self.tab.screenshot(path=SCREENS / f"{name}.png")
        self.check_layout()

    def check_layout(self):
        """Gross errors: something wider than the window, or the parts of the page over each other."""
        wide = self.tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px wider than the window"
        boxes = [self.tab.locator(s).bounding_box() for s in ("header", "#list", "#detail")]
        assert all(b and b["width"] > 50 and b["height"] > 20 for b in boxes), boxes
        header, side, detail = boxes
        assert side["y"] >= header["y"] + header["height"] - 1
        assert detail["x"] >= side["x"] + side["width"] - 1 or detail["y"] >= side["y"] + side["height"] - 1

    # ---- the terminal
    def terminal(self):
        """The text of the terminal that is shown."""
        return self.tab.evaluate("[...document.querySelectorAll('.shell:not([hidden]) .xterm-rows > div')]"
                                 ".map(e => e.textContent.replace(/\\u00a0/g, ' ').trimEnd()).join('\\n')")

    def shows(self, pattern, seconds=60):
        """Waits until the terminal's text has the pattern."""
        found = []

        def look():
            found[:] = [m for m in [re.search(pattern, self.terminal(), re.M)] if m]
            if not found:
                self.tab.wait_for_timeout(50)  # Playwright's own loop must turn
            return bool(found)

        try:
            wait_for(look, seconds, f"{pattern!r} in the terminal")
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not in the terminal:\n{self.terminal()}") from None
        return found[0]

    def type(self, text):
        self.tab.keyboard.type(text)


@pytest.fixture
def context(chromium):
    made = chromium.new_context(viewport={"width": 1200, "height": 760}, color_scheme="light", accept_downloads=True)
    made.grant_permissions(["clipboard-read", "clipboard-write"])
    yield made
    made.close()


@pytest.fixture
def page(context, web):
    made = Page(context, web)
    yield made
    assert not made.faults, made.faults


@pytest.fixture
def make_page(context, web):
    return lambda: Page(context, web)


def until(tab, condition, seconds=60, what="the condition"):
    """Polls while the browser goes on."""
    def look():
        value = condition()
        if not value:
            tab.wait_for_timeout(50)
        return value
    return wait_for(look, seconds, what)
