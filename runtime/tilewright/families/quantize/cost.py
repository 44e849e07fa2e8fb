"""A model of how long a tactic of a `quantize` kernel takes: bytes, instructions, and how the GPU fills and
drains.

A thread block's task is `warps` times four rows, by the elements of 32 threads. If each task has a thread
block, an SM gets the next thread block as soon as one ends. A grid of `blocks` thread blocks on each SM works
through the tasks in rounds.
Data in flight are in registers in the vector variant, and in shared memory in the TMA variant, which takes
longer to start and has more bytes in flight.

Numbers that are not the hardware's own are fitted to the times of all tactics of NVFP4 (from BF16 and E4M3),
MXFP4, MXFP8 and 1x128 kernels on one H200, L2 cold (benchmarks/compare/quantize_bandwidth.py): the model's
first is 0.4 % behind the fastest in geomean (of E4M3 1.6 %), and 14 % at worst. Numbers of fusions, FP16 and
FP32 are estimates. The model assumes that other GPUs are like it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import WGMMA, has_tensor_core
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.quantize.problem import BLOCK, Problem
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate, held_by_memory

# The hardware (NVIDIA's H100 white paper).
LANES = 128  # instructions of an SM in a clock

# The kernels (tilewright/quantize): threads that an SM holds by their registers (kMinBlocks).
HELD_THREADS = {
    "vector": 768, "tma": 1024, "silu_mul": 512, "rmsnorm": 512, "squares": 512, "columns": 768,
    "dequantize": 1024,
}  # fmt: skip
ROWS = 4  # rows of a warp
THREAD_ELEMENTS = {"bf16": 16, "f16": 16, "f32": 8, "e4m3": 16}
BACK_ELEMENTS = 8  # elements of a thread that dequantises
# A task has up to MOST_CHUNKS chunks of columns if an SM then still has CHUNKED_TASKS tasks.
MOST_CHUNKS, CHUNKED_TASKS = 8, 12

# One launch.
LAUNCH_SECONDS = {"vector": 1.85e-6, "tma": 2.25e-6}  # to the first load; tma: barriers, then a warp
NORM_CLOCKS = 1500  # clocks of RMSNorm: a thread block's sums, and its second pass over the rows
TABLE_CLOCKS = 140  # clocks of a thread block's table of NVFP4's factors, beside its first loads
# Memory.
HBM_SHARE = {"vector": 0.855, "tma": 0.785}  # share of the rated bandwidth that is reached
SM_BYTES_PER_CLOCK = {"vector": 108, "tma": 55}  # bytes per clock of an SM if few others load
# Instructions of a lane for an element, in the exact kernels: reading and widening, then encoding.
READ_INSTRUCTIONS = {"bf16": 2.0, "f16": 2.0, "f32": 1.6, "e4m3": 1.2}
# fp8: one conversion, as FP4 has from sm_100 on; fp4: arithmetic; pairs, thresholds: their headers.
ENCODE_INSTRUCTIONS = {"fp4": 7.1, "thresholds": 6.5, "pairs": 2.4, "fp8": 0.5}
DECODE_INSTRUCTIONS = 3.0  # with the product and the store
SCALE_INSTRUCTIONS = {"exact": 11.5, "fast": 8.0}  # for a block
SILU_INSTRUCTIONS = {"exact": 30.0, "fast": 10.0}
ISSUE_SHARE = 0.85  # share of the issue slots that are used at best
OVERLAP = {"vector": 2.25, "tma": 2.7}  # p of the p-norm that combines memory and instructions
EXPOSED = {"vector": 0.65, "tma": 0.25}  # share of an SM's first tasks whose loads nothing hides


def _kind(record: KernelRecord) -> str:
    """The kind of kernel, a key of `HELD_THREADS`: it decides the threads that fit, and what a task is."""
    config = record.config
    if config["direction"] == "dequantize":
        return "dequantize"
    if config["fusion"] != "none":
        return str(config["fusion"])
    if BLOCK[config["format"]][0] > 1:
        return "columns" if BLOCK[config["format"]][1] == 1 and config["x"] != "f32" else "squares"
    return str(config["variant"])


def resident(record: KernelRecord) -> int:
    """The thread blocks that an SM holds at once."""
    by_threads = HELD_THREADS[_kind(record)] // record.config["threads"]
    return max(1, min(int(by_threads), held_by_memory(record.facts["smem_bytes"])))


def tasks(record: KernelRecord, problem: Problem, sm_count: int) -> int:
    """The tasks of thread blocks on a GPU of `sm_count` SMs."""
    config, kind = record.config, _kind(record)
    columns = 32 * (BACK_ELEMENTS if kind == "dequantize" else THREAD_ELEMENTS[config["x"]])
    rows = config["threads"] // 32 * ROWS
    if kind in ("squares", "columns"):
        rows = columns = BLOCK["fp8_128x128"][0]
    elif kind == "rmsnorm":
        rows, columns = ROWS, problem.k
    down, across, chunks = problem.groups * ceil(problem.m / rows), ceil(problem.k / columns), 1
    if kind in ("vector", "tma", "silu_mul"):
        enough = CHUNKED_TASKS * 2 * sm_count
        while chunks < MOST_CHUNKS and chunks * 2 <= across and down * across >= enough * chunks:
            chunks *= 2
    return int(down * ceil(across / chunks))


def _instructions(record: KernelRecord, problem: Problem) -> float:
    """The instructions of a lane for an element of the data."""
    config = record.config
    if config["direction"] == "dequantize":
        return DECODE_INSTRUCTIONS
    if bits(problem.format) == 8 or not has_tensor_core(record.arch, WGMMA):
        encoding = "fp8"
    elif problem.x == "e4m3" and problem.global_scale != "row":
        encoding = "thresholds"
    elif problem.format == "mxfp4" and problem.x in ("bf16", "f16") and problem.fusion == "none":
        encoding = "pairs"
    else:
        encoding = "fp4"
    parts = 2 if problem.fusion == "silu_mul" else 1
    rows, columns = BLOCK[problem.format]
    count = parts * READ_INSTRUCTIONS[problem.x] + ENCODE_INSTRUCTIONS[encoding]
    count += SCALE_INSTRUCTIONS[config["arithmetic"]] / min(columns * rows, THREAD_ELEMENTS[problem.x])
    if problem.fusion == "silu_mul":
        count += SILU_INSTRUCTIONS[config["arithmetic"]]
    elif problem.fusion == "rmsnorm":
        count += 2 * READ_INSTRUCTIONS[problem.x]
    return count


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """The cost model of one kernel. Terms that its tactics share are computed once."""
    config = record.config
    variant = config["variant"]
    count, held = tasks(record, problem, device.sm_count), resident(record)
    task_clocks = _instructions(record, problem) * problem.elements / count / LANES / ISSUE_SHARE
    fill_clocks = problem.bytes / count / SM_BYTES_PER_CLOCK[variant]
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE[variant]) * device.clock_hz
    start, norm = LAUNCH_SECONDS[variant], OVERLAP[variant]
    tabled = config["format"] == "nvfp4" and config["arithmetic"] == "exact" and bits(problem.x) < 32
    once = (TABLE_CLOCKS if tabled else 0) + (NORM_CLOCKS if problem.fusion == "rmsnorm" else 0)

    def weigh(tactic: Tactic) -> Estimate:
        slots = device.sm_count * min(held, tactic.blocks or held)
        waves = ceil(count / slots)
        # A grid with a thread block for each task refills SM by SM; in others, SMs do whole rounds of tasks.
        beside = count / device.sm_count
        beside = beside if tactic.blocks == 0 and count > slots else ceil(beside)
        needs = {"math": beside * task_clocks, "fill": beside * fill_clocks, "hbm": hbm}
        clocks = sum(value**norm for value in needs.values()) ** (1 / norm)
        clocks += EXPOSED[variant] * min(beside, held) * (task_clocks + fill_clocks)
        following = waves if tactic.blocks == 0 else 1  # thread blocks that follow each other on an SM
        clocks += once * following
        main_loop, bound = clocks / device.clock_hz, max(needs, key=needs.__getitem__)
        return Estimate(start + main_loop, waves, bound, main_loop, start)

    return weigh
