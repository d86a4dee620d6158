# SPDX-License-Identifier: Apache-2.0
"""The kernel's inspect.getmodule answers as Python's own, and looks at no module that the warm-up has seen."""

from kernel_fixtures import kernel, python  # noqa: F401

SPY = """
import inspect, os, sys, types
class Spy(types.ModuleType):
    looks = 0
    def __getattribute__(self, name):
        Spy.looks += name == "__file__"
        return super().__getattribute__(name)
sys.modules["zipfile"] = Spy("zipfile")
sys.path.insert(0, {place!r})
def module_of(code):
    return inspect.getmodule(code, code.co_filename)
"""


def known(python, tmp_path):  # noqa: F811
    (tmp_path / "first.py").write_text("def f():\n    raise OSError('of first')\n")
    (tmp_path / "second.py").write_text("def f(): pass\n")
    python.run(SPY.format(place=str(tmp_path)))
    return python


def test_the_module_of_a_new_file(python, tmp_path):  # noqa: F811
    known(python, tmp_path).run("import first, second")
    assert python.run("module_of(second.f.__code__) is second and module_of(first.f.__code__) is first, Spy.looks"
                      ).text == "(True, 0)"
    assert python.run("inspect.getsource(first.f.__code__)[:9], inspect.getmodule(first.f) is first, Spy.looks"
                      ).text == "('def f():\\n', True, 0)"


def test_two_modules_of_one_file(python, tmp_path):  # noqa: F811
    known(python, tmp_path).run("import importlib.util\nfor name in 'early', 'late':\n"
                                f"    spec = importlib.util.spec_from_file_location(name, {str(tmp_path / 'first.py')!r})\n"
                                "    sys.modules[name] = importlib.util.module_from_spec(spec)\n"
                                "    spec.loader.exec_module(sys.modules[name])")
    assert python.run("module_of(sys.modules['early'].f.__code__).__name__").text == "late"


def test_a_module_that_is_imported_again(python, tmp_path):  # noqa: F811
    known(python, tmp_path).run("import first\nmodule_of(first.f.__code__)\ndel sys.modules['first']\nimport second, first")
    assert python.run("module_of(first.f.__code__) is first, module_of(second.f.__code__) is second, Spy.looks"
                      ).text == "(True, True, 0)"


def test_one_that_takes_the_place_of_a_known_one(python, tmp_path):  # noqa: F811
    """A removed module makes room, so the newest look like known ones. Then all are looked at, as Python does."""
    known(python, tmp_path).run("for name in 'colorsys', 'cProfile', 'sched': __import__(name)\n"
                                "gone = [name for name in list(sys.modules) if name.startswith('matplotlib.') or "
                                "name.startswith('numpy.')][:50]\nfor name in gone: del sys.modules[name]\nimport first")
    assert python.run("len(gone) > 9, module_of(first.f.__code__) is first, Spy.looks > 0").text == "(True, True, True)"


def test_what_is_no_module_is_not_asked(python, tmp_path):  # noqa: F811
    """Some libraries put other objects among the modules, whose attributes do work, or fail."""
    known(python, tmp_path).run("class Odd:\n    def __getattr__(self, name): raise OSError(name)\n"
                                "import first\nsys.modules['odd'] = Odd()")
    assert python.run("module_of(first.f.__code__) is first").text == "True"


def test_what_is_of_no_module(python, tmp_path):  # noqa: F811
    known(python, tmp_path)
    assert python.run("def cell(): pass\nmodule_of(cell.__code__), Spy.looks").text == "(None, 0)"
    (tmp_path / "script").write_text("def f(): pass\n")
    assert python.run(f"import runpy\nmade = runpy.run_path({str(tmp_path / 'script')!r})\nmodule_of(made['f'].__code__) is None"
                      ).text == "True"


def test_a_traceback_has_the_lines_of_a_new_file(python, tmp_path):  # noqa: F811
    error = known(python, tmp_path).run("import first\nfirst.f()").error
    assert "raise OSError('of first')" in error["traceback"], error
