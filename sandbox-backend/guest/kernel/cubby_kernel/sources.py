# SPDX-License-Identifier: Apache-2.0
"""inspect.getmodule without a look at every module.

Tracebacks and pytest ask for the module of a line's file. The standard function looks at all modules for each file
that it does not know, and so writes to each of them, because Python counts references. In a new sandbox these are
1,800 pages, which gVisor copies one by one.
"""
import functools
import inspect
import itertools
import os
import sys
import types

_HAVE_NO_NAME = (types.CodeType, types.FrameType, types.TracebackType)


def _map(name):
    """As inspect.getmodule does: the file of this module has its name."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) if inspect.ismodule(module) else None
    if not file or inspect._filesbymodname.get(name) == file:
        return
    inspect._filesbymodname[name] = file
    path = inspect.getabsfile(module)
    inspect.modulesbyfile[path] = inspect.modulesbyfile[os.path.realpath(path)] = module.__name__


def watch():
    """Map the files of all modules, and afterwards only those of modules that are imported later."""
    original = inspect.getmodule
    original(compile("", "<nowhere>", "exec"))
    if not hasattr(inspect, "_filesbymodname"):  # another Python than those whose source was read
        return
    known = len(sys.modules)

    @functools.wraps(original)
    def getmodule(object, _filename=None):
        if isinstance(object, _HAVE_NO_NAME):
            file = _filename or inspect.getfile(object)
            if file.startswith("<"):
                return None  # a cell: no module has such a file
            if file not in inspect.modulesbyfile:
                added = list(itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - known)))
                for name in reversed(added):  # of two modules of one file the later one counts
                    _map(name)
        return original(object, _filename)

    inspect.getmodule = getmodule
