# SPDX-License-Identifier: Apache-2.0
"""Builds templates with the official Python SDK as a user does, by its public API alone.

The environment is a user's: E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL. Arguments: sync or async, and the directory
with the files to copy. Prints a line of JSON: what the test checks.
"""

import asyncio
import json
import sys
import time
import traceback

import e2b
from e2b import AsyncSandbox, AsyncTemplate, Sandbox, Template, wait_for_url
from e2b_code_interpreter import Sandbox as Interpreter

# A template without Python has no kernel to warm up, which takes a minute under TCG.
NO_KERNEL = "rm /usr/bin/python3"
SERVE = "python3.11 -m http.server 8000 --directory /home/user/site"
DOCKERFILE = """FROM e2bdev/base
ENV GREETING="hello from" PATH=/opt/tools/bin:$PATH
RUN mkdir -p /opt/tools/bin && printf '#!/bin/sh\\necho "$GREETING a tool"\\n' > /opt/tools/bin/tool && \\
    chmod 755 /opt/tools/bin/tool
COPY page.html /srv/
RUN useradd --create-home app
USER app
WORKDIR /srv
"""


def plan(kind, context):
    return (
        kind(file_context_path=context)
        .from_template("default")
        .run_cmd(NO_KERNEL, user="root")
        .set_envs({"COLOUR": "green"})
        .copy("site", "/home/user/site", user="root", mode=0o644)
        .run_cmd("id -un > made-by; echo \"$COLOUR\" >> made-by")
        .run_cmd("id -un > /root/made-by", user="root")
        .make_dir("/home/user/work")
        .set_workdir("/home/user/work")
        .set_start_cmd(SERVE, wait_for_url("http://localhost:8000/"))
    )


def probe(sandbox):
    """What a sandbox of the template has."""
    run = sandbox.commands.run
    return {
        "page": run("curl -s http://localhost:8000/page.html").stdout,
        "made by": run("cat /home/user/made-by; sudo cat /root/made-by").stdout.split(),
        "at": run("pwd; echo $COLOUR; id -un").stdout.split(),
        "mode": run("stat -c '%U %a' /home/user/site/page.html").stdout.strip(),
    }


def run_sync(context):
    seen = {}
    logs = []
    began = time.monotonic()
    info = Template.build(plan(Template, context), "shop:v1", on_build_logs=lambda entry: logs.append(entry.message))
    seen["seconds"] = time.monotonic() - began
    seen["info"] = [info.template_id, info.tags]
    seen["logs"] = logs
    with Sandbox.create("shop:v1") as sandbox:
        seen["probe"] = probe(sandbox)
        seen["template"] = sandbox.get_info().template_id
    again = []
    began = time.monotonic()
    Template.build(plan(Template, context), "shop", on_build_logs=lambda entry: again.append(entry.message))
    seen["again seconds"] = time.monotonic() - began
    seen["again"] = again
    seen["exists"] = [Template.exists("shop"), Template.exists("nothing")]
    Template.assign_tags("shop:v1", ["stable"])
    seen["tags"] = sorted(tag.tag for tag in Template.get_tags("shop"))
    Template.remove_tags("shop", ["v1"])
    seen["left"] = sorted(tag.tag for tag in Template.get_tags("shop"))
    try:
        Template.build(Template().from_template("default").run_cmd("echo reason >&2; exit 3"), "broken")
    except e2b.BuildException as error:
        seen["failure"] = str(error)
        seen["failed at"] = traceback.extract_tb(error.__traceback__)[-1].name
    Template.build(Template(file_context_path=context).from_dockerfile(DOCKERFILE), "tooled")
    with Interpreter.create("tooled") as sandbox:
        seen["tool"] = sandbox.commands.run("tool; cat /srv/page.html; pwd").stdout.split("\n")
        seen["python"] = sandbox.run_code("import getpass, os\n[getpass.getuser(), os.getcwd()]").text
    return seen


async def run_async(context):
    seen = {}
    template = (AsyncTemplate(file_context_path=context).from_template("default").run_cmd(NO_KERNEL, user="root")
                .copy("site", "site").run_cmd("ls site"))
    info = await AsyncTemplate.build_in_background(template, "later")
    seen["at first"] = (await AsyncTemplate.get_build_status(info)).status.value
    offset, lines = 0, []
    while (status := await AsyncTemplate.get_build_status(info, logs_offset=offset)).status.value == "building":
        offset += len(status.log_entries)
        lines += [entry.message for entry in status.log_entries]
        await asyncio.sleep(0.2)
    seen["at last"] = status.status.value
    seen["logs"] = lines + [entry.message for entry in status.log_entries]
    sandbox = await AsyncSandbox.create("later")
    seen["page"] = (await sandbox.commands.run("cat site/page.html")).stdout
    await sandbox.kill()
    return seen


if sys.argv[1] == "async":
    print(json.dumps(asyncio.run(run_async(sys.argv[2]))))
else:
    print(json.dumps(run_sync(sys.argv[2])))
