"""Which quantising kernel is selected, and what the cost model says: needs no torch and no GPU."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from quantize_rows import make_quantize_row

from tilewright.architectures.device import B200, GB10, H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.quantize.cost import estimator, resident, tasks
from tilewright.families.quantize.family import FAMILY
from tilewright.families.quantize.problem import FORMATS, LAYOUTS, Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import choose

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
VECTOR = KernelRecord.parse(make_quantize_row("vector"))
TMA = KernelRecord.parse(make_quantize_row("tma", variant="tma", stages=2))
FAST = KernelRecord.parse(make_quantize_row("fast", arithmetic="fast"))
SIZES = list(itertools.product([1, 128, 1024, 16384, 131072], [16, 512, 4096, 32768]))


def seconds(record: KernelRecord, problem: Problem, blocks: int = 0) -> float:
    weigh = estimator(record, problem, H200)
    return weigh(Tactic(record.name, blocks=blocks)).seconds


def test_what_is_fastest_on_an_h200() -> None:
    """As measured: the ring where an SM has several tasks, but not where memory alone counts."""
    for m, k, expected in (
        (128, 512, "vector"), (1024, 1024, "vector"), (1024, 6144, "tma"), (65536, 16384, "vector"),
    ):  # fmt: skip
        best = FAMILY.rank([VECTOR, TMA], Problem(m, k, global_scale="tensor"), H200)[0]
        assert best.tactic.kernel == expected, f"{m}x{k}: {best}"


@pytest.mark.parametrize(
    ("format", "x", "most"),
    [
        ("nvfp4", "bf16", 1.005), ("nvfp4", "e4m3", 1.02), ("mxfp4", "bf16", 1.005), ("mxfp8", "bf16", 1.005),
        ("fp8_1x128", "bf16", 1.005),
    ],
)  # fmt: skip
def test_the_model_against_what_was_measured(format: str, x: str, most: float) -> None:
    """The time of the variant that the model puts first, beside the better one's, over the whole grid."""
    text = (RESULTS / f"quantize_{format}_{x}.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\d+) \|(?: [^|]+\|){4} ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    assert len(rows) == 99
    registry, behind = Registry(), []
    records = registry.route("quantize", H200)
    scale = "tensor" if format == "nvfp4" else "none"
    for m, k, vector, tma in rows:
        problem = Problem(int(m), int(k), format=format, x=x, layout=LAYOUTS[format][0], global_scale=scale)
        first = FAMILY.rank(records, problem, H200)[0].record.config["variant"]
        times = {"vector": float(vector), "tma": float(tma)}
        behind.append(times[first] / min(times.values()))
    assert math.prod(behind) ** (1 / len(behind)) < most
    assert max(behind) < 1.142


@pytest.mark.parametrize("record", [VECTOR, TMA], ids=lambda record: record.name)
def test_estimates_grow_and_stay_above_what_memory_takes(record: KernelRecord) -> None:
    for tactic in FAMILY.candidates(record, Problem(1, 16), H200):
        for k in (512, 8192):
            times = [seconds(record, Problem(m, k), tactic.blocks) for m in (1, 64, 512, 4096, 65536, 131072)]
            # Within a task's rows, more of them are only the padding's share less.
            assert all(after > 0.99 * before for before, after in itertools.pairwise(times))
    for m, k in SIZES:
        problem = Problem(m, k)
        for tactic in FAMILY.candidates(record, problem, H200):
            estimate = estimator(record, problem, H200)(tactic)
            assert estimate.seconds >= problem.bytes / H200.memory_bandwidth
            assert estimate.seconds == pytest.approx(estimate.main_loop + estimate.overhead)
            assert estimate.waves >= 1


def test_every_problem_of_the_committed_tables_has_an_estimate() -> None:
    registry = Registry()
    for device in (H200, B200, GB10):
        records = registry.route("quantize", device)
        for record in records:
            config = record.config
            if config["compiler"] == "cute_dsl":
                continue  # it runs only if a call names it
            for layout in LAYOUTS[config["format"]]:
                problem = Problem(
                    129, 4112, 2, config["direction"], config["format"], config["x"], layout,
                    config["fusion"], four_over_six=config.get("four_over_six", "none"),
                    exact=config["arithmetic"] == "exact",
                )  # fmt: skip
                ranked = FAMILY.rank(records, problem, device)
                assert any(candidate.tactic.kernel == record.name for candidate in ranked), record.name
                assert choose(FAMILY, registry, records, problem, device).source == "model"


def test_fast_arithmetic_only_where_it_is_allowed() -> None:
    problem = Problem(4096, 4096)
    assert {candidate.tactic.kernel for candidate in FAMILY.rank([VECTOR, FAST], problem, H200)} == {"vector"}
    loose = FAMILY.rank([VECTOR, FAST], replace(problem, exact=False), H200)
    assert {candidate.tactic.kernel for candidate in loose} == {"vector", "fast"}
    assert loose[0].tactic.kernel == "fast"


def test_tasks_and_thread_blocks() -> None:
    assert tasks(VECTOR, Problem(33, 513 * 16), 132) == 2 * 17
    assert tasks(VECTOR, Problem(131072, 32768), 132) == 4096 * 64 // 8
    assert tasks(KernelRecord.parse(make_quantize_row("f", x="f32")), Problem(32, 512, x="f32"), 132) == 2
    squares = KernelRecord.parse(make_quantize_row("s", format="fp8_128x128"))
    assert tasks(squares, Problem(257, 384, 3, format="fp8_128x128", layout="row_major"), 132) == 27
    assert resident(VECTOR) == 3
    assert 1 <= resident(TMA) <= 4


def test_what_does_not_fit_says_why() -> None:
    assert FAMILY.misfit(VECTOR, Problem(8, 72)) == "k is 72, not a multiple of 16"
    low = Problem(8, 64, alignment=Problem(1, 16).alignment._replace(x=4))
    assert "x's rows begin at multiples of 4 elements" in (FAMILY.misfit(VECTOR, low) or "")
    assert FAMILY.misfit(VECTOR, Problem(8, 64, fusion="silu_mul")) == "its fusion is none, not silu_mul"
    assert (
        FAMILY.misfit_arguments(Tactic("vector", swizzle=2), VECTOR) == "its family does not support swizzle"
    )
    assert FAMILY.misfit_arguments(Tactic("vector", blocks=3), VECTOR) is None


def test_what_kernels_of_the_kind_say_comes_first() -> None:
    """However many others there are, and however many reasons theirs."""
    kinds = [(format, x) for format in ("mxfp4", "mxfp8", "fp8_1x128") for x in ("bf16", "f16", "f32")]
    rows = [make_quantize_row(f"{format}_{x}", format=format, x=x) for format, x in kinds]
    others = [
        make_quantize_row(f"back_{format}", format=format, direction="dequantize") for format in FORMATS
    ]
    records = [KernelRecord.parse(row) for row in (*rows, *others)]
    first, *rest = FAMILY.explain([*records, VECTOR], Problem(8, 40)).splitlines()
    assert first == "  1 kernel: k is 40, not a multiple of 16"
    assert rest[0] == f"  {len(others)} kernels: its direction is dequantize, not quantize"


def test_tasks_of_dequantising() -> None:
    """As `DequantizeKernel` has them: eight elements a thread."""
    row = make_quantize_row("back", direction="dequantize")
    assert tasks(KernelRecord.parse(row), Problem(1024, 4096, direction="dequantize"), 132) == 512


def test_as_many_thread_blocks_fit_as_registers_and_memory_allow() -> None:
    """By what the compiler recorded for sm_90a, beside what the headers promise it (kMinBlocks)."""
    text = (RESULTS / "compile" / "quantize.json").read_text(encoding="utf-8")
    registers = {row["name"]: -(-row["registers"] // 8) * 8 for row in json.loads(text)["kernels"]}
    seen = 0
    for record in Registry().kernels("quantize"):
        if record.arch != "sm_90a" or record.config["compiler"] == "cute_dsl":
            continue  # no model is for kernels in CuTe-DSL
        threads = record.facts["threads"]
        by_registers = 65536 // (registers[record.name] * threads)
        by_memory = 228 * 1024 // (record.facts["smem_bytes"] + 1024)
        fit = min(by_registers, by_memory, 2048 // threads)
        bound = record.config["direction"] == "dequantize" or record.config["format"] == "fp8_128x128"
        assert resident(record) <= fit, record.name
        assert bound or resident(record) == fit, record.name
        seen += 1
    assert seen == 74
