# SPDX-License-Identifier: Apache-2.0
"""Shared by the asynchronous scenarios, as world.py is by the others."""

import asyncio
import time

from e2b_code_interpreter import AsyncSandbox


class World:
    def __init__(self, plan):
        self.template = plan["bare"]  # of sandboxes that run no code
        self.runs_code = plan["template"]
        self.made = []
        self.count = 0
        self.shared = None

    async def create(self, template=None, timeout=600, **options):
        """A new sandbox that ends no later than the program."""
        sandbox = await AsyncSandbox.create(template=template or self.template, timeout=timeout, **options)
        self.made.append(sandbox)
        return sandbox

    async def sandbox(self):
        """The sandbox that scenarios share."""
        self.shared = self.shared or await self.create(self.runs_code, envs={"SHARED": "yes"})
        return self.shared

    async def place(self):
        """The shared sandbox, and a fresh directory in it."""
        sandbox = await self.sandbox()
        self.count += 1
        path = f"/home/user/place-{self.count}"
        assert await sandbox.files.make_dir(path) is True
        return sandbox, path

    async def close(self):
        await asyncio.gather(*(sandbox.kill() for sandbox in self.made), return_exceptions=True)


async def until(condition, what, seconds=30):
    """Polls until the result is true, and returns it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what() if callable(what) else what}: not within {seconds} s"
        await asyncio.sleep(0.02)
    return value
