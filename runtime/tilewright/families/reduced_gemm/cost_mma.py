"""A model of how long a `reduced_gemm` kernel takes on sm_12x: as a batch of `gemm` there.

k of all matrices is divided into as many parts as keep all SMs busy. A part is a product with sums of F32; a
second kernel adds the parts up, as `gemm`'s does for a split k. Nobody has timed these kernels on such a GPU.
DeepGEMM pull request 324 has 188 TFLOP/s, limited by memory, on an RTX PRO 6000.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.cost_mma import Mma
from tilewright.families.gemm.problem import Problem as Product
from tilewright.families.reduced_gemm.problem import Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.persistent import SUM_BYTES

OF_GEMM = {
    "cluster": [1, 1], "fast_accum": False, "schedule": "cooperative", "scheduler": "data_parallel",
    "swap_ab": False,
}  # fmt: skip


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel, which has one tactic."""
    tile_m, tile_n, tile_k = record.config["tile"]
    tiles = ceil(problem.m / tile_m) * ceil(problem.n / tile_n)
    k_tiles = ceil(problem.k / tile_k) * problem.batch
    parts = max(1, min(device.sm_count // tiles, k_tiles))  # as the host code divides them
    k = ceil(k_tiles / parts) * tile_k
    part = Product(problem.m, problem.n, k, batch=parts, a=problem.a, b=problem.b, d="f32")
    model = Mma(record._replace(config={**record.config, **OF_GEMM}), part, device)
    main = model.weigh(Tactic(record.name))
    read = parts * problem.m * problem.n * SUM_BYTES / model.SUMS_L2_BYTES_PER_CLOCK / device.clock_hz
    added = model.COMBINE_SECONDS + read
    estimate = main._replace(seconds=main.seconds + added, overhead=main.overhead + added)
    return lambda tactic: estimate
