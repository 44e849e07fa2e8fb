"""The committed kernels, of which none is built."""

from __future__ import annotations

import pytest

from tilewright.libraries.registry import Registry


@pytest.fixture(scope="module")
def committed() -> Registry:
    return Registry(libraries=lambda module: [])
