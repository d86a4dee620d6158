# SPDX-License-Identifier: Apache-2.0
"""The record of a sandbox, as its daemon gives it; and a guest whose Python kernel is a scripted server."""

import contextlib
import hashlib
import json

from cubbyd import Guest


def raw(daemon, sandbox, after=0):
    """The lines of a record as bytes, page by page."""
    pages = b""
    while True:
        answer = daemon.request("GET", f"/sandboxes/{sandbox}/record?after={after}")
        assert answer.status == 200, answer.body
        if not answer.body:
            return pages
        pages += answer.body
        after = json.loads(answer.body.splitlines()[-1])["n"]


def record(daemon, sandbox, *kinds):
    lines = [json.loads(line) for line in raw(daemon, sandbox).splitlines()]
    return [line for line in lines if not kinds or line["kind"] in kinds]


def is_chained(data):
    last = "0" * 64
    for line in data.splitlines():
        if json.loads(line)["prev"] != last:
            return False
        last = hashlib.sha256(line).hexdigest()
    return True


@contextlib.contextmanager
def kernel(daemon, serve):
    """A sandbox whose Python kernel is this server."""
    with Guest(serve) as guest:
        made = daemon.create()
        (daemon.directory(made["sandboxID"]) / "kernel-port").write_text(str(guest.port))
        yield made
