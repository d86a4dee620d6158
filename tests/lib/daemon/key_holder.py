# SPDX-License-Identifier: Apache-2.0
"""Keys that `cubby key` makes, and requests over TCP with one."""

import http.client
import json
import os
import subprocess
import urllib.parse

from cubbyd import Answer
from harness import BIN


def cubby(home, *words):
    env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_")}
    return subprocess.run([BIN / "cubby", *words], env=dict(env, CUBBY_HOME=str(home)),
                          capture_output=True, text=True, timeout=60)


def new_key(daemon, name):
    made = cubby(daemon.home, "key", "new", "--plain", name)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def url(daemon):
    return (daemon.home / "cubbyd.url").read_text().strip()


def ask(daemon, method, path, body=None, key=None, headers=None, context=None, timeout=30):
    """body as of Daemon.request."""
    to = urllib.parse.urlsplit(url(daemon))
    if to.scheme == "https":
        connection = http.client.HTTPSConnection(to.hostname, to.port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(to.hostname, to.port, timeout=timeout)
    headers = dict(headers or {}, **({"X-API-KEY": key} if key else {}))
    chunked = hasattr(body, "__next__")
    if body is not None and not chunked:
        body = json.dumps(body).encode()
    try:
        connection.request(method, path, body, headers, encode_chunked=chunked)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()
