# SPDX-License-Identifier: Apache-2.0
"""Builds templates with every method of the official Python SDK's builder, by its public API alone.

The environment is a user's. Arguments: sync or async, and the directory with the files to copy. Prints a line of
JSON: {template: what the SDK raised, or null}. builder.mjs builds the same templates.
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from e2b import AsyncTemplate, CopyItem, Template, wait_for_file, wait_for_port, wait_for_process, wait_for_timeout
from e2b import wait_for_url

DOCKERFILE = "FROM python:3.12\nENV A=b\nRUN id\nCOPY page.html /srv/\nWORKDIR /srv\nUSER app\nCMD sleep 5"
TEMPLATES = {
    "from-template": lambda t: t.from_template("default"),
    "from-image": lambda t: t.from_image("ghcr.io/own/app:1"),
    "from-image-private": lambda t: t.from_image("ghcr.io/own/app:1", username="robot", password="secret"),
    "from-debian-image": lambda t: t.from_debian_image("bookworm"),
    "from-ubuntu-image": lambda t: t.from_ubuntu_image("24.04"),
    "from-fedora-image": lambda t: t.from_fedora_image("44"),
    "from-alpine-image": lambda t: t.from_alpine_image("3.24"),
    "from-arch-image": lambda t: t.from_arch_image(),
    "from-python-image": lambda t: t.from_python_image("3.12"),
    "from-node-image": lambda t: t.from_node_image("24"),
    "from-bun-image": lambda t: t.from_bun_image("1.3"),
    "from-base-image": lambda t: t.from_base_image(),
    "from-gcp-registry": lambda t: t.from_gcp_registry("gcr.io/own/app:1", {"client_email": "robot@own"}),
    "from-aws-registry": lambda t: t.from_aws_registry("1.dkr.ecr.eu-west-1.amazonaws.com/app:1", "id", "secret",
                                                      "eu-west-1"),
    "from-dockerfile": lambda t: t.from_dockerfile(DOCKERFILE),
    "steps": lambda t: (
        t.from_template("default")
        .copy("page.html", "/srv/", user="root", mode=0o644)
        .copy_items([CopyItem(src="page.html", dest="a"), CopyItem(src="site", dest="b")])
        .remove("/srv/old", recursive=True, force=True)
        .rename("/srv/a", "/srv/b", force=True)
        .make_dir(["/srv/a", "/srv/b"], mode=0o755)
        .make_symlink("/srv/a", "/srv/link")
        .run_cmd(["id", "pwd"], user="root")
        .set_workdir("/srv")
        .set_user("app")
        .set_envs({"A": "b", "C": "d e"})
        .pip_install(["flask", "httpx"])
        .pip_install("flask", g=False)
        .npm_install("typescript", g=True)
        .bun_install("tsx", dev=True)
        .apt_install(["git", "curl"], no_install_recommends=True)
        .git_clone("https://example.org/a.git", "/srv/a", branch="main", depth=1)
        .skip_cache()
        .run_cmd("id")
        .set_ready_cmd(wait_for_timeout(2000))),
    "mcp-servers": lambda t: t.from_template("mcp-gateway").add_mcp_server(["exa", "brave"]),
    "wait-for-port": lambda t: t.from_template("default").set_start_cmd("serve", wait_for_port(80)),
    "wait-for-url": lambda t: t.from_template("default").set_start_cmd("serve", wait_for_url("http://localhost/", 204)),
    "wait-for-process": lambda t: t.from_template("default").set_start_cmd("serve", wait_for_process("serve")),
    "wait-for-file": lambda t: t.from_template("default").set_start_cmd("serve", wait_for_file("/run/ready")),
}


def told(error):
    return f"{type(error).__name__}: {error}" if error else None


def build(name, context):
    try:
        Template.build(TEMPLATES[name](Template(file_context_path=context)), name)
    except Exception as error:  # whatever a user would see
        return told(error)
    return None


async def build_all(context):
    builds = [AsyncTemplate.build(make(AsyncTemplate(file_context_path=context)), name) for name, make in TEMPLATES.items()]
    ends = await asyncio.gather(*builds, return_exceptions=True)
    return {name: told(end if isinstance(end, Exception) else None) for name, end in zip(TEMPLATES, ends)}


if sys.argv[1] == "async":
    print(json.dumps(asyncio.run(build_all(sys.argv[2]))))
else:
    with ThreadPoolExecutor(len(TEMPLATES)) as pool:
        print(json.dumps(dict(zip(TEMPLATES, pool.map(lambda name: build(name, sys.argv[2]), TEMPLATES)))))
