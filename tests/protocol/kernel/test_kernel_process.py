# SPDX-License-Identifier: Apache-2.0
"""The kernel's side of a context's process, alone: cases that a run cannot be made to meet for
certain.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import socket
import sys

import kernel_peer
from harness import Later, wait_for


def test_a_message_that_comes_while_its_reader_looks(monkeypatch):
    """It arrives between the read of the channel and the check for messages: the reader does not
    sleep on it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(kernel_peer.SOURCES)
    from cubby_kernel.process import Process

    async def read():
        ours, theirs = socket.socketpair()
        out, err = os.pipe(), os.pipe()
        process = Process(None, 0, ours, out[0], err[0])
        receive = process._receive

        def receive_before_it_comes():
            data = receive()
            monkeypatch.setattr(process, "_receive", receive)
            theirs.send(b"done")
            return data

        monkeypatch.setattr(process, "_receive", receive_before_it_comes)
        try:
            process.begin_run()
            return await asyncio.wait_for(process.more(), 30)
        finally:
            process.close()
            theirs.close()
            os.close(out[1])
            os.close(err[1])

    assert asyncio.run(read()) == [("message", b"done")]


def test_a_writer_that_fills_the_pipe_while_it_is_read(monkeypatch):
    """It writes between the query of the number of bytes and the read: no event reports these
    bytes, because the pipe was not empty then. The reader must come back for them, or both wait for
    ever."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(kernel_peer.SOURCES)
    from cubby_kernel.process import Process

    async def read():
        ours, theirs = socket.socketpair()
        out, err = os.pipe(), os.pipe()
        os.write(out[1], b"x")
        process = Process(None, 0, ours, out[0], err[0])
        pipe = process.pipes[0]
        pending, full = pipe.pending, fcntl.fcntl(out[0], fcntl.F_GETPIPE_SZ)
        writers = []

        def write():
            with contextlib.suppress(BrokenPipeError):
                os.write(out[1], b"y" * 3 * full)

        def pending_before_it_is_filled():
            count = pending()
            monkeypatch.setattr(pipe, "pending", pending)
            writers.append(Later(write))
            wait_for(lambda: pending() > full - select.PIPE_BUF, 30, "the pipe is full")
            return count

        monkeypatch.setattr(pipe, "pending", pending_before_it_is_filled)
        text = ""
        try:
            process.begin_run()
            while len(text) < 1 + 3 * full:
                text += "".join(part for _, part in await asyncio.wait_for(process.more(), 30))
        finally:
            process.close()
            for writer in writers:
                writer.join()
            for fd in (theirs.detach(), out[1], err[1]):
                os.close(fd)
        return text, full

    text, full = asyncio.run(read())
    assert text == "x" + "y" * 3 * full
