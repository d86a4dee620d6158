# SPDX-License-Identifier: Apache-2.0
"""New random seeds for a process that was copied, by a fork or with the whole machine.

Python's hash seed stays the same in all copies, since it cannot change in a running process. It decides the
order of sets of strings, and no random numbers.
"""
import os
import random
import sys


def draw():
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random:
        numpy_random.seed()
    # OpenSSL detects a fork but not a restore, after which copies would draw the same numbers.
    ssl = sys.modules.get("ssl")
    if ssl:
        ssl.RAND_add(os.urandom(48), 48.0)
    uuid = sys.modules.get("uuid")
    if uuid:
        uuid._node = None
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        tempfile._name_sequence = None
