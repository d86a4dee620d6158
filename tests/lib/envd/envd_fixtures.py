# SPDX-License-Identifier: Apache-2.0
"""An envd for one test."""

import pytest

from envd_peer import Envd


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


__all__ = ["envd"]
