"""The model's first tactics for many m at once are those that it gives for each m, to the last bit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tilewright.architectures.device import H100, H200
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.models.product import Product
from tilewright.selection.weighing import Candidate
from tilewright.tools.bundling import closure

pytest.importorskip("numpy")
CONTEXT = Context()
RECORDS = CONTEXT.registry.route("gemm", H200)
FP8 = {"a": "e4m3", "b": "e4m3"}


def fitting(problem: Problem) -> list[KernelRecord]:
    return FAMILY.fitting(RECORDS, problem)


@pytest.mark.parametrize(
    ("problem", "values"),
    [
        (Problem(0, 4096, 4096), range(260, 16385, 3151)),
        (Problem(0, 24576, 4096), range(1021, 1030)),
        (Problem(0, 256, 7168, d="f32"), range(257, 9000, 2733)),
        (Problem(0, 1024, 21504), range(257, 9000, 1709)),
        (Problem(0, 768, 19136, fast_accum=True, **FP8), range(257, 9000, 2733)),
        (Problem(0, 128, 512, batch=16), range(300, 4000, 907)),
        (Problem(0, 512, 128, batch=16, layout="tt"), range(300, 4000, 907)),
        (Problem(0, 1000, 2048, bias=True, activation="gelu"), range(258, 3000, 811)),
        (Problem(0, 4096, 1536, a="f16", b="f16", d="f16", c=True), range(258, 5000, 1411)),
        (Problem(0, 6144, 4096, fast_accum=True, **FP8), range(511, 9000, 2977)),
        (Problem(0, 6144, 4096, d="e4m3", **FP8), range(511, 9000, 2977)),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch_invariant", [False, True])
def test_the_first_tactics_of_many_m(problem: Problem, values: range, batch_invariant: bool) -> None:
    device = H100 if problem.fast_accum else H200
    largest = replace(problem, m=values[-1])
    firsts = FAMILY.sweep(fitting(largest), largest, values, device, batch_invariant=batch_invariant)
    assert list(firsts) == list(values)
    for m in values:
        here = replace(problem, m=m)
        expected = FAMILY.weigh(fitting(here), here, device, batch_invariant=batch_invariant)[0]
        assert firsts[m].tactic == expected.tactic
        assert firsts[m].record is expected.record
        assert firsts[m].estimate.seconds == expected.estimate.seconds


def test_what_arrays_do_not_serve_is_left_out() -> None:
    problem = Problem(4096, 4096, 4096)
    assert list(FAMILY.sweep(fitting(problem), problem, range(1, 300), H200)) == [*range(257, 300)]
    other = replace(problem, layout="nt")
    assert not FAMILY.sweep(fitting(other), other, [4096], H200)
    tf32 = Problem(4096, 4096, 4096, a="tf32", b="tf32", d="f32")
    assert not FAMILY.sweep(fitting(tf32), tf32, [4096], H200)
    few_columns = Problem(4096, 8, 4096)
    assert not FAMILY.sweep(fitting(few_columns), few_columns, [4096], H200)


@pytest.mark.parametrize("batch_invariant", [False, True])
def test_choices_are_those_of_each_value(batch_invariant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    context = Context(CONTEXT.registry, batch_invariant=batch_invariant)
    values = range(200, 2100, 191)  # some of them have tuned neighbours
    product = Product("qkv", "tilewright.gemm", "gemm", Problem(1, 6144, 4096), values)
    at_once = closure.choices(context, product, values, H200)
    assert at_once == closure.choices(context, product, values, H200, at_once=False)
    assert {chosen.source for chosen in at_once} == {"model", "neighbour"}


def test_a_first_tactic_that_cannot_run_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is then asked for the others."""
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    from tilewright.selection.choice import choose  # noqa: PLC0415

    problem = Problem(777, 4104, 4096)
    ranked = FAMILY.weigh(fitting(problem), problem, H200)
    last = ranked[-1]
    obstacle = CONTEXT.registry.obstacle

    def refused(record: KernelRecord) -> str:
        return "it does not compile" if record.name == last.record.name else obstacle(record)

    monkeypatch.setattr(CONTEXT.registry, "obstacle", refused)
    monkeypatch.setattr(CONTEXT.registry, "is_built", lambda record: False)  # a cache may hold the last one
    foreknown = Candidate(last.tactic, last.record, last.estimate._replace(seconds=math.inf))
    choice = choose(FAMILY, CONTEXT.registry, RECORDS, problem, H200, first=foreknown)
    assert choice.tactic == ranked[0].tactic
