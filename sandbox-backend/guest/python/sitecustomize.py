# SPDX-License-Identifier: Apache-2.0
# Cubby: do not cache the compiled code of a file that has just been changed.
#
# Python, and pytest for the tests that it rewrites, take a cached .pyc for current if it names the
# source's size and its time of change in whole seconds. An agent that runs a test, patches a line
# without changing the file's length and runs the test again can do so within one second, and would
# get the old code. So, as git does with its index, nothing is cached from a file that may still be
# changed within the second of its last change. A later run caches it.
import sys
import time

import _frozen_importlib_external as _importlib

_SETTLED_S = 2


def _is_settled(changed):
    return time.time() - changed >= _SETTLED_S


def _cache_settled(self, source_path, cache_path, data, _cache=_importlib.SourceFileLoader._cache_bytecode):
    """`data` begins with 4 bytes each: magic number, flags (0: checked by time), time, size (PEP 552)."""
    if data[4:8] != bytes(4) or _is_settled(int.from_bytes(data[8:12], "little")):
        _cache(self, source_path, cache_path, data)


class _PytestFinder:
    """Gives pytest's own cache the same rule, when pytest is imported."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "_pytest.assertion.rewrite":
            return None
        sys.meta_path.remove(cls)
        spec = _importlib.PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                write = module._write_pyc
                module._write_pyc = lambda state, co, stat, pyc: _is_settled(stat.st_mtime) and write(state, co, stat, pyc)

            spec.loader.exec_module = exec_module
        return spec


_importlib.SourceFileLoader._cache_bytecode = _cache_settled
sys.meta_path.insert(0, _PytestFinder)
