# SPDX-License-Identifier: Apache-2.0
"""A WebSocket server for tests of what is between it and its client."""

import threading

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve


class WebSocketGuest:
    """A server of the `websockets` package, which answers each message with itself."""

    def __init__(self, address="127.0.0.1"):
        self.hosts, self.paths = [], []
        self.server = serve(self.echo, address, 0, max_size=None, compression=None)
        self.port = self.server.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def echo(self, connection):
        self.hosts.append(connection.request.headers["Host"])
        self.paths.append(connection.request.path)
        try:
            for message in connection:
                connection.send(message)
        except ConnectionClosed:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.thread.join()
