"""The host's library of `gemm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.libraries.library import Library, load


@pytest.fixture
def library(host_library: Path) -> Library:
    return load(host_library)
