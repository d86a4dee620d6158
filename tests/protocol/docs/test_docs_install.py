# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts where."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[3]
BUILD = pathlib.Path(os.environ["BIN"]).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """PREFIX below DESTDIR. This build tree, also that of the sanitizers, has been made."""
    where = tmp_path_factory.mktemp("install")
    made = subprocess.run(["make", "-C", ROOT, "install", f"BUILD={BUILD}", f"DESTDIR={where}", "PREFIX=/usr/local"],
                          capture_output=True, text=True, timeout=170)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    return where / "usr/local"


def files(place):
    """{path below `place`: (mode, content)}"""
    return {str(f.relative_to(place)): (f.stat().st_mode, f.read_bytes())
            for f in place.rglob("*") if f.is_file() and f.suffix != ".pyc"}


def test_programs(installed):
    assert {f.name for f in (installed / "bin").iterdir()} >= {"cubby", "cubbyd", "cubby-mcp", "cubby-netd", "cubby-egress"}
    said = subprocess.run([installed / "bin/cubby-mcp", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("cubby-mcp ")
    assert (installed / "share/man/man1/cubby.1").exists() and (installed / "lib/systemd/system/cubbyd.service").exists()


def test_plugins(installed):
    """All files with their modes, at the places that the marketplace names."""
    share = installed / "share/cubby"
    assert files(share / "plugins") == files(ROOT / "plugins")
    market = json.loads((share / ".claude-plugin/marketplace.json").read_text())
    assert [p["name"] for p in market["plugins"]] == ["cubby", "cubby-bash"]
    for plugin in market["plugins"]:
        manifest = json.loads((share / plugin["source"] / ".claude-plugin/plugin.json").read_text())
        assert manifest["name"] == plugin["name"]
    assert os.access(share / "plugins/cubby-bash/scripts/sandbox_bash.py", os.X_OK)
