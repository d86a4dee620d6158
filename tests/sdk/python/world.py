# SPDX-License-Identifier: Apache-2.0
"""Shared by the scenarios: a sandbox that lives through all of them, a directory in it for each,
and waiting for a condition. The differences between the SDK's releases are handled here.
"""

import importlib.metadata
import re
import time

from e2b_code_interpreter import Sandbox

OLD = int(importlib.metadata.version("e2b").split(".")[0]) < 2


class World:
    def __init__(self, plan):
        self.template = plan["bare"]  # of sandboxes that run no code
        self.runs_code = plan["template"]
        self.made = []
        self.count = 0
        self.shared = None

    def create(self, template=None, timeout=600, **options):
        """A new sandbox that ends no later than the program."""
        make = Sandbox if OLD else Sandbox.create
        sandbox = make(template=template or self.template, timeout=timeout, **options)
        self.made.append(sandbox)
        return sandbox

    def sandbox(self):
        """The sandbox that scenarios share."""
        if not self.shared:
            self.shared = self.create(self.runs_code, envs={"SHARED": "yes"})
        return self.shared

    def place(self):
        """The shared sandbox, and a fresh directory in it."""
        sandbox = self.sandbox()
        self.count += 1
        path = f"/home/user/place-{self.count}"
        assert sandbox.files.make_dir(path) is True
        return sandbox, path

    def close(self):
        for sandbox in self.made:
            try:
                Sandbox.kill(sandbox.sandbox_id)
            except Exception as e:  # what it is here for was done
                print("not ended:", e)


def until(condition, what, seconds=30):
    """Polls until the result is true, and returns it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return value


class fails:
    """Checks that the block fails with exactly this class; the error is in `error`."""

    def __init__(self, kind, message=""):
        self.kind = kind
        self.message = message
        self.error = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert error is not None, f"nothing was raised, where a {self.kind.__name__} belongs"
        if kind is not self.kind or not re.search(self.message, str(error), re.I):
            return False
        self.error = error
        return True
