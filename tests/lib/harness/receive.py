# SPDX-License-Identifier: Apache-2.0
"""Reading a socket whose bytes may come in pieces.

One recv() returns what has arrived, and a Python socket with a timeout ignores MSG_WAITALL: it waits
for the first byte only. A test that compares one recv() with a whole answer is therefore flaky.
"""


def receive(s, count):
    """The next `count` bytes of `s`; fewer only when the peer has ended the connection."""
    data = b""
    while len(data) < count and (more := s.recv(count - len(data))):
        data += more
    return data


def receive_until(s, mark):
    """Everything up to the piece that completes `mark`; the connection must not end before that."""
    data = b""
    while mark not in data:
        more = s.recv(65536)
        assert more, f"the connection ended before {mark!r}: {data!r}"
        data += more
    return data
