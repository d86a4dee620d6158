# SPDX-License-Identifier: Apache-2.0
"""SOCKS5 proxies: Debian's microsocks, and one by hand that answers what a test wants."""

import contextlib
import shutil
import socket
import subprocess
import threading

from harness import wait_for
from threaded import Threaded

MICROSOCKS = shutil.which("microsocks")


@contextlib.contextmanager
def microsocks(address="127.0.0.1", user=None, password=None):
    """A real proxy. Yields its port."""
    assert MICROSOCKS, "install microsocks (make test does)"
    with socket.create_server((address, 0)) as free:
        port = free.getsockname()[1]
    login = ["-u", user, "-P", password] if user else []
    process = subprocess.Popen([MICROSOCKS, "-i", address, "-p", str(port), *login],
                               stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def listens():
        with contextlib.suppress(OSError), socket.create_connection((address, port)):
            return True
        return False

    try:
        wait_for(listens, what="microsocks")
        yield port
    finally:
        process.kill()
        process.wait()


class ScriptedProxy(Threaded):
    """Keeps what each client says. `steps` are (number of bytes to read, answer); after the last, the
    connection is relayed to `target`, or ended if there is none."""

    def __init__(self, steps, target=None, address="127.0.0.1"):
        self.steps, self.target, self.heard = steps, target, []
        super().__init__(socket.create_server((address, 0)))

    def serve(self, connection):
        connection.settimeout(60)
        heard = []
        self.heard.append(heard)
        for count, answer in self.steps:
            data = b""
            while len(data) < count and (more := connection.recv(count - len(data))):
                data += more
            heard.append(data)
            connection.sendall(answer)
        if self.target:
            with socket.create_connection(self.target) as host:
                back = threading.Thread(target=copy, args=(host, connection), daemon=True)
                back.start()
                copy(connection, host)
                back.join(60)


def copy(source, to):
    """Pass bytes on, and then the end of this direction alone."""
    with contextlib.suppress(OSError):
        while (data := source.recv(65536)):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
