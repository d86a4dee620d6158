# SPDX-License-Identifier: Apache-2.0
"""docs/man/cubby.1 has every option of every verb and no others; cubby-mcp.1 has every code of a
tool's error. (The tests of the other programs check those programs' options.)
"""

import pathlib
import re
import subprocess

import pytest

from harness import BIN

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "docs/man/cubby.1").read_text(encoding="utf-8").replace("\\-", "-")
MORE = {"template": ["build", "build -f Dockerfile", "ls", "rm", "import", "export", "finish", "gc"],
        "snapshot": ["ls", "rm", "export", "import"]}
OF_CUBBYD = {"agent", "listen", "max-timeout", "node"}  # which the page names as another program's


def shown(*words):
    return subprocess.run([BIN / "cubby", *words, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout


def verbs():
    return [verb for verb in re.findall(r"^  ([a-z][a-z-]+) ", shown(), re.M) if verb != "daemon"]  # cubbyd(1) has its options


def backend_options():
    """The options of a remote server, to which each verb's help points."""
    text = subprocess.run([BIN / "cubby", "help", "backend"], capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"^  --([a-z-]+)", text, re.M))


def options(verb):
    texts = [shown(verb), *(shown(verb, *more.split()) for more in MORE.get(verb, []))]
    return {option for text in texts for option in re.findall(r"^  --([a-z-]+)", text, re.M)}


def entry(verb):
    """The page's text about a verb."""
    body = PAGE[PAGE.index(".SH VERBS"):PAGE.index(".SH EXIT STATUS")]
    (found,) = re.findall(rf"^\.TP\n\.BR? {verb}\b.*?(?=^\.TP|^\.PP|\Z)", body, re.M | re.S)
    return found


def test_every_verb_is_there():
    assert len(verbs()) > 10
    assert "daemon" in shown() and "--keep" in entry("daemon") and "--keep" in shown("daemon", "stop")


@pytest.mark.parametrize("verb", sorted([*MORE, "create", "exec", "expose", "key", "network", "resume", "fork", "pause"]))
def test_the_options_of_a_verb(verb):
    common = PAGE[PAGE.index("Each verb has"):PAGE.index(".SH EXIT STATUS")]  # those of all, and of `create` and `network`
    elsewhere = entry("network") if verb == "create" else ""
    missing = [option for option in options(verb) if f"--{option}" not in entry(verb) + common + elsewhere]
    assert not missing, missing


def test_the_options_of_a_backend():
    """One place explains them; a verb that takes them points there, and shows only its own."""
    found = backend_options()
    assert "backend" in found and len(found) == 8
    assert not [option for option in found if f"--{option}" not in PAGE[PAGE.index("Each verb has"):]]
    assert "cubby help backend" in shown("create") and "cubby help backend" not in shown("doctor")
    assert not [verb for verb in verbs() if options(verb) & found]


def test_no_option_is_there_that_no_verb_has():
    known = {option for verb in verbs() for option in options(verb)} | backend_options() | {"help", "keep"} | OF_CUBBYD
    assert set(re.findall(r"--([a-z][a-z-]+)", PAGE)) <= known


def test_each_code_of_a_tools_error():
    sources = "".join(f.read_text(encoding="utf-8") for f in (ROOT / "mcp-server").rglob("*.c"))
    codes = set(re.findall(r'tool_call_fail\(\s*\w+,\s*"([a-z_]+)"', sources))
    page = (ROOT / "docs/man/cubby-mcp.1").read_text(encoding="utf-8")
    said = page[page.index(".SH ERRORS OF TOOLS"):page.index(".SH HTTP")]
    assert len(codes) > 20 and not codes - set(re.findall(r"^\.BR? ([a-z_]+)", said, re.M))
