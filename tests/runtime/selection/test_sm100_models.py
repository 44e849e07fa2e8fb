"""Cost models of kernels of tcgen05, held to what others measured there. Nobody has timed our kernels on such
a GPU. Models of block-scaled products are held in test_blockscaled_measured.py."""

from __future__ import annotations

import pytest

from tilewright.architectures.device import B200, B300, DESCRIBED, THOR, DeviceProperties
from tilewright.context import Context
from tilewright.selection.families import family_of
from tilewright.tools.benchmarking import problems
from tilewright.tools.explaining import Row, explain

TOLERANCE = 0.2
# Microseconds of kernels in CuTe-DSL for pages of keys, 64 heads of 128, by sequences and their keys.
# TensorRT-LLM pull request 13219: FP8, three queries of a sequence. 13929: FP4, four of them. Neither names
# the GPU of 10.0.
FP8 = [
    (1, 4096, 4.2), (8, 4096, 4.3), (32, 4096, 7.1), (32, 8192, 10.1), (8, 32768, 10.0), (32, 16384, 16.5),
]  # fmt: skip
FP4 = [
    (1, 8192, 5.0), (8, 8192, 7.6), (32, 8192, 15.1), (256, 8192, 80.0), (256, 16384, 151.7),
    (32, 32768, 42.3),
]  # fmt: skip


def best(words: str, device: DeviceProperties) -> Row:
    family, problem = problems.of_words(words.split())
    return explain(Context(), family_of(family), problem, device).rows[0]


@pytest.mark.parametrize(
    ("types", "next_n", "sequences", "keys", "measured"),
    [*(("fp8", 3, *row) for row in FP8), *(("fp4", 4, *row) for row in FP4)],
)
def test_logits_of_pages(types: str, next_n: int, sequences: int, keys: int, measured: float) -> None:
    words = f"mqa_logits {types} form=paged queries={sequences * next_n} keys={keys} next_n={next_n}"
    row = best(words, B200)
    assert row.estimate is not None
    assert abs(row.estimate.seconds * 1e6 / measured - 1) < TOLERANCE, row.estimate


def test_keys_beyond_l2_are_read_again_for_each_block_of_queries() -> None:
    """Four queries take two passes over a sequence's keys. The second reads memory if the keys exceed L2."""
    few, many = (
        best(f"mqa_logits fp8 form=paged queries={4 * sequences} keys=131072 next_n=4", THOR)
        for sequences in (1, 16)
    )
    assert few.estimate is not None
    assert many.estimate is not None
    assert few.estimate.bound == many.estimate.bound == "hbm"
    assert 30 < many.estimate.main_loop / few.estimate.main_loop < 34


@pytest.mark.parametrize("device", [B200, B300, DESCRIBED["rubin"]], ids=lambda device: device.name)
def test_ranges_of_few_queries_are_split(device: DeviceProperties) -> None:
    row = best("mqa_logits fp8 queries=2 keys=131072", device)
    assert row.estimate is not None
    assert row.tactic.splits > 8
