# SPDX-License-Identifier: Apache-2.0
"""A fleet whose node a is drained; after each test no sandbox and no drain is left."""

import pytest

from fleet import DrainFleet


@pytest.fixture(scope="module")
def fleet():
    with DrainFleet() as f:
        yield f


@pytest.fixture(autouse=True)
def no_sandbox_stays(request):
    yield
    if "fleet" in request.fixturenames:
        request.getfixturevalue("fleet").end_all()


__all__ = ["fleet", "no_sandbox_stays"]
