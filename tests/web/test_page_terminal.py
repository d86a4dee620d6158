# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium: terminals."""

import base64

import pytest

from conftest import Page, until

PROMPT = r"\$$"


@pytest.fixture
def made(daemon):
    return daemon.create(timeout=900)


@pytest.fixture
def terminal(page, made):
    page.open().choose(made["sandboxID"], "terminal")
    page.shows(PROMPT)
    return page


def test_a_shell(terminal):
    terminal.type("tput cols; tty; echo $TERM; printf '\\e[38;2;255;100;0mcolour\\e[0m \\e[1;32mgreen\\e[0m\\n'\n")
    terminal.shows(r"^/dev/pts/\d+$")
    terminal.shows("^xterm-256color$")
    terminal.shows("^colour green$")
    assert terminal.tab.evaluate("[...document.querySelectorAll('.xterm-rows span')].some(e => e.textContent === 'colour' && "
                                 "getComputedStyle(e).color === 'rgb(255, 100, 0)')")
    terminal.screen("terminal")
    terminal.type("sleep 1000\n")
    terminal.shows(r"^.*\$ sleep 1000$")
    terminal.tab.keyboard.press("Control+c")
    terminal.type("echo status $?\n")
    terminal.shows("^status 130$")
    terminal.type("exit\n")
    terminal.tab.wait_for_selector(".note:has-text('The shell has ended')")


def test_it_has_the_size_of_the_window(terminal):
    terminal.type("trap 'stty size' WINCH; stty size\n")
    before = terminal.shows(r"^(\d+) (\d+)$").group(0)
    terminal.tab.set_viewport_size({"width": 900, "height": 500})
    terminal.type("clear; true\n")
    until(terminal.tab, lambda: terminal.type("stty size\n") or before not in terminal.terminal() and terminal.shows(r"^(\d+) (\d+)$"))


def test_several_and_back_after_a_reload(terminal, daemon, made):
    terminal.type("mark=first\n")
    terminal.tab.click("text=New terminal")
    terminal.shows(PROMPT)
    terminal.type("mark=second; echo is $mark\n")
    terminal.shows("^is second$")
    terminal.tab.click("text=Terminal 1")
    terminal.type("echo is $mark\n")
    terminal.shows("^is first$")
    terminal.tab.click("#tab-overview")
    terminal.tab.click("#tab-terminal")
    terminal.shows("^is first$")  # what it showed is still there
    terminal.tab.reload()
    terminal.tab.wait_for_selector("text=Terminal 2")
    seen = set()
    for number in (1, 2):
        terminal.tab.click(f"text=Terminal {number}")
        terminal.type("clear; echo again $mark\n")
        seen.add(terminal.shows("^again (first|second)$").group(1))
    assert seen == {"first", "second"}
    terminal.tab.click("[aria-label='End terminal 2']")
    terminal.dialog()
    until(terminal.tab, lambda: len([p for p in daemon.rpc(made, "process.Process/List", {}).get("processes", [])
                                     if p.get("tag", "").startswith("web-")]) == 1)


def test_a_flood_is_stopped_by_a_key(terminal):
    terminal.type("yes abcdefghijklmnopqrstuvwxyz\n")
    terminal.shows("^abcdefghijklmnopqrstuvwxyz$")
    terminal.tab.keyboard.press("Control+c")
    terminal.type("clear; echo do''ne\n")
    terminal.shows("^done$")
    assert terminal.web.rss() < 64 << 20


def test_output_of_many_kinds_is_whole(terminal):
    terminal.type("seq 20000 | md5sum; for i in $(seq 20000); do echo $i; done | tee /tmp/n | tail -n 1; md5sum </tmp/n\n")
    sum_of = terminal.shows(r"^([0-9a-f]{32})  -$").group(1)
    terminal.shows(rf"^20000\n{sum_of}  -$")
    terminal.type("clear; seq 3000\n")
    terminal.shows(r"^2999\n3000$")
    terminal.type("clear; printf 'žluťoučký 漢字 😀\\n'\n")
    terminal.shows("^žluťoučký 漢 ?字 ?😀")


def test_input_is_in_order(terminal):
    text = "".join(chr(97 + i % 26) for i in range(1000))
    terminal.type("stty -echo; wc -c; stty echo\n")
    terminal.type(text + "\n")
    terminal.tab.keyboard.press("Control+d")
    terminal.shows("1001$")
    terminal.type("clear; echo rea''dy; read -r line; echo got: $line\n")
    terminal.shows("^ready$")
    terminal.tab.keyboard.insert_text("pasted → text")  # as an input method or the clipboard does
    terminal.type("\n")
    terminal.shows("^got: pasted → text$")


# What a hostile program may write. None of it may leave the terminal.
HOSTILE = {
    "title": b"\x1b]0;owned\a\x1b]2;owned\a",
    "clipboard": b"\x1b]52;c;b3duZWQ=\a\x1b]52;c;?\a",
    "script link": b"\x1b]8;;javascript:document.title='owned'\x1b\\click\x1b]8;;\x1b\\",
    "markup": b"<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\n",
    "window": b"\x1b[3;0;0t\x1b[4;9999;9999t\x1b[8;500;500t\x1b[5t\x1b[21t\x1b[18t",
    "reports": b"\x1b[6n\x1b[c\x1b[>c\x1b[=c\x1bP+q544e\x1b\\\x1bP$qm\x1b\\\x1b[?1;2;3c\x1b[x\x1b]4;1;?\a\x1b]10;?\a",
    "file": b"\x1b]1337;File=inline=1;name=b3duZWQ=:aGVsbG8=\a\x1b]9;owned\a\x1b]777;notify;owned;owned\a",
    "picture": b"\x1bPq#0;2;0;0;0#0~~@@vv@@~~$-\x1b\\\x1b_Gf=24,s=1,v=1;AAAA\x1b\\",
    "endless": b"z\x1b[99999999999999999999;99999999999999999999H" + b"".join(
        b"\x1b[2147483647" + end for end in (b"S", b"T", b"b", b"X", b"@", b"P", b"L", b"M", b"I", b"Z", b"A", b"E", b" @", b" A", b"'}", b"'~", b"G")) + b"\x1b]" + b"x" * 30000 + b"\a",
    "modes": b"\x1b[?1049h\x1b[?1000h\x1b[?1003h\x1b[?2004h\x1b[?25l\x1b[?1h\x1b=\x1b[4h\x1b[12h\x1b[20h",
    "bytes": bytes(range(256)) * 40 + b"\x1b\x1b\x1b[",
}


def try_again(terminal, times=5):
    """The shell still works. Answers to reports are typed into it, some of them into the middle of the command."""
    for left in reversed(range(times)):
        terminal.tab.keyboard.press("Control+c")
        terminal.type("\nclear; echo sti''ll here\n")
        try:
            terminal.shows("^still here$", 60 if left == 0 else 10)
            return
        except AssertionError:
            if left == 0:
                raise


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_output_stays_in_the_terminal(terminal, daemon, made, context, kind):
    terminal.tab.evaluate("navigator.clipboard.writeText('mine')")
    asked = len(terminal.requests)
    tabs = len(context.pages)
    data = base64.b64encode(HOSTILE[kind]).decode()
    assert daemon.command(made, f"echo {data} | base64 -d >/tmp/evil")[0] == 0
    terminal.type("cat /tmp/evil; printf '\\033c'; echo ma''rk\n")
    terminal.shows("mark$")
    try_again(terminal)
    assert terminal.tab.title() == "Cubby" and len(context.pages) == tabs
    assert terminal.tab.evaluate("navigator.clipboard.readText()") == "mine"
    assert terminal.tab.locator(".screen img, .screen script, .screen iframe").count() == 0
    sent = [r.url for r in terminal.requests[asked:]]
    assert all("/process.Process/" in url or "/stream" in url or "/sandboxes/" in url for url in sent), sent


def test_a_link_is_shown_before_it_opens(terminal, context):
    terminal.type("printf '\\e]8;;http://example.invalid/x\\e\\\\LINK\\e]8;;\\e\\\\\\n'; printf '\\e]8;;javascript:alert(1)\\e\\\\THERE\\e]8;;\\e\\\\\\n'\n")
    terminal.shows("^THERE$")
    tabs = len(context.pages)
    for text, opens in (("THERE", False), ("LINK", True)):
        row = terminal.tab.locator(".shell:not([hidden]) .xterm-rows > div").filter(has_text=text).last
        box = row.bounding_box()
        terminal.tab.mouse.move(box["x"] + 12, box["y"] + 8)
        if opens:
            terminal.tab.wait_for_selector(".xterm-cursor-pointer")
        terminal.tab.mouse.click(box["x"] + 12, box["y"] + 8)
        if opens:
            terminal.tab.wait_for_selector("dialog:has-text('http://example.invalid/x')")
            terminal.screen("link")
            terminal.tab.click("#ask-cancel")
        else:
            assert terminal.tab.locator("dialog").count() == 0
    assert len(context.pages) == tabs


def test_a_screen_reader_gets_the_text(terminal):
    terminal.tab.check("text=Screen reader")
    terminal.tab.click(".screen")
    terminal.type("echo for ''ears\n")
    terminal.tab.wait_for_selector(".xterm-accessibility:has-text('for ears')", state="attached")


def test_a_sandbox_that_ends_under_a_terminal(terminal, daemon, made):
    daemon.kill(made["sandboxID"])
    terminal.tab.wait_for_selector("text=This sandbox has ended.")


def test_a_pause_and_a_wake(terminal, daemon, made):
    """The connection breaks with the pause; the shell does not."""
    terminal.type("mark=kept\n")
    terminal.tab.click(".head button:has-text('Pause')")
    terminal.tab.wait_for_selector("text=Connect again")
    terminal.tab.click(".head button:has-text('Resume')")
    terminal.tab.wait_for_selector(".head .state[data-state=running]")
    terminal.tab.click("text=Connect again")
    terminal.tab.wait_for_selector("text=Connect again", state="detached")
    terminal.tab.click(".screen >> nth=0")
    terminal.type("clear; echo is $mark\n")
    terminal.shows("^is kept$")


def test_two_tabs_share_a_shell(terminal, context, web, made):
    other = Page(context, web).open(f"http://{web.host}/")
    other.choose(made["sandboxID"], "terminal")
    other.tab.wait_for_selector(".xterm-rows")
    terminal.tab.bring_to_front()
    terminal.type("echo both''\n")
    terminal.shows("^both$")
    other.shows("^both$")
    assert not other.faults
