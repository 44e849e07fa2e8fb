"""Batch-invariant mode: selection takes only tactics whose sums do not depend on m, whatever their source.

The kernels are those of the committed tables; none is built."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tilewright
from tilewright import context as contexts
from tilewright.architectures.device import B200, H200, DeviceProperties
from tilewright.base import paths
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, NoKernelError
from tilewright.families.blockscaled_gemm.problem import Problem as Blockscaled
from tilewright.families.gemm.problem import Problem as Gemm
from tilewright.families.grouped_gemm.problem import Problem as Grouped
from tilewright.families.hc_prenorm.problem import Problem as Prenorm
from tilewright.families.quantize.problem import Problem as Quantize
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.explaining import explain
from tilewright.tools.tuning import tuned_writing

GEMM = family_of("gemm")
LONG = Gemm(64, 1024, 5632)  # few tiles and a long k: the free choice splits k, and the mode does not
ROWS = (1, 2, 7, 8, 9, 16, 33, 64, 100, 128, 257, 513, 1000, 2048, 8192)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(libraries=lambda module: [])


def free_of(registry: Registry, device: DeviceProperties = H200) -> Context:
    return Context(registry, device)


@pytest.mark.parametrize(
    ("family", "make"),
    [
        ("gemm", lambda m: Gemm(m, 4096, 4096)),
        ("gemm", lambda m: Gemm(m, 256, 5632)),
        ("gemm", lambda m: Gemm(m, 1536, 7168, a="f16", b="f16", d="f16")),
        ("gemm", lambda m: Gemm(m, 1536, 7168, a="e4m3", b="e4m3")),
        ("gemm", lambda m: Gemm(m, 1536, 7168, a="e4m3", b="e4m3", fast_accum=True)),
        ("gemm", lambda m: Gemm(m, 1536, 7168, d="f32", batch=3)),
        ("gemm", lambda m: Gemm(m, 1024, 7168, a="tf32", b="tf32", d="f32")),
        ("grouped_gemm", lambda m: Grouped(m, 512, 7168)),
        ("grouped_gemm", lambda m: Grouped(m, 512, 7168, groups=4, grouping="rows_valid")),
        ("grouped_gemm", lambda m: Grouped(m, 512, 7168, groups=4, grouping="row_index")),
        ("blockscaled_gemm", lambda m: Blockscaled(m, 1536, 7168)),
    ],
)
def test_a_split_that_depends_on_m_is_never_chosen(registry: Registry, family: str, make) -> None:
    invariant = free_of(registry).sibling()
    for m in ROWS:
        problem = make(m)
        choice = invariant.select(family_of(family), problem, H200)
        assert choice.tactic.splits == 1, f"{problem}: {choice.tactic}"
        assert choice.record.config.get("mainloop") != "stream"
        assert choice.record.config.get("scheduler") != "stream_k"
        if family == "gemm" and problem.a == "e4m3":
            assert choice.record.config["fast_accum"] == problem.fast_accum


def test_the_free_choice_does_split_k(registry: Registry) -> None:
    """Otherwise the test above would show nothing."""
    free = free_of(registry)
    assert free.select(GEMM, LONG, H200).tactic.splits > 1
    grouped = free.select(family_of("grouped_gemm"), Grouped(7, 512, 7168), H200)
    assert grouped.tactic.splits > 1


def test_kernels_of_few_rows_and_of_other_orders_do_not_count(registry: Registry) -> None:
    reasons = {}
    for record in registry.route("gemm", H200):
        reason = GEMM.misfit_invariant(Tactic(record.name), record, Gemm(4, 512, 512, fast_accum=True))
        kind = record.config["mainloop"], record.config["a"], record.config["fast_accum"]
        reasons.setdefault(kind, reason)
    assert "more than 8 rows are added in another order" in str(reasons["stream", "bf16", False])
    assert reasons["lean", "bf16", False] is None
    promoting = next(
        record
        for record in registry.route("gemm", H200)
        if record.config["a"] == "e4m3" and not record.config["fast_accum"]
    )
    tactic, fast = Tactic(promoting.name), Gemm(4, 512, 512, a="e4m3", b="e4m3", fast_accum=True)
    assert "it promotes its sums" in str(GEMM.misfit_invariant(tactic, promoting, fast))
    assert GEMM.misfit_invariant(tactic, promoting, replace(fast, fast_accum=False)) is None
    assert reasons["cutlass", "tf32", False] is reasons["cutlass", "s8", False] is None


def test_an_invariant_choice_is_the_first_of_those_that_count(registry: Registry) -> None:
    free = free_of(registry)
    records = registry.route("gemm", H200)
    counting = GEMM.weigh(GEMM.fitting(records, LONG), LONG, H200, batch_invariant=True)
    assert {GEMM.misfit_invariant(tactic, record, LONG) for tactic, record, _ in counting} == {None}
    assert free.sibling().select(GEMM, LONG, H200)[:2] == counting[0][:2]


def test_a_demanded_tactic_is_refused(registry: Registry) -> None:
    free = free_of(registry)
    split = free.select(GEMM, LONG, H200).tactic
    with pytest.raises(ArgumentError, match=r"is not batch-invariant: it adds the sums of \d+ ranges of k"):
        free.sibling().select(GEMM, LONG, H200, split)
    assert free.select(GEMM, LONG, H200, split).tactic == split
    whole = free.sibling().select(GEMM, LONG, H200).tactic
    assert free.sibling().select(GEMM, LONG, H200, whole).tactic == whole


@pytest.mark.parametrize("m", [LONG.m, 60])  # tuned, and a neighbour of what is tuned
def test_tuned_tactics_must_count_too(
    registry: Registry, m: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path))
    free = free_of(registry)
    split = free.select(GEMM, LONG, H200).tactic
    header = Header.of(H200, registry, "gemm", driver="580.1", cuda="13.0", cutlass="4.2.0")
    path = paths.tuned_file(tmp_path, H200.name, "gemm")
    tuned_writing.update(path, header, GEMM, [Entry(LONG, split, 1e-5)])
    free.forget_tuned()
    problem = Gemm(m, LONG.n, LONG.k)
    assert free.select(GEMM, problem, H200).source == ("tuned" if m == LONG.m else "neighbour")
    choice = free.sibling().select(GEMM, problem, H200)
    assert (choice.source, choice.tactic.splits) == ("model", 1)


def test_entries_that_the_process_tunes_reach_both_contexts(registry: Registry) -> None:
    free = free_of(registry)
    sibling = free.sibling()
    whole = sibling.select(GEMM, LONG, H200).tactic
    swizzled = Tactic(whole.kernel, cluster=whole.cluster, raster="along_n", swizzle=2)
    free.add_tuned(GEMM, H200, Entry(LONG, swizzled, 1e-6))
    assert sibling.select(GEMM, LONG, H200).tactic == swizzled
    assert free.select(GEMM, LONG, H200).tactic == swizzled


def test_families_that_are_not_known_to_keep_bits_are_refused(registry: Registry) -> None:
    prenorm, problem = family_of("hc_prenorm"), Prenorm(64, 24, 7168)
    free = free_of(registry)
    free.select(prenorm, problem, H200)
    with pytest.raises(NoKernelError, match="its family is not known to give a row the same bits") as refusal:
        free.sibling().select(prenorm, problem, H200)
    assert "TILEWRIGHT_BATCH_INVARIANT" in str(refusal.value)
    with pytest.raises(NoKernelError, match="its architecture was not tested"):
        free_of(registry, B200).sibling().select(
            family_of("blockscaled_gemm"), Blockscaled(64, 512, 512), B200
        )


def test_quantising_keeps_bits_unless_it_adds_up_rows(registry: Registry) -> None:
    quantize, sibling = family_of("quantize"), free_of(registry).sibling()
    assert sibling.select(quantize, Quantize(64, 4096), H200)
    with pytest.raises(NoKernelError, match="add up the squares of a row in different orders"):
        sibling.select(quantize, Quantize(64, 4096, fusion="rmsnorm"), H200)


def test_the_block_of_the_mode(registry: Registry) -> None:
    free = free_of(registry)
    with contexts.use(free):
        with tilewright.batch_invariant():
            inner = contexts.current()
            assert inner.batch_invariant
            assert (inner.registry, inner.described) == (free.registry, free.described)
            with tilewright.batch_invariant():
                assert contexts.current() is inner
            with tilewright.batch_invariant(False):
                assert contexts.current() is free
            with pytest.raises(KeyError), tilewright.batch_invariant(False):
                raise KeyError
            assert contexts.current() is inner
        assert contexts.current() is free
        with tilewright.batch_invariant():
            assert contexts.current() is inner  # its plans and choices are kept


def test_blocks_of_threads_may_end_in_any_order(registry: Registry) -> None:
    free = free_of(registry)
    with contexts.use(free):
        first, second = tilewright.batch_invariant(), tilewright.batch_invariant()  # as of two threads
        with first:
            second.__enter__()
        assert contexts.current() is free.sibling()  # the second block is open
        second.__exit__(None, None, None)
        assert contexts.current() is free


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False), ("", False)])
def test_the_variable(value: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_BATCH_INVARIANT", value)
    program = "from tilewright import context; print(context.current().batch_invariant)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(expected)


@pytest.mark.parametrize("value", ["true", "off", "2"])
def test_another_value_of_the_variable_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_BATCH_INVARIANT", value)
    with pytest.raises(ArgumentError, match=f"TILEWRIGHT_BATCH_INVARIANT: expected 0 or 1, got '{value}'"):
        contexts.of_environment()


def test_explain_says_what_the_mode_costs(registry: Registry) -> None:
    free = free_of(registry)
    explanation = explain(free.sibling(), GEMM, LONG, H200)
    split = free.select(GEMM, LONG, H200).tactic
    assert explanation.free is not None
    tactic, saved = explanation.free
    seconds = []
    for each in (explanation.choice.tactic, split):
        weigh = GEMM.model(registry.record(each.kernel), LONG, H200)
        assert weigh is not None
        seconds.append(weigh(each).seconds)
    assert tactic == split
    assert saved == pytest.approx(1 - seconds[1] / seconds[0])
    assert {row.tactic.splits for row in explanation.rows} == {1}
    text = "\n".join(explanation.lines())
    expected = f"Batch-invariant mode costs {saved:.0%} of the estimated time; without it {split} runs."
    assert expected in text
    assert explain(free, GEMM, LONG, H200).free is None
    assert explanation.as_json()["free"] == {"tactic": str(split), "saved": saved}
    assert explain(free.sibling(), GEMM, Gemm(8192, 8192, 8192), H200).free is None
