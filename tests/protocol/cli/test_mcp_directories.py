# SPDX-License-Identifier: Apache-2.0
"""upload_directory and download_directory: cubby sync for a model, in a real envd."""

import os
import pathlib
import shutil
import stat

import pytest
from harness import process_exists, wait_for
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401
from mcp_schemas import checked
from mcp_stdio import Stdio

UPLOAD, DOWNLOAD = "upload_directory", "download_directory"
OLD = 1700000000


def write(path, text, seconds=OLD):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))


def files(top):
    return {str(p.relative_to(top)): p.read_text() for p in top.rglob("*") if p.is_file() and not p.is_symlink()}


@pytest.fixture
def here(tmp_path):
    made = tmp_path / "host/project"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def there(tmp_path):
    return tmp_path / "guest/project"


@pytest.fixture
def project(start, here):  # noqa: F811
    return start("--project-dir", str(here))


@pytest.fixture
def copy(project, sandbox, there):  # noqa: F811
    """(structuredContent, text) of a copy between the project and `there`."""
    return lambda name, **more: checked(project, name, sandbox_id=sandbox, sandbox_directory=str(there), **more)[:2]


def tools_of(server):  # noqa: F811
    return {t["name"]: t for t in server.request("tools/list", {})["tools"]}


def test_they_are_offered_on_purpose_only(start, here):  # noqa: F811
    assert not {UPLOAD, DOWNLOAD} & set(tools_of(start("--local-dir", str(here))))
    offered = tools_of(start("--project-dir", str(here)))
    assert offered[UPLOAD]["annotations"].get("destructiveHint", True) and DOWNLOAD in offered
    assert DOWNLOAD not in tools_of(start("--project-dir", str(here), "--disable-tool", DOWNLOAD))


def test_in_and_out(copy, here, there):
    write(here / "a.py", "one")
    write(here / "sub/b.py", "two")
    write(here / "large", "L" * (5 << 20))
    (here / "sub/run").write_text("x")
    (here / "sub/run").chmod(0o755)
    o, text = copy(UPLOAD)
    assert (o["files"], o["deleted"], o["waiting"], o["conflicts"], o["skipped"]) == (4, 0, 0, [], [])
    assert files(there) == files(here) and os.access(there / "sub/run", os.X_OK)
    assert f"{here} -> {there}: copied 4 files" in text
    write(there / "a.py", "ONE", OLD + 1)
    write(there / "new.py", "new")
    (there / "sub/b.py").unlink()
    o, text = copy(UPLOAD)
    assert (o["files"], o["waiting"]) == (0, 3) and "3 changes of the sandbox were not brought out" in text
    assert (here / "a.py").read_text() == "one" and (there / "a.py").read_text() == "ONE"
    o, text = copy(DOWNLOAD)
    assert (o["files"], o["deleted"], o["waiting"]) == (2, 1, 0)
    assert files(here) == files(there) and not (here / "sub/b.py").exists()
    write(here / "mine.py", "mine")
    o, text = copy(DOWNLOAD)
    assert (o["files"], o["waiting"]) == (0, 1) and "were not brought in" in text and not (there / "mine.py").exists()


def test_both_sides_changed(copy, here, there):
    write(here / "a", "old")
    copy(UPLOAD)
    write(here / "a", "mine", OLD + 1)
    write(there / "a", "theirs", OLD + 2)
    o, text = copy(UPLOAD)
    assert o["skipped"][0]["path"] == "a" and "bring the sandbox's out first" in text
    assert (here / "a").read_text() == "mine" and (there / "a").read_text() == "theirs"
    o, text = copy(DOWNLOAD)
    (conflict,) = o["conflicts"]
    assert conflict["path"] == "a" and (here / conflict["kept"]).read_text() == "theirs" and conflict["kept"] in text
    assert (here / "a").read_text() == "mine"


def test_what_stays(copy, here, there):
    """.git, .env and what the operator's rules hide stay here; of the sandbox no hidden name is taken."""
    for name in (".git/config", ".env", "secret/key", "kept/.vscode/settings.json", "code.py"):
        write(here / name, name)
    write(here / ".cubbyignore", "/secret\n")
    copy(UPLOAD)
    assert set(files(there)) == {"code.py", "kept/.vscode/settings.json"}
    for name in (".git/hooks/post-checkout", ".bashrc", "kept/.vscode/settings.json", "kept/.vscode/tasks.json", "secret/key",
                 ".cubbyignore", "new.py"):
        write(there / name, "of the sandbox", OLD + 1)
    before = files(here)
    o, text = copy(DOWNLOAD)
    assert files(here) == {**before, "new.py": "of the sandbox"}
    assert {s["path"] for s in o["skipped"]} == {".bashrc", "kept/.vscode"} and "programs here may run it" in text
    (there / "kept/.vscode/settings.json").unlink()
    copy(DOWNLOAD)
    assert (here / "kept/.vscode/settings.json").exists()


def test_a_sandbox_that_deletes_most(copy, project, sandbox, here, there):  # noqa: F811
    for i in range(50):
        write(here / f"f{i}", "mine")
    copy(UPLOAD)
    for i in range(49):
        (there / f"f{i}").unlink()
    said = project.error(DOWNLOAD, sandbox_id=sandbox, sandbox_directory=str(there))
    assert said.startswith(f"copy_failed: 49 of 50 files of {here} are gone in the sandbox") and "--force" in said, said
    assert len(files(here)) == 50


def test_more_is_left_out_than_fits_an_answer(copy, here, there):
    """The sandbox's links lead out, and the names of all together are larger than the answer may be."""
    deep = there.joinpath(*["d" * 250] * 13)
    deep.mkdir(parents=True)
    for i in range(1400):
        (deep / f"link{i}").symlink_to("/")
    write(there / "new", "new")
    o, text = copy(DOWNLOAD)
    assert (o["files"], len(o["skipped"]), o["skipped_count"], o["conflict_count"]) == (1, 50, 1400, 0)
    assert "Left out 1350 more, which are not named here" in text and files(here) == {"new": "new"}


SECRETS = (".npmrc", ".netrc", "sub/.aws/credentials", ".git-credentials", ".ssh/config", "id_rsa", "sub/.env.local", ".envrc")


def test_what_a_mount_hides_stays(copy, here, there):
    for name in (*SECRETS, ".env.example", "code.py"):
        write(here / name, "mine")
    copy(UPLOAD)
    assert set(files(there)) == {".env.example", "code.py"}
    for name in SECRETS:
        write(there / name, "of the sandbox", OLD + 1)
    before = files(here)
    assert copy(DOWNLOAD)[0]["files"] == 0 and files(here) == before
    write(here / ".cubbyignore", "!.npmrc\n!id_rsa\n")
    (there / ".npmrc").unlink()
    (there / "id_rsa").unlink()
    copy(UPLOAD)
    assert (there / ".npmrc").read_text() == (there / "id_rsa").read_text() == "mine"
    assert (there / ".netrc").read_text() == "of the sandbox"


def test_nothing_leads_out(copy, here, there, tmp_path):
    outside = tmp_path / "outside"
    write(outside / "f", "mine")
    write(here / "a", "a")
    (here / "in").symlink_to(outside)
    copy(UPLOAD)
    assert (there / "in").is_symlink()
    write(there / "in/f", "of the sandbox", OLD + 1)  # below a link: not part of the tree
    write(outside / "f", "mine")
    (there / "up").symlink_to("../../outside")
    (there / "a").unlink()
    (there / "a").symlink_to(outside / "f")
    o, _ = copy(DOWNLOAD)
    assert files(outside) == {"f": "mine"} and (here / "a").read_text() == "a" and not (here / "up").is_symlink()
    assert {s["path"] for s in o["skipped"]} == {"a", "up"}


@pytest.mark.parametrize("name", ["/etc", "..", "../x", "sub", ".git", "", "project/sub", "/", "~"])
def test_no_other_directory(project, sandbox, here, there, name):  # noqa: F811
    (here / "sub").mkdir()
    said = project.result(UPLOAD, sandbox_id=sandbox, sandbox_directory=str(there), local_directory=name)
    if not name:  # an empty argument counts as absent
        assert not said.get("isError"), said
        return
    text = said["content"][0]["text"]
    assert said["isError"] and text.startswith("local_path_denied: ") and str(here) in text and "--project-dir" in text
    assert not there.exists()


def test_two_directories(start, sandbox, here, there, tmp_path):  # noqa: F811
    other = tmp_path / "host/other"
    write(other / "o", "o")
    server = start("--project-dir", str(here), "--project-dir", f"{other}/")  # noqa: F811
    assert "local_path_denied" in server.error(UPLOAD, sandbox_id=sandbox, sandbox_directory=str(there))
    for name in ("other", str(other)):
        o = checked(server, UPLOAD, sandbox_id=sandbox, local_directory=name, sandbox_directory=str(there))[0]
        assert o["local_directory"] == str(other)
    assert files(there) == {"o": "o"}


def test_the_default_is_a_directory_of_that_name_at_home(project, real, sandbox, here):  # noqa: F811
    write(here / "a", "a")
    o, text, _ = checked(project, UPLOAD, sandbox_id=sandbox)
    assert o["sandbox_directory"] == "~/project" and "~/project" in text


def test_too_much(start, sandbox, here, there):  # noqa: F811
    server = start("--project-dir", str(here), "--max-download-bytes", "1000")  # noqa: F811
    write(here / "big", "x" * 2000)
    said = server.error(UPLOAD, sandbox_id=sandbox, sandbox_directory=str(there))
    assert said.startswith("copy_failed: 2.0 kB would be copied, and at most 1.0 kB may be"), said
    assert files(there) == {}


@pytest.mark.parametrize("name", [UPLOAD, DOWNLOAD])
def test_a_directory_that_became_a_link(project, sandbox, here, there, tmp_path, name):  # noqa: F811
    """A sandbox that a directory above is mounted in can put it there."""
    outside = tmp_path / "outside"
    write(outside / "secret", "mine")
    write(there / "new", "of the sandbox")
    here.rename(here.with_name("old"))
    here.symlink_to(outside)
    said = project.error(name, sandbox_id=sandbox, sandbox_directory=str(there))
    assert said.startswith("local_path_denied: ") and "another directory now" in said, said
    here.unlink()
    here.mkdir()
    assert "another directory now" in project.error(name, sandbox_id=sandbox, sandbox_directory=str(there))
    assert files(outside) == {"secret": "mine"} and files(there) == {"new": "of the sandbox"} and not files(here)


def test_what_cannot_be(start, sandbox, here, there, tmp_path):  # noqa: F811
    server = start("--project-dir", str(tmp_path / "none"))  # noqa: F811
    assert "local_file_not_found" in server.error(UPLOAD, sandbox_id=sandbox)
    server = start("--project-dir", str(here))  # noqa: F811
    assert "sandbox_not_found" in server.error(UPLOAD, sandbox_id="a" * 20)
    assert "invalid_sandbox_id" in server.error(UPLOAD, sandbox_id=f"{sandbox}:/etc")
    write(tmp_path / "guest/file", "f")
    assert "copy_failed" in server.error(UPLOAD, sandbox_id=sandbox, sandbox_directory=str(tmp_path / "guest/file"))


def hang(server, real, sandbox, here, there, tmp_path):  # noqa: F811
    """An upload whose tar in the sandbox never ends by itself: (request, pid of the program, pid of tar)."""
    write(tmp_path / "bin/tar", f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 987\n")
    (tmp_path / "bin/tar").chmod(0o755)
    assert real.envd.init(envVars={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})[0] == 204
    write(here / "a", "a")
    request = server.start_tool(UPLOAD, sandbox_id=sandbox, sandbox_directory=str(there))
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"), 60, "tar")
    (child,) = children(server.process.pid)
    return request, child, int((tmp_path / "pid").read_text())


def test_a_call_that_is_cancelled_ends_the_program(project, real, sandbox, here, there, tmp_path):  # noqa: F811
    request, child, tar = hang(project, real, sandbox, here, there, tmp_path)
    project.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    wait_for(lambda: not process_exists(child), 60, "the end of the program")
    wait_for(lambda: not process_exists(tar), 60, "the end of tar")
    assert project.request("ping", {}) == {}


def test_a_server_that_is_killed_ends_the_program(real, sandbox, here, there, tmp_path):  # noqa: F811
    killed = Stdio("--project-dir", str(here), env=real.environment(), cwd=tmp_path)
    killed.initialize("2025-11-25")
    _, child, tar = hang(killed, real, sandbox, here, there, tmp_path)
    killed.process.kill()
    killed.process.wait(60)
    wait_for(lambda: not process_exists(child), 60, "the end of the program")
    wait_for(lambda: not process_exists(tar), 60, "the end of tar")
    killed.close()


def children(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_permissions_here(copy, here, there):
    write(there / "tool", "x")
    (there / "tool").chmod(0o4777)
    copy(DOWNLOAD)
    assert stat.S_IMODE((here / "tool").stat().st_mode) & 0o7022 == 0


def test_a_file_that_changes_is_left_out(copy, real, here, there, tmp_path):  # noqa: F811
    """tar ends with 1 when a file changes while it reads it."""
    write(there / "log", "old")
    write(there / "other", "other")
    tar = tmp_path / "tools/tar"
    write(tar, f'#!/bin/sh\n{shutil.which("tar")} "$@"; echo more >>"{there}/log"; exit 1\n')
    tar.chmod(0o755)
    assert real.envd.init(envVars={"PATH": f"{tar.parent}:{os.environ['PATH']}"})[0] == 204
    o, text = copy(DOWNLOAD)
    assert [s["path"] for s in o["skipped"]] == ["log"] and "Left out log: it changes while it is copied" in text
    assert files(here) == {"other": "other"}
