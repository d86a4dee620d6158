# SPDX-License-Identifier: Apache-2.0
"""A TCP server whose connections are served in threads of their own."""

import threading


class Threaded:
    """Accepts on a port of every address of a namespace; each connection is `serve`'s, and closed after it."""

    def __init__(self, namespace, port):
        self.accepted = 0
        self.listener = namespace.listen("0.0.0.0", port)
        self.listener.settimeout(None)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass

    def serve(self, connection):
        raise NotImplementedError

    def close(self):
        self.listener.close()
