# SPDX-License-Identifier: Apache-2.0
"""Uses the official Python SDKs (e2b, e2b-code-interpreter) as a user does, by their public API
alone: the current releases ("sync" and "async"), and e2b 1.9 with e2b-code-interpreter 1.5
("sync").

The environment is a user's: E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL; for 1.9 E2B_DOMAIN.
Arguments: sync or async, and JSON: {template, bare, scenarios: [name, ...]}. Prints a line of JSON
per scenario: {name, error, seconds}; error is null for a scenario that passed.
"""

import asyncio
import json
import sys
import time
import traceback

SECONDS = 60  # of a scenario, where it can be limited: far more than any takes


def say(name, error, began):
    seconds = round(time.monotonic() - began, 2)
    print(json.dumps({"name": name, "error": error, "seconds": seconds}), flush=True)


def run_sync(plan):
    import commands
    import files
    import interpreter
    import lifecycle
    import terminal
    from world import World

    world = World(plan)
    known = {**commands.ALL, **files.ALL, **terminal.ALL, **lifecycle.ALL, **interpreter.ALL}
    for name in plan["scenarios"]:
        began = time.monotonic()
        try:
            known[name](world)
            say(name, None, began)
        except BaseException:
            say(name, traceback.format_exc(), began)
    world.close()


async def run_async(plan):
    import async_code
    import async_sandbox
    from async_world import World

    world = World(plan)
    known = {**async_sandbox.ALL, **async_code.ALL}
    for name in plan["scenarios"]:
        began = time.monotonic()
        try:
            await asyncio.wait_for(known[name](world), SECONDS)
            say(name, None, began)
        except BaseException:
            say(name, traceback.format_exc(), began)
    await world.close()


if sys.argv[1] == "async":
    asyncio.run(run_async(json.loads(sys.argv[2])))
else:
    run_sync(json.loads(sys.argv[2]))
