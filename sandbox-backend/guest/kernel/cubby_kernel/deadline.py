# SPDX-License-Identifier: Apache-2.0
"""A time limit for a block of a coroutine: asyncio.timeout, which Python has since 3.11.

In an older Python the class below takes its place. Its block raises TimeoutError when the time is up.
"""

import asyncio


class _Limit:
    def __init__(self, seconds):
        self._seconds = seconds
        self._is_over = False

    async def __aenter__(self):
        task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end, task)

    async def __aexit__(self, kind, error, trace):
        self._timer.cancel()
        if self._is_over and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _end(self, task):
        self._is_over = True
        task.cancel()


limit = getattr(asyncio, "timeout", _Limit)
