# SPDX-License-Identifier: Apache-2.0
"""Use a newly started Python kernel once in each way, and fail if it does not work.

A template build runs this: the memory that it touches is in the saved template. Afterwards the kernel is
as if it had never been used, with a prepared process for the first context.
"""
import http.client
import importlib.util
import json
import shutil
import sys
import time

PORT = 49999
START_SECONDS = 560  # also for the first run, which waits for all imports
MODULES = ("pandas", "matplotlib")  # that the template of an image may lack
sys.path.append("/usr/lib/cubby/packages")

PYTHON = (
    ("print('a')\n1 + 1", {"stdout", "result"}),
    ("import pandas as pd, numpy as np\npd.DataFrame({'a': np.arange(3.0)}).describe()", {"result"}),
    ("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='a')\nplt.legend()\nplt.show()", {"result"}),
    ("from IPython.display import HTML, display\ndisplay(HTML('<b>a</b>'))", {"result"}),
    ("1 / 0", {"error"}),
    ("!echo a >&2", {"stderr"}),
)
BASH = (("echo a; cd /tmp; ls > /dev/null", {"stdout"}), ("false", {"error"}))
JAVASCRIPT = (
    ("console.log('a'); const a = { b: [1] }; a", {"stdout", "result"}),
    ("await Promise.resolve(1)", {"result"}),
    ("throw new Error('a')", {"error"}),
)
TYPESCRIPT = (("const c: number = 1; c", {"result"}),)


def ask(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=START_SECONDS)
    connection.request(method, path, json.dumps(body) if body is not None else None)
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{method} {path}: {answer.status} {data.decode()}")
    return data


def await_start():
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return ask("GET", "/health")
        except ConnectionError:
            if time.monotonic() > deadline:
                raise SystemExit(f"the kernel did not start in {START_SECONDS} s") from None
        time.sleep(0.1)


def use(language, cells):
    context = json.loads(ask("POST", "/contexts", {"language": language}))["id"]
    for code, expected in cells:
        if any(f"import {name}" in code and not importlib.util.find_spec(name) for name in MODULES):
            continue
        lines = ask("POST", "/execute", {"context_id": context, "code": code}).splitlines()
        got = {json.loads(line)["type"] for line in lines}
        if not expected <= got or ("error" in got) != ("error" in expected):
            raise SystemExit(f"{code!r} gave {lines}")
    ask("DELETE", f"/contexts/{context}")


def main():
    started = time.monotonic()
    await_start()
    if shutil.which("bash"):
        use("bash", BASH[:1])
    else:
        use("python", PYTHON[:1])
    warm = time.monotonic()
    if shutil.which("bash"):
        use("bash", BASH)
    use("python", PYTHON)
    if shutil.which("node"):
        use("javascript", JAVASCRIPT)
        if shutil.which("esbuild"):
            use("typescript", TYPESCRIPT)
    print(f"kernel: waited {warm - started:.1f} s, used in {time.monotonic() - warm:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
