# SPDX-License-Identifier: Apache-2.0
"""The files of `make dist`, judged by those who read them: the MCP registry's schema, the tool for MCPB bundles, minisign,
npx, uvx and install.sh with the portable programs. By hand, with a network: make test-dist. docs/releases.md has the figures
that it prints.
"""

import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
import zipfile

import jsonschema
import pytest

from first_contact import first_output
from mcp_stdio import Stdio

BUILD = pathlib.Path(os.environ["BIN"]).parent
DIST = BUILD / "package/dist"  # as build/dist, signed by `make` with a key that it has removed
REGISTRY = "github.com/modelcontextprotocol/registry@v1.8.9"
MCPB = "@anthropic-ai/mcpb@2.1.2"
KEY = BUILD / "package/dist.pub"


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


def test_the_checksums_are_signed(tmp_path):
    def verify(name):
        return subprocess.run(["minisign", "-V", "-q", "-p", KEY, "-m", name], capture_output=True, timeout=60).returncode

    assert verify(DIST / "SHA256SUMS") == 0
    for name in "SHA256SUMS", "SHA256SUMS.minisig":
        shutil.copy(DIST / name, tmp_path)
    with open(tmp_path / "SHA256SUMS", "a", encoding="utf-8") as changed:
        changed.write("\n")
    assert verify(tmp_path / "SHA256SUMS") != 0


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


def test_install_sh_from_a_web_server(tmp_path):
    """The release as it is: its script, its checksums, its signature, its tarball."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(DIST)))
    threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True).start()
    try:
        done = subprocess.run(["sh", DIST / "install.sh", "--url", f"http://127.0.0.1:{web.server_port}", "--key", KEY, "--prefix", tmp_path / "p"],
                              capture_output=True, text=True, timeout=300)
    finally:
        web.shutdown()
        web.server_close()
    assert done.returncode == 0, done.stderr
    found = subprocess.run([tmp_path / "p/bin/cubby", "doctor", "--json"], env={**os.environ, "CUBBY_HOME": str(tmp_path / "h")},
                           capture_output=True, text=True, timeout=120)
    assert {finding["name"]: finding["level"] for finding in json.loads(found.stdout)}["programs"] == "ok"


NPX = pytest.param(lambda: ["npx", "-y", "--offline", f"--package={one('cubby-mcp-*.tgz')}"], id="npx")
UVX = pytest.param(lambda: [os.environ["FRAMEWORKS"] + "/uv/bin/uvx", "-q", "--offline", "--python", "/usr/bin/python3", "--from",
                            str(one("*.whl"))], id="uvx")


def fresh(tmp_path, **more):
    """A user who has nothing yet."""
    return {**os.environ, "CUBBY_HOME": str(tmp_path / "h"), "CUBBY_SYSTEM_TEMPLATES": "", "npm_config_cache": str(tmp_path / "npm"),
            "UV_CACHE_DIR": str(tmp_path / "uv"), **more}


@pytest.mark.parametrize("words", [NPX, UVX])
def test_the_launchers_start_the_portable_programs(words, tmp_path):
    done = subprocess.run([*words(), "cubby", "doctor", "--json"], env=fresh(tmp_path), capture_output=True, text=True, timeout=300)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert found["programs"]["level"] == "ok" and found["qemu"]["level"] == "ok"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("words", [NPX, UVX])
def test_from_nothing_to_the_first_output(words, tmp_path):
    """A client's first calls, with the template's archive in a file. Without runsc, so that nothing goes on in the background."""
    env = fresh(tmp_path, CUBBY_TEMPLATE_ARCHIVE=str(one("default.cubby")), CUBBY_RUNSC="/nonexistent")
    program, *rest = words()
    began = time.monotonic()
    mcp = Stdio(*rest, "cubby-mcp", env=env, cwd=tmp_path, program=shutil.which(program))
    try:
        first_output(mcp, began)
    finally:
        mcp.finish()
        subprocess.run([*words(), "cubby", "daemon", "stop"], env=env, capture_output=True, timeout=120)


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
