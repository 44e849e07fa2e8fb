"""Schedules of kernels with packed weights, in the cost model and the choice."""

from __future__ import annotations

import pytest

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import cost
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.libraries.registry import Registry

RECORDS = {record.name: record for record in Registry().route("mixed_gemm", H200)}
NAME = "mixed_gemm_sm90_bf16_"


@pytest.mark.parametrize(
    ("kernel", "format", "share"),
    [("int4_g128_128x64x128_early", "int4_g128", 0.76), ("mxfp4_128x64x128_in_turn", "mxfp4", 0.88)],
)
def test_earlier_loads_leave_a_share_of_decoding(kernel: str, format: str, share: float) -> None:
    """With few columns decoding takes nearly all of the time: estimates differ by about that share."""
    record, problem = RECORDS[NAME + kernel], Problem(64, 8192, 8192, weight_format=format)
    plain = record._replace(config=record.config | {"schedule": "at_will", "tile": (128, 8, 128)})
    early = record._replace(config=record.config | {"tile": (128, 8, 128)})
    both = [cost.Wgmma(each, problem, H200).model.math for each in (early, plain)]
    assert share < both[0] / both[1] < share + 0.06


@pytest.mark.parametrize(
    ("problem", "schedule"),
    [
        (Problem(64, 8192, 8192), "early"),
        (Problem(33, 8192, 7168), "early"),
        (Problem(64, 8192, 8192, weight_format="mxfp4"), "in_turn"),
        (Problem(33, 3584, 18944, weight_format="mxfp4"), "in_turn"),
        (Problem(64, 28672, 4096, activation="silu_mul"), "early"),
        (Problem(64, 4096, 14336, weight_format="mxfp4"), "early"),
        (Problem(64, 4096, 14336), "at_will"),
    ],
    ids=str,
)
def test_the_choice_is_the_one_that_was_fastest(problem: Problem, schedule: str) -> None:
    """See benchmarks/results/packed_schedules.md."""
    first = FAMILY.rank([*RECORDS.values()], problem, H200)[0]
    assert first.record.config["schedule"] == schedule


def test_tactics_without_splits_stay_in_batch_invariant_mode() -> None:
    record = RECORDS[NAME + "int4_g128_128x64x128_early"]
    assert FAMILY.misfit_invariant(Tactic(record.name), record, Problem(64, 4096, 4096)) is None
