# SPDX-License-Identifier: Apache-2.0
"""cubby setup --client: each client's file gets one entry, and every other byte stays; cubby without a verb."""

import json
import os
import re
import shutil
import socket
import subprocess
import tomllib

import pytest

from harness import BIN

try:
    import yaml
except ImportError:
    yaml = None  # the forms are judged by their text then

SERVER = str(BIN / "cubby-mcp")

# A file as a user has it, and the lines that a setup adds to it (None: a list of lines, with their marks).
CLAUDE = """{
  "numStartups": 41,
  "tipsHistory": {"new-user-warmup": 3},
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.githubcopilot.com/mcp/"
    }
  },
  "projects": {
    "/home/u/p": {
      "mcpServers": {}
    }
  }
}
"""
DESKTOP = '{"mcpServers":{"filesystem":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/home/u"]}}}'
CURSOR = """{
\t"mcpServers": {
\t\t"linear": { "url": "https://mcp.linear.app/sse" }
\t}
}
"""
VSCODE = """// Servers of this user
{
    "inputs": [
        /* asked once */
        { "id": "key", "type": "promptString", "password": true, },
    ],
    "servers": {
        "playwright": {
            "command": "npx", // the newest
            "args": ["@playwright/mcp@latest"],
        }, // keep this one
    },
}
"""
GEMINI = """{
  "theme": "GitHub", // "mcpServers": {}
  "selectedAuthType": "oauth-personal"
}
"""
ZED = """// Zed settings
//
// For information on how to configure Zed, see the Zed
// documentation: https://zed.dev/docs/configuring-zed
{
  "ui_font_size": 16,
  "context_servers": {},
  "theme": {
    "mode": "system", // follow the system
    "light": "One Light",
  },
}
"""
CODEX = """model = "gpt-5"
approval_policy = "on-request" # ask me

[projects."/home/u/p"]
trust_level = "trusted"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]

[mcp_servers.docs.env]
KEY = "a # b"
"""
GOOSE = """# goose
GOOSE_PROVIDER: anthropic
extensions:
    # my own
    developer:
        bundled: true
        enabled: true
        name: developer
        timeout: 300
        type: builtin
GOOSE_MODE: smart_approve
"""
FILES = {
    "claude-code": (".claude.json", CLAUDE), "claude-desktop": (".config/Claude/claude_desktop_config.json", DESKTOP),
    "cursor": (".cursor/mcp.json", CURSOR), "vscode": (".config/Code/User/mcp.json", VSCODE),
    "codex": (".codex/config.toml", CODEX), "gemini": (".gemini/settings.json", GEMINI),
    "zed": (".config/zed/settings.json", ZED), "goose": (".config/goose/config.yaml", GOOSE)}
SECTION = {"vscode": "servers", "codex": "mcp_servers", "zed": "context_servers", "goose": "extensions"}


def setup(home, *words, **options):
    env = {name: value for name, value in os.environ.items() if name not in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR")}
    env.update({"HOME": str(home), "CUBBY_HOME": str(home / "c"), **options})
    return subprocess.run([BIN / "cubby", *words], env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def client(home, name, *more, **options):
    return setup(home, "setup", "--client", name, *more, **options)


def plain(text):
    """JSON without comments and trailing commas, outside of strings."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m[1] or "", text, flags=re.S)
    return re.sub(r'("(?:\\.|[^"\\])*")|,(\s*[}\]])', lambda m: m[1] or m[2], text)


def blocks(text):
    """Goose's YAML: blocks of lines, whose plain values are words, numbers or JSON."""
    stack = [(-1, {})]
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        if not key or key.startswith("#"):
            continue
        assert colon, line
        depth = len(line) - len(line.lstrip(" "))
        while stack[-1][0] >= depth:
            stack.pop()
        try:
            stack[-1][1][key] = json.loads(value)
        except ValueError:
            stack[-1][1][key] = value.strip() or {}
        if not value.strip():
            stack.append((depth, stack[-1][1][key]))
    return stack[0][1]


def parse(name, text):
    if name == "codex":
        return tomllib.loads(text)
    return blocks(text) if name == "goose" else json.loads(plain(text))


def place(home, name, text):
    path = home / FILES[name][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def is_subsequence(short, long):
    rest = iter(long)
    return all(character in rest for character in short)


@pytest.mark.parametrize("name", FILES)
def test_an_entry_is_added_and_nothing_else_changes(tmp_path, name):
    before = FILES[name][1]
    path = place(tmp_path, name, before)
    done = client(tmp_path, name, "--yes")
    assert done.returncode == 0, done.stderr
    after = path.read_text()
    assert is_subsequence(before, after)  # comments, order and blanks: only additions
    got, wanted = parse(name, after), parse(name, before)
    entry = got[SECTION.get(name, "mcpServers")].pop("cubby")
    assert entry.get("command", entry.get("cmd")) == SERVER
    assert ("--structured" in entry.get("args", [])) == (name in ("claude-code", "codex"))
    assert entry["envs" if name == "goose" else "env"] == {"CUBBY_HOME": str(tmp_path / "c")}  # as it was when setup ran
    wanted.setdefault(SECTION.get(name, "mcpServers"), {})
    assert got == wanted
    assert [key for key in got if key in wanted] == [key for key in wanted if key in got]


@pytest.mark.parametrize("name", FILES)
def test_a_second_setup_changes_nothing(tmp_path, name):
    path = place(tmp_path, name, FILES[name][1])
    assert client(tmp_path, name, "--yes").returncode == 0
    first = path.read_bytes()
    again = client(tmp_path, name)
    assert again.returncode == 0 and "has the entry already" in again.stdout
    assert path.read_bytes() == first


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file(tmp_path, name):
    path = tmp_path / FILES[name][0]
    assert client(tmp_path, name, "--yes").returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    whole = path.read_text()
    assert list(parse(name, whole)) == [SECTION.get(name, "mcpServers")]
    path.write_text("")
    assert client(tmp_path, name, "--yes").returncode == 0 and path.read_text() == whole


@pytest.mark.parametrize("name", FILES)
def test_without_yes_the_change_is_only_shown(tmp_path, name):
    path = place(tmp_path, name, FILES[name][1])
    done = client(tmp_path, name)
    assert done.returncode == 1 and path.read_text() == FILES[name][1]
    added = [line[2:] for line in done.stdout.splitlines() if line.startswith("+ ")]
    assert any(SERVER in line for line in added) and "--yes" in done.stdout
    removed = [line for line in done.stdout.splitlines() if line.startswith("- ")]
    assert len(removed) <= 1  # a line that gets a comma, or that holds the whole file


ENV = {"env": {"CUBBY_HOME": "HOME/c"}}


@pytest.mark.parametrize("name, old, new", [
    ("cursor", {"command": "/old/cubby-mcp", "args": ["-x"], "disabled": True}, {"args": ["-x"], "disabled": True}),
    ("cursor", {"command": "cubby-mcp", "env": {"A": "1"}}, {"env": {"A": "1", "CUBBY_HOME": "HOME/c"}}),
    ("cursor", {"command": "npx", "args": ["-y", "cubby-mcp@latest", "--mount", "."]}, {"args": ["--mount", "."]}),
    ("cursor", {"command": "uvx", "args": ["--from", "cubby-mcp==1", "cubby-mcp"]}, {"args": []}),
    ("cursor", {"command": "node", "args": ["other.js"]}, {"args": []}),  # another program's words
    ("cursor", {"url": "http://localhost:1/mcp", "headers": {}, "timeout": 3}, {"timeout": 3}),
    ("vscode", {"type": "http", "url": "http://localhost:1/mcp"}, {"type": "stdio"}),
    ("claude-code", {"command": "npx", "args": ["-y", "cubby-mcp"]}, {"type": "stdio", "args": ["--structured", "off"]}),
    ("claude-code", {"type": "stdio", "command": "x/cubby-mcp", "args": ["--structured", "on"]}, {"type": "stdio", "args": ["--structured", "on"]})])
def test_an_older_entry_keeps_its_settings(tmp_path, name, old, new):
    section = SECTION.get(name, "mcpServers")
    path = place(tmp_path, name, json.dumps({section: {"cubby": old, "other": {"command": "x"}}}))
    assert client(tmp_path, name, "--yes").returncode == 0
    wanted = json.loads(json.dumps({**ENV, **new, "command": SERVER}).replace("HOME/c", str(tmp_path / "c")))
    assert json.loads(path.read_text())[section] == {"cubby": wanted, "other": {"command": "x"}}
    again = client(tmp_path, name)
    assert again.returncode == 0 and "has the entry already" in again.stdout


def test_comments_in_an_older_entry_stay(tmp_path):
    before = """{
  "mcpServers": {
    "cubby": { // mine
      "args": ["-x"], // keep
      "command": "/old/cubby-mcp", /* the newest */
      "env": {"CUBBY_HOME": "STATE"}
    }
  }
}
""".replace("STATE", str(tmp_path / "c"))
    path = place(tmp_path, "cursor", before)
    assert client(tmp_path, "cursor", "--yes").returncode == 0
    assert path.read_text() == before.replace("/old/cubby-mcp", SERVER)


@pytest.mark.parametrize("name, text, why", [
    ("cursor", '{"mcpServers": {"a": 1}', "is not JSON"),
    ("cursor", '{"mcpServers": []}', "is not an object"),
    ("cursor", '{"mcpServers": {}, "mcpServers": {}}', "twice"),
    ("cursor", '{"a": 1} {"b": 2}', "follows the end"),
    ("cursor", "[" * 100, "nested"),
    ("cursor", '["a"]', "is not an object"),
    ("zed", '{"context_servers": {"a": "no end}', "has no end"),
    ("codex", 'mcp_servers = { docs = { command = "x" } }\n', "a table for each server"),
    ("codex", 'mcp_servers.docs.command = "x"\n', "a table for each server"),
    ("codex", '[mcp_servers]\ncubby = { command = "x" }\n', "a table for each server"),
    ("codex", '[mcp_servers.cubby]\ncommand = "other"\n', "another entry"),
    ("codex", 'notes = """\n[mcp_servers.cubby]\n"""\n', "several lines"),
    ("goose", "extensions: {developer: {enabled: true}}\n", "not a block"),
    ("goose", "extensions:\n  cubby:\n    cmd: other\n", "another entry"),
    ("goose", "---\nextensions:\n", "several documents"),
    ("cursor", '\ufeff{"mcpServers": {}}', "byte order mark"),
    ("cursor", "[]", "the file is not an object"),
    ("cursor", "null", "the file is not an object"),
    ("codex", '[mcp_servers."cubby"]\ncommand = "x"\n', "line 1: it has another entry"),
    ("codex", "['mcp_servers'.cubby]\n", "another entry"),
    ("codex", "[ mcp_servers . cubby ]\n", "another entry"),
    ("codex", "[mcp_servers.cubby ] # mine\n", "another entry"),
    ("codex", '"mcp_servers".cubby.command = "x"\n', "a table for each server"),
    ("codex", 'mcp_servers . cubby.command = "x"\n', "a table for each server"),
    ("codex", '[mcp_servers."c\\u0075bby"]\n', "line 1: a name in quotes has an escape"),
    ("codex", "[mcp_servers.cubby.env]\n", "another entry"),
    ("codex", "[[mcp_servers.cubby]]\n", "another entry"),
    ("codex", "[[mcp_servers]]\n", "a table for each server"),
    ("codex", "[mcp_servers]\n", "a table for each server"),
    ("codex", "a = 1\n[mcp_servers\nfoo\n", "line 2: a header has no end"),
    ("codex", "a = [\n", "a list has no end"),
    ("codex", "a = foo\n", "line 1: its value is not understood"),
    ("codex", "a = 1\na = 2\n", "line 2: it defines a name a second time"),
    ("codex", "[a]\n[a]\n", "line 2: it defines a table a second time"),
    ("codex", "a.b = 1\n[a]\n", "a second time"),
    ("codex", "[a]\nb = {c = 1}\n[a.b.d]\n", "line 3"),
    ("codex", 'a = "b\nc"\n', "a string has no end"),
    ("codex", 'a = "\\x"\n', "an escape"),
    ("codex", "a = {b = 1, }\n", "line 1"),
    ("codex", "\ufeffa = 1\n", "byte order mark"),
    ("codex", "a = 1 # \x01\n", "line 1: it has a control character"),
    ("goose", '"extensions": {}\n', "not a block"),
    ("goose", "extensions:\n- a\n", "line 2: the section is a list"),
    ("goose", "extensions:\n  - a\n", "line 2: the section is a list"),
    ("goose", 'extensions:\n  "cubby":\n    cmd: x\n', "line 2: it has another entry"),
    ("goose", "extensions:\n  cubby :\n    cmd: x\n", "another entry"),
    ("goose", '\'extensions\':\n  a:\n    b: 1\n  "c\\x75bby":\n    cmd: x\n', "line 4"),
    ("goose", "  a: 1\n  extensions:\n", "line 1: it does not begin with a name in the first column"),
    ("goose", "extensions:\n\ta: 1\n", "line 2: it has a tab"),
    ("goose", 'a: "b\nextensions:\n  c"\n', "line 1: its value is not understood"),
    ("goose", "a: b\n  c\nextensions:\n", "line 2"),
    ("goose", "extensions:\nextensions:\n", "line 2: it has a name a second time"),
    ("goose", "extensions: &x\n  a: 1\n", "not a block"),
    ("goose", "a: *x\n", "line 1"),
    ("goose", "? extensions\n: a\n", "line 1"),
    ("goose", "<<: {}\n", "line 1"),
    ("goose", "- a\n", "line 1"),
    ("goose", "a: b: c\n", "line 1"),
    ("goose", "a: |\n    b\n  c\n", "line 3: its indent"),
    ("goose", "a:\n    b: 1\n  c: 1\n", "line 3: its indent"),
    ("goose", "a: |\n  b", "line 2: a text has no end of line"),
    ("goose", "\ufeffa: 1\n", "byte order mark")])
def test_a_form_that_is_not_known_is_refused_with_what_to_add(tmp_path, name, text, why):
    path = place(tmp_path, name, text)
    done = client(tmp_path, name, "--yes")
    assert done.returncode == 1 and path.read_bytes() == text.encode()
    assert why in done.stderr and "by hand" in done.stderr and SERVER in done.stderr


@pytest.mark.parametrize("name, text", [
    ("codex", '"a b".c = "\\u00e9 # x" # y\n[ x . "y" ]\nz = [1, 2.5,\n  # c\n  "]", {a = true, b.c = -1},\n]\n[[l]]\nn = 1\n[[l]]\nn = 1\n[l.m]\n'),
    ("codex", "[mcp_servers.docs]\r\ncommand = 'C:\\x'\r\n[mcp_servers.'my docs'.env]\r\n"),
    ("codex", "a = [[], {}]"),
    ("goose", '"extensions":\n  developer:\n    args: []\n    envs: {"A": "b"}\n'),
    ("goose", "'extensions' : # mine\n  developer:\n    args:\n    - -x\n    - a: 1\n      b: 'it''s'\n    -\n      - c\n    d: -1\n"),
    ("goose", "extensions :\nGOOSE_MODE: auto # x: y\nurl: http://x:1/\n"),
    ("goose", "a: |\n  extensions:\n\n    x: y\nb: >- # c\n  cubby:\n# extensions:\nextensions:\n  x:\n    t: null"),
    ("goose", "# nothing\n")])
def test_other_forms_are_edited_and_stay_valid(tmp_path, name, text):
    path = place(tmp_path, name, "")
    path.write_bytes(text.encode())
    done = client(tmp_path, name, "--yes")
    assert done.returncode == 0, done.stderr
    after = path.read_bytes().decode()
    added = [line[2:] for line in done.stdout.splitlines() if line.startswith("+ ")]
    assert is_subsequence(text, after) and any("cubby" in line for line in added)
    parse_it = tomllib.loads if name == "codex" else yaml.safe_load if yaml else None
    if parse_it:
        section = SECTION[name]
        got, wanted = parse_it(after), parse_it(text) or {}
        assert SERVER in got[section].pop("cubby").values()
        assert {**got, section: got[section] or None} == {**wanted, section: wanted.get(section)}
    assert "has the entry already" in client(tmp_path, name).stdout


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path):
    path = place(tmp_path, "cursor", "")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "directory").mkdir()
        kinds = ["fifo", "socket", "directory"]
        if os.geteuid() == 0:
            os.mknod(tmp_path / "device", 0o600 | 0o020000, os.makedev(1, 3))  # of its own, as /dev/null
            kinds.append("device")
        for kind in kinds:
            path.symlink_to(tmp_path / kind)
            before = (tmp_path / kind).stat()
            done = client(tmp_path, "cursor", "--yes")
            assert done.returncode == 1 and "is not a regular file" in done.stderr, kind
            now = (tmp_path / kind).stat()
            assert path.is_symlink() and (now.st_mode, now.st_ino) == (before.st_mode, before.st_ino)
            assert "Cursor uses Cubby" not in setup(tmp_path).stdout
            path.unlink()


def test_a_dangling_link_is_followed(tmp_path):
    path = place(tmp_path, "cursor", "")
    path.unlink()
    (path.parent / "middle").symlink_to("../kept/mcp.json")
    path.symlink_to("middle")
    assert client(tmp_path, "cursor", "--yes").returncode == 0
    assert path.is_symlink() and SERVER in (tmp_path / "kept/mcp.json").read_text()
    assert not (tmp_path / "kept/mcp.json").is_symlink()


def test_a_file_that_is_read_only_is_refused(tmp_path):
    path = place(tmp_path, "cursor", CURSOR)
    path.chmod(0o444)
    done = client(tmp_path, "cursor", "--yes")
    assert done.returncode == 1 and "read-only" in done.stderr and path.read_text() == CURSOR


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files of other users")
def test_the_owner_and_the_group_stay(tmp_path):
    path = place(tmp_path, "cursor", CURSOR)
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    assert client(tmp_path, "cursor", "--yes").returncode == 0
    now = path.stat()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o7777) == (12345, 23456, 0o640) and SERVER in path.read_text()


@pytest.mark.parametrize("name, variable, file", [
    ("codex", "CODEX_HOME", "config.toml"), ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json")])
def test_the_directory_that_a_client_is_told_is_followed(tmp_path, name, variable, file):
    done = client(tmp_path, name, "--yes", **{variable: str(tmp_path / "elsewhere")})
    assert done.returncode == 0 and SERVER in (tmp_path / "elsewhere" / file).read_text()
    assert not (tmp_path / FILES[name][0]).exists()
    done = client(tmp_path, name, "--yes", **{variable: "elsewhere"})
    assert done.returncode == 1 and f"{variable} is not an absolute path" in done.stderr


def test_without_a_home_of_its_own_the_entry_names_none(tmp_path):
    assert client(tmp_path, "cursor", "--yes", CUBBY_HOME="").returncode == 0
    assert json.loads((tmp_path / ".cursor/mcp.json").read_text()) == {"mcpServers": {"cubby": {"command": SERVER}}}


@pytest.mark.parametrize("where, command, args", [
    (".npm/_npx/ab12/node_modules/cubby-mcp/tree", "npx", ["-y", "cubby-mcp"]),
    (".cache/uv/archive-v0/ab12/lib/python3.11/site-packages/cubby_mcp/tree", "uvx", ["cubby-mcp"])])
def test_an_entry_does_not_name_the_cache_of_a_launcher(tmp_path, where, command, args):
    programs = tmp_path / where / "bin"
    programs.mkdir(parents=True)
    for name in "cubby", "cubby-mcp":
        shutil.copy(BIN / name, programs)
    env = {**os.environ, "HOME": str(tmp_path), "CUBBY_HOME": ""}
    subprocess.run([programs / "cubby", "setup", "--client", "cursor", "--yes"], env=env, check=True, timeout=60, capture_output=True)
    entry = {"command": command, "args": args}
    assert json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]["cubby"] == entry
    words = [programs / "cubby", "setup", "--client", "cursor"]
    again = subprocess.run(words, env=env, timeout=60, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert "has the entry already" in again.stdout


def test_two_clients_at_once_are_refused(tmp_path):
    done = client(tmp_path, "cursor", "--client", "zed", "--yes")
    assert done.returncode == 2 and 'run cubby setup again for "zed"' in done.stderr
    assert not (tmp_path / ".cursor/mcp.json").exists()


@pytest.mark.parametrize("name, text, uses", [
    ("cursor", '{"mcpServers": {} /* "cubby-mcp" */}', False),
    ("cursor", '{"history": ["cubby-mcp"]}', False),
    ("cursor", '{"mcpServers": {"mine": {"command": "cubby-mcp"}}}', True),
    ("codex", '# command = "cubby-mcp"\n', False),
    ("codex", '[mcp_servers.mine]\ncommand = "cubby-mcp"\n', True)])
def test_a_comment_is_no_configuration(tmp_path, name, text, uses):
    place(tmp_path, name, text)
    assert (" uses Cubby." in setup(tmp_path).stdout) == uses


def test_a_link_stays_a_link_and_the_mode_stays(tmp_path):
    path = place(tmp_path, "gemini", GEMINI)
    real = tmp_path / "dotfiles.json"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    assert client(tmp_path, "gemini", "--yes").returncode == 0
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640 and SERVER in real.read_text()
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith("dotfiles")] == ["dotfiles.json"]


def test_the_directory_of_configurations_is_heeded(tmp_path):
    done = client(tmp_path, "zed", "--yes", XDG_CONFIG_HOME=str(tmp_path / "elsewhere"))
    assert done.returncode == 0 and (tmp_path / "elsewhere/zed/settings.json").exists()


def test_a_client_that_is_not_known(tmp_path):
    done = client(tmp_path, "notepad")
    assert done.returncode == 2 and "cubby setup --help" in done.stderr
    said = setup(tmp_path, "setup", "--help").stdout
    assert all(name in said for name in FILES)


# ---- cubby without a verb

def test_first_contact_names_the_next_steps(tmp_path):
    place(tmp_path, "cursor", CURSOR)
    place(tmp_path, "zed", ZED)
    said = setup(tmp_path)
    assert said.returncode == 0
    assert "There is no template yet" in said.stdout and "cubby setup " in said.stdout
    assert "cubby setup --client cursor" in said.stdout and "--client goose" not in said.stdout
    assert client(tmp_path, "cursor", "--yes").returncode == 0
    template = tmp_path / "c/templates/default"
    template.mkdir(parents=True)
    (template / "template.json").write_text("{}")
    later = setup(tmp_path).stdout
    assert "Cursor uses Cubby." in later and "--client cursor" not in later and "--client zed" in later
    assert "cubby selftest" in later and "The daemon does not run" in later


def test_first_contact_without_qemu(tmp_path):
    said = setup(tmp_path, PATH=str(tmp_path), CUBBY_QEMU="").stdout
    assert ("apt-get install qemu-system-x86" in said) == (not os.path.exists("/usr/sbin/qemu-system-x86_64"))


@pytest.mark.parametrize("words, whom", [
    (["setup"], "this user"), (["setup", "--service"], "all users of this machine")])
def test_setup_makes_the_template_where_its_users_read_it(tmp_path, words, whom):
    """A service reads no user's home, so its template is one of the system."""
    done = setup(tmp_path, *words, PATH="/nonexistent", CUBBY_SYSTEM_TEMPLATES=str(tmp_path / "all"))
    expected = whom if os.geteuid() == 0 else "this user"
    assert f'template: building "default" for {expected}' in done.stdout
    assert done.returncode != 0 and "mmdebstrap" in done.stderr
    assert (tmp_path / "all").exists() == (expected != "this user")


def test_a_template_of_the_system_is_found(tmp_path):
    default = tmp_path / "all" / "default"
    default.mkdir(parents=True)
    os.chmod(tmp_path / "all", 0o755)
    os.chmod(default, 0o755)
    (default / "template.json").write_text("{}")
    (default / "template.json").chmod(0o644)
    done = setup(tmp_path, CUBBY_SYSTEM_TEMPLATES=str(tmp_path / "all"))
    assert 'The template "default" is there.' in done.stdout
    again = setup(tmp_path, "setup", CUBBY_SYSTEM_TEMPLATES=str(tmp_path / "all"))
    assert 'template: "default" is there' in again.stdout
    (default / "template.json").chmod(0o666)  # anybody could replace it, so it is not used
    assert "There is no template yet" in setup(tmp_path, CUBBY_SYSTEM_TEMPLATES=str(tmp_path / "all")).stdout
