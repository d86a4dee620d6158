# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium: what was done in a sandbox, as a timeline from its record."""

import json
import re

import pytest

from conftest import until


@pytest.fixture
def made(daemon):
    return daemon.create(timeout=900)


@pytest.fixture
def opened(page, made):
    return lambda tab: page.open().choose(made["sandboxID"], tab)


def entry(page, text):
    return page.tab.locator(f".calls li:has-text({json.dumps(text)})")


def test_calls_appear_with_their_output(opened, daemon, made):
    page = opened("calls")
    page.tab.wait_for_selector(".calls li:has-text('created')")
    daemon.command(made, "echo out of it; exit 3")
    call = entry(page, "echo out of it; exit 3")
    call.wait_for()
    until(page.tab, lambda: "exit status 3" in call.text_content(), what="its end is shown")
    assert call.locator("pre").text_content().rstrip("\n") == "out of it" and call.get_attribute("data-failed")
    assert "socket, as user" in call.text_content()
    page.screen("calls")
    page.tab.select_option("[aria-label=Calls]", "files")
    call.wait_for(state="hidden")
    page.tab.select_option("[aria-label=Calls]", "run")
    call.wait_for()


def test_the_newest_is_first_and_a_running_one_says_so(opened, daemon, made):
    page = opened("calls")
    s = daemon.open_command(made, "echo begun; sleep 1000")
    entry(page, "sleep 1000").wait_for()
    assert "running" in entry(page, "sleep 1000").text_content()
    assert "sleep 1000" in page.tab.locator(".calls li").first.text_content()
    s.close()
    until(page.tab, lambda: "client left" in entry(page, "sleep 1000").text_content(), what="its end is shown")


def test_hosts_of_a_call_are_shown(opened, daemon, made):
    page = opened("calls")
    daemon.request("PUT", f"/sandboxes/{made['sandboxID']}/network", {"mode": "allow", "allow": ["9.9.9.9"]})
    daemon.command(made, "bash -c 'echo one >/dev/udp/9.9.9.9/9; echo two >/dev/udp/8.8.8.8/9'")
    page.tab.select_option("[aria-label=Calls]", "network")
    for kind, text in (("allowed", "9.9.9.9:9 (udp), 1×"), ("refused", "8.8.8.8:9 (udp): not in the allow list, 1×")):
        line = page.tab.locator(f".calls li[data-kind={kind}]")
        line.wait_for()
        assert text in line.text_content()


def test_hostile_calls_are_text(opened, daemon, made):
    page = opened("calls")
    markup = "<img src=x onerror=alert(1)>"
    daemon.command(made, f"echo '{markup}'; printf '\\342\\200\\256turned \\033[31m'")
    call = entry(page, "onerror")
    until(page.tab, lambda: call.locator("pre").count() == 1, what="its output is shown")
    text = call.locator("pre").text_content()
    assert markup in text and "\\u{202e}turned \\u{1b}[31m" in text
    assert page.tab.locator(".calls img").count() == 0


def run(daemon, made, code):
    body = json.dumps({"code": code}).encode()
    answer = daemon.through(made["sandboxID"], "POST", "/execute", body, port=49999, token=made["envdAccessToken"], timeout=300)
    assert answer.status == 200 and b'"error"' not in answer.body, answer.body[:2000]


def test_a_figure_is_shown_as_a_picture(opened, daemon, made):
    page = opened("calls")
    run(daemon, made, "import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.show()")
    figure = entry(page, "matplotlib").locator("img.figure")
    figure.wait_for()
    until(page.tab, lambda: figure.evaluate("i => i.complete && i.naturalWidth > 100"), what="the picture is drawn")
    assert figure.get_attribute("src").startswith(f"blob:http://{page.web.host}/")
    assert re.fullmatch(r"Figure, \d+ by \d+ pixels", figure.get_attribute("alt"))
    borders = page.tab.locator("#list .figure").evaluate_all("all => all.map(e => getComputedStyle(e).borderTopWidth)")
    assert set(borders) <= {"0px"}, "the list has figures of its own, which are no pictures"
    page.screen("calls-figure")


def test_hostile_figures_are_not_shown(opened, daemon, made):
    """HTML, vectors with a script, and a picture that would fill the memory, under the name of a PNG."""
    page = opened("calls")
    run(daemon, made, """
import base64, struct, zlib
def show(data, mime="image/png"):
    display({mime: base64.b64encode(data).decode(), "text/plain": "x"}, raw=True)
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
def png(width, height):
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
show(b"<html><script>alert(1)</script>")
show(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "image/jpeg")
show(png(60000, 60000))
show(b"\\xff\\xd8\\xff\\xff\\xff\\xff")
show(png(4, 4))
""")
    call = entry(page, "import base64")
    until(page.tab, lambda: call.locator("img.figure").count() == 1, what="the good one is shown")
    assert call.locator("img.figure").get_attribute("alt") == "Figure, 4 by 4 pixels"
    assert call.locator("text=A figure that is not shown").count() == 4
