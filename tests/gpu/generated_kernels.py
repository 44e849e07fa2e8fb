"""The generated kernels of a family that a GPU's tests go through, one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tilewright.architectures.routing import runs_on
from tilewright.declarations.table import KernelRecord
from tilewright.libraries.registry import Registry


@functools.cache
def registry() -> Registry:
    return Registry()


def _any(record: KernelRecord) -> bool:
    return True


def names(family: str, only: Callable[[KernelRecord], bool] = _any) -> list[str]:
    """The names of the kernels that run on this GPU, or of all without one, for which `only` holds."""
    kernels = [kernel for kernel in registry().kernels(family) if only(kernel)]
    if torch.cuda.is_available():
        capability = torch.cuda.get_device_capability()
        return [kernel.name for kernel in kernels if runs_on(kernel.arch, capability)]
    return [kernel.name for kernel in kernels]


def fixture(family: str, build: str = "tilewright build", only: Callable[[KernelRecord], bool] = _any) -> Any:
    """A fixture, `kernel` by the name that it is assigned to: each one's row; those not built are skipped."""

    @pytest.fixture(name="kernel", params=names(family, only))
    def kernel(request: pytest.FixtureRequest) -> KernelRecord:
        record = registry().record(request.param)
        if not registry().is_built(record):
            pytest.skip(f"not built: run `{build}`")
        return record

    return kernel
