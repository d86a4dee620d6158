# SPDX-License-Identifier: Apache-2.0
"""The official conformance suite, for every revision it knows. Assertion 78 of reference/mcp.md.

The test build (cubby-mcp with tests/fixtures) passes all of it, without a warning. The shipped
program passes all scenarios but those of shipped.yml, which need the suite's own tools.
"""

import json
import os
import pathlib
import subprocess

import pytest
from clients import CLIENTS, NODE
from harness import BIN
from mcp_http import http_start, modern_result  # noqa: F401
from mcp_stdio import backend  # noqa: F401

HERE = pathlib.Path(__file__).parent
SUITE = CLIENTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
FIXTURES = pathlib.Path(os.environ["TEST"]) / "cubby-mcp-fixtures"
PROGRAMS = {"fixtures": (FIXTURES, "none.yml"), "shipped": (BIN / "cubby-mcp", "shipped.yml")}
RUNS = {
    "2025-11-25": ["--requirements", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
    "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "2025-03-26": ["--suite", "all", "--spec-version", "2025-03-26"],
}


def complaints(directory):
    """The suite's records of checks that did not succeed."""
    for file in sorted(directory.glob("*/checks.json")):
        for check in json.loads(file.read_text()):
            if check["status"] in ("FAILURE", "WARNING"):
                yield f"{file.parent.name}: {check['id']}: {check['status']}: " \
                      f"{check.get('errorMessage')} {json.dumps(check.get('details'))[:1500]}"


@pytest.mark.parametrize("version", RUNS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_conformance(http_start, tmp_path, program, version):  # 78
    path, baseline = PROGRAMS[program]
    server = http_start(program=path)
    done = subprocess.run(
        [NODE, SUITE, "server", "--url", f"http://localhost:{server.port}/mcp", *RUNS[version],
         "--expected-failures", HERE / baseline, "-o", tmp_path / "results"],
        capture_output=True, text=True, timeout=170)
    print(done.stdout)
    assert done.returncode == 0, "\n".join([*complaints(tmp_path / "results"), done.stderr, server.stderr()])


@pytest.mark.parametrize("scenario", ["enumeration", "manifest", "directory"])
def test_skills_extension(http_start, tmp_path, scenario):
    """No requirement of a revision, so the runs above do not have it."""
    server = http_start()
    done = subprocess.run(
        [NODE, SUITE, "server", "--url", f"http://localhost:{server.port}/mcp", "--scenario", f"sep-2640-skills-{scenario}",
         "-o", tmp_path / "results"], capture_output=True, text=True, timeout=170)
    print(done.stdout)
    failed = [c for c in complaints(tmp_path / "results") if ": FAILURE: " in c]
    assert done.returncode == 0 and not failed and "0 failed" in done.stdout, "\n".join([*failed, done.stderr])


def test_fixtures_are_not_shipped(http_start):
    server = http_start()
    tools = [t["name"] for t in modern_result(server, "tools/list")["tools"]]
    prompts = [p["name"] for p in modern_result(server, "prompts/list")["prompts"]]
    assert tools and not [n for n in tools + prompts if n.startswith("test")]
    assert b"test_simple_text" not in (BIN / "cubby-mcp").read_bytes()
