# SPDX-License-Identifier: Apache-2.0
"""The shared kernel, and contexts of it for one test each."""

import pytest

import kernel_peer


@pytest.fixture(scope="module")
def kernel():
    return kernel_peer.shared()


@pytest.fixture
def python(kernel):
    context = kernel.context()
    yield context
    context.delete()


@pytest.fixture
def bash(kernel):
    context = kernel.context(language="bash")
    yield context
    context.delete()


@pytest.fixture
def javascript(kernel):
    context = kernel.context(language="javascript")
    yield context
    context.delete()


@pytest.fixture
def typescript(kernel):
    context = kernel.context(language="typescript")
    yield context
    context.delete()


__all__ = ["bash", "javascript", "kernel", "python", "typescript"]
