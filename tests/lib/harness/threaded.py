# SPDX-License-Identifier: Apache-2.0
"""A server whose connections are served in threads of their own."""

import contextlib
import socket
import threading


class Threaded:
    """Accepts from a listening socket, which it then owns; calls `serve` with each connection, and
    closes it afterwards."""

    def __init__(self, listener):
        self.listener = listener
        self.port = listener.getsockname()[1]
        self.accepted = 0
        self.threads = []  # of the connections, in their order
        listener.settimeout(None)
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
            self.threads.append(thread)  # first: who was served looks for it
            thread.start()

    def _run(self, connection):
        with contextlib.suppress(OSError), connection:
            self.serve(connection)

    def serve(self, connection):
        raise NotImplementedError

    def close(self):
        # Closed only once nobody waits in accept: the thread would go on waiting at the number of
        # the descriptor, and take a connection of whatever is opened there next.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
