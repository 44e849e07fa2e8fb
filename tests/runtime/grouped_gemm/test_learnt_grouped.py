"""What was learnt of scaled products on cold code, and what the trees are asked about."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import learnt_features
import pytest

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm import learnt
from tilewright.families.grouped_gemm.cost import Kernel
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.corrections import MOST
from tilewright.selection.trees import Trees
from tilewright.selection.weighing import MOST_REFINED

FILE = Path(__file__).parents[1] / "data" / "learnt_grouped_features.json"
E4M3 = "grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_"
RECORDS = {
    record.name: record
    for record in Registry().route("grouped_gemm", H200)
    if record.config["mainloop"] == "lean"
}
TACTICS = (
    "64x48x256_overlapped@cluster=2x1,splits=2",
    "128x144x128@cluster=1x4",
    "64x16x256_swap@cluster=4x2",
    "256x128x128",
)
PROBLEMS = (
    Problem(300, 3136, 4096),
    Problem(4096, 7168, 2048, 32, grouping="row_index"),
    Problem(512, 1088, 7168, 8, grouping="rows_valid", expected_m=20),
    Problem(1088, 4480, 38912, 8, d="f32", c=True, scales="1x128", grouping="k_sizes"),
)


def asked() -> dict[str, list[float]]:
    """The features of every tactic on every problem."""
    rows = {}
    for problem in PROBLEMS:
        for text in TACTICS:
            tactic = Tactic.parse(E4M3 + text)
            kernel = Kernel(RECORDS[tactic.kernel], problem, H200)
            values = learnt.features(kernel, kernel.terms(tactic)).values()
            rows[f"{text} {problem}"] = [float(value) for value in values]
    return rows


@pytest.mark.parametrize("name", asked())
def test_features_are_those_that_were_written_down(name: str) -> None:
    """After a change that is meant, teach the trees anew, and write the features with
    `PYTHONPATH=tests/common python tests/runtime/grouped_gemm/test_learnt_grouped.py`."""
    assert not learnt_features.differing(FILE, asked(), name)


def test_every_feature_varies() -> None:
    assert learnt_features.all_differ(asked())


def test_trees_ask_about_these_features_alone() -> None:
    kernel = Kernel(RECORDS[E4M3 + "128x144x128"], PROBLEMS[0], H200)
    names = tuple(learnt.features(kernel, kernel.terms(Tactic(E4M3 + "128x144x128"))))
    learnt_features.check_names(learnt.CORRECTIONS, names)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_first_are_ordered_by_what_was_learnt(problem: Problem) -> None:
    ranked = FAMILY.rank(list(RECORDS.values()), problem, H200)[:MOST_REFINED]
    estimates = learnt.refine([(each.record, each.tactic) for each in ranked], problem, H200)
    seconds = [round(estimate.seconds, 9) for estimate in estimates if estimate]  # as `rank` compares them
    assert len(seconds) == len(ranked)
    assert seconds == sorted(seconds)
    assert [each.estimate for each in ranked] == list(estimates)


def test_what_is_learnt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    record, problem = RECORDS[E4M3 + "64x128x128_overlapped"], PROBLEMS[0]
    kernel = Kernel(record, problem, H200)
    plain = kernel.estimate(kernel.terms(Tactic(record.name)))
    for sign in (-1, 1):
        text = f"0<9999 {sign * 30000} 0"
        monkeypatch.setattr(learnt.CORRECTIONS, "trees", lambda _, text=text: Trees(text))
        (bounded,) = learnt.refine([(record, Tactic(record.name))], problem, H200)
        assert bounded
        assert bounded.seconds == pytest.approx(plain.seconds * math.exp(sign * MOST))


def test_where_anything_is_learnt() -> None:
    """Not of BF16, of which no launch was timed on cold code, nor for GPUs of another size."""
    fp8 = PROBLEMS[0]
    assert learnt.is_learnt(fp8, H200)
    assert not learnt.is_learnt(replace(fp8, a="bf16", b="bf16", scales="none"), H200)
    small = H200._replace(sm_count=78)
    assert not learnt.is_learnt(fp8, small)
    record = RECORDS[E4M3 + "128x144x128"]
    assert learnt.refine([(record, Tactic(record.name))], fp8, small) == [None]


if __name__ == "__main__":
    learnt_features.write(FILE, asked())
