# SPDX-License-Identifier: Apache-2.0
"""The files of `make dist`, judged by those who read them: the MCP registry's schema, the tool for MCPB bundles, npx and
uvx with the portable programs. By hand, with a network: make test-dist.
"""

import json
import os
import pathlib
import shutil
import subprocess
import zipfile

import jsonschema
import pytest

BUILD = pathlib.Path(os.environ["BIN"]).parent
DIST = BUILD / "dist"
REGISTRY = "github.com/modelcontextprotocol/registry@v1.8.9"
MCPB = "@anthropic-ai/mcpb@2.1.2"


def one(pattern):
    (path,) = DIST.glob(pattern)
    return path


def test_the_registry_accepts_server_json():
    """The schema is a file of the registry's Go module, whose sum Go checks."""
    fetched = json.loads(subprocess.run(["go", "mod", "download", "-json", REGISTRY], cwd="/", check=True, capture_output=True).stdout)
    entry = json.loads(one("server.json").read_text())
    name = entry["$schema"].split("/")[-2]
    schema = json.loads((pathlib.Path(fetched["Dir"]) / f"internal/validators/schemas/{name}.json").read_text())
    assert schema["$id"] == entry["$schema"]
    jsonschema.validate(entry, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**entry, "description": "x" * 101}, schema)


def test_the_bundle_is_valid(tmp_path):
    with zipfile.ZipFile(one("*.mcpb")) as bundle:
        bundle.extract("manifest.json", tmp_path)
    done = subprocess.run(["npx", "-y", MCPB, "validate", "manifest.json"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "passes" in done.stdout, done.stdout + done.stderr
    unpacked = subprocess.run(["npx", "-y", MCPB, "unpack", one("*.mcpb"), tmp_path / "u"], capture_output=True, text=True, timeout=300)
    assert unpacked.returncode == 0, unpacked.stderr
    program = tmp_path / "u" / json.loads((tmp_path / "manifest.json").read_text())["server"]["entry_point"]
    assert subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout.startswith("cubby-mcp ")


def test_each_file_has_its_checksum():
    done = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=DIST, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    named = {line.split()[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in DIST.iterdir()} - {"SHA256SUMS", "SHA256SUMS.minisig"}


@pytest.mark.parametrize("words", [
    pytest.param(lambda: ["npx", "-y", "--offline", f"--package={one('cubby-mcp-*.tgz')}"], id="npx"),
    pytest.param(lambda: [os.environ["FRAMEWORKS"] + "/uv/bin/uvx", "-q", "--offline", "--python", "/usr/bin/python3", "--from",
                          str(one("*.whl"))], id="uvx")])
def test_the_launchers_start_the_portable_programs(words, tmp_path):
    env = {**os.environ, "CUBBY_HOME": str(tmp_path / "h"), "npm_config_cache": str(tmp_path / "npm"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    done = subprocess.run([*words(), "cubby", "doctor", "--json"], env=env, capture_output=True, text=True, timeout=300)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert found["programs"]["level"] == "ok" and found["qemu"]["level"] == "ok"


def test_a_sandbox_of_the_portable_programs(tmp_path):
    """In all walls of the jail, where cubby-netd finds the libraries beside it without /proc. The tests' template serves."""
    tree = BUILD / "portable/tree"
    home = tmp_path / "h"
    (home / "templates").mkdir(parents=True, mode=0o700)
    shutil.copytree(pathlib.Path(os.environ["CUBBY_TEST_HOME"]) / "templates/default", home / "templates/default")
    env = {**os.environ, "CUBBY_HOME": str(home)}
    try:
        done = subprocess.run([tree / "bin/cubby", "run", "--tier", "microvm", "--", "echo", "works"], env=env, capture_output=True,
                              text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and done.stdout == "works\n", done.stderr
    finally:
        subprocess.run([tree / "bin/cubby", "daemon", "stop"], env=env, capture_output=True, timeout=60)
