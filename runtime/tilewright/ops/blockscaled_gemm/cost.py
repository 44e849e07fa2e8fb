"""How long a tactic of a block-scaled kernel takes: one model for each way of multiplying.

They rank tactics, for launches that find L2 cold, and say of their numbers what has been measured and by
whom; Blackwell's are other people's.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm.cost_hopper import Hopper
from tilewright.ops.blockscaled_gemm.cost_sm120 import Sm120
from tilewright.ops.blockscaled_gemm.cost_tcgen05 import Tcgen05
from tilewright.ops.blockscaled_gemm.problem import Kind, Problem
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord

_MODELS: dict[int, type[Hopper | Tcgen05 | Sm120]] = {9: Hopper, 10: Tcgen05, 11: Tcgen05, 12: Sm120}


def peak(kind: Kind, device: DeviceProperties) -> float | None:
    """Operations a second of the tensor cores for a kind of problem; None for a GPU that no model knows."""
    known = _MODELS.get(device.capability[0])
    return None if known is None else known.peak(kind, device)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """Estimates the tactics of one kernel; None for an architecture that no model knows."""
    known = _MODELS.get(int(record.arch[3:].rstrip("af")) // 10)
    return None if known is None else known(record, problem, device).weigh
