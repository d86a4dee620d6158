# SPDX-License-Identifier: Apache-2.0
"""Functions in which the asynchronous SDK differs from the synchronous one: callbacks, many calls
at once, WatchDir instead of polling, input that stays open, streams.
"""

import asyncio
import hashlib
import os

from async_world import until
from e2b import (AsyncSandbox, CommandExitException, FileNotFoundException, PtySize,
                 SandboxNotFoundException, SandboxNotRunningException, SandboxQuery, SandboxState,
                 TimeoutException)
from world import fails


async def run(world):
    sandbox = await world.sandbox()
    done = await sandbox.commands.run("echo out; echo err >&2")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out\n", "err\n")
    with fails(CommandExitException) as failed:
        await sandbox.commands.run("exit 3")
    assert failed.error.exit_code == 3


async def callbacks(world):
    sandbox, path = await world.place()
    out, err = [], []

    async def on_stdout(text):
        out.append(text)

    handle = await sandbox.commands.run("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; "
                                        "echo bad >&2", cwd=path, background=True, on_stdout=on_stdout,
                                        on_stderr=err.append)
    await until(lambda: out == ["one\n"], "output before the end")
    await sandbox.files.write(f"{path}/go", "")
    done = await handle.wait()
    assert "".join(out) == done.stdout == "one\ntwo\n" and "".join(err) == "bad\n"


async def stdin(world):
    sandbox = await world.sandbox()
    handle = await sandbox.commands.run("cat", background=True, stdin=True)
    await handle.send_stdin("begin ")
    stream = sandbox.commands.stream_input(handle.pid)
    for word in ("one ", b"two ", "drei €"):
        await stream.send(word)
    await stream.close()
    await until(lambda: handle.stdout == "begin one two drei €", "all of it in order")
    await handle.close_stdin()
    assert (await handle.wait()).stdout == "begin one two drei €"


async def connect(world):
    sandbox = await world.sandbox()
    first = await sandbox.commands.run('while read line; do echo "$line"; done', background=True, stdin=True)
    out = []
    second = await sandbox.commands.connect(first.pid, on_stdout=out.append)
    await first.disconnect()
    await sandbox.commands.send_stdin(first.pid, "hello\n")
    await until(lambda: "".join(out) == "hello\n", "the output after the connection")
    assert await second.kill() is True
    with fails(CommandExitException):
        await second.wait()


async def timeout(world):
    sandbox = await world.sandbox()
    with fails(TimeoutException):
        await sandbox.commands.run("sleep 600", timeout=0.5)


async def parallel(world):
    sandbox = await world.sandbox()
    all_done = await asyncio.gather(*(
        sandbox.commands.run(f"for j in $(seq 1 200); do echo {i}-$j; done") for i in range(24)))
    for i, done in enumerate(all_done):
        assert done.stdout == "".join(f"{i}-{j}\n" for j in range(1, 201))


async def terminal(world):
    sandbox = await world.sandbox()
    screen = []
    size = PtySize(rows=24, cols=80)
    handle = await sandbox.pty.create(size, on_data=screen.append, timeout=0)
    await until(lambda: b"$ " in b"".join(screen), lambda: f"the prompt on {screen}")
    await sandbox.pty.resize(handle.pid, PtySize(rows=30, cols=100))
    await sandbox.pty.send_stdin(handle.pid, b"stty size\n")
    await until(lambda: b"30 100" in b"".join(screen), lambda: f"the new size on {screen}")
    again = []
    second = await sandbox.pty.connect(handle.pid, on_data=again.append, timeout=0)
    await sandbox.pty.send_stdin(handle.pid, b"echo again-$((40 + 2))\n")
    await until(lambda: b"again-42" in b"".join(again), lambda: f"the answer on {again}")
    assert await sandbox.pty.kill(handle.pid) is True
    for each in (handle, second):
        with fails(CommandExitException):
            await each.wait()


async def files(world):
    sandbox, path = await world.place()
    data = os.urandom(1_000_000)

    async def parts():
        for start in range(0, len(data), 70_000):
            yield data[start:start + 70_000]

    await sandbox.files.write(f"{path}/s", parts())
    got = hashlib.sha256()
    async for chunk in await sandbox.files.read(f"{path}/s", format="stream"):
        got.update(chunk)
    assert got.digest() == hashlib.sha256(data).digest()
    await sandbox.files.write_files([{"path": f"{path}/{i}", "data": str(i)} for i in range(10)])
    assert await asyncio.gather(*(sandbox.files.read(f"{path}/{i}") for i in range(10))) == list("0123456789")
    with fails(FileNotFoundException):
        await sandbox.files.read(f"{path}/none")


async def watch(world):
    sandbox, path = await world.place()
    seen = []
    handle = await sandbox.files.watch_dir(path, on_event=seen.append, recursive=True, include_entry=True)
    await sandbox.files.write(f"{path}/sub/f", "")
    await until(lambda: any(e.name == "sub/f" for e in seen), "what a new directory has already")
    await sandbox.files.write(f"{path}/sub/f", "12345")
    await until(lambda: any(e.name == "sub/f" and e.type.value == "write" and e.entry.size == 5
                            for e in seen), "a write there")
    await handle.stop()
    with fails(FileNotFoundException):
        await sandbox.files.watch_dir(f"{path}/none", on_event=seen.append)


async def life(world):
    sandbox = await world.create(metadata={"of": f"async-{os.getpid()}"})
    query = SandboxQuery(metadata={"of": f"async-{os.getpid()}"})
    await sandbox.pause()
    paginator = AsyncSandbox.list(query=query)
    found, = await paginator.next_items()
    assert (found.sandbox_id, found.state) == (sandbox.sandbox_id, SandboxState.PAUSED)
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    handle = await again.commands.run("sleep 600", background=True)
    assert await again.kill() is True
    with fails(SandboxNotRunningException, "killed or reached its end of life"):
        await handle.wait()
    assert await again.is_running() is False
    with fails(SandboxNotFoundException):
        await again.get_info()


ALL = {"commands_run": run, "commands_callbacks": callbacks, "commands_stdin": stdin,
       "commands_connect": connect, "commands_timeout": timeout, "commands_parallel": parallel,
       "pty_all": terminal, "files_streams": files, "files_watch_recursive": watch, "sandbox_life": life}
