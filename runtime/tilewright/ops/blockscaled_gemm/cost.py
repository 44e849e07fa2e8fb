"""How long a tactic of a block-scaled kernel takes: one model for each way of multiplying.

`cost_tcgen05` knows the data-center GPUs of Blackwell, `cost_sm120` the workstation and GeForce ones,
`cost_hopper` the kernels that decode. They rank tactics, for launches that find L2 cold, and say in their
constants what has been measured and by whom; Blackwell's numbers are other people's.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.device import DeviceProperties
from tilewright.ops.blockscaled_gemm import cost_hopper, cost_sm120, cost_tcgen05
from tilewright.ops.blockscaled_gemm.problem import Kind, Problem
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord

_MODELS = {
    "sm_90": cost_hopper.estimator,
    "sm_100": cost_tcgen05.estimator,
    "sm_103": cost_tcgen05.estimator,
    "sm_110": cost_tcgen05.estimator,
    "sm_120": cost_sm120.estimator,
    "sm_121": cost_sm120.estimator,
}


_PEAKS = {9: cost_hopper.peak, 10: cost_tcgen05.peak, 11: cost_tcgen05.peak, 12: cost_sm120.peak}


def peak(kind: Kind, device: DeviceProperties) -> float | None:
    """Operations a second of the tensor cores for a kind of problem; None for a GPU that no model knows."""
    known = _PEAKS.get(device.capability[0])
    return None if known is None else known(kind, device)


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate] | None:
    """Estimates the tactics of one kernel: what they share is worked out once. None for an architecture that
    no model knows."""
    model = _MODELS.get(record.arch.rstrip("af"))
    return None if model is None else model(record, problem, device)


def estimate(tactic: Tactic, record: KernelRecord, problem: Problem, device: DeviceProperties) -> Estimate:
    """Seconds that one launch takes, from the first block's start to the last store."""
    return _MODELS[record.arch.rstrip("af")](record, problem, device)(tactic)
