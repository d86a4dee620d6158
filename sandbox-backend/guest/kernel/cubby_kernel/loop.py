# SPDX-License-Identifier: Apache-2.0
"""Top-level await: one event loop in each context, which does not run between runs."""
import asyncio
import contextlib

_loop = None
interrupted = False  # SIGINT cancelled the last cell's coroutine


def run(coroutine):
    """Run a cell's coroutine. An interrupt cancels it, so that it does not continue in the next run."""
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
    """Close the loop: a forked process must not share its descriptors."""
    global _loop
    if _loop is not None:
        _loop.close()
    _loop = None
    asyncio.set_event_loop(None)
