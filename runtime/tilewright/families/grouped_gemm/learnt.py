"""Corrects the estimates of `cost` by what was learnt from launches on cold code.

A model runs other kernels between two products, so that a kernel's code is in no cache when it begins. Which
tactic is fastest then depends on how much of its code a launch runs through, which `cost` does not know.
Trees have learnt it (`selection/corrections.py`) from products with scale factors that were timed with other
kernels between (benchmarks/fit/cold_times.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm.cost import Kernel, Terms, group_rows
from tilewright.families.grouped_gemm.problem import GROUPED_ROWS, Problem
from tilewright.selection.corrections import Corrections
from tilewright.selection.estimates import Estimate

CORRECTIONS = Corrections(
    Path(__file__).with_name("learnt_weights.txt"), "python -m benchmarks.fit.learn_grouped_model --write"
)
_GROUPINGS = ("none", "ends", "row_index", "rows_valid", "k_sizes")


def refine(
    nearest: Sequence[tuple[KernelRecord, Tactic]], problem: Problem, device: DeviceProperties
) -> Sequence[Estimate | None]:
    """The estimates, corrected; None for problems and GPUs about which nothing was learnt."""
    if not is_learnt(problem, device):
        return [None] * len(nearest)
    return CORRECTIONS.estimates(nearest, problem, device, Kernel, features)


def is_learnt(problem: Problem, device: DeviceProperties) -> bool:
    """Whether problems like this one were timed on GPUs like this one."""
    return problem.scales != "none" and CORRECTIONS.serve(device)


def features(kernel: Kernel, terms: Terms) -> dict[str, float]:
    """The features of a tactic of a kernel on a problem, in the order in which trees ask about them. Terms
    are those of `cost`, in clocks. Rows and columns are the kernel's own: with swap_ab, rows are the
    caller's n."""
    problem, (tile_m, tile_n) = kernel.problem, kernel.tile
    own = group_rows(problem) if problem.grouping in GROUPED_ROWS else problem.m
    rows, columns = (problem.n, own) if kernel.swapped else (own, problem.n)
    issued_rows = tile_m / terms.n + tile_n / terms.m
    busy = min(terms.blocks * terms.size, kernel.device.sm_count)
    waves = terms.blocks / terms.at_once
    depth = kernel.stages * kernel.stage_boxes
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_elements": tile_m * tile_n,
        "stage_boxes": kernel.stage_boxes,
        "stages": kernel.stages,
        "depth": depth,  # boxes of all stages
        "swapped": kernel.swapped,
        "overlapped": kernel.promotion == "overlapped",
        "in_turn": kernel.promotion == "in_turn",
        "smem_bytes": kernel.smem_bytes,
        "column_scales": problem.scales == "1x128",
        "epilogue": kernel.epilogue,
        "rows": rows,
        "columns": columns,
        "groups": problem.groups,
        "grouping": _GROUPINGS.index(problem.grouping),
        "rows_share": rows / (ceil(rows / tile_m) * tile_m),  # of the tiles' rows, those within a group
        "columns_share": columns / (ceil(columns / tile_n) * tile_n),
        "cluster_m": terms.m,
        "cluster_n": terms.n,
        "splits": terms.splits,
        "cluster_size": terms.size,
        "thread_blocks": terms.blocks * terms.size,
        "waves": waves,
        "last_wave_share": waves % 1,
        "boxes": terms.boxes,  # of a k range
        "ring_passes": terms.boxes / depth,  # how often a k range fills all stages
        "math_share": kernel.math / kernel.wgmma,  # a box's clocks over those of its wgmmas
        "math": kernel.math * terms.boxes,
        "issued_rows": issued_rows,  # rows of a box that a thread block asks for
        "issued_share": issued_rows / kernel.math,
        "arriving_share": (tile_m + tile_n) / kernel.math,
        "latency_share": kernel.latency / kernel.math,
        "loop": terms.loop,
        "hbm": terms.hbm,
        "power": terms.power,
        "whole": terms.whole,
        "added": terms.added,
        "loop_share": terms.loop / terms.whole,
        "hbm_share": terms.hbm / terms.whole,
        "power_share": terms.power / terms.whole,
        "added_share": terms.added / (terms.whole + terms.added),
        "total": terms.whole + terms.added,
        "cluster_rows": tile_m * terms.m,
        "cluster_columns": tile_n * terms.n,
        "gpu_issued_share": busy * issued_rows / kernel.math,
        "gpu_arriving_share": busy * (tile_m + tile_n) / kernel.math,
    }
