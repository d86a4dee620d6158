# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium: files of a sandbox."""

import os

import pytest

from conftest import until

DIRECTORY = "/home/user/files"


@pytest.fixture
def made(daemon):
    return daemon.create(timeout=900)


def run(daemon, made, command):
    code, text = daemon.command(made, command)
    assert code == 0, text
    return text.decode()


@pytest.fixture
def files(page, daemon, made):
    """The tab, in an empty directory of its own."""
    run(daemon, made, f"mkdir {DIRECTORY}")
    page.open().choose(made["sandboxID"], "files")
    page.tab.click("td button:has(bdi:text-is('files'))")
    page.tab.wait_for_selector("text=This directory is empty.")
    return page


def names(page):
    return page.tab.locator(".files td:first-child button").all_text_contents()


def show(page, *wanted):
    page.tab.click("text=Reload")
    until(page.tab, lambda: names(page) == list(wanted), what=f"{wanted} are shown")


def test_browse(files, daemon, made):
    run(daemon, made, f"cd {DIRECTORY}; mkdir -p b/c; echo hi >a.txt; echo deep >b/c/d.txt; ln -s b/c/d.txt link")
    show(files, "b", "a.txt", "link")
    files.screen("files")
    files.tab.click("td button:has(bdi:text-is('b'))")
    files.tab.click("td button:has(bdi:text-is('c'))")
    files.tab.click("td button:has(bdi:text-is('d.txt'))")
    files.tab.wait_for_selector("textarea")
    assert files.tab.input_value("textarea") == "deep\n"
    files.screen("file")
    files.tab.click("button:text-is('Back')")
    files.tab.click(".crumbs button:has-text('home')")
    until(files.tab, lambda: names(files) == ["user"])
    files.tab.click("[aria-label='Root directory']")
    until(files.tab, lambda: "etc" in names(files))
    files.tab.click("td button:has(bdi:text-is('home'))")
    until(files.tab, lambda: names(files) == ["user"])
    files.tab.click("td button:has(bdi:text-is('user'))")
    files.tab.wait_for_selector("td button:has(bdi:text-is('files'))")
    run(daemon, made, f"rm -r {DIRECTORY}")
    files.tab.click("td button:has(bdi:text-is('files'))")
    files.tab.wait_for_selector(".toast.error:has-text('files')")


def test_edit_and_save(files, daemon, made):
    run(daemon, made, f"printf 'one\\r\\ntwo\\r\\n' >{DIRECTORY}/windows.txt; printf '\\357\\273\\277bom\\n' >{DIRECTORY}/bom.txt; "
                      f"printf 'a\\r\\nb\\n' >{DIRECTORY}/mixed.txt")
    show(files, "bom.txt", "mixed.txt", "windows.txt")
    files.tab.click("td button:has(bdi:text-is('windows.txt'))")
    files.tab.fill("textarea", "one\nchanged é\n")
    files.tab.keyboard.press("Control+s")
    files.says("Saved")
    assert run(daemon, made, f"od -An -c {DIRECTORY}/windows.txt").split() == list("one") + ["\\r", "\\n"] + list("changed") + ["303", "251", "\\r", "\\n"]
    files.tab.click("button:text-is('Back')")
    files.tab.click("td button:has(bdi:text-is('bom.txt'))")
    files.tab.locator("textarea").press_sequentially("x")
    files.tab.click("button:text-is('Save')")
    until(files.tab, lambda: run(daemon, made, f"head -c 3 {DIRECTORY}/bom.txt | od -An -tx1").split() == ["ef", "bb", "bf"])
    files.tab.click("button:text-is('Back')")
    files.tab.click("td button:has(bdi:text-is('mixed.txt'))")
    files.tab.wait_for_selector("text=it can only be read here")
    assert files.tab.locator("button:text-is('Save')").count() == 0


def test_two_writers(files, daemon, made):
    run(daemon, made, f"echo before >{DIRECTORY}/f")
    show(files, "f")
    files.tab.click("td button:has(bdi:text-is('f'))")
    files.tab.fill("textarea", "mine\n")
    run(daemon, made, f"echo agent >{DIRECTORY}/f")
    files.tab.click("button:text-is('Save')")
    files.tab.wait_for_selector("dialog:has-text('changed in the sandbox since you opened it')")
    files.tab.click("#ask-cancel")
    assert run(daemon, made, f"cat {DIRECTORY}/f") == "agent\n"
    files.tab.click("button:text-is('Back')")
    files.tab.wait_for_selector("dialog:has-text('Leave without saving?')")
    files.tab.click("#ask-cancel")
    files.tab.click("button:text-is('Save')")
    files.dialog()
    files.says("Saved")
    assert run(daemon, made, f"cat {DIRECTORY}/f") == "mine\n"


def test_text_that_is_not_saved_is_kept(files, daemon, made):
    run(daemon, made, f"echo old >{DIRECTORY}/f")
    show(files, "f")
    files.tab.click("td button:has(bdi:text-is('f'))")
    files.tab.fill("textarea", "draft\n")
    files.tab.click("#tab-log")
    files.tab.click("#tab-files")
    files.tab.click("td button:has(bdi:text-is('f'))")
    files.says("not saved are back")
    assert files.tab.input_value("textarea") == "draft\n"
    files.tab.click("button:text-is('Save')")
    files.says("Saved")
    assert run(daemon, made, f"cat {DIRECTORY}/f") == "draft\n"


def test_upload_replace_and_download(files, daemon, made, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "big ünï.bin").write_bytes(data)
    (tmp_path / "small.txt").write_text("small")
    chosen = [tmp_path / "big ünï.bin", tmp_path / "small.txt"]
    files.tab.set_input_files("input[type=file]", chosen)
    files.says("small.txt is uploaded")
    until(files.tab, lambda: names(files) == ["big ünï.bin", "small.txt"])
    with files.tab.expect_download() as got:
        files.tab.click("[aria-label='Download big ünï.bin']")
    assert got.value.suggested_filename == "big ünï.bin"
    assert open(got.value.path(), "rb").read() == data
    (tmp_path / "small.txt").write_text("other")
    for answer, content in (("#ask-cancel", "small"), ("dialog button[type=submit]", "other")):
        files.tab.set_input_files("input[type=file]", tmp_path / "small.txt")
        files.tab.wait_for_selector("dialog:has-text('Replace small.txt?')")
        files.tab.click(answer)
        until(files.tab, lambda: run(daemon, made, f"cat {DIRECTORY}/small.txt") == content)


def test_drop(files, daemon, made):
    files.tab.evaluate("""() => {
        const data = new DataTransfer();
        data.items.add(new File(['dropped'], 'dropped.txt'));
        document.getElementById('panel').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    }""")
    files.says("dropped.txt is uploaded")
    assert run(daemon, made, f"cat {DIRECTORY}/dropped.txt") == "dropped"


def test_make_rename_delete(files, daemon, made):
    files.tab.click("text=New folder")
    files.dialog(name="new")
    until(files.tab, lambda: names(files) == ["new"])
    files.tab.click("text=New file")
    files.dialog(name="note")
    until(files.tab, lambda: names(files) == ["new", "note"])
    files.tab.click("text=New file")
    files.dialog(name="note")
    files.says("is there already")
    files.tab.click("[aria-label='Rename note']")
    files.dialog(name="renamed")
    until(files.tab, lambda: names(files) == ["new", "renamed"])
    run(daemon, made, f"echo x >{DIRECTORY}/new/inside")
    files.tab.click("[aria-label='Delete new']")
    files.dialog()
    until(files.tab, lambda: names(files) == ["renamed"])
    files.tab.click("[aria-label='Rename renamed']")
    files.dialog(name="/home/user/moved")
    files.tab.wait_for_selector("text=This directory is empty.")
    assert run(daemon, made, "ls /home/user/moved") == "/home/user/moved\n"


def test_pictures_and_other_files(files, daemon, made):
    run(daemon, made, f"cd {DIRECTORY}; python3 -c \"from PIL import Image; Image.new('RGB', (40, 30), (200, 0, 0)).save('red.png')\"; "
                      "head -c 1000 /dev/urandom >noise; printf 'a\\0b' >nul; head -c 2000000 /dev/zero | tr '\\0' x >large; echo no >fake.png; : >none")
    show(files, "fake.png", "large", "noise", "none", "nul", "red.png")
    for name, text in (("fake.png", "no picture"), ("large", "too large to show"), ("noise", "not text"), ("nul", "not text")):
        files.tab.click(f"td button:has(bdi:text-is('{name}'))")
        files.tab.wait_for_selector(f".files .empty:has-text('{text}')")
        files.tab.click("button:text-is('Back')")
    files.tab.click("td button:has(bdi:text-is('red.png'))")
    until(files.tab, lambda: files.tab.evaluate("document.querySelector('.picture')?.naturalWidth") == 40)
    files.screen("picture")
    files.tab.click("button:text-is('Back')")
    files.tab.click("td button:has(bdi:text-is('none'))")
    files.tab.wait_for_selector("textarea")
    assert files.tab.input_value("textarea") == ""


def test_hostile_names_and_files(files, daemon, made, context):
    page = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    evil = ["<img src=x onerror=alert(1)>.txt", "back\\\\slash", "new\\nline", "safe\u202etxt.exe", "\\033[31mred", "-rf", "a?b#c%2e%00&d=e", "'\"; rm"]
    for name in evil:
        run(daemon, made, f"cd {DIRECTORY}; printf '%s' \"{page}\" >\"$(printf '%b' '{name.replace(chr(39), chr(92) + '047')}')\"")
    run(daemon, made, f"cd {DIRECTORY}; printf '%s' \"{page}\" >page.html; printf '%s' \"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>\" >p.svg")
    files.tab.click("text=Reload")
    until(files.tab, lambda: len(names(files)) == len(evil) + 2)
    assert "new\\u{a}line" in names(files) and "safe\\u{202e}txt.exe" in names(files) and "\\u{1b}[31mred" in names(files)
    files.screen("files-hostile")
    tabs = len(context.pages)
    for button in files.tab.locator(".files td:first-child button").all_text_contents():
        files.tab.locator(".files td:first-child button", has_text=button).first.click()
        files.tab.wait_for_selector("textarea")
        assert files.tab.input_value("textarea").startswith("<"), button
        with files.tab.expect_download() as got:
            files.tab.click(".files .strip button:text-is('Download')")
        assert open(got.value.path(), encoding="utf-8").read().startswith("<")
        files.tab.click("button:text-is('Back')")
        files.tab.wait_for_selector(".files table")
    assert files.tab.title() == "Cubby" and len(context.pages) == tabs
    assert files.tab.locator("#panel img, #panel script, #panel svg").count() == 0
    for left in reversed(range(len(evil) + 2)):
        files.tab.locator("[aria-label^='Delete ']").first.click()
        files.dialog()
        until(files.tab, lambda: len(names(files)) == left)
    until(files.tab, lambda: run(daemon, made, f"ls -A {DIRECTORY} | wc -l").strip() == "0")


def test_many_files(files, daemon, made):
    run(daemon, made, f"cd {DIRECTORY}; seq -f f%05g 3000 | xargs touch")
    files.tab.click("text=Reload")
    files.tab.wait_for_selector("text=Only the first 2000 of 3000 are shown.")


def test_a_paused_sandbox_says_so(page, daemon, made):
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {}).status == 204
    page.open().choose(made["sandboxID"], "files")
    page.tab.wait_for_selector("#panel .error, .toast.error")
    assert "paused" in page.tab.text_content("#panel .error, .toast.error")
    page.tab.click(".head button:has-text('Resume')")
    page.tab.wait_for_selector(".head .state[data-state=running]")
    page.tab.click("text=Try again")
    page.tab.wait_for_selector(".files table, .files .empty")
