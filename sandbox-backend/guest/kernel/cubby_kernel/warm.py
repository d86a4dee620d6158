# SPDX-License-Identifier: Apache-2.0
"""What the zygote imports and does once for all contexts."""
import contextlib
import gc
import importlib
import importlib.util
import io
import sys
import warnings

from . import charts, images, seeds, sources
from . import loop as kernel_loop
from . import shell as kernel_shell

# The first use of these loads and compiles more than an import. A cell leaves nothing behind. The template of
# an image may lack the modules that a cell imports; the cell is left out then.
_CELLS = (
    "1 + 1",
    "import numpy as np\nnp.random.default_rng(1).normal(size=8).mean()",
    "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz')})\ndf.describe()",
    "import pandas as pd\ndf.groupby('b').sum()",
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2], [3, 4], label='a')\n"
    "ax.bar([1], [2])\nax.set_title('t')\nax.set_xlabel('x')\nax.legend()\nplt.show()",
    "from IPython.display import HTML, display\ndisplay(HTML('<b>a</b>'))",
    "def f(x):\n    return 1 / x\nf(0)",
    "await __import__('asyncio').sleep(0)",
    "1 +",
    "%who_ls",
)
_MODULES = ("numpy", "pandas", "matplotlib")
_QUIET = ("RuntimeWarning", "DeprecationWarning")


def _has(name):
    return importlib.util.find_spec(name) is not None


def _use(shell):
    shown, failed = [], []
    shell.show = lambda bundle, is_main: shown.append(bundle)
    shell.fail = lambda *error: failed.append(error)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for cell in _CELLS:
            if any(f"import {name}" in cell and not _has(name) for name in _MODULES):
                continue
            shell.run_cell(cell, store_history=True)
    return shown, failed


def _forget(shell):
    """Remove all traces, so that the user's first run finds no names, history or numbers of these cells."""
    kernel_loop.close()
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    shell.reset(new_session=True, aggressive=False)
    shell.execution_count = 1
    shell.history_manager.reset(new_session=False)
    sys.last_type = sys.last_value = sys.last_traceback = None


def _import_pytest():
    """Import pytest if the template has it: agents run tests often, and imports are most of such a run."""
    try:
        from _pytest import config
    except ImportError:
        return
    for name in config.default_plugins:
        importlib.import_module(f"_pytest.{name}")


def warm_up():
    """Return the shell that every context starts with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _MODULES:
            if _has(name):
                importlib.import_module(name)
        _import_pytest()
        shell = kernel_shell.make()
        images.watch(shell)
        if _has("matplotlib"):
            charts.watch()
            importlib.import_module("matplotlib").use("module://matplotlib_inline.backend_inline")
            importlib.import_module("matplotlib.pyplot")
            importlib.import_module("matplotlib_inline.backend_inline")
        shown, failed = _use(shell)
    # IPython tells the user of exit(): to press keys.
    warnings.filterwarnings("ignore", message="To exit: use")
    has_figure = any("image/png" in bundle for bundle in shown) or not _has("matplotlib")
    if not has_figure or len(failed) != 2:
        raise RuntimeError(f"the warm-up showed {len(shown)} results and failed {len(failed)} times: {failed}")
    sources.watch()
    seeds.draw()  # the first use of OpenSSL's generator loads its code and tables
    _forget(shell)
    gc.collect()
    gc.freeze()  # garbage collection in a context then leaves the shared pages unwritten
    return shell
