"""How long a tactic of a `quantize` kernel takes: bytes, instructions, and how the GPU fills and drains.

A thread block's task is `warps` times four rows, by 32 threads' elements. A grid with a thread block for
each task refills by itself; one of `blocks` on each SM goes through the tasks in rounds. The vector variant
holds in registers what is on its way, the TMA variant in shared memory, which takes longer to begin and keeps
more bytes in flight.

Numbers that are not the hardware's own are fitted to the times of all tactics of NVFP4 (from BF16 and E4M3),
MXFP4, MXFP8 and 1x128 kernels on one H200, L2 cold (benchmarks/compare/quantize_bandwidth.py): the model's
first is 0.4 % behind the fastest in geomean (of E4M3 1.6 %), and 14 % at worst. Numbers of fusions, FP16 and
FP32 are estimates. Other GPUs are taken to be like it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.quantize.problem import BLOCK, Problem
from tilewright.formats.types import bits
from tilewright.selection.estimates import Estimate, held_by_memory

# The hardware (NVIDIA's H100 white paper).
LANES = 128  # of an SM

# The kernels (tilewright/quantize): threads of an SM that their registers allow, by kMinBlocks.
HELD_THREADS = {
    "vector": 768, "tma": 1024, "silu_mul": 512, "rmsnorm": 512, "squares": 512, "columns": 768,
    "dequantize": 1024,
}  # fmt: skip
ROWS = 4  # of a warp
THREAD_ELEMENTS = {"bf16": 16, "f16": 16, "f32": 8, "e4m3": 16}
BACK_ELEMENTS = 8  # of a thread that dequantises
MOST_CHUNKS, CHUNKED_TASKS = 8, 12  # a task has several chunks of columns where an SM has so many tasks

# One launch.
LAUNCH_SECONDS = {"vector": 1.85e-6, "tma": 2.25e-6}  # to the first load; tma: barriers, then a warp
NORM_CLOCKS = 1500  # of RMSNorm: a thread block's sums, and its second way through the rows
TABLE_CLOCKS = 140  # a thread block's table of NVFP4's factors, beside its first loads
# Memory.
HBM_SHARE = {"vector": 0.855, "tma": 0.785}  # of the rated bandwidth
SM_BYTES_PER_CLOCK = {"vector": 108, "tma": 55}  # what one SM moves if few others do
# Instructions an element, in lanes of the exact kernels: reading and widening, then encoding.
READ_INSTRUCTIONS = {"bf16": 2.0, "f16": 2.0, "f32": 1.6, "e4m3": 1.2}
# fp8: one conversion, as FP4 has from sm_100 on; fp4: arithmetic; pairs, thresholds: their headers.
ENCODE_INSTRUCTIONS = {"fp4": 7.1, "thresholds": 6.5, "pairs": 2.4, "fp8": 0.5}
DECODE_INSTRUCTIONS = 3.0  # and the product, and storing
SCALE_INSTRUCTIONS = {"exact": 11.5, "fast": 8.0}  # a block's
SILU_INSTRUCTIONS = {"exact": 30.0, "fast": 10.0}
ISSUE_SHARE = 0.85  # of the issue slots that are used at best
OVERLAP = {"vector": 2.25, "tma": 2.7}  # the norm in which memory and instructions add up
EXPOSED = {"vector": 0.65, "tma": 0.25}  # of the first tasks of an SM: nothing runs beside their loads


def _way(record: KernelRecord) -> str:
    """What of the kernel decides how many fit, and what a task is: a key of `HELD_THREADS`."""
    config = record.config
    if config["direction"] == "dequantize":
        return "dequantize"
    if config["fusion"] != "none":
        return str(config["fusion"])
    if BLOCK[config["format"]][0] > 1:
        return "columns" if BLOCK[config["format"]][1] == 1 and config["x"] != "f32" else "squares"
    return str(config["variant"])


def resident(record: KernelRecord) -> int:
    """Thread blocks that an SM holds at once."""
    by_threads = HELD_THREADS[_way(record)] // record.config["threads"]
    return max(1, min(int(by_threads), held_by_memory(record.facts["smem_bytes"])))


def tasks(record: KernelRecord, problem: Problem, sm_count: int) -> int:
    """Pieces of work for thread blocks, on a GPU of so many SMs."""
    config, way = record.config, _way(record)
    columns = 32 * (BACK_ELEMENTS if way == "dequantize" else THREAD_ELEMENTS[config["x"]])
    rows = config["threads"] // 32 * ROWS
    if way in ("squares", "columns"):
        rows = columns = BLOCK["fp8_128x128"][0]
    elif way == "rmsnorm":
        rows, columns = ROWS, problem.k
    down, across, chunks = problem.groups * ceil(problem.m / rows), ceil(problem.k / columns), 1
    if way in ("vector", "tma", "silu_mul"):
        enough = CHUNKED_TASKS * 2 * sm_count
        while chunks < MOST_CHUNKS and chunks * 2 <= across and down * across >= enough * chunks:
            chunks *= 2
    return int(down * ceil(across / chunks))


def _instructions(record: KernelRecord, problem: Problem) -> float:
    """Of a lane, for an element of the data."""
    config = record.config
    if config["direction"] == "dequantize":
        return DECODE_INSTRUCTIONS
    if bits(problem.format) == 8 or not record.arch.startswith("sm_90"):
        encoding = "fp8"
    elif problem.x == "e4m3" and problem.global_scale != "row":
        encoding = "thresholds"
    elif problem.format == "mxfp4" and problem.x in ("bf16", "f16") and problem.fusion == "none":
        encoding = "pairs"
    else:
        encoding = "fp4"
    parts = 2 if problem.fusion == "silu_mul" else 1
    rows, columns = BLOCK[problem.format]
    found = parts * READ_INSTRUCTIONS[problem.x] + ENCODE_INSTRUCTIONS[encoding]
    found += SCALE_INSTRUCTIONS[config["arithmetic"]] / min(columns * rows, THREAD_ELEMENTS[problem.x])
    if problem.fusion == "silu_mul":
        found += SILU_INSTRUCTIONS[config["arithmetic"]]
    elif problem.fusion == "rmsnorm":
        found += 2 * READ_INSTRUCTIONS[problem.x]
    return found


def estimator(
    record: KernelRecord, problem: Problem, device: DeviceProperties
) -> Callable[[Tactic], Estimate]:
    """Estimates the tactics of one kernel: what they share is worked out once."""
    config = record.config
    variant = config["variant"]
    count, held = tasks(record, problem, device.sm_count), resident(record)
    task_clocks = _instructions(record, problem) * problem.elements / count / LANES / ISSUE_SHARE
    fill_clocks = problem.bytes / count / SM_BYTES_PER_CLOCK[variant]
    hbm = problem.bytes / (device.memory_bandwidth * HBM_SHARE[variant]) * device.clock_hz
    start, norm = LAUNCH_SECONDS[variant], OVERLAP[variant]
    tabled = config["format"] == "nvfp4" and config["arithmetic"] == "exact" and bits(problem.x) < 32
    once = TABLE_CLOCKS * tabled + NORM_CLOCKS * (problem.fusion == "rmsnorm")

    def weigh(tactic: Tactic) -> Estimate:
        slots = device.sm_count * min(held, tactic.blocks or held)
        waves = ceil(count / slots)
        # A grid that is as large as the work refills SM by SM; the others' SMs do whole rounds of tasks.
        beside = count / device.sm_count
        beside = beside if tactic.blocks == 0 and count > slots else ceil(beside)
        needs = {"math": beside * task_clocks, "fill": beside * fill_clocks, "hbm": hbm}
        clocks = sum(value**norm for value in needs.values()) ** (1 / norm)
        clocks += EXPOSED[variant] * min(beside, held) * (task_clocks + fill_clocks)
        clocks += once * (waves if tactic.blocks == 0 else 1)  # thread blocks in a place, one after another
        main_loop, bound = clocks / device.clock_hz, max(needs, key=needs.__getitem__)
        return Estimate(start + main_loop, waves, bound, main_loop, start)

    return weigh
