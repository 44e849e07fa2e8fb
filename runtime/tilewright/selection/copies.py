"""A model of kernels that move each byte once, as a copy does: a launch, and the bytes at the bandwidth that
a GPU reaches.

Such a family has one kernel for a problem. The model chooses nothing: it says how long that kernel takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.estimates import Estimate

LAUNCH_SECONDS = 2.2e-6  # FlashInfer pull request 3026, on GB10; an H200 has 2 us
# Share of the rated bandwidth: what vectorised kernels reach on an H200. LPDDR (GB10): pull request 3026 of
# FlashInfer.
MEMORY_SHARE = 0.85
MEMORY_SHARES = {(12, 1): 0.57}


def estimator(record: KernelRecord, problem: Any, device: DeviceProperties) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel."""
    share = MEMORY_SHARES.get(device.capability, MEMORY_SHARE)
    moving = problem.bytes / (share * device.memory_bandwidth)
    estimate = Estimate(LAUNCH_SECONDS + moving, 1, "hbm", moving, LAUNCH_SECONDS)
    return lambda tactic: estimate
