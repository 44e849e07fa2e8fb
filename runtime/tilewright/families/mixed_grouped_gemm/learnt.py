"""Corrects the estimates of the mainloops' cost models by what was learnt from times on an H200.

Both mainloops are asked about by the same features and the same trees (`selection/corrections.py`), so that
their corrected estimates are comparable. The times are those of benchmarks/fit/expert_times.py, of rows that
a router gave to experts, more evenly or less. Selection does not know how many rows an expert has: what the
trees learn is how a tile does on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from pathlib import Path

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm.learnt import FORMAT_NUMBERS
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.families.mixed_gemm.terms import Kernel, Terms
from tilewright.families.mixed_grouped_gemm import cost, cost_stream
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.selection.corrections import Corrections
from tilewright.selection.estimates import Estimate, held_by_memory

CORRECTIONS = Corrections(
    Path(__file__).with_name("learnt_weights.txt"), "python -m benchmarks.fit.learn_experts_model --write"
)
MODELS: dict[str, type[Kernel]] = {"wgmma": cost.Wgmma, "stream": cost_stream.Stream}
SCHEDULES = ("at_will", "early", "in_turn")


def refine(
    nearest: Sequence[tuple[KernelRecord, Tactic]], problem: Problem, device: DeviceProperties
) -> Sequence[Estimate | None]:
    """The estimates, corrected; None on GPUs about which nothing was learnt."""
    return CORRECTIONS.estimates(nearest, problem, device, kernel_of, features)


def kernel_of(record: KernelRecord, problem: Problem, device: DeviceProperties) -> Kernel:
    """A kernel in the cost model of its mainloop."""
    return MODELS[record.config["mainloop"]](record, problem, device)


def features(kernel: Kernel, terms: Terms) -> dict[str, float]:
    """The features of a tactic of a kernel on a problem, in the order in which trees ask about them."""
    problem, config, facts = kernel.problem, kernel.record.config, kernel.record.facts
    assert isinstance(problem, Problem)
    tile_m, tile_n, tile_k = config["tile"]
    stream = config["mainloop"] == "stream"
    format, group = FORMATS[problem.weight_format]
    down, groups = ceil(problem.n / tile_m), problem.groups_read
    rows = problem.rows / groups  # of a group, in the mean
    tiles = ceil(rows / tile_n)
    of_sm = terms.blocks / kernel.device.sm_count
    waves = terms.blocks / terms.at_once
    total = terms.main_loop + terms.added
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": tile_k,
        "stream": stream,
        "schedule": SCHEDULES.index(config["schedule"]),
        "gated": problem.gated,
        "warps": facts["threads"] // 32,
        "k_groups": config["k_groups"],
        "stages": facts["stages"],
        "blocks_of_sm": held_by_memory(int(facts["smem_bytes"])) if stream else 1,
        "format": FORMAT_NUMBERS[format],
        "group": group,
        "groups": groups,
        "n": problem.n,
        "units_of_k": ceil(problem.k / 128),
        "rows": rows,
        "rows_of_tile": rows / tile_n,
        "rows_share": rows / (tiles * tile_n),
        "room": (tiles * tile_n - rows) / sqrt(rows),  # rows that fit in, in deviations of a fair router
        "columns_share": problem.n / (down * tile_m),
        "tiles_down": down,
        "tiles_of_group": tiles,
        "cluster": terms.cluster,
        "blocks": terms.blocks,
        "blocks_of_an_sm": of_sm,
        "busy_share": of_sm / ceil(of_sm),  # of the SMs' time, if each thread block takes as long
        "waves": waves,
        "wave_share": waves / terms.waves,
        "ring_passes": terms.units * 128 / tile_k / facts["stages"],
        "megabytes": problem.packed_bytes * groups * 1e-6,
        "hbm": terms.hbm * 1e6,
        "math": terms.math * 1e6,
        "math_over_hbm": terms.math / terms.hbm,
        "added": terms.added * 1e6,
        "added_share": terms.added / total,
        "total": total * 1e6,
    }
