"""Cost models of kernels for sm_12x, held to what others measured on an RTX PRO 6000 (DeepGEMM pull request
324). Nobody has timed our kernels there; block-scaled ones are held in test_blockscaled_measured.py."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.architectures.device import GB10, H200, RTX_5090, RTX_PRO_6000, DeviceProperties
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import cost_mma
from tilewright.families.gemm.problem import Problem
from tilewright.selection.estimates import Estimate
from tilewright.selection.families import family_of
from tilewright.tools.benchmarking import problems
from tilewright.tools.explaining import Row, explain

TOLERANCE = 0.15
# TFLOP/s by (m, n, k). BF16: 374 is all that is said.
BF16 = 374
FP8 = [(4096, 2112, 7168, 624), (4096, 5120, 8192, 699), (4096, 5120, 25600, 731), (4096, 24576, 1536, 637)]


def record(types: str, tile: tuple[int, int, int], **fields: Any) -> KernelRecord:
    """The row of an mma.sync kernel, as far as the model reads it."""
    config = {
        "arch": "sm_120f", "a": types, "b": types, "d": "bf16", "tile": list(tile), "mainloop": "mma",
        "cluster": [1, 1], "schedule": "cooperative", "scheduler": "data_parallel", "swap_ab": False,
        "fast_accum": False,
    }  # fmt: skip
    return KernelRecord("kernel", "kernel.cu", "", "sm_120f", (), (), {**config, **fields}, {})


def estimate(
    row: KernelRecord, problem: Problem, device: DeviceProperties = RTX_PRO_6000, splits: int = 1
) -> Estimate:
    tactic = Tactic("kernel", splits=splits, decomposition="split_k" if splits > 1 else "heuristic")
    return cost_mma.estimator(row, problem, device)(tactic)


def tflops(problem: Problem, seconds: float) -> float:
    return 2 * problem.batch * problem.m * problem.n * problem.k / seconds / 1e12


@pytest.mark.parametrize(
    ("m", "n", "k"), [(4096, 24576, 1536), (4096, 7168, 16384), (4096, 4096, 7168), (8192, 8192, 8192)]
)
def test_bf16(m: int, n: int, k: int) -> None:
    problem = Problem(m, n, k)
    reached = tflops(problem, estimate(record("bf16", (128, 128, 64)), problem).seconds)
    assert abs(reached / BF16 - 1) < TOLERANCE, reached


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "measured"), FP8)
def test_fp8(m: int, n: int, k: int, measured: float, fast: bool) -> None:
    problem = Problem(m, n, k, a="e4m3", b="e4m3", fast_accum=fast)
    reached = tflops(problem, estimate(record("e4m3", (128, 128, 128), fast_accum=fast), problem).seconds)
    assert abs(reached / measured - 1) < TOLERANCE, reached


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        *((f"m={m} n={n} k={k}", measured) for m, n, k, measured in FP8),
        ("m=8192 n=1024 k=4096 groups=8", 682),  # einsum
        ("m=32768 n=6144 k=7168 groups=4 grouping=row_index", 728),
        ("m=32768 n=7168 k=3072 groups=4 grouping=ends", 728),
        ("m=4096 n=6144 k=7168 groups=6 grouping=rows_valid expected_m=1024", 633),
        ("m=4096 n=4096 k=4096 groups=6 grouping=rows_valid expected_m=1024", 633),
    ],
)
def test_fp8_with_scales_and_groups(words: str, measured: float) -> None:
    """The chosen kernel's estimate. 324's scales are powers of two, which the instruction multiplies by."""
    reached = reached_by(f"grouped_gemm fp8 {words}")
    assert abs(reached / measured - 1) < TOLERANCE, reached


@pytest.mark.parametrize("scales", ["1x32_ue8m0", "1x128_ue8m0"])
@pytest.mark.parametrize(
    ("words", "measured"),
    [
        *((f"m={m} n={n} k={k}", measured) for m, n, k, measured in FP8),
        ("m=32768 n=6144 k=7168 groups=4 grouping=row_index", 728),
        ("m=4096 n=6144 k=7168 groups=6 grouping=rows_valid expected_m=1024", 633),
    ],
)
def test_fp8_with_packed_scales(words: str, measured: float, scales: str) -> None:
    assert abs(reached_by(f"grouped_gemm fp8 {words} scales={scales}") / measured - 1) < TOLERANCE


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        ("m=4096 n=2112 k=7168", 1307),
        ("m=4096 n=7168 k=2048", 1201),
        ("m=4096 n=24576 k=1536", 1168),
        ("m=32768 n=6144 k=7168 groups=4 grouping=row_index", 1372),
        ("m=32768 n=7168 k=3072 groups=4 grouping=ends", 1372),
        ("m=4096 n=6144 k=7168 groups=6 grouping=rows_valid expected_m=1024", 1169),
        ("m=4096 n=4096 k=4096 groups=6 grouping=rows_valid expected_m=1024", 1169),
    ],
)
def test_fp4(words: str, measured: float) -> None:
    reached = reached_by(f"grouped_gemm mxfp4 {words}")
    assert abs(reached / measured - 1) < TOLERANCE, reached
    assert 1.6 < reached / reached_by(f"grouped_gemm fp8 {words} scales=1x32_ue8m0") < 2  # 324: 1.6 to 1.9


@pytest.mark.parametrize("types", ["e4m3xmxfp4", "mxfp4xe4m3"])
def test_fp4_beside_fp8(types: str) -> None:
    reached = reached_by(f"grouped_gemm {types} m=4096 n=24576 k=1536")
    assert abs(reached / 670 - 1) < TOLERANCE, reached


@pytest.mark.parametrize(("m", "n"), [(4096, 7168), (7168, 2048), (7168, 4096)])
@pytest.mark.parametrize("scales", ["1x128", "1x32_ue8m0"])
def test_groups_of_k(scales: str, m: int, n: int) -> None:
    words = f"m={m} n={n} k=32768 groups=4 grouping=k_sizes scales={scales} out_dtype=f32 c=true"
    reached = reached_by(f"grouped_gemm fp8 {words}")
    assert abs(reached / 551 - 1) < TOLERANCE, reached


def reached_by(words: str) -> float:
    """TFLOP/s of the kernel that is chosen, by its model."""
    _, problem = problems.of_words(words.split())
    estimated = best(words, RTX_PRO_6000).estimate
    assert estimated is not None
    flops: int = problem.flops
    return flops / estimated.seconds / 1e12


def test_bf16_in_groups() -> None:
    words = "grouped_gemm bf16 m=32768 n=6144 k=7168 groups=4 grouping=row_index"
    _, problem = problems.of_words(words.split())
    estimated = best(words, RTX_PRO_6000).estimate
    assert estimated is not None
    assert abs(problem.flops / estimated.seconds / 1e12 / BF16 - 1) < TOLERANCE


@pytest.mark.parametrize("device", [RTX_PRO_6000, GB10], ids=lambda device: device.name)
@pytest.mark.parametrize("grouping", ["row_index", "rows_valid", "none"])
def test_few_rows_of_each_group_are_swapped(grouping: str, device: DeviceProperties) -> None:
    rows = {"row_index": "m=64 row_alignment=16", "rows_valid": "m=4096 expected_m=10", "none": "m=10"}[
        grouping
    ]
    words = f"grouped_gemm fp8 {rows} n=4096 k=7168 groups=4 grouping={grouping}"
    chosen = best(words, device)
    assert chosen.tactic.kernel.endswith("_swap")
    assert chosen.estimate is not None
    assert chosen.estimate.bound == "hbm"


def test_batches_with_n_contiguous() -> None:
    """bhd,hdr->bhr in BF16, 8 matrices of B with n contiguous and b of 8192: about 410 TFLOP/s."""
    row = best("gemm bf16 m=8192 n=4096 k=1024 batch=8 layout=tt", RTX_PRO_6000)
    assert row.estimate is not None
    assert "_tt_" in row.tactic.kernel
    reached = 2 * 8 * 8192 * 4096 * 1024 / row.estimate.seconds / 1e12
    assert abs(reached / 410 - 1) < TOLERANCE, reached


@pytest.mark.parametrize("batch", [1, 8])
def test_batches_of_the_einsum(batch: int) -> None:
    """bhr,hdr->bhd in BF16, batch of 8 and b of 8192: 384 TFLOP/s."""
    problem = Problem(8192, 1024, 4096, batch=batch)
    reached = tflops(problem, estimate(record("bf16", (128, 128, 64)), problem).seconds)
    assert abs(reached / 384 - 1) < TOLERANCE, reached


@pytest.mark.parametrize("device", [RTX_PRO_6000, GB10], ids=lambda device: device.name)
def test_products_added_up_over_a_batch(device: DeviceProperties) -> None:
    """bmk,bnk->mn, 8192 of 256x256x256, a shape of DeepGEMM's tests: 188 TFLOP/s, limited by memory."""
    row = best("reduced_gemm bf16 m=256 n=256 k=256 batch=8192 out_dtype=f32", device)
    assert row.estimate is not None
    assert row.estimate.bound == "hbm"
    if device is RTX_PRO_6000:
        reached = 2 * 256**3 * 8192 / row.estimate.seconds / 1e12
        assert abs(reached / 188 - 1) < TOLERANCE, reached


def test_few_products_take_what_two_launches_take() -> None:
    few, many = (
        best(f"reduced_gemm bf16 m=128 n=128 k=64 batch={batch}", RTX_PRO_6000) for batch in (4, 8192)
    )
    assert few.estimate is not None
    assert many.estimate is not None
    assert 4.4e-6 < few.estimate.seconds < 8e-6 < many.estimate.seconds
    assert few.estimate.limit == "overhead"


def test_few_rows_are_bound_by_memory() -> None:
    """A product of 16 rows takes as long as its weights take to arrive, and swapped operands suit it best."""
    problem = Problem(16, 5120, 25600)
    swapped = estimate(record("bf16", (64, 16, 128), swap_ab=True), problem)
    assert swapped.bound == "hbm"
    assert swapped.seconds < estimate(record("bf16", (128, 128, 64)), problem).seconds
    assert 2 * 5120 * 25600 / swapped.seconds / RTX_PRO_6000.memory_bandwidth == pytest.approx(0.83, abs=0.05)


def test_splits_pay_off_where_few_tiles_have_a_long_k() -> None:
    few, many = Problem(256, 1024, 65536), Problem(4096, 8192, 1024)
    row = record("bf16", (128, 128, 64))
    assert estimate(row, few, splits=8).seconds < estimate(row, few).seconds / 3
    combining = estimate(row, many, splits=2).seconds - estimate(row, many).seconds
    assert combining > 4 * 4096 * 8192 / RTX_PRO_6000.memory_bandwidth  # more than sums of F32, once


# Few rows of DeepSeek's layers.
FEW_ROWS = [
    *((m, 2112, 7168) for m in (1, 16, 64, 128)), (16, 576, 7168), (128, 576, 7168), (128, 1536, 7168),
    (32, 4096, 7168), (32, 7168, 2048), (64, 7168, 2048), (32, 24576, 1536), (32, 5120, 25600),
    (32, 7168, 16384),
]  # fmt: skip


@pytest.mark.parametrize("types", ["mxfp4", "mxfp8"])
def test_what_a_split_k_would_gain_few_rows(types: str) -> None:
    """docs/grouped.md says so of packed scales: almost nothing, but for few tiles of a very long k."""
    gains = [gain_of_splits(types, *shape) for shape in FEW_ROWS]
    assert sum(gain > 1.03 for gain in gains) <= 1, gains
    assert max(gains) < 1.15
    assert 1.2 < gain_of_splits(types, 32, 512, 32768) < 1.6


def gain_of_splits(types: str, m: int, n: int, k: int) -> float:
    """The time of the fastest block-scaled kernel of ours that does not split k, over the fastest one's."""
    family, problem = problems.of_words(["blockscaled_gemm", types, f"m={m}", f"n={n}", f"k={k}"])
    rows = explain(Context(), family_of(family), problem, RTX_PRO_6000).rows
    seconds = [
        (row.estimate.seconds, row.tactic.splits)
        for row in rows
        if row.estimate is not None and "_mma_" in row.tactic.kernel
    ]
    return min(time for time, splits in seconds if splits == 1) / min(time for time, _ in seconds)


@pytest.mark.parametrize("scales", ["1x32_ue8m0", "1x128_ue8m0"])
@pytest.mark.parametrize(("m", "n", "k"), [(4096, 5120, 25600), (4096, 5120, 8192), (8192, 8192, 8192)])
def test_large_products_have_stages_of_half_a_box(m: int, n: int, k: int, scales: str) -> None:
    """324 had four stages of 64 of k there, which were 4.5 to 6.1 % faster than two of 128."""
    chosen = best(f"grouped_gemm fp8 m={m} n={n} k={k} scales={scales}", RTX_PRO_6000)
    assert "_128x128x64_" in chosen.tactic.kernel


def test_exact_sums_of_fp8_cost_additions() -> None:
    problem = Problem(4096, 4096, 4096, a="e4m3", b="e4m3")
    fast, exact = (
        estimate(record("e4m3", (128, 128, 128), fast_accum=fast), problem).seconds for fast in (True, False)
    )
    assert 1 < exact / fast < 1.1


def test_geforce_multiplies_at_half_the_rate() -> None:
    """An RTX 5090's white paper has 209.5 TFLOP/s of BF16 with FP32 sums."""
    problem = Problem(8192, 8192, 8192)
    reached = tflops(problem, estimate(record("bf16", (128, 128, 64)), problem, RTX_5090).seconds)
    assert 0.8 < reached / 209.5 < 1


def best(words: str, device: DeviceProperties) -> Row:
    family, problem = problems.of_words(words.split())
    return explain(Context(), family_of(family), problem, device).rows[0]


@pytest.mark.parametrize(
    ("words", "operations", "measured"),
    [
        ("mqa_logits fp8 queries=4096 keys=16384", 2 * 4096 * 16384 * 64 * 128, 651e12),
        ("mqa_logits fp4 queries=4096 keys=16384", 2 * 4096 * 16384 * 64 * 128, 1022e12),
        ("mqa_logits fp8 form=paged queries=512 keys=8192 next_n=2", 2 * 512 * 8192 * 64 * 128, 322e12),
        ("mqa_logits fp4 form=paged queries=512 keys=8192 next_n=2", 2 * 512 * 8192 * 64 * 128, 566e12),
        ("hc_prenorm m=8192 n=24 k=28672 splits=16", 8192 * 28672 * 2, 1242e9),
        ("hc_prenorm m=4096 n=24 k=28672 splits=16", 4096 * 28672 * 2, 1087e9),
    ],
)
def test_logits_and_prenorm(words: str, operations: float, measured: float) -> None:
    """Operations of logits, bytes of A before the norm, a second. In 324 pages are read for two queries each,
    which 322 and 566 TFLOP/s at 1.35 TB/s need."""
    row = best(words, RTX_PRO_6000)
    assert row.estimate is not None
    assert abs(operations / row.estimate.seconds / measured - 1) < TOLERANCE


@pytest.mark.parametrize("device", [RTX_PRO_6000, GB10, H200], ids=lambda device: device.name)
@pytest.mark.parametrize("words", ["fp8 queries=2048 keys=8192", "fp4 form=paged queries=64 keys=8192"])
def test_logits_are_chosen_with_a_time(words: str, device: DeviceProperties) -> None:
    row = best(f"mqa_logits {words}", device)
    assert row.estimate is not None
    assert row.estimate.seconds > 0


@pytest.mark.parametrize("device", [RTX_PRO_6000, GB10, H200], ids=lambda device: device.name)
@pytest.mark.parametrize(
    "words", ["scale_columns m=65536 columns=56", "transpose_fp8 rows=4096 columns=7168"]
)
def test_what_moves_each_byte_once_has_a_time(words: str, device: DeviceProperties) -> None:
    family, problem = problems.of_words(words.split())
    row = explain(Context(), family_of(family), problem, device).rows[0]
    assert row.estimate is not None
    assert 0.5 < problem.bytes / device.memory_bandwidth / row.estimate.seconds < 0.9  # type: ignore[attr-defined]
