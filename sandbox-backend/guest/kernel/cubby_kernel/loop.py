# SPDX-License-Identifier: Apache-2.0
"""Top-level await: one event loop a context, which stands still between runs."""
import asyncio
import contextlib

_loop = None
interrupted = False  # the last cell's coroutine was cancelled by SIGINT


def run(coroutine):
    """Runs a cell's coroutine. What interrupts it cancels it: it must not go on in the next run."""
    global _loop, interrupted
    interrupted = False
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)
    task = _loop.create_task(coroutine)
    try:
        return _loop.run_until_complete(task)
    except BaseException as e:
        interrupted = isinstance(e, KeyboardInterrupt)
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                _loop.run_until_complete(task)
        raise


def close():
    """Forgets the loop: a process that was forked must not share its descriptors."""
    global _loop
    if _loop is not None:
        _loop.close()
    _loop = None
    asyncio.set_event_loop(None)
