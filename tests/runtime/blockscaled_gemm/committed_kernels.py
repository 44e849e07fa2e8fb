"""Committed block-scaled kernels, ranked by their cost models."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.weighing import Candidate


def ranked(
    registry: Registry,
    device: DeviceProperties,
    problem: Problem,
    keep: Callable[[KernelRecord], bool] = lambda record: True,
) -> list[Candidate]:
    records = registry.route("blockscaled_gemm", device)
    return FAMILY.rank([record for record in records if keep(record)], problem, device)


def unswapped(record: KernelRecord) -> bool:
    """FlashInfer's kernels of that time swapped no operands."""
    return not record.config["swap_ab"]


def cutlass(record: KernelRecord) -> bool:
    return bool(record.config["mainloop"] == "default")


def cutlass_4_2(record: KernelRecord) -> bool:
    return cutlass(record) and not record.cutlass


def by_mma(record: KernelRecord) -> bool:
    return not cutlass(record)
