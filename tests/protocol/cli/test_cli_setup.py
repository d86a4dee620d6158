# SPDX-License-Identifier: Apache-2.0
"""cubby setup --client: each client's file gets one entry, and every other byte stays; cubby without a verb."""

import json
import os
import re
import subprocess
import tomllib

import pytest

from harness import BIN

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
    env = {name: value for name, value in os.environ.items() if name != "XDG_CONFIG_HOME"}
    env.update(HOME=str(home), CUBBY_HOME=str(home / "c"), **options)
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


def test_an_older_entry_is_replaced(tmp_path):
    before = CURSOR.replace('"linear": {', '"cubby": { "command": "/old/cubby-mcp", "args": ["-x"] }, // mine\n\t\t"linear": {')
    path = place(tmp_path, "cursor", before)
    assert client(tmp_path, "cursor", "--yes").returncode == 0
    after = path.read_text()
    assert parse("cursor", after)["mcpServers"]["cubby"] == {"command": SERVER}
    assert "// mine" in after and "/old/" not in after and '"linear": { "url": "https://mcp.linear.app/sse" }' in after


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
    ("goose", "---\nextensions:\n", "several documents")])
def test_a_form_that_is_not_known_is_refused_with_what_to_add(tmp_path, name, text, why):
    path = place(tmp_path, name, text)
    done = client(tmp_path, name, "--yes")
    assert done.returncode == 1 and path.read_text() == text
    assert why in done.stderr and "by hand" in done.stderr and SERVER in done.stderr


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
