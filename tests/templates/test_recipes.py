# SPDX-License-Identifier: Apache-2.0
"""`make test-recipes`: each recipe is built whole, tried in a sandbox, and removed. RECIPE=name: only that one."""

import os
import shutil
import subprocess
import time

import pytest
from harness import BIN, TEST_HOME, Home

WHOLE_S = 7200  # all_pip_apt_pkg downloads gigabytes

PAGE = ("from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as p:\n"
        "    page = p.chromium.launch().new_page()\n"
        "    page.set_content('<title>seen</title>')\n"
        "    print(page.title())\n")
# A container of the guest's own echo, with the two libraries that it needs.
CONTAINER = ("mkdir -p /tmp/r/bin /tmp/r/lib64 /tmp/r/lib/x86_64-linux-gnu && cp /bin/echo /tmp/r/bin && "
             "cp /lib/x86_64-linux-gnu/libc.so.6 /tmp/r/lib/x86_64-linux-gnu && cp /lib64/ld-linux-x86-64.so.2 /tmp/r/lib64 && "
             "tar -C /tmp/r -c . | docker import - echo:1 >/dev/null && docker run --rm echo:1 /bin/echo seen")
SCIENCE = "import pandas, scipy, sklearn, cv2, transformers, librosa, rdkit, bokeh, gensim, xarray; print('seen')"
TRIED = {
    "docker": CONTAINER,
    "browser": f"cat >/tmp/page.py <<'EOF'\n{PAGE}EOF\npython3 /tmp/page.py",
    "agents": "claude --version >&2 && codex --version >&2 && git --version >&2 && echo seen",
    "full": f'node --version >&2 && gcc --version >&2 && python3 -c "{SCIENCE}"',
    "all_pip_apt_pkg": f'python3 -c "import torch, torchvision; {SCIENCE}"',
}


@pytest.fixture
def home():
    state = Home(tier="auto")
    (state.path / "templates").unlink()
    (state.path / "cache").mkdir()
    if (TEST_HOME / "cache/apt").exists():  # what is there need not be downloaded
        shutil.copytree(TEST_HOME / "cache/apt", state.path / "cache/apt")
    yield state
    state.close()


@pytest.mark.timeout(WHOLE_S)
@pytest.mark.parametrize("name", [name for name in TRIED if os.environ.get("RECIPE", name) == name])
def test_a_recipe(home, name):
    def cubby(*words, **options):
        return subprocess.run([BIN / "cubby", *words], env=home.env, capture_output=True, text=True, **options)

    begin = time.monotonic()
    built = cubby("template", "build", name)
    assert built.returncode == 0, built.stderr[-3000:]
    print(f"{name}: {time.monotonic() - begin:.0f} s; {built.stdout}{built.stderr}")
    box = cubby("create", "--template", name, "--timeout", "600").stdout.strip()
    ran = cubby("exec", "--user", "root", box, "--", "bash", "-lc", TRIED[name], timeout=600)
    assert ran.returncode == 0 and ran.stdout.endswith("seen\n"), ran
    cubby("kill", box)
