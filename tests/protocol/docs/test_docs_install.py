# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts where, the completions of shells, and `make uninstall`."""

import json
import os
import pathlib
import re
import shutil
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
    assert {f.name for f in (installed / "bin").iterdir()} == {"cubby", "cubbyd", "cubby-mcp", "git-remote-cubby"}
    inner = {f.name for f in (installed / "libexec/cubby").iterdir()}
    assert inner - {"runsc"} == {"cubby-netd", "cubby-egress", "cubby-jail", "cubby-nest", "cubby-flatten", "cubby-mountd",
                                 "cubby-qemu.so"}
    said = subprocess.run([installed / "bin/cubby-mcp", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("cubby-mcp ")
    pages = {f.stem for f in (installed / "share/man/man1").iterdir()}
    assert pages == {f.name for f in (installed / "bin").iterdir()} and (installed / "lib/systemd/system/cubbyd.service").exists()


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


def test_programs_find_each_other(installed, tmp_path):
    """cubbyd is in bin, what it starts in libexec."""
    env = {**os.environ, "CUBBY_HOME": str(tmp_path)}
    said = json.loads(subprocess.run([installed / "bin/cubby", "doctor", "--json"], env=env, capture_output=True, text=True,
                                     timeout=60).stdout)
    (programs,) = [finding for finding in said if finding["name"] == "programs"]
    assert programs["level"] == "ok", programs


def test_services(installed):
    for kind in "system", "user":
        text = (installed / f"lib/systemd/{kind}/cubbyd.service").read_text()
        (program,) = re.findall(r"^ExecStart=(\S+)", text, re.M)
        assert program == "/usr/local/bin/cubbyd"


def complete(installed, line):
    """What bash offers at the end of a line."""
    script = f"""source {installed}/share/bash-completion/completions/cubby
COMP_LINE={line!r}; COMP_WORDS=({line} ''); [[ $COMP_LINE == *' ' ]] || unset 'COMP_WORDS[-1]'
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _cubby; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_completions_of_bash(installed):
    assert set(complete(installed, "cubby ")) >= {"create", "exec", "template", "selftest"}
    assert complete(installed, "cubby sn") == ["snapshot"]
    assert set(complete(installed, "cubby snapshot ")) >= {"ls", "rm", "--name"}
    assert complete(installed, "cubby create --net") == ["--network"]
    assert "--json" in complete(installed, "cubby snapshot ls --")
    assert "--name" not in complete(installed, "cubby snapshot ls --")


def test_completions_name_each_option(installed):
    """Each option that --help has is in the completions of all three shells."""
    texts = [(installed / f"share/{path}").read_text() for path in (
        "bash-completion/completions/cubby-mcp", "zsh/site-functions/_cubby-mcp", "fish/vendor_completions.d/cubby-mcp.fish")]
    said = subprocess.run([installed / "bin/cubby-mcp", "--help"], capture_output=True, text=True, check=True).stdout
    options = re.findall(r"^  --([a-z-]+)", said, re.M)
    assert len(options) > 10
    for text in texts:
        assert not [option for option in options if not re.search(rf"(--|-l ){option}\b", text)]


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_reads_its_completions(installed):
    for name in "_cubby", "_cubbyd", "_cubby-mcp":
        subprocess.run(["zsh", "-n", installed / "share/zsh/site-functions" / name], check=True)


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_reads_its_completions(installed):
    for path in (installed / "share/fish/vendor_completions.d").iterdir():
        subprocess.run(["fish", "--no-execute", path], check=True)


def test_uninstall_removes_what_install_made_and_nothing_else(installed, tmp_path):
    prefix = tmp_path / "usr/local"
    shutil.copytree(installed, prefix, symlinks=True)
    (prefix / "bin/mine").write_text("another program")
    script = ROOT / ".ci/package/uninstall"
    done = subprocess.run([script, prefix], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("removed "), done.stderr
    assert [str(f.relative_to(prefix)) for f in prefix.rglob("*") if not f.is_dir()] == ["bin/mine"]
    again = subprocess.run([script, prefix], capture_output=True, text=True)
    assert again.returncode == 1 and "nothing of `make install`" in again.stderr
