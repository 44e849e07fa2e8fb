from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import pytest
from altered import altered

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import SWIZZLES, Tactic, rearranged
from tilewright.errors import ArgumentError
from tilewright.families.blockscaled_grouped_gemm import family as blockscaled_grouped_gemm
from tilewright.families.gemm import config as generator
from tilewright.families.gemm import problem as problems
from tilewright.families.gemm import rules
from tilewright.families.gemm.cost import Cutlass
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.families.grouped_gemm import family as grouped_gemm
from tilewright.selection.choice import BUILT_WITHIN, choose
from tilewright.selection.family import Family


@pytest.fixture
def records(record):
    return [
        record("big", tile=[128, 256, 64]),
        record("big_cluster", tile=[128, 256, 64], cluster=[2, 1]),
        record("medium", tile=[128, 128, 64], schedule="pingpong"),
        record("split", tile=[128, 256, 64], scheduler="stream_k"),
        record("small", tile=[64, 16, 128], schedule="pingpong", swap_ab=True),
        record("biased", tile=[128, 128, 64], bias=True),
        record("nt", layout="nt"),
        record("no_c", c="none"),
    ]


def names(records, problem: Problem) -> list[str]:
    return [record.name for record in FAMILY.fitting(records, problem)]


def test_what_fits(records) -> None:
    every = ["big", "big_cluster", "medium", "split", "small", "biased"]
    assert names(records, Problem(512, 512, 512)) == [*every, "no_c"]
    assert names(records, Problem(512, 512, 512, c=True)) == every
    assert names(records, Problem(512, 512, 512, bias=True)) == ["biased"]
    assert names(records, Problem(512, 512, 512, layout="nt")) == ["nt"]
    assert names(records, Problem(512, 512, 512, activation="relu")) == []


def test_alignment(record) -> None:
    kernel = record("k")
    assert "k" not in (FAMILY.misfit(kernel, Problem(7, 8, 8)) or "")
    assert "a has 12 elements" in (FAMILY.misfit(kernel, Problem(8, 8, 12)) or "")
    assert "d has 12 elements" in (FAMILY.misfit(kernel, Problem(8, 12, 8)) or "")
    turned = record("k", layout="nn")
    assert "a has 7 elements" in (FAMILY.misfit(turned, Problem(7, 8, 8, layout="nn")) or "")


def test_fast_accumulation_must_be_allowed(record) -> None:
    fast = record("fast", a="e4m3", b="e4m3", fast_accum=True)
    problem = Problem(64, 64, 64, a="e4m3", b="e4m3")
    assert "fast accumulation" in (FAMILY.misfit(fast, problem) or "")
    assert FAMILY.misfit(fast, replace(problem, fast_accum=True)) is None


def test_an_explanation_counts(records) -> None:
    text = FAMILY.explain(records, Problem(512, 512, 512, activation="silu"))
    assert "7 kernels: its activation is none, not silu" in text


def test_an_explanation_begins_with_kernels_of_the_problems_kind(records) -> None:
    """However few: their reason is the one that other extents mend."""
    first, second, *_ = FAMILY.explain(records, Problem(8, 8, 12, bias=True)).splitlines()
    assert first.startswith("  1 kernel: a has 12 elements")
    assert second.startswith("  6 kernels: ")


def test_an_explanation_has_at_most_eight_reasons(record) -> None:
    family = altered(FAMILY, misfit_options=lambda record, kind: f"it is {record.name}")
    kernels = [record(name) for name in "abcdefghij"]
    assert len(family.explain(kernels, Problem(512, 512, 512)).splitlines()) == 8


def test_the_order_of_kernels_does_not_matter(records) -> None:
    shuffler = random.Random(1)
    for problem in (Problem(16, 4096, 4096), Problem(8192, 8192, 8192), Problem(300, 1000, 72, batch=5)):
        expected = [candidate.tactic for candidate in FAMILY.rank(records, problem, H200)]
        for _ in range(5):
            mixed = shuffler.sample(records, len(records))
            assert [candidate.tactic for candidate in FAMILY.rank(mixed, problem, H200)] == expected


class Shelf:
    """A registry's part in choosing: which kernels are built."""

    def __init__(self, *built: str) -> None:
        self._built = built

    def is_built(self, record) -> bool:
        return record.name in self._built

    def buildable(self, record) -> bool:
        return True


@pytest.mark.parametrize("jit", ["1", "", None])
def test_the_choice_does_not_depend_on_what_is_built(
    records, jit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if jit is None:
        monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    else:
        monkeypatch.setenv("TILEWRIGHT_JIT", jit)
    problem = Problem(8192, 8192, 8192)
    best = FAMILY.rank(records, problem, H200)[0]
    for record in records:
        assert choose(FAMILY, Shelf(record.name), records, problem, H200)[:2] == best[:2]


def test_lazily_a_built_kernel_is_taken_if_it_is_about_as_good(
    records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "lazy")
    problem = Problem(8192, 8192, 8192)
    ranked = FAMILY.rank(records, problem, H200)
    best = ranked[0]
    bound = best.estimate.seconds * (1 + BUILT_WITHIN)
    near = next(x for x in ranked if x.record is not best.record and x.estimate.seconds <= bound)
    assert choose(FAMILY, Shelf(), records, problem, H200)[:2] == best[:2]
    assert choose(FAMILY, Shelf(near.record.name), records, problem, H200)[:2] == near[:2]
    assert choose(FAMILY, Shelf(near.record.name, best.record.name), records, problem, H200)[:2] == best[:2]
    assert choose(FAMILY, Shelf("small"), records, problem, H200)[:2] == best[:2]  # several times as slow


@pytest.mark.parametrize("value", ["false", "no", "00", "LAZY"])
def test_a_value_that_does_not_say_whether_to_compile_is_refused(records, value: str, monkeypatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", value)
    with pytest.raises(ArgumentError, match=f"TILEWRIGHT_JIT: expected 1, 0 or lazy, got '{value}'"):
        choose(FAMILY, Shelf("small"), records, Problem(8192, 8192, 8192), H200)


def test_only_built_kernels_count_where_none_may_be_compiled(records, monkeypatch) -> None:
    problem = Problem(8192, 8192, 8192)
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    assert choose(FAMILY, Shelf("small"), records, problem, H200)[0].kernel == "small"
    assert choose(FAMILY, Shelf(), records, problem, H200)[:2] == FAMILY.rank(records, problem, H200)[0][:2]


def test_whether_a_kernel_is_built_is_asked_of_the_first_alone(records) -> None:
    problem = Problem(8192, 8192, 8192)
    best, second = (candidate.record.name for candidate in FAMILY.rank(records, problem, H200)[:2])
    shelf, asked = Shelf(*(record.name for record in records)), []
    shelf.is_built = lambda record: asked.append(record.name) or True
    assert choose(FAMILY, shelf, records, problem, H200).tactic.kernel == best
    assert set(asked) == {best, second}  # by the second it says how far the first leads


def test_the_kernels_of_a_kind_are_looked_for_once(records) -> None:
    asked = []
    family = altered(
        FAMILY, misfit_options=lambda *which: asked.append(which) or FAMILY.misfit_options(*which)
    )
    shelf = Shelf()
    for m in (16, 17, 512):
        for layout in ("tn", "nt"):
            problem = Problem(8 * m, 512, 512, layout=layout)
            actual = [record.name for record in family.fitting_kept(shelf, records, problem)]
            assert actual == names(records, problem)
    assert asked
    asked.clear()
    assert family.fitting_kept(shelf, records, Problem(64, 64, 60)) == []  # extents are looked at each time
    assert not asked
    for some in (records[:1], records[:2]):  # the answer for one problem is kept for one list of records
        assert family.fitting_kept(shelf, some, Problem(64, 64, 64)) == some


def test_the_model_knows_the_obvious(records) -> None:
    def best(*shape: int) -> str:
        return FAMILY.rank(records, Problem(*shape), H200)[0].record.name

    assert best(16, 8192, 8192) == "small"
    assert best(8192, 8192, 8192).startswith("big")
    # One tile with a long k: only splitting uses more than one SM.
    order = [candidate.record.name for candidate in FAMILY.rank(records, Problem(128, 256, 65536), H200)]
    assert order.index("split") < order.index("medium") < order.index("big")


@pytest.mark.parametrize("shape", [(1, 8, 16), (128, 4096, 4096), (8192, 8192, 8192), (65536, 64, 64)])
def test_estimates_are_possible(records, shape: tuple[int, int, int]) -> None:
    problem = Problem(*shape)
    for kernel in FAMILY.fitting(records, problem):
        for tactic in FAMILY.candidates(kernel, problem, H200):
            seconds = Cutlass(kernel, problem, H200).weigh(tactic).seconds
            assert seconds > problem.flops / 1e15
            assert seconds > problem.bytes / 60e12
            assert 1e-6 < seconds < 1.0


def test_more_work_never_takes_less(record) -> None:
    kernel = record("big", tile=[128, 256, 64])
    for grow in ("m", "n", "k", "batch"):
        times = []
        for size in (1, 2, 4, 8, 16, 32):
            problem = replace(Problem(256, 256, 256), **{grow: size if grow == "batch" else 256 * size})
            times.append(Cutlass(kernel, problem, H200).weigh(Tactic("big")).seconds)
        assert times == sorted(times)


def test_the_choice_is_close_to_the_best_measured(record) -> None:
    times = Path(__file__).parents[1] / "data/h200_gemm_times.json"
    measured = json.loads(times.read_text(encoding="utf-8"))
    kernels = {name: record(name, **config) for name, config in measured["kernels"].items()}
    ratios, places = [], []
    for row in measured["problems"]:
        problem = Problem(**row["problem"])
        times = {Tactic.parse(text): us for text, us in row["us"].items()}
        order = [x.tactic for x in FAMILY.rank(kernels.values(), problem, H200) if x.tactic in times]
        assert len(order) == len(times)
        best = min(times.values())
        ratios.append(times[order[0]] / best)
        places.append(min(place for place, tactic in enumerate(order) if times[tactic] == best))
    assert math.exp(sum(map(math.log, ratios)) / len(ratios)) < 1.03
    assert max(ratios) < 1.2
    assert sum(place < 10 for place in places) >= 0.9 * len(places)


def test_what_measurements_taught(record) -> None:
    def microseconds(problem: Problem, **config) -> float:
        kernel = record("k", **config)
        return Cutlass(kernel, problem, H200).weigh(Tactic("k")).seconds * 1e6

    # Zeros for rows that do not exist cost more than rows that do.
    swapped = {"tile": [64, 64, 128], "schedule": "pingpong", "swap_ab": True}
    assert microseconds(Problem(16, 6144, 4096), **swapped) > microseconds(Problem(64, 6144, 4096), **swapped)
    # Whole clusters of four leave SMs idle: 128 tiles take two waves.
    large = Problem(1024, 4096, 14336)
    four = microseconds(large, tile=[128, 256, 64], cluster=[4, 1])
    assert four > 1.5 * microseconds(large, tile=[128, 256, 64], cluster=[2, 1])
    # Power bounds what all SMs reach together, and FP8 gets further than BF16.
    huge = Problem(16384, 16384, 16384)
    assert 700e12 < huge.flops / microseconds(huge, tile=[128, 256, 64]) * 1e6 < 850e12
    fp8 = replace(huge, a="e4m3", b="e4m3", fast_accum=True)
    fast = microseconds(fp8, a="e4m3", b="e4m3", tile=[128, 256, 128], fast_accum=True)
    assert 1300e12 < huge.flops / fast * 1e6 < 1600e12


def test_tuning_tries_clusters_of_eight_of_tactics_that_do_not_split_k() -> None:
    whole = Tactic("k", cluster="1x2", swizzle=2)
    assert [str(tactic) for tactic in FAMILY.wider(whole)] == [
        "k@cluster=2x4,swizzle=2",
        "k@cluster=4x2,swizzle=2",
    ]
    assert [*FAMILY.wider(Tactic("k", splits=2))] == []


def test_tactics_are_written_and_read(record) -> None:
    kernel = record("k", scheduler="stream_k")
    problem = Problem(256, 256, 4096)
    every = [tactic for base in FAMILY.candidates(kernel, problem, H200) for tactic in rearranged(base)]
    assert len(set(map(str, every))) == len(every) > 50
    assert [Tactic.parse(str(tactic)) for tactic in every] == every
    assert str(Tactic("k")) == "k"
    plain = [tactic for base in FAMILY.candidates(record("p"), problem, H200) for tactic in rearranged(base)]
    assert all(FAMILY.misfit_tactic(tactic, record("p"), problem) is None for tactic in plain)


@pytest.mark.parametrize("family", [grouped_gemm.FAMILY, blockscaled_grouped_gemm.FAMILY])
def test_a_heuristic_that_chooses_the_swizzle_is_one_tactic(family: Family) -> None:
    orders = [(tactic.raster, tactic.swizzle) for tactic in family.variants(Tactic("k"))]
    assert orders[:2] == [("heuristic", 1), ("along_m", 1)]
    assert len(set(orders)) == len(orders) == 1 + 2 * len(SWIZZLES)


@pytest.mark.parametrize(
    "text",
    ["k@raster=up", "k@swizzle=3", "k@splits=0", "k@splits=x", "k@raster", "k@=1", "k@cluster=", "k@splits="],
)
def test_tactics_that_are_none(text: str) -> None:
    with pytest.raises(ArgumentError, match="tactic"):
        Tactic.parse(text)


def test_types_and_activations_are_those_of_specs() -> None:
    hints = get_type_hints(generator.GemmConfig)
    assert {a for a, _ in problems.OUTPUTS} == set(get_args(hints["a"]))
    assert get_args(hints["activation"]) == (
        *problems.ACTIVATIONS,
        problems.GIVEN,
        *problems.GATED,
    )
    integer = [SimpleNamespace(d="s32", activation=name) for name in (*problems.ACTIVATIONS, *problems.GATED)]
    allowed = tuple(x.activation for x in integer if rules.integer_epilogue(x) is None)
    assert allowed == problems.INTEGER_ACTIVATIONS


def test_selecting_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tilewright.families.gemm.family import FAMILY\n"
        "from tilewright.libraries.registry import Registry\n"
        "from tilewright.families.gemm.problem import Problem\n"
        "from tilewright.architectures.device import H200\n"
        "registry = Registry(libraries=lambda module: [])\n"
        "records = registry.route('gemm', H200)\n"
        "from tilewright.selection.choice import choose\n"
        "print(choose(FAMILY, registry, records, Problem(512, 4096, 4096), H200)[0].kernel)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.startswith("gemm_sm90_bf16_bf16"), run.stderr


def test_a_first_lookup_imports_only_what_it_needs(tmp_path: Path) -> None:
    """Each of these takes it a millisecond or more. Nothing is tuned there."""
    (tmp_path / "generated").symlink_to(Path(__file__).resolve().parents[3] / "generated")
    code = (
        "import sys; from pathlib import Path\n"
        "from tilewright.context import Context; from tilewright.architectures.device import H200\n"
        "from tilewright.families.gemm.family import FAMILY\n"
        "from tilewright.families.gemm.problem import Problem\n"
        "from tilewright.libraries.registry import Registry; import tilewright.compile.library\n"
        "class Everything:\n    path, holds = None, lambda self, record: True\n"
        "registry = Registry(Path(sys.argv[1]), libraries=lambda module: [Everything()])\n"
        "Context(registry).select(FAMILY, Problem(512, 4096, 4096), H200)\n"
        "print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "generated")],
        env={**os.environ, "TILEWRIGHT_TUNED": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    loaded = {name.removeprefix("tilewright.") for name in run.stdout.split()}
    assert {"families.gemm.cost_lean", "compile.library"} <= loaded, run.stderr
    unneeded = (
        "torch",
        "declarations.vocabulary",
        "base.spelling",
        "configurations.rule",
        "families.gemm.kernel",
        "tools",
        "compile.store",
        "compile.toolchain",
        "compile.nvcc.toolchain",
    )
    assert not loaded.intersection(unneeded)
