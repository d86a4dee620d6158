# SPDX-License-Identifier: Apache-2.0
"""Guests that the tests of one file share."""

import os

import pytest

from sdk import Guests


@pytest.fixture(scope="module")
def guests():
    if os.geteuid() != 0:
        pytest.skip("only root can make users and mounts for envd")
    with Guests() as d:
        yield d
        for sandbox in d.request("GET", "/v2/sandboxes").json:
            d.kill(sandbox["sandboxID"])


__all__ = ["guests"]
