# SPDX-License-Identifier: Apache-2.0
"""Running code with the asynchronous SDK: callbacks that are awaited, contexts at once, runs that
the client gives up.
"""

import asyncio

from async_world import until
from e2b import TimeoutException
from world import fails


async def run(world):
    sandbox = await world.sandbox()
    assert (await sandbox.run_code("21 * 2")).text == "42"
    execution = await sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1]})")
    assert execution.results[0].data == {"a": [1]}


async def callbacks(world):
    sandbox = await world.sandbox()
    seen = []

    async def on_stdout(message):
        seen.append(message.line)

    running = asyncio.create_task(sandbox.run_code(
        "import time, os\nprint('first')\n"
        "while not os.path.exists('/home/user/async-go'): time.sleep(0.01)\n'end'",
        on_stdout=on_stdout, on_result=lambda r: seen.append(r.text)))
    await until(lambda: seen == ["first\n"], "output before the end")
    await sandbox.files.write("/home/user/async-go", "")
    await running
    assert seen == ["first\n", "end"]


async def contexts(world):
    sandbox = await world.sandbox()
    made = await asyncio.gather(*(sandbox.create_code_context() for _ in range(3)))
    done = await asyncio.gather(*(sandbox.run_code(f"v = {i}\nv", context=c) for i, c in enumerate(made)))
    assert [d.text for d in done] == ["0", "1", "2"]
    assert [(await sandbox.run_code("v", context=c)).text for c in made] == ["0", "1", "2"]
    for context in made:
        await sandbox.remove_code_context(context)


async def given_up(world):
    sandbox = await world.sandbox()
    await sandbox.run_code("kept = 7")
    with fails(TimeoutException):
        await sandbox.run_code("while True: pass", timeout=1)
    assert (await sandbox.run_code("kept")).text == "7"


ALL = {"code_text": run, "code_callbacks": callbacks, "code_contexts": contexts, "code_timeout": given_up}
