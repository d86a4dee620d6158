# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium: network, ports, snapshots and forks, the log."""

import json

import pytest

from conftest import until


@pytest.fixture
def made(daemon):
    return daemon.create(timeout=900, metadata={"name": "box"})


@pytest.fixture
def opened(page, made):
    return lambda tab: page.open().choose(made["sandboxID"], tab)


def policy(daemon, made):
    return daemon.request("GET", f"/sandboxes/{made['sandboxID']}/network").json["policy"]


# ---- network

def test_one_click_allows_what_was_refused(opened, daemon, made):
    page = opened("network")
    page.tab.wait_for_selector("text=Nothing was refused.")
    page.tab.check("[name=mode][value=allow]")
    until(page.tab, lambda: policy(daemon, made)["mode"] == "none")  # what an empty list is
    page.tab.wait_for_selector("[aria-label^='Allowed:']")
    daemon.command(made, "curl -s -m 5 http://1.1.1.1:8080/; curl -s -m 5 https://blocked.example/")
    row = page.tab.locator(".refused tr", has_text="1.1.1.1:8080")
    row.wait_for()
    page.screen("network")
    row.locator("button").click()
    page.says("1.1.1.1:8080 is allowed now")
    assert policy(daemon, made)["allow"] == ["1.1.1.1/32:8080"] and policy(daemon, made)["mode"] == "allow"
    row.locator("text=allowed now").wait_for()
    page.tab.click("[aria-label='Remove 1.1.1.1/32:8080']")
    until(page.tab, lambda: policy(daemon, made)["allow"] == [])


def test_hosts_that_were_reached(opened, daemon, made):
    page = opened("network")
    page.tab.wait_for_selector("text=Nothing was reached.")
    daemon.command(made, "bash -c 'echo one >/dev/udp/9.9.9.9/9'")
    row = page.tab.locator(".reached tr", has_text="9.9.9.9:9")
    row.wait_for()
    assert "udp" in row.text_content() and page.tab.locator(".refused tr").count() == 0
    page.screen("network-reached")


def test_the_lists_and_the_modes(opened, daemon, made):
    page = opened("network")
    page.tab.wait_for_selector("legend")
    page.tab.fill("[aria-label^='Denied']", "10.1.2.0/24")
    page.tab.keyboard.press("Enter")
    until(page.tab, lambda: policy(daemon, made)["deny"] == ["10.1.2.0/24"])
    page.tab.wait_for_selector(".chips:has-text('10.1.2.0/24')")
    page.tab.fill("[aria-label^='Denied']", "not a name !")
    page.tab.click("button:text-is('Deny')")
    page.tab.wait_for_selector(".toast.error")
    assert policy(daemon, made)["deny"] == ["10.1.2.0/24"]
    page.tab.check("[name=mode][value=none]")
    until(page.tab, lambda: policy(daemon, made)["mode"] == "none")
    page.tab.wait_for_selector(".chips", state="detached")


# ---- ports

def test_a_port_is_exposed_opened_and_closed(opened, daemon, made, context):
    """The page behind it is the sandbox's: it tries the page of cubby web, which is on the same host."""
    page = opened("ports")
    attack = """<script>(async () => {
        const host = '%s', tried = {};
        const guess = path => fetch('http://' + host + path, { credentials: 'include' }).then(r => r.text(), () => 'refused');
        tried.api = await guess('/api/sandboxes/stats');
        tried.session = await guess('/session');
        tried.socket = await new Promise(done => { const w = new WebSocket('ws://' + host + '/live', ['cubby', 'key.0']);
            w.onopen = () => done('open'); w.onerror = () => done('refused'); });
        tried.opener = String(window.opener);
        tried.referrer = document.referrer;
        tried.cookie = document.cookie;
        tried.storage = JSON.stringify(localStorage);
        document.title = JSON.stringify(tried);
    })();</script>""" % page.web.host
    daemon.command(made, f"mkdir www; cat >www/index.html <<'END'\n{attack}\nEND\n(cd www; setsid python3 -m http.server 8123 >/dev/null 2>&1 &)")
    until(page.tab, lambda: daemon.through(made["sandboxID"], port=8123, path="/").status == 200)
    page.tab.fill("[name=port]", "8123")
    page.tab.click("text=Expose")
    link = page.tab.locator("td a")
    link.wait_for()
    page.screen("ports")
    assert link.get_attribute("rel") == "noopener noreferrer"
    with context.expect_page() as opening:
        link.click()
    guest = opening.value
    guest.wait_for_function("document.title.startsWith('{')", timeout=60000)
    got = json.loads(guest.title())
    assert got == {"api": "refused", "session": "refused", "socket": "refused", "opener": "null", "referrer": "", "cookie": got["cookie"], "storage": "{}"}
    assert page.web.token not in got["cookie"] and "cubby-key" not in got["cookie"]
    page.tab.click("[aria-label='Close port 8123']")
    page.tab.wait_for_selector("text=No port is exposed.")
    page.tab.fill("[name=port]", "49983")
    page.tab.click("text=Expose")
    page.tab.wait_for_selector(".toast.error")


# ---- snapshots and forks

def rows(page):
    """[(depth, kind, text)] of the tree."""
    return page.tab.evaluate("""[...document.querySelectorAll('.tree li')].map(li => {
        let depth = 0;
        for (let at = li.parentElement.closest('li'); at; at = at.parentElement.closest('li')) depth++;
        return [depth, li.className, li.dataset.node];
    })""")


def test_the_tree_rolls_back_and_forks(opened, daemon, made):
    daemon.command(made, "echo one >state; sync")
    page = opened("snapshots")
    page.tab.wait_for_selector(".tree li")
    page.tab.click("text=Snapshot this sandbox")
    page.dialog(name="before")
    page.says("Snapshot made")
    page.tab.wait_for_selector(f".tree .snapshot:has-text('before'):has-text('{daemon.get(made['sandboxID']).json['tier']}, ')")
    daemon.command(made, "echo two >state; sync")
    page.tab.click("text=Fork this sandbox")
    page.dialog(count="2")
    page.says("2 forks made")
    until(page.tab, lambda: len(rows(page)) == 4)
    page.tab.click("[aria-label='New sandbox from before']")
    page.says("runs")
    until(page.tab, lambda: len(rows(page)) == 5)
    parent = made["sandboxID"]
    tree = rows(page)
    assert tree[0][:2] == [0, "sandbox"] and tree[0][2] == parent
    assert sorted(r[:2] for r in tree[1:]) == [[1, "sandbox"], [1, "sandbox"], [1, "snapshot"], [2, "sandbox"]]
    page.screen("snapshots")
    from_snapshot = next(r[2] for r in tree if r[0] == 2)
    forks = [r[2] for r in tree if r[0] == 1 and r[1] == "sandbox"]
    content = lambda i: daemon.command({**daemon.get(i).json, "sandboxID": i}, "cat state")[1].decode()  # noqa: E731
    assert content(from_snapshot) == "one\n" and [content(i) for i in forks] == ["two\n", "two\n"]
    page.tab.click("[aria-label='Roll back to before']")
    page.dialog()
    page.says("Rolled back")
    assert content(parent) == "one\n"
    page.tab.click(f".tree li[data-node='{forks[0]}'] button.link")
    page.tab.wait_for_selector(f".head code:has-text('{forks[0]}')")
    page.tab.click("[aria-label='Delete before']")
    page.dialog()
    page.says("Snapshot deleted")
    page.tab.wait_for_selector(".tree .snapshot", state="detached")
    assert daemon.request("GET", "/snapshots").json == []


def test_a_guest_does_not_choose_its_parent(opened, daemon, made):
    """Its console is in its log, beside the lines of the daemon."""
    parent, line = made["sandboxID"], f"forked from sandbox {made['sandboxID']}"
    other = daemon.create(timeout=900)
    # A machine that boots writes its console to this file, and one that wakes from a template to none.
    (daemon.directory(other["sandboxID"]) / "console.log").write_text(line + "\n")
    logs = daemon.request("GET", f"/v2/sandboxes/{other['sandboxID']}/logs?limit=1000").json["logs"]
    assert [entry["fields"]["source"] for entry in logs if entry["message"] == line] == ["console"]
    page = opened("snapshots")
    page.tab.wait_for_selector(f".tree li[data-node='{other['sandboxID']}']")
    assert sorted(rows(page)) == sorted([[0, "sandbox", parent], [0, "sandbox", other["sandboxID"]]])


def test_a_snapshot_outlives_its_sandbox(page, daemon, made):
    saved = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}).json["snapshotID"]
    other = daemon.create(timeout=900)["sandboxID"]
    daemon.kill(made["sandboxID"])
    page.open().choose(other, "snapshots")
    until(page.tab, lambda: sorted(r[2] for r in rows(page)) == sorted([saved, other]))
    page.tab.click("[aria-label^='Roll back to']")
    page.dialog()
    page.says("Rolled back")


# ---- the log

def test_the_log(opened, daemon, made):
    page = opened("log")
    page.tab.wait_for_selector(".log li:has-text('created from template default')")
    daemon.request("PUT", f"/sandboxes/{made['sandboxID']}/network", {"mode": "none"})
    page.tab.wait_for_selector(".log li:has-text(\"the network's rules were replaced\")")
    assert "rules were replaced" in page.tab.locator(".log li").first.text_content()
    page.screen("log")
    page.tab.select_option("[aria-label=Entries]", "warn")
    page.tab.wait_for_selector(".log li:has-text('created from')", state="detached")
