"""What tests of DeepGEMM's functions share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tilewright import context as contexts
from tilewright.architectures.device import RTX_PRO_6000
from tilewright.compat import deep_gemm
from tilewright.context import Context


@pytest.fixture
def sm120(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Context]:
    """A described RTX PRO 6000, for which nothing is built."""
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *device: RTX_PRO_6000.capability)
    with contexts.use(Context(described=RTX_PRO_6000)) as context:
        yield context


@pytest.fixture
def alignment() -> Iterator[None]:
    yield
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)
