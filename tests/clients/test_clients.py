# SPDX-License-Identifier: Apache-2.0
"""Every official client walks through the server's functions, over stdio and over HTTP."""

import os
import pathlib

import pytest
from clients import TOURS, check, run_tour
from harness import BIN
from mcp_http import http_start  # noqa: F401
from mcp_stdio import backend  # noqa: F401

FIXTURES = pathlib.Path(os.environ["TEST"]) / "cubby-mcp-fixtures"


@pytest.fixture
def program():
    return BIN / "cubby-mcp"


@pytest.fixture
def server(request, program, backend, tmp_path, http_start):
    """The configuration by which a client finds the server."""
    if request.param == "http":
        return {"url": http_start(program=program).url}
    return {"command": str(program), "args": [], "env": backend.environment(), "cwd": str(tmp_path)}


@pytest.mark.parametrize("server", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("name", TOURS)
def test_tour(name, server):  # 79
    check(run_tour(name, server), name)


@pytest.mark.parametrize("server", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("program", [FIXTURES])
@pytest.mark.parametrize("name", ["client-v2-legacy", "client-v2-auto", "sdk-v1", "python-mcp-2-legacy",
                                  "python-mcp-2-auto"])
def test_questions_and_headers(name, server):  # 54, 71, 72
    """Clients answer the server's questions by themselves, and repeat arguments in headers where
    they must."""
    seen = run_tour(name, server, fixtures=True)
    assert "Ada" in str(seen["asked"]["content"]) or "ada" in str(seen["asked"]["content"])
    assert not seen["asked"].get("isError") and not seen["in_header"].get("isError")
    assert "größe " in str(seen["in_header"]["content"])
