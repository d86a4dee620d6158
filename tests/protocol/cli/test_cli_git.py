# SPDX-License-Identifier: Apache-2.0
"""git-remote-cubby and cubby work, with real git on both sides and a real envd."""

import json
import os
import pathlib
import pwd
import re
import subprocess

import pytest

from fake_cubbyd import ID, FakeDaemon, listed

BIN = pathlib.Path(os.environ["BIN"])
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def fake():
    daemon = FakeDaemon()
    daemon.init(defaultUser=ME)
    daemon.sandboxes[ID] = listed(ID)
    yield daemon
    daemon.close()


class Host:
    """A directory of the host, with a home and git settings of its own."""

    def __init__(self, fake, path):
        self.path = path
        (path / "home").mkdir()
        self.env = {k: v for k, v in fake.env.items() if not k.startswith("GIT_")}
        self.env.update(HOME=str(path / "home"), PATH=f"{BIN}:{os.environ['PATH']}", GIT_TERMINAL_PROMPT="0")
        for name, value in {"user.name": "Host", "user.email": "host@example.org", "init.defaultBranch": "main"}.items():
            self.git("config", "--global", name, value, cwd=path)

    def run(self, *words, cwd=None, status=0, text=None):
        done = subprocess.run(words, cwd=cwd or self.path, env=self.env, capture_output=True, timeout=120,
                              input=text or b"")
        assert status is None or done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode().strip() if status == 0 else done

    def git(self, *words, **more):
        return self.run("git", *words, **more)

    def make(self, name, **files):
        top = self.path / name
        self.git("init", "-q", name)
        for file, text in {"a.txt": "one\n", **files}.items():
            (top / file).write_text(text)
        self.git("add", "-A", cwd=top)
        self.git("commit", "-qm", "first", cwd=top)
        return top


@pytest.fixture
def host(fake, tmp_path):
    (tmp_path / "host").mkdir()
    return Host(fake, tmp_path / "host")


@pytest.fixture
def guest(fake, tmp_path):
    (tmp_path / "guest").mkdir()
    return Host(fake, tmp_path / "guest")


# ---- the remote helper
def test_clone_fetch_and_push(host, guest):
    there = guest.make("project")
    url = f"cubby::{ID}{there}"
    host.git("clone", "-q", url, "mine")
    mine = host.path / "mine"
    assert (mine / "a.txt").read_text() == "one\n"
    (there / "a.txt").write_text("two\n")
    guest.git("commit", "-qam", "second", cwd=there)
    host.git("pull", "-q", cwd=mine)
    assert (mine / "a.txt").read_text() == "two\n"
    (mine / "b.bin").write_bytes(os.urandom(3 << 20))
    host.git("add", "-A", cwd=mine)
    host.git("commit", "-qm", "third", cwd=mine)
    host.git("push", "-q", "origin", "HEAD:refs/heads/topic", cwd=mine)
    assert guest.git("rev-parse", "topic", cwd=there) == host.git("rev-parse", "HEAD", cwd=mine)
    guest.git("fsck", "--strict", cwd=there)
    refused = host.git("push", "origin", "HEAD:main", cwd=mine, status=1)
    assert b"refusing to update checked out branch" in refused.stderr


def test_urls(host, guest, fake):
    there = guest.make("project")
    fake.init(defaultUser=ME)
    short = ID[:8]
    for url in (f"cubby::{short}{there}", f"cubby://{ID}{there}", f"cubby::{ID}:{there}"):
        assert host.git("ls-remote", url, "refs/heads/main").endswith("refs/heads/main")
    home = pathlib.Path(pwd.getpwnam(ME).pw_dir)
    relative = os.path.relpath(there, home)
    for url in (f"cubby::{ID}/~/{relative}", f"cubby::{ID}:{relative}"):
        assert host.git("ls-remote", url, "refs/heads/main").endswith("refs/heads/main")


def test_the_urls_of_the_man_page(host, guest, fake):
    there = guest.make("project")
    fake.init(defaultUser=ME)
    page = (pathlib.Path(__file__).parents[3] / "docs/man/git-remote-cubby.1").read_text(encoding="utf-8")
    synopsis = page[page.index(".SH SYNOPSIS"):page.index(".SH DESCRIPTION")]
    forms = [line.replace('"', "").replace(" ", "") for line in re.findall(r'^\.BI "git clone (cubby:.*)$', synopsis, re.M)]
    assert len(forms) == 4
    relative = os.path.relpath(there, pathlib.Path(pwd.getpwnam(ME).pw_dir))
    for form in forms:
        path = relative if form.endswith(("~/PATH", ":PATH")) else str(there)[1:]
        url = form.replace("ID", ID).replace("PATH", path)
        assert host.git("ls-remote", url, "refs/heads/main").endswith("refs/heads/main"), url


@pytest.mark.parametrize("url, said", [
    (f"cubby::{ID}", "the URL of a repository in a sandbox is"), ("cubby::/x", "the URL of a repository"),
    (f"cubby::{ID}/none/there", "does not appear to be a git repository"),
    (f"cubby::{ID}/--upload-pack=x", "does not appear to be a git repository"),
    ("cubby::ffffffffffffffffffff/x", "does not exist"), ("cubby::zz/x", "no sandbox has an id that begins")])
def test_urls_of_nothing(host, url, said):
    failed = host.git("ls-remote", url, status=128)
    assert said in failed.stderr.decode()


def test_a_sandbox_without_git(host, guest, fake):
    there = guest.make("project")
    fake.init(defaultUser=ME, envVars={"PATH": "/none"})
    assert "install git in it" in host.git("clone", f"cubby::{ID}{there}", status=128).stderr.decode()


def test_a_lost_sandbox(host, guest, fake):
    there = guest.make("project")
    fake.kill_envd()
    host.git("clone", f"cubby::{ID}{there}", "mine", status=128)
    assert not (host.path / "mine").exists()


# ---- hostile repositories
def attack(guest, there, mark):
    """Puts every program into the repository of the sandbox that git could be made to run."""
    for hook in ("post-checkout", "post-merge", "pre-push", "post-update", "reference-transaction", "fsmonitor-watchman"):
        path = there / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\n[ \"$CUBBY_HOST\" ] && echo {hook} >> {mark}\nexit 0\n")
        path.chmod(0o755)
    for name in ("core.fsmonitor", "core.sshCommand", "diff.external", "filter.x.smudge", "filter.x.clean", "core.pager",
                 "credential.helper"):
        guest.git("config", name, f"sh -c '[ \"$CUBBY_HOST\" ] && echo {name} >> {mark}; cat'", cwd=there)
    (there / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (there / ".gitmodules").write_text(
        f"[submodule \"s\"]\n\tpath = s\n\turl = ext::touch {mark}\n")
    commit = guest.git("rev-parse", "HEAD", cwd=there)
    guest.git("update-index", "--add", "--cacheinfo", f"160000,{commit},s", cwd=there)


def test_hostile_programs_do_not_run_here(host, guest):
    there = guest.make("project")
    mark = host.path / "mark"
    attack(guest, there, mark)
    guest.git("-c", "core.fsmonitor=false", "-c", "filter.x.clean=cat", "add", ".gitattributes", ".gitmodules", cwd=there)
    guest.git("-c", "core.fsmonitor=false", "commit", "-qm", "attack", cwd=there)
    host.env["CUBBY_HOST"] = "1"
    url = f"cubby::{ID}{there}"
    host.git("-c", "protocol.file.allow=always", "clone", "-q", url, "plain", status=None)
    host.git("clone", "-q", "--recurse-submodules", url, "deep", status=None)
    mine = host.make("work", b="b\n")
    host.git("fetch", "-q", url, "main", cwd=mine)
    host.git("diff", "--stat", "FETCH_HEAD", cwd=mine)
    host.run(BIN / "cubby", "work", "--out", "--path", there, ID, cwd=mine, status=None)
    assert not mark.exists()
    # The control: without git's rule for transports, the submodule's URL would have run a program.
    host.git("-c", "protocol.ext.allow=always", "clone", "-q", "--recurse-submodules", url, "control", status=None)
    assert mark.exists()


@pytest.mark.parametrize("name", [".git", ".GIT", "..", "git~1", ".git\u200c"])
def test_hostile_trees_are_refused(host, guest, name):
    """Trees that would write into .git, or above the working tree, if git checked them out."""
    there = guest.make("project")
    blob = guest.git("hash-object", "-w", "a.txt", cwd=there)
    tree = guest.git("mktree", cwd=there, text=f"100644 blob {blob}\tconfig\n".encode())
    top = guest.run("git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally", cwd=there,
                    text=b"40000 " + name.encode() + b"\0" + bytes.fromhex(tree))
    commit = guest.git("commit-tree", "-m", "evil", "-p", "HEAD", top, cwd=there)
    guest.git("update-ref", "refs/heads/main", commit, cwd=there)
    mine = host.make("work")
    host.git("config", "--global", "fetch.fsckObjects", "false", cwd=mine)
    refused = host.run(BIN / "cubby", "work", "--out", "--path", there, ID, cwd=mine, status=1)
    assert b"git fetch failed" in refused.stderr
    assert host.git("branch", "--list", "cubby/*", cwd=mine) == ""
    host.git("fetch", "-q", f"cubby::{ID}{there}", "main", cwd=mine)  # the control: git alone takes it


def test_escape_sequences_do_not_reach_the_terminal(host, guest, fake):
    """The stderr of the sandbox's git, and messages in git's protocol, which git itself may show as they are."""
    there = guest.make("project")
    tools = guest.path / "tools"
    tools.mkdir()
    for name, lines in {
            "git-upload-pack": "printf 'a\\tb\\033]0;title\\007\\r\\nno end\\033[2J' >&2\n"
                               f"exec git -c uploadpack.packObjectsHook={tools}/hook upload-pack \"$@\"",
            "hook": "printf 'side\\033[31mband\\n' >&2\nexec \"$@\""}.items():
        (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tools / name).chmod(0o755)
    fake.init(defaultUser=ME, envVars={"PATH": f"{tools}:{os.environ['PATH']}"})
    host.git("clone", "-q", there, "work")
    mine = host.path / "work"
    guest.git("commit", "-q", "--allow-empty", "-m", "second", cwd=there)
    said = host.run("git", "ls-remote", f"cubby::{ID}{there}", cwd=mine, status=None)
    assert said.returncode == 0 and b"a\tb\\x1b]0;title\\x07\n" in said.stderr and b"no end\\x1b[2J" in said.stderr
    assert b"\x1b" not in said.stderr
    said = host.run(BIN / "cubby", "work", "--out", "--path", there, ID, cwd=mine, status=None)
    assert said.returncode == 0 and b"side\\x1b[31mband" in said.stderr and b"\x1b" not in said.stderr


# ---- cubby work
def work(host, mine, *words, **more):
    return host.run(BIN / "cubby", "work", *words, cwd=mine, **more)


def test_the_whole_flow(host, guest):
    mine = host.make("proj")
    there = guest.path / "proj"
    said = work(host, mine, "--path", there, ID, "--", "sh", "-c", "echo two > a.txt && git commit -qam 'by the agent'")
    assert "by the agent" in said and "a.txt | 2 +-" in said and f"git diff HEAD...cubby/{ID[:8]}" in said
    branch = f"cubby/{ID[:8]}"
    assert host.git("show", f"{branch}:a.txt", cwd=mine) == "two" and (mine / "a.txt").read_text() == "one\n"
    assert host.git("log", "-1", "--format=%an %ae", branch, cwd=mine) == "Host host@example.org"
    # The next turn: our commits go in, new ones come out.
    host.git("merge", "-q", branch, cwd=mine)
    (mine / "b.txt").write_text("mine\n")
    host.git("add", "-A", cwd=mine)
    host.git("commit", "-qm", "ours", cwd=mine)
    said = work(host, mine, "--path", there, "--commit", ID, "--", "sh", "-c", "cat b.txt > c.txt")
    assert "Work in a sandbox" in said
    assert host.git("show", f"{branch}:c.txt", cwd=mine) == "mine"
    assert host.git("status", "--porcelain", cwd=mine) == ""
    assert work(host, mine, "--path", there, "--branch", "other", "--out", ID).endswith("git diff HEAD...other")
    told = json.loads(work(host, mine, "--path", there, "--out", "--json", ID))
    assert told["branch"] == branch and [c["subject"] for c in told["commits"]] == ["Work in a sandbox"]
    assert host.git("rev-parse", branch, cwd=mine).startswith(told["commits"][0]["commit"])


def test_the_status_of_the_command(host, guest):
    mine = host.make("proj")
    done = work(host, mine, "--path", guest.path / "p", ID, "--", "sh", "-c", "exit 7", status=7)
    assert done.stdout == b"no new commits\n"


def test_what_is_not_committed_is_told(host, guest):
    mine = host.make("proj")
    (mine / "new").touch()
    done = work(host, mine, "--path", guest.path / "p", ID, "--", "touch", "left", status=None)
    said = done.stderr.decode()
    assert done.returncode == 0 and "not committed here do not go into" in said and "not committed in the sandbox stay" in said


def test_no_commit_is_lost(host, guest):
    """Both sides have commits of their own: each is kept, and cubby says what to do."""
    mine = host.make("proj")
    there = guest.path / "proj"
    work(host, mine, "--path", there, ID, "--", "sh", "-c", "echo theirs > t; git add t; git commit -qm theirs")
    (mine / "m").touch()
    host.git("add", "m", cwd=mine)
    host.git("commit", "-qm", "ours", cwd=mine)
    done = work(host, mine, "--path", there, ID, "--", "true", status=1)
    assert b"bring them out with cubby work --out" in done.stderr
    assert guest.git("log", "-1", "--format=%s", cwd=there) == "theirs"
    # A branch here that has moved on keeps its commits, too.
    branch = f"cubby/{ID[:8]}"
    before = host.git("rev-parse", "HEAD", cwd=mine)
    host.git("update-ref", f"refs/heads/{branch}", before, cwd=mine)
    guest.git("commit", "-q", "--allow-empty", "-m", "more", cwd=there)
    done = work(host, mine, "--path", there, "--out", ID, status=1)
    assert b"non-fast-forward" in done.stderr and host.git("rev-parse", branch, cwd=mine) == before


@pytest.mark.parametrize("make, words, said", [
    (False, [ID, "--", "true"], "not the working tree of a git repository"), (True, [ID], "where there is no terminal"),
    (True, [], "takes the id"), (True, ["--out", ID, "--", "x"], "--out runs no command"),
    (True, ["--branch", "a..b", ID, "--", "true"], "cannot be the name of a branch"),
    (True, ["--path", "/etc", ID, "--", "true"], "is in use and no git repository"),
    (True, ["--path", "/none", "--out", ID], "look at the repository in the sandbox")])
def test_mistakes(host, make, words, said):
    mine = host.make("proj") if make else host.path
    done = work(host, mine, *words, status=None)
    assert done.returncode in (1, 2) and said in done.stderr.decode()
