"""Tests that need a GPU of an architecture with committed kernels; skipped, with the reason, elsewhere.

Kernels are not compiled by a test: build them first (`tilewright build`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright import routing
from tilewright.registry import Registry

os.environ.setdefault("TILEWRIGHT_JIT", "0")
_HERE = Path(__file__).parent


def _why_not() -> str | None:
    try:
        import torch  # noqa: PLC0415 (collection must work without it)
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "no GPU"
    capability = torch.cuda.get_device_capability()
    if not any(routing.runs_on(kernel.arch, capability) for kernel in Registry().kernels("gemm")):
        return f"no committed kernel runs on {routing.describe(capability)}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if _HERE in item.path.parents]
    reason = _why_not() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
