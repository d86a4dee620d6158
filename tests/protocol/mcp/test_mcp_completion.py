# SPDX-License-Identifier: Apache-2.0
"""completion/complete: sandbox ids, paths in a sandbox, arguments of prompts."""

import os

import pytest
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401

TEMPLATE = {"type": "ref/resource", "uri": "sandbox://{sandbox_id}/{+path}"}


def complete(server, argument, value, ref=TEMPLATE, **others):
    params = {"ref": ref, "argument": {"name": argument, "value": value}}
    if others:
        params["context"] = {"arguments": others}
    return server.call("completion/complete", params)["result"]["completion"]


def paths(server, sandbox, value):
    return complete(server, "path", value, sandbox_id=sandbox)["values"]


def test_ids(server, real):
    assert complete(server, "sandbox_id", "") == {"values": [], "total": 0, "hasMore": False}
    ids = sorted(real.sandbox() for _ in range(3))
    assert sorted(complete(server, "sandbox_id", "")["values"]) == ids
    assert complete(server, "sandbox_id", ids[1])["values"] == [ids[1]]
    assert complete(server, "sandbox_id", "none")["values"] == []
    assert complete(server, "sandbox_id", ids[0][:3], ref={"type": "ref/prompt", "name": "fix_bug"})["total"] == 3


def test_at_most_a_hundred(server, real):
    for _ in range(101):
        real.sandbox()
    completion = complete(server, "sandbox_id", "")
    assert len(completion["values"]) == 100
    assert completion["total"] == 101 and completion["hasMore"] is True


def test_paths(server, sandbox, tmp_path):
    for name in "alpha.txt", "alps.txt", ".hidden", "beta", "a b#c?d%e":
        (tmp_path / name).touch()
    (tmp_path / "alcove").mkdir()
    (tmp_path / "alcove" / "in").touch()
    at = str(tmp_path) + "/"
    assert paths(server, sandbox, at + "al") == [at + n for n in ("alcove/", "alpha.txt", "alps.txt")]
    assert paths(server, sandbox, at + "alcove/") == [at + "alcove/in"]
    assert paths(server, sandbox, at + "a b") == [at + "a b%23c%3Fd%25e"]
    assert paths(server, sandbox, at + "a b%23") == [at + "a b%23c%3Fd%25e"]
    assert at + ".hidden" not in paths(server, sandbox, at)
    assert paths(server, sandbox, at + ".") == [at + ".hidden"]
    assert paths(server, sandbox, at[1:] + "b") == [at[1:] + "beta"], "the template has the slash"
    assert "etc/" in paths(server, sandbox, "") and "/etc/" in paths(server, sandbox, "/")
    assert paths(server, sandbox, at + "beta/") == [] == paths(server, sandbox, at + "none/")


def test_what_is_completed_can_be_read(server, sandbox, tmp_path):
    (tmp_path / "a b#c?d%e").write_text("here")
    (value,) = paths(server, sandbox, str(tmp_path)[1:] + "/a")
    answer = server.call("resources/read", {"uri": f"sandbox://{sandbox}/{value}"})
    assert answer["result"]["contents"][0]["text"] == "here"


@pytest.mark.parametrize("others", [{}, {"sandbox_id": "none"}, {"sandbox_id": "u" * 20}, {"sandbox_id": 7},
                                    {"sandbox_id": "../x"}])
def test_paths_of_nothing(server, others):
    assert complete(server, "path", "/", **others)["values"] == []


def test_no_daemon_is_started(start, tmp_path):
    server = start(CUBBY_HOME=str(tmp_path / "home"))
    assert complete(server, "sandbox_id", "")["values"] == []
    assert complete(server, "path", "/", sandbox_id="s" * 20)["values"] == []
    assert os.listdir(tmp_path / "home") == []


@pytest.mark.parametrize("ref, argument", [
    ({"type": "ref/prompt", "name": "nothing"}, "x"), ({"type": "ref/prompt", "name": "fix_bug"}, "nothing"),
    ({"type": "ref/resource", "uri": "file:///{path}"}, "path"), ({"type": "ref/other", "name": "x"}, "x"),
    ({"type": "ref/resource", "uri": "sandbox://{x}"}, "x"), (TEMPLATE, "nothing"), (TEMPLATE, 7),
    ({"type": "ref/prompt"}, "x"), ({"type": "ref/resource"}, "x"), ("x", "x"), (None, "x")])
def test_unknown(server, ref, argument):
    answer = server.call("completion/complete", {"ref": ref, "argument": {"name": argument, "value": ""}})
    assert answer["error"]["code"] == -32602


def test_nothing_to_offer(server):
    assert complete(server, "bug", "x", ref={"type": "ref/prompt", "name": "fix_bug"})["values"] == []


def test_the_other_era(fresh, sandbox):
    result = fresh.modern("completion/complete", ref=TEMPLATE, argument={"name": "path", "value": "/et"},
                          context={"arguments": {"sandbox_id": sandbox}})["result"]
    assert result["resultType"] == "complete" and "/etc/" in result["completion"]["values"]
    assert "ttlMs" not in result
