# SPDX-License-Identifier: Apache-2.0
"""Runs inside a new network and mount namespace: makes the loopback and the sockets that a client
will use there, hands them to the test that serves them, and becomes the client's command.

Arguments: the descriptor of a unix socket that the sockets are sent to, a resolv.conf, the command.
"""

import os
import socket
import subprocess
import sys

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["mount", "--bind", sys.argv[2], os.path.realpath("/etc/resolv.conf")], check=True)
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
listener = socket.create_server(("127.0.0.1", 443), backlog=256)
with socket.socket(fileno=int(sys.argv[1])) as test:
    socket.send_fds(test, [b"x"], [names.fileno(), listener.fileno()])
names.close()
listener.close()
os.execvp(sys.argv[3], sys.argv[3:])
