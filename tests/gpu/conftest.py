"""Tests that need a GPU of an architecture with committed kernels; skipped, with the reason, elsewhere.

Kernels are not compiled by a test: build them first (`tilewright build`).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright import routing
from tilewright.registry import Registry

_HERE = Path(__file__).parent
_HAS_TORCH = find_spec("torch") is not None
collect_ignore_glob = [] if _HAS_TORCH else ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    file = os.environ.get("TILEWRIGHT_RECORD")
    if file and _HAS_TORCH and _why_not() is None:
        if hasattr(config, "workerinput"):
            raise pytest.UsageError("TILEWRIGHT_RECORD needs all tests in one process: leave out -n")
        from recording import Recorder  # noqa: PLC0415 (it imports torch)

        config.pluginmanager.register(Recorder(Path(file)))


def pytest_report_header() -> str | None:
    return None if _HAS_TORCH else "tests/gpu: left out, torch is not installed"


@pytest.fixture(autouse=True)
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", os.environ.get("TILEWRIGHT_JIT", "0"))


def _why_not() -> str | None:
    import torch  # noqa: PLC0415 (collection must work without it)

    if not torch.cuda.is_available():
        return "no GPU"
    capability = torch.cuda.get_device_capability()
    registry = Registry()
    families = {table.family for table in registry.tables.values()}
    kernels = (kernel for family in families for kernel in registry.kernels(family))
    if not any(routing.runs_on(kernel.arch, capability) for kernel in kernels):
        return f"no committed kernel runs on {routing.describe(capability)}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if _HERE in item.path.parents]
    reason = _why_not() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
