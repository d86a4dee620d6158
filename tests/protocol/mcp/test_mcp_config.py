# SPDX-License-Identifier: Apache-2.0
"""The places that describe options agree: the help, docs/configuration.md, the man page, the
schemas, the example.
"""

import json
import os
import pathlib
import re
import stat
import subprocess

import jsonschema
import pytest
from harness import BIN

ROOT = pathlib.Path(__file__).resolve().parents[3]
MCP = BIN / "cubby-mcp"
TOKEN = {"name": "ci", "sha256": "ab" * 32}


def run(*args, **env):
    return subprocess.run([MCP, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                          env={**os.environ, **env}, check=False)


def help_options():
    """[(option with its argument, environment, help)]"""
    lines = run("--help").stdout.splitlines()
    found = [re.fullmatch(r"  (--\S+(?: [^ a-z]\S*| [a-z]+(?:\|[a-z]+)+)?) +(.*?)(?: \[([A-Z0-9_]+)\])?", line) for line in lines]
    return [(m[1], m[3] or "", m[2]) for m in found if m]


def test_the_table_in_the_docs_is_the_help():
    text = (ROOT / "docs/configuration.md").read_text()
    (part,) = re.findall(r"^## Options of cubby-mcp\n.*?(?=^## )", text, re.M | re.S)
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in part.splitlines() if line.startswith("| `--")]
    cells = [[c.strip().strip("`").replace("\\|", "|") for c in row] for row in rows]
    assert [(option, env, what) for option, env, _, what in cells] == help_options()
    schema = json.loads((ROOT / "schemas/config.schema.json").read_text())
    assert {key for _, _, key, _ in cells if key} == set(schema["properties"]) - {"$schema"}
    for option, _, key, _ in cells:
        assert key in ("", option.split()[0][2:].replace("-", "_"))


def test_the_man_page_has_every_option_and_no_other():
    text = (ROOT / "docs/man/cubby-mcp.1").read_text().replace("\\-", "-")
    options = text[text.index(".SH OPTIONS"):text.index(".SH ERRORS")]
    named = set(re.findall(r"^\.B[IR]? (--[a-z-]+)", options, re.M)) | set(re.findall(r'", " (--[a-z-]+)', options))
    assert named == {option.split()[0] for option, _, _ in help_options()}


@pytest.mark.parametrize("name", ["config", "tokens", "cubbyd"])
def test_the_schemas_are_schemas(name):
    jsonschema.Draft202012Validator.check_schema(json.loads((ROOT / f"schemas/{name}.schema.json").read_text()))


def test_examples_in_the_docs_fit_their_schemas():
    text = (ROOT / "docs/configuration.md").read_text()
    examples = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.S)]
    config, tokens, cubbyd = examples
    jsonschema.validate(cubbyd, json.loads((ROOT / "schemas/cubbyd.schema.json").read_text()))
    jsonschema.validate(config, json.loads((ROOT / "schemas/config.schema.json").read_text()))
    jsonschema.validate(tokens, json.loads((ROOT / "schemas/tokens.schema.json").read_text()))


def test_the_example_for_clients():
    servers = json.loads((ROOT / "mcp.json.example").read_text())["mcpServers"]
    assert set(servers) == {"cubby", "cubby-http"}
    assert servers["cubby"]["command"] == "cubby-mcp"
    options = {option.split()[0] for option, _, _ in help_options()}
    assert {a for a in servers["cubby"]["args"] if a.startswith("--")} <= options
    assert servers["cubby-http"]["type"] == "http" and servers["cubby-http"]["url"].endswith(":8700/mcp")
    assert servers["cubby-http"]["headers"] == {"Authorization": "Bearer ${CUBBY_TOKEN}"}


def test_a_new_token(tmp_path):
    path = tmp_path / "tokens.json"
    first = run("--new-token", "ci", "--token-file", str(path))
    second = run("--new-token", "ci2", CUBBY_MCP_TOKEN_FILE=str(path))
    for made in (first, second):
        assert made.returncode == 0 and not made.stderr
        assert re.fullmatch(r"cubby_[0-9a-f]{64}\n", made.stdout)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tokens = json.loads(path.read_text())
    jsonschema.validate(tokens, json.loads((ROOT / "schemas/tokens.schema.json").read_text()))
    assert [t["name"] for t in tokens["tokens"]] == ["ci", "ci2"]
    assert first.stdout.strip()[6:] not in path.read_text()
    again = run("--new-token", "ci", "--token-file", str(path))
    assert again.returncode == 2 and not again.stdout and 'the name "ci" is taken' in again.stderr


def test_a_token_that_cannot_be_printed(tmp_path):
    """The token is removed again, and its name can be used again."""
    path = tmp_path / "tokens.json"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([MCP, "--new-token", "ci", "--token-file", path], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=30, check=False)
    assert done.returncode == 2 and "could not be printed" in done.stderr and "No space left" in done.stderr
    assert json.loads(path.read_text())["tokens"] == []
    assert run("--new-token", "ci", "--token-file", str(path)).returncode == 0


def test_tokens_that_are_made_at_once_are_all_there(tmp_path):
    path = tmp_path / "tokens.json"
    makers = [subprocess.Popen([MCP, "--new-token", f"t{i}", "--token-file", path], stdout=subprocess.DEVNULL)
              for i in range(10)]
    assert [m.wait(30) for m in makers] == [0] * 10
    assert {t["name"] for t in json.loads(path.read_text())["tokens"]} == {f"t{i}" for i in range(10)}


@pytest.mark.parametrize("bad", [
    {"tokens": [{**TOKEN, "sha256": "ab"}]}, {"tokens": [{**TOKEN, "name": "a b"}]}, {"tokens": [{**TOKEN, "x": 1}]},
    {"tokens": [{**TOKEN, "max_sandboxes": -1}]}, {"tokens": [{**TOKEN, "calls_per_minute": 1.5}]},
    {"tokens": [{"name": "ci"}]}, {"tokens": {}}, {"x": []}, [],
    {"tokens": [], "removed": []}, {"tokens": [], "removed": {"a b": "2026-11-28T10:11:12Z"}},
    {"tokens": [], "removed": {"ci": 1}}], ids=repr)
def test_what_the_schema_of_tokens_refuses_the_program_does_too(tmp_path, bad):
    schema = json.loads((ROOT / "schemas/tokens.schema.json").read_text())
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(bad))
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps(bad))
    path.chmod(0o600)
    made = run("--new-token", "other", "--token-file", str(path))
    assert made.returncode == 2 and str(path) in made.stderr and json.loads(path.read_text()) == bad


def test_a_configuration_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"max_streams": "many"}')
    bad = run("--config", str(path))
    assert bad.returncode == 2 and not bad.stdout
    assert str(path) in bad.stderr and '"max_streams" must be a whole number' in bad.stderr
    path.write_text('{"log_level": "info", "local_dir": ["/tmp"]}')
    assert run("--config", str(path)).returncode == 0  # stdin is at its end
