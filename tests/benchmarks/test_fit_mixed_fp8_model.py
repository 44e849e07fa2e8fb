"""How the cost models of `mixed_fp8_gemm` and `mixed_fp8_grouped_gemm` are fitted to times."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Any

import pytest

pytest.importorskip("torch", reason="the models of problems import it")

from benchmarks.fit import fit_mixed_fp8_model as program

from tilewright.architectures.device import H200
from tilewright.families.mixed_fp8_gemm import cost as dense_cost
from tilewright.families.mixed_fp8_gemm.family import FAMILY as DENSE
from tilewright.families.mixed_fp8_gemm.problem import Problem as Dense
from tilewright.families.mixed_fp8_grouped_gemm import cost as experts_cost
from tilewright.families.mixed_fp8_grouped_gemm.family import FAMILY as EXPERTS
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem as Experts
from tilewright.libraries.registry import Registry

PROBLEMS = (
    Dense(700, 4096, 4096, a_scale=True),
    Dense(3000, 2048, 8192, weight_format="mxfp4"),
    Experts(2048, 4096, 4096, 8),
    Experts(40, 2048, 2048, 32, weight_format="mxfp4", fast_accum=True),
)


@pytest.fixture
def cases() -> list[Any]:
    """Times that are the models' own estimates."""
    registry = Registry()
    estimated = []
    for problem in PROBLEMS:
        family = EXPERTS if isinstance(problem, Experts) else DENSE
        ranked = family.rank(registry.kernels(family.name), problem, H200)
        us = {str(each.tactic): [each.estimate.seconds * 1e6, 0.0] for each in ranked}
        row = {"family": family.name, "problem": asdict(problem), "first": "", "us": us}
        estimated.append(program.Case(row, registry))
    return estimated


def test_what_is_chosen_is_the_fastest(cases: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    program.report(cases, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" problems")[0].rsplit(None, 1)[0] for line in lines[:4]] == [
        "dense int4_g128", "dense mxfp4", "experts int4_g128", "experts mxfp4 fast_accum",
    ]  # fmt: skip
    assert all("chosen over fastest 1.0000 in geomean" in line for line in lines[:4])


def test_a_number_that_is_far_off_comes_back(cases: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table's too, and what two modules have by the same name."""
    expected = dense_cost.FAST_CLOCKS
    monkeypatch.setattr(dense_cost, "FAST_CLOCKS", expected * 2)
    monkeypatch.setattr(dense_cost, "UNIT_CLOCKS", {**dense_cost.UNIT_CLOCKS, "int4": 900})
    hbm = dense_cost.HBM_SHARE
    monkeypatch.setattr(experts_cost, "HBM_SHARE", experts_cost.HBM_SHARE)
    before = statistics.fmean(case.loss() for case in cases)
    program.fit(cases, ["dense.FAST_CLOCKS", "dense.UNIT_CLOCKS", "experts.HBM_SHARE"])
    assert statistics.fmean(case.loss() for case in cases) < before / 4
    fitted = dense_cost.FAST_CLOCKS
    assert fitted == pytest.approx(expected, rel=0.1)
    assert dense_cost.UNIT_CLOCKS["int4"] < 600
    unchanged = dense_cost.HBM_SHARE
    assert unchanged == hbm
