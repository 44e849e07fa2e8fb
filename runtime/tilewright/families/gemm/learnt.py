"""Corrects the estimates of `cost_lean` by what was learnt from the times that it is fitted to.

The mechanisms of `cost_lean` put a tactic within 5 % of its time. Their error depends on several facts at
once: the cluster, how full the last wave is, what the main loop waits for. Trees have learnt that error
(`selection/corrections.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.cost_lean import Kernel, Terms
from tilewright.families.gemm.problem import Problem
from tilewright.selection.corrections import Corrections
from tilewright.selection.estimates import Estimate

CORRECTIONS = Corrections(
    Path(__file__).with_name("learnt_weights.txt"), "python -m benchmarks.fit.learn_lean_model --write"
)
LEAST_N = 17  # the least n of the problems that were timed


def refine(
    nearest: Sequence[tuple[KernelRecord, Tactic]], problem: Problem, device: DeviceProperties
) -> Sequence[Estimate | None]:
    """The mechanisms' estimates, corrected; None for problems and GPUs about which nothing was learnt."""
    if not is_learnt(problem, device):
        return [None] * len(nearest)
    return CORRECTIONS.estimates(nearest, problem, device, Kernel, features)


def is_learnt(problem: Problem, device: DeviceProperties) -> bool:
    """Whether problems like this one were timed on GPUs like this one."""
    return problem.n >= LEAST_N and CORRECTIONS.serve(device)


def features(kernel: Kernel, terms: Terms) -> dict[str, float]:
    """The features of a tactic of a kernel on a problem, in the order in which trees ask about them. Terms
    are those of `cost_lean`, in clocks."""
    (tile_m, tile_n), (rows, columns), down, across = kernel.tile, kernel.extents, kernel.down, kernel.across
    m, n, splits, in_memory, size, blocks, waves, boxes, math, loop, hbm, power, whole, added = terms
    rows_share, columns_share = rows / (down * tile_m), columns / (across * tile_n)
    issued_rows = tile_m / n + tile_n / m
    busy = min(blocks * size, kernel.device.sm_count)
    return {
        # The kernel on the problem. Rows and columns are the kernel's own.
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_elements": tile_m * tile_n,
        "stage_boxes": kernel.boxes,
        "depth": kernel.depth,  # boxes of all stages
        "swapped": kernel.swapped,
        "pingpong": kernel.pingpong,
        "element_bytes": kernel.size,
        "subtiles": kernel.subtiles,
        "epilogue": kernel.epilogue,
        "rows": rows,
        "columns": columns,
        "k_tiles": kernel.k_tiles,
        "tiles_down": down,
        "tiles_across": across,
        "rows_share": rows_share,  # of the tiles' rows, those within the matrix
        "columns_share": columns_share,
        "elements_share": rows_share * columns_share,
        "stages": kernel.depth / kernel.boxes,
        "stage_rows": (tile_m + tile_n) * kernel.boxes,  # rows of both operands' boxes
        # The tactic: its cluster, its waves, and its terms.
        "cluster_m": m,
        "cluster_n": n,
        "splits": splits,
        "in_memory": in_memory,
        "cluster_size": size,
        "thread_blocks": blocks * size,
        "waves": blocks / waves.at_once,
        "last_wave_share": waves.last / waves.at_once,
        "last_wave_thread_blocks": waves.last * size,
        "boxes": boxes,  # of a k range
        "range_k_tiles": boxes / kernel.boxes,
        "math_share": math / kernel.wgmma,  # a box's clocks over those of its wgmmas
        "math": math * boxes,  # all boxes of a k range
        "issued_rows": issued_rows,  # rows of a box that a thread block asks for
        "issued_share": issued_rows / math,  # issued_rows over the clocks of a box
        "arriving_share": (tile_m + tile_n) / math,  # rows that arrive over the clocks of a box
        # of the tiles of whole clusters, those within the matrix
        "cluster_tiles_share": down * across / (-(-down // m) * m * (-(-across // n) * n)),
        "loop": loop,
        "hbm": hbm,
        "power": power,
        "whole": whole,
        "added": added,
        "loop_share": loop / whole,
        "hbm_share": hbm / whole,
        "power_share": power / whole,
        "added_share": added / (whole + added),
        "total": whole + added,
        "clusters_down": down / m,
        "clusters_across": across / n,
        "cluster_rows": tile_m * m,
        "cluster_columns": tile_n * n,
        "ring_passes": boxes / kernel.depth,  # how often a k range fills all stages
        "gpu_issued_share": busy * issued_rows / math,
        "gpu_arriving_share": busy * (tile_m + tile_n) / math,
        "issued_math_share": issued_rows * kernel.wgmma / math**2,
        # The share of the rows of A, B and D that do not begin at 128-byte lines.
        "straddling_a": kernel.straddling[0],
        "straddling_b": kernel.straddling[1],
        "straddling_d": kernel.straddling_d,
    }
