"""Corrects the estimates of the mainloops' cost models by what was learnt from times on an H200.

All mainloops are asked about by the same features and the same trees (`selection/corrections.py`), so that
their corrected estimates are comparable. The times are those of benchmarks/fit/mixed_times.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import cost, cost_balanced, cost_stream
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.families.mixed_gemm.terms import Kernel, Terms
from tilewright.selection.corrections import Corrections
from tilewright.selection.estimates import Estimate, held_by_memory

CORRECTIONS = Corrections(
    Path(__file__).with_name("learnt_weights.txt"), "python -m benchmarks.fit.learn_mixed_model --write"
)
MODELS: dict[str, type[Kernel]] = {
    "wgmma": cost.Wgmma,
    "stream": cost_stream.Stream,
    "balanced": cost_balanced.Balanced,
}
FORMAT_NUMBERS = {"int4": 0, "int4_zp": 0, "mxfp4": 1, "nvfp4": 2, "int8": 3, "e4m3": 4}
"""Numbers of formats, as trees know them. int4_zp was not timed."""


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
    tile_m, tile_n, tile_k = config["tile"]
    stream = config["mainloop"] == "stream"
    format, group = FORMATS[problem.weight_format]
    down, across = ceil(problem.n / tile_m), ceil(problem.m / tile_n)
    held = held_by_memory(int(facts["smem_bytes"])) if stream else 1
    of_sm = terms.blocks / kernel.device.sm_count
    waves = terms.blocks / terms.at_once
    activations = down * problem.m * problem.k * 2
    total = terms.main_loop + terms.added
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": tile_k,
        "stream": stream,
        "warps": facts["threads"] // 32,
        "k_groups": config["k_groups"],
        "stages": facts["stages"],
        "blocks_of_sm": held,
        "format": FORMAT_NUMBERS[format],
        "group": group,
        "m": problem.m,
        "n": problem.n,
        "units_of_k": ceil(problem.k / 128),
        "rows_of_tile": problem.m / across,
        "rows_share": problem.m / (across * tile_n),  # of the tiles' rows of D, those within it
        "columns_share": problem.n / (down * tile_m),
        "tiles_down": down,
        "tiles_across": across,
        "cluster": terms.cluster,
        "splits": terms.splits,
        "size": terms.cluster * terms.splits,
        "blocks": terms.blocks,
        "blocks_of_an_sm": of_sm,
        "busy_share": of_sm / ceil(of_sm),  # of the SMs' time, if each thread block takes as long
        "waves": waves,
        "wave_share": waves / terms.waves,
        "at_once": terms.at_once,
        "units": terms.units,
        "ring_passes": terms.units * 128 / tile_k / facts["stages"],
        "steps_of_warp": terms.units / (facts["threads"] // 32 if stream else config["k_groups"]),
        "activations_share": activations / terms.cluster / problem.packed_bytes,  # bytes from L2 over HBM's
        "megabytes": problem.packed_bytes * 1e-6,
        "hbm": terms.hbm * 1e6,
        "math": terms.math * 1e6,
        "math_over_hbm": terms.math / terms.hbm,
        "added": terms.added * 1e6,
        "added_share": terms.added / total,
        "total": total * 1e6,
        "balanced": config["mainloop"] == "balanced",
    }
