# SPDX-License-Identifier: Apache-2.0
"""The links, files and rooms that the documents name exist."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[3]
FILES = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                       check=True).stdout.splitlines()
FILES = [name for name in FILES if (ROOT / name).is_file()]
DOCUMENTS = [name for name in FILES if name.endswith(".md") and not name.startswith("tests/")]
SUFFIX = r"\.(?:c|h|py|md|svg|txt|service|json|sh)"
# Names of files that are not in the tree: what Cubby keeps on a host or in a guest, and what users write.
ELSEWHERE = {"server.json", "sandbox.json", "config.json", "image.json", "template.json", "cubbyd.json", "keys.json", "aliases.json", "envd.json",
             "environment.json", "tokens.json", "settings.json", "packages.txt", "server.py", "x.txt", "mcp.json", ".mcp.json",
             "claude_desktop_config.json", "snapshot.json", "sbom.spdx.json"}


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(text):
    """Return the anchors of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name):
    prose = re.sub(r"```.*?```", "", text_of(name), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.is_file(), f"{name}: {link}"
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{name}: {link}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_that_are_named_exist(name):
    prose = re.sub(r"```.*?```", "", text_of(name), flags=re.S)
    missing = []
    for span in re.findall(r"`([^`]+)`", prose):
        word = re.sub(r"::.*", "", span)
        if not re.fullmatch(rf"[\w./-]+{SUFFIX}", word) or word.rsplit("/", 1)[-1] in ELSEWHERE or word.startswith("/") or "NAME" in word:
            continue
        if not any(file == word or file.endswith("/" + word) for file in FILES):
            missing.append(word)
    assert not missing, missing


@pytest.mark.parametrize("name", DOCUMENTS)
def test_rooms_that_are_named_exist(name):
    folders = {str(parent) for file in FILES for parent in pathlib.PurePath(file).parents}
    prose = re.sub(r"```.*?```", "", text_of(name), flags=re.S)
    missing = [word for word in re.findall(r"`((?:sandbox-backend|mcp-server|tests|drivers|daemon)/[\w/-]*)/`", prose)
               if not any(folder == word or folder.endswith("/" + word) for folder in folders)]
    assert not missing, missing
