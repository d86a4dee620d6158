# SPDX-License-Identifier: Apache-2.0
"""The tiers in which tests run.

A test runs in a microVM unless its file imports the fixture `tier` of this module: then it runs
once in each tier. A test that has no meaning in one of them says why:

    @pytest.mark.only_in("microvm", reason="a container has no kernel of its own that could panic")
"""

import shutil

import pytest

from harness import BIN

RUNSC = BIN / "runsc"
GVISOR = pytest.mark.skipif(not RUNSC.exists(), reason="runsc is not built: make runsc")
BWRAP = pytest.mark.skipif(not shutil.which("bwrap"), reason="bwrap is not installed: apt install bubblewrap")
TIERS = ["microvm", pytest.param("gvisor", marks=GVISOR)]
# Those that share the host's kernel. They save nothing, so most tests of sandboxes have no meaning in them.
SHARED = [pytest.param("bubblewrap", marks=BWRAP), "none"]


@pytest.fixture(scope="module", params=TIERS)
def tier(request):
    return request.param


@pytest.fixture(name="tier", scope="module", params=[*TIERS, *SHARED])
def every_tier(request):
    """In place of `tier`, for a file that also tests the tiers that share the host's kernel."""
    return request.param


def skip_where_it_has_no_meaning(item):
    """Skips a test whose mark `only_in` names other tiers than the one that it would run in."""
    mark = item.get_closest_marker("only_in")
    assert not mark or set(mark.args) <= {"microvm", "gvisor", "bubblewrap", "none"}, mark
    if mark and item.callspec.params["tier"] not in mark.args:
        pytest.skip(mark.kwargs["reason"])
