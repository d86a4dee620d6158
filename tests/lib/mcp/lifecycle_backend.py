# SPDX-License-Identifier: Apache-2.0
"""mcp_backend.py's control plane with pause, snapshots, forks and rollback, as cubbyd has them.

A sandbox is a dictionary here and its state a word. For a failure a test fills `refusals`: (method,
path) to the (status, body) that is answered instead, once.
"""

import itertools
import json
import urllib.parse

from mcp_backend import Backend, Handler

CONFLICT = {"code": 409, "error_code": "sandbox_paused", "message": "Sandbox is paused: resume it first"}


class LifecycleHandler(Handler):
    def control(self, path, body):
        b = self.backend
        b.bodies.append((self.command, path, json.loads(body) if body else None))
        refusal = b.refusals.pop((self.command, path), None)
        parts = [urllib.parse.unquote(p) for p in path.split("/")[1:]]
        verb = (self.command, parts[2] if len(parts) == 3 else "")
        if refusal:
            self.answer(*refusal)
        elif (self.command, path) == ("GET", "/snapshots"):
            wanted = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)).get("sandboxID")
            self.answer(200, [s for s in b.snapshots.values() if not wanted or s["sandboxID"] == wanted])
        elif self.command == "DELETE" and parts[0] == "templates":
            if b.snapshots.pop(parts[1], None):
                self.answer(204)
            else:
                self.answer(404, {"code": 404, "message": f'there is no template "{parts[1]}"'})
        elif verb in self.VERBS and parts[1] in b.sandboxes:
            self.VERBS[verb](self, b.sandboxes[parts[1]], json.loads(body or "{}"))
        else:
            super().control(path, body)

    def pause(self, sandbox, _):
        paused = sandbox["state"] == "paused"
        sandbox["state"] = "paused"
        self.answer(*(409, CONFLICT) if paused else (204,))

    def connect(self, sandbox, _):
        was = sandbox["state"]
        sandbox["state"] = "running"
        self.answer(201 if was == "paused" else 200, sandbox)

    def snapshot(self, sandbox, wanted):
        if sandbox["state"] == "paused":
            self.answer(409, CONFLICT)
            return
        made = self.backend.snapshot(sandbox["sandboxID"], name=wanted.get("name"))
        self.answer(201, {k: made[k] for k in ("snapshotID", "names")})

    def fork(self, sandbox, wanted):
        if sandbox["state"] == "paused":
            self.answer(409, CONFLICT)
            return
        b = self.backend
        if b.fork_gate:
            b.fork_gate.wait(30)
        made = [b.fork_errors.pop(0) if b.fork_errors else None for _ in range(wanted["count"])]
        self.answer(201, [{"error": why} if why else
                          {"sandbox": b.sandboxes[b.sandbox(metadata=sandbox.get("metadata", {}))]} for why in made])

    def rollback(self, sandbox, wanted):
        if wanted["snapshotID"] not in self.backend.snapshots:
            self.answer(404, {"code": 404, "message": f"there is no snapshot \"{wanted['snapshotID']}\""})
            return
        sandbox["state"] = "running"
        self.answer(200, sandbox)

    VERBS = {("POST", "pause"): pause, ("POST", "connect"): connect, ("POST", "snapshots"): snapshot,
             ("POST", "fork"): fork, ("POST", "rollback"): rollback}

    def envd(self, url, body):
        sandbox = self.headers["E2b-Sandbox-Id"]
        if self.backend.sandboxes[sandbox]["state"] == "paused":
            self.answer(502, {"sandboxId": sandbox, "code": 502, "error_code": "sandbox_paused",
                              "message": "The sandbox was not found"})
        else:
            super().envd(url, body)


class Lifecycle(Backend):
    handler = LifecycleHandler

    def __init__(self):
        self.snapshots = {}    # id -> as the API lists it
        self.bodies = []       # (method, path, JSON) of the control plane
        self.refusals = {}
        self.fork_errors = []  # None or an error, for each child
        self.fork_gate = None  # an Event that forks wait for
        self.snapshot_numbers = itertools.count()
        super().__init__()

    def snapshot(self, sandbox, name=None, **more):
        """A snapshot of a sandbox, made without the server."""
        name_ = f"snap-{next(self.snapshot_numbers):020x}"
        self.snapshots[name_] = {
            "snapshotID": name_, "names": [name] if name else [], "sandboxID": sandbox, "templateID": "default",
            "tier": "microvm", "createdAt": "2026-01-02T03:04:05.678Z", "metadata": self.sandboxes[sandbox].get("metadata", {}), **more}
        return self.snapshots[name_]

    def sent(self, method, path):
        """The bodies of the requests to that path."""
        return [body for m, p, body in self.bodies if (m, p) == (method, path)]
