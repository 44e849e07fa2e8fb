"""The MQA ops without a GPU: what they compute (on kernels of the host), what is refused, which kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mqa_operands as calls
import pytest
import torch

import tilewright
from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.declarations.arguments import packed, struct
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, NoKernelError
from tilewright.families.mqa_logits.family import FAMILY
from tilewright.families.mqa_logits.interface import INTERFACE
from tilewright.families.mqa_logits.measuring import reference
from tilewright.families.mqa_logits.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.tools.reference.comparison import difference
from tilewright.tools.tuning.review import review

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.usefixtures("mqa_host")
INF = float("inf")


def wanted(arguments: dict[str, Any]) -> torch.Tensor:
    return reference(
        arguments["q"], arguments["kv"], arguments["kv_scale"], arguments["weights"], arguments.get("q_scale")
    )


def same(found: torch.Tensor, other: torch.Tensor) -> bool:
    """-infinity in the same places, and logits as near as F32 sums are."""
    absent = torch.isneginf(other)
    return torch.equal(torch.isneginf(found), absent) and (
        bool(absent.all()) or difference(found[~absent], other[~absent]) < 1e-12
    )


def test_ranges() -> None:
    arguments = calls.ragged()
    del arguments["out"]
    logits = wanted(arguments)
    for row, (start, end) in enumerate([(0, 70), (3, 4), (60, 70), (9, 9), (0, 33)]):
        logits[row, :start] = logits[row, end:] = -INF
    assert same(tilewright.mqa_logits(**arguments), logits)
    half = tilewright.mqa_logits(**arguments, out_dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert same(half.float(), logits.bfloat16().float())


def test_compressed_rows() -> None:
    arguments = calls.compressed() | {"out": None}
    logits, expected = wanted(arguments), torch.full((5, 40), -INF, dtype=torch.float64)
    for row, (start, end) in enumerate([(0, 40), (3, 4), (60, 70), (9, 9), (0, 33)]):
        expected[row, : end - start] = logits[row, start:end]
    assert same(tilewright.mqa_logits(**arguments), expected)


def test_what_is_not_cleaned_stays() -> None:
    arguments = calls.ragged()
    arguments["out"].fill_(7.0)
    tilewright.mqa_logits(**arguments, clean=False)
    assert bool((arguments["out"][1, [0, 1, 2, 4, 5]] == 7).all())
    assert bool((arguments["out"][3] == 7).all())


def test_ranges_of_fp4() -> None:
    arguments = calls.ragged_fp4()
    del arguments["out"]
    logits = wanted(arguments)
    for row, (start, end) in enumerate([(0, 70), (3, 4), (60, 70), (9, 9), (0, 33)]):
        logits[row, :start] = logits[row, end:] = -INF
    assert same(tilewright.mqa_logits(**arguments), logits)
    packed = {name: arguments[name].view(torch.float4_e2m1fn_x2) for name in ("q", "kv")}
    assert same(tilewright.mqa_logits(**arguments | packed), logits)


def test_pages_of_fp4() -> None:
    arguments = calls.paged_fp4() | {"out": None}
    expected = torch.full((4, 80), -INF, dtype=torch.float64)
    data = calls.PAGE * calls.FP4_BYTES
    for row, end in enumerate([69, 70, 39, 40]):
        pages = arguments["kv_cache"][arguments["block_table"][row // 2].long()]
        keys = pages[:, :data].reshape(-1, calls.FP4_BYTES)
        words = pages[:, data:].reshape(-1).view(torch.int32)
        query = slice(row, row + 1)
        logits = reference(
            arguments["q"][query], keys, words, arguments["weights"][query], arguments["q_scale"][query]
        )
        expected[row, :end] = logits[0, :end]
    assert same(tilewright.paged_mqa_logits(**arguments), expected)


def of_pages(arguments: dict[str, Any], sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys of a row of the block table, and their scales."""
    data = calls.PAGE * calls.HEAD_DIM
    pages = arguments["kv_cache"][arguments["block_table"][sequence].long()]
    keys = pages[:, :data].reshape(-1, calls.HEAD_DIM).view(torch.float8_e4m3fn)
    return keys, pages[:, data:].reshape(-1).view(torch.float32)


@pytest.mark.parametrize("per_token", [False, True])
def test_pages(per_token: bool) -> None:
    arguments = calls.paged() | {"out": None}
    ends = [69, 70, 39, 40]
    if per_token:
        ends = [12, 70, 0, 90]
        arguments["lengths"] = torch.tensor(ends, dtype=torch.int32)
    expected = torch.full((4, 80), -INF, dtype=torch.float64)
    for row, length in enumerate(ends):
        keys, scales = of_pages(arguments, row // 2)
        query = slice(row, row + 1)
        end = min(length, 80)
        logits = reference(arguments["q"][query], keys, scales, arguments["weights"][query])
        expected[row, :end] = logits[0, :end]
    assert same(tilewright.paged_mqa_logits(**arguments), expected)


def test_a_batch_of_variable_length() -> None:
    arguments = calls.variable() | {"out": None}
    expected = torch.full((4, 80), -INF, dtype=torch.float64)
    for row, end in enumerate([70, 39, 40, 0]):
        keys, scales = of_pages(arguments, row)
        query = slice(row, row + 1)
        logits = reference(arguments["q"][query], keys, scales, arguments["weights"][query])
        expected[row, :end] = logits[0, :end]
    assert same(tilewright.paged_mqa_logits(**arguments), expected)


def test_a_schedule_gives_equally_many_tiles() -> None:
    lengths = torch.tensor([7000, 0, 300, 256], dtype=torch.int32)  # 110, 0, 5 and 4 tiles of 64 keys
    schedule = tilewright.paged_mqa_schedule(lengths, blocks=3)
    assert schedule.tolist() == [[0, 0], [0, 39], [0, 79], [4, 0]]
    of_two = tilewright.paged_mqa_schedule(lengths, blocks=3, next_n=2)  # the longer one of each two counts
    assert of_two.tolist() == [[0, 0], [0, 38], [0, 76], [2, 0]]


REFUSED = [
    (
        calls.paged,
        {"block_table": torch.zeros(3, 3, dtype=torch.int32)},
        "block_table",
        "got 3 rows for 4",
    ),
    (calls.paged, {"lengths": torch.zeros(3, dtype=torch.int32)}, "lengths", "2 elements"),
    (
        calls.paged,
        {"indices": torch.zeros(4, dtype=torch.int32)},
        "block_table",
        "expected a row for each query",
    ),
    (calls.paged, {"keys": 0}, "keys", "a whole number, 1 or more"),
    (calls.paged, {"schedule": torch.zeros(1, 2, dtype=torch.int32)}, "schedule", "got no thread block"),
    (calls.paged, {"kv_cache": torch.zeros(6, 1160, dtype=torch.uint8)}, "kv_cache", "expected [6, 1152]"),
    (calls.paged, {"kv_cache": torch.zeros(0, 1152, dtype=torch.uint8)}, "kv_cache", "at least one page"),
    (calls.paged, {"block_table": torch.zeros(2, 0, dtype=torch.int32)}, "block_table", "at least one page"),
    (calls.ragged_fp4, {"q_scale": None}, "q_scale", "it is None; expected a tensor"),
    (calls.ragged, {"q_scale": calls.words(5, 16, seed=0)}, "q_scale", "it is a tensor; expected None"),
    (calls.ragged_fp4, {"kv_scale": torch.ones(70)}, "kv_scale", "expected int32"),
    (calls.ragged_fp4, {"q_scale": calls.words(5, 8, seed=0)}, "q_scale", "expected [5, 16]"),
    (calls.compressed, {"columns": -1}, "columns", "a whole number, 0 or more"),
    (calls.of_lengths, {"next_n": 3}, "lengths", "expected a multiple of 3 elements, got "),
    (calls.of_tokens, {"next_n": 2}, "indices", "expected next_n of 1 beside indices, got 2"),
]


@pytest.mark.parametrize(("make", "changes", "argument", "message"), REFUSED, ids=lambda one: str(one)[:20])
def test_refusals(make: Any, changes: dict[str, Any], argument: str, message: str) -> None:
    ragged = (calls.ragged, calls.ragged_fp4, calls.compressed)
    op = tilewright.mqa_logits if make in ragged else tilewright.paged_mqa_schedule
    op = tilewright.paged_mqa_logits if make == calls.paged else op
    with pytest.raises(ArgumentError, match=argument) as caught:
        op(**make() | {"out": None} | changes)
    assert caught.value.argument == argument
    assert message in str(caught.value)


def test_a_sequence_has_at_most_32_queries() -> None:
    def logits(queries: int) -> torch.Tensor:
        q = calls.random(2 * queries, calls.HEADS, calls.HEAD_DIM, seed=2).to(torch.float8_e4m3fn)
        weights = calls.random(2 * queries, calls.HEADS, seed=3)
        return tilewright.paged_mqa_logits(**calls.paged() | {"q": q, "weights": weights, "out": None})

    assert logits(32).shape == (64, 80)
    with pytest.raises(ArgumentError, match="expected at most 32 queries of a sequence, got 33"):
        logits(33)


def test_pages_of_another_size_have_no_kernel() -> None:
    arguments = calls.paged()
    arguments["kv_cache"] = torch.zeros(6, 48 * (calls.HEAD_DIM + 4), dtype=torch.uint8)
    with pytest.raises(ArgumentError, match="expected 32 or 64 keys in a page, got 48"):
        tilewright.paged_mqa_logits(**arguments)


def test_a_kernel_is_told_of_pages_that_logits_have_columns_for() -> None:
    """2^25 pages of 64 keys each are more keys than an int32 counts; of 300 columns 5 are read."""

    def told(**changes: Any) -> int:
        problem = Problem(4, form="paged", **{"keys": 300, "table_pages": 2**25} | changes)
        made = struct(INTERFACE).from_buffer_copy(packed(INTERFACE, problem, Tactic("any"), 132))
        return int(made.table_pages)

    assert told() == 5
    assert told(page=32) == 10
    assert told(keys=320) == 5
    assert told(table_pages=3) == 3


def test_other_heads_have_no_kernel() -> None:
    arguments = calls.ragged()
    arguments["q"], arguments["weights"] = torch.zeros(5, 8, 32).to(torch.float8_e4m3fn), torch.zeros(5, 8)
    with pytest.raises(NoKernelError, match="its heads is 16, not 8"):
        tilewright.mqa_logits(**arguments)


def test_nothing_to_look_at(mqa_host: Context) -> None:
    arguments = calls.ragged()
    none = arguments | {name: arguments[name][:0] for name in ("q", "weights", "starts", "ends", "out")}
    assert tilewright.mqa_logits(**none).shape == (0, 70)
    arguments |= {name: arguments[name][:0] for name in ("kv", "kv_scale")} | {"out": None}
    assert tilewright.mqa_logits(**arguments).shape == (5, 0)


@pytest.mark.parametrize("clean", [False, True])
def test_compressed_rows_of_no_keys(mqa_host: Context, clean: bool) -> None:
    arguments = calls.compressed()
    arguments |= {name: arguments[name][:0] for name in ("kv", "kv_scale")} | {"clean": clean}
    for _ in range(2):
        arguments["out"] = torch.full((5, 40), float("nan"))
        actual = tilewright.mqa_logits(**arguments)
        assert bool((torch.isneginf if clean else torch.isnan)(actual).all())


def test_an_empty_batch_of_pages(mqa_host: Context) -> None:
    """As of a rank that has got no sequence: there is nothing to do in its schedule, and no logits."""
    arguments = calls.paged() | {"out": None}
    none = {name: arguments[name][:0] for name in ("q", "weights", "lengths", "block_table")}
    schedule = torch.full((5, 2), 7, dtype=torch.int32)
    assert tilewright.paged_mqa_schedule(none["lengths"], blocks=4, out=schedule) is schedule
    assert not schedule.any()
    actual = tilewright.paged_mqa_logits(**arguments | none | {"schedule": schedule})
    assert actual.shape == (0, arguments["keys"])
    with pytest.raises(ArgumentError, match="got 0 rows for"):
        tilewright.paged_mqa_logits(**arguments | {"block_table": none["block_table"]})


def test_the_models_first_kernel_is_the_one_that_was_the_fastest() -> None:
    registry = Registry()
    actual = review(tuned_files.read(ROOT / "tuned/nvidia_h200/mqa_logits.json"), FAMILY, registry)
    assert actual.standing
    assert not actual.dropped
    records = registry.runnable("mqa_logits", H200.capability)
    for problem, tactic, seconds, _ in actual.standing:
        ranked = FAMILY.rank(records, problem, H200)
        assert ranked[0].tactic.kernel == tactic.kernel, str(problem)
        (estimate,) = (candidate.estimate.seconds for candidate in ranked if candidate.tactic == tactic)
        assert 0.8 < estimate / seconds < 1.8, str(problem)  # ragged ranges are not known: all keys count


def test_tuned_entries_tell_how_many_queries_a_sequence_has() -> None:
    single, pair = (Problem(512, 8192, next_n=next_n, form="paged") for next_n in (1, 2))
    assert tuned_files.extents_of(FAMILY, single) != tuned_files.extents_of(FAMILY, pair)
    assert tuned_files.kind_of(FAMILY, single) == tuned_files.kind_of(
        FAMILY, Problem(9, 9, form="paged", clean=True)
    )
