"""The generated kernels of a family that a GPU's tests go through, one by one."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from tilewright.architectures.routing import runs_on
from tilewright.declarations.table import KernelRecord
from tilewright.libraries.registry import Registry


@functools.cache
def registry() -> Registry:
    return Registry()


def names(family: str) -> list[str]:
    """Of the kernels that run on this GPU; without one, of all."""
    kernels = registry().kernels(family)
    if torch.cuda.is_available():
        capability = torch.cuda.get_device_capability()
        return [kernel.name for kernel in kernels if runs_on(kernel.arch, capability)]
    return [kernel.name for kernel in kernels]


def fixture(family: str, build: str = "tilewright build") -> Any:
    """A fixture, `kernel` by the name that it is assigned to: each one's row; those not built are skipped."""

    @pytest.fixture(name="kernel", params=names(family))
    def kernel(request: pytest.FixtureRequest) -> KernelRecord:
        record = registry().record(request.param)
        if not registry().is_built(record):
            pytest.skip(f"not built: run `{build}`")
        return record

    return kernel
