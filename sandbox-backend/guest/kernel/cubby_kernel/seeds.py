# SPDX-License-Identifier: Apache-2.0
"""New random numbers for a process that was copied: by a fork, or with the whole machine.

What stays the same in all copies of one snapshot is Python's hash seed, which cannot be changed in a
running process; it orders sets of strings and decides no random number.
"""
import os
import random
import sys


def draw():
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random:
        numpy_random.seed()
    # OpenSSL sees a fork, not a restore: what it hands out next must not be what a twin is handed.
    ssl = sys.modules.get("ssl")
    if ssl:
        ssl.RAND_add(os.urandom(48), 48.0)
    uuid = sys.modules.get("uuid")
    if uuid:
        uuid._node = None
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        tempfile._name_sequence = None
