# SPDX-License-Identifier: Apache-2.0
"""The kernel's side of a context's process, by itself: what no run can be made to meet for certain."""

import asyncio
import os
import socket
import sys

import kernel_peer


def test_a_message_that_comes_while_its_reader_looks(monkeypatch):
    """Between the read of the channel and the look at what has arrived: it is not slept over."""
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
