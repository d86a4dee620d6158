# SPDX-License-Identifier: Apache-2.0
"""`make test-recipes`: each recipe is built whole, tried in a sandbox, and removed. RECIPE=name: only that one."""

import json
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
# All servers that the template has, without a network, and a client at their URL. Twice: the process that waits
# serves first, and then one that is started.
MCP_CONFIG = {"filesystem": {"paths": ["/home/user"]}, **{name: {} for name in ("memory", "sequentialthinking", "git", "time",
                                                                               "fetch", "sqlite")}}
MCP_CLIENT = """
import asyncio, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
async def main():
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + open("/etc/mcp-gateway/.token").read()}) as http:
        async with Client(streamable_http_client("http://127.0.0.1:50005/mcp", http_client=http)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names > {"read_text_file", "create_entities", "sequentialthinking", "git_log", "get_current_time", "fetch",
                            "read_query"}, names
            await client.call_tool("write_file", {"path": "/home/user/seen", "content": "seen"})
            print((await client.call_tool("read_text_file", {"path": "/home/user/seen"})).content[0].text)
asyncio.run(main())
"""
MCP = (f"cat >/tmp/client.py <<'EOF'\n{MCP_CLIENT}EOF\ntest -S /var/lib/mcp-gateway/waiting.sock || exit 1\n"
       f"for round in 1 2; do time GATEWAY_ACCESS_TOKEN=token-$round mcp-gateway --config '{json.dumps(MCP_CONFIG)}' || exit 1\n"
       "time python3 /tmp/client.py; done; stat -c %U /home/user/seen >&2")
TRIED = {
    "mcp-gateway": MCP,
    "docker": CONTAINER,
    "browser": f"cat >/tmp/page.py <<'EOF'\n{PAGE}EOF\npython3 /tmp/page.py",
    "agents": "claude --version >&2 && codex --version >&2 && git --version >&2 && echo seen",
    "full": f'node --version >&2 && gcc --version >&2 && python3 -c "{SCIENCE}"',
    "all_pip_apt_pkg": f'python3 -c "import torch, torchvision; {SCIENCE}"',
}

OFFLINE = {"mcp-gateway"}


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
    network = ["--network", "none"] if name in OFFLINE else []
    box = cubby("create", "--template", name, "--timeout", "600", *network).stdout.strip()
    ran = cubby("exec", "--user", "root", box, "--", "bash", "-lc", TRIED[name], timeout=600)
    assert ran.returncode == 0 and ran.stdout.endswith("seen\n"), ran
    cubby("kill", box)
