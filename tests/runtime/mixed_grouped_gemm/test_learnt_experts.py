"""What was learnt of experts with packed weights, and what the trees are asked about."""

from __future__ import annotations

import math
from pathlib import Path

import learnt_features
import pytest

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm import terms
from tilewright.families.mixed_grouped_gemm import cost, cost_stream, learnt
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.corrections import MOST
from tilewright.selection.trees import Trees
from tilewright.selection.weighing import MOST_REFINED

FILE = Path(__file__).parents[1] / "data" / "learnt_experts_features.json"
RECORDS = {record.name: record for record in Registry().route("mixed_grouped_gemm", H200)}
TACTICS = (
    "64x8x128_stream_4warps_2stages",
    "128x16x128_stream_4warps_2stages",
    "256x32x128@cluster=2x1",
    "128x64x128",
    "128x256x64@cluster=4x1",
)
PROBLEMS = (
    Problem(8, 3136, 4096, 128),
    Problem(300, 1536, 2048, 32, weight_format="mxfp4", activation="silu_mul"),
    Problem(2049, 28672, 4064, 8),
    Problem(9000, 4480, 5120, 60, weight_format="nvfp4"),
)


def tactic_of(text: str, problem: Problem) -> Tactic:
    """The tactic of a tile, whose schedule may differ between formats and activations."""
    tile, at, arguments = text.partition("@")
    gated = "_silu_mul" if problem.gated else ""
    name = f"mixed_grouped_gemm_sm90_bf16_{problem.weight_format}_{tile}"
    kernel = next(name + end + gated for end in ("", "_early") if name + end + gated in RECORDS)
    return Tactic.parse(kernel + at + arguments)


def asked() -> dict[str, list[float]]:
    """The features of every tactic on every problem."""
    rows = {}
    for problem in PROBLEMS:
        for text in TACTICS:
            tactic = tactic_of(text, problem)
            kernel = learnt.kernel_of(RECORDS[tactic.kernel], problem, H200)
            values = learnt.features(kernel, kernel.terms(tactic)).values()
            rows[f"{text} {problem}"] = [float(value) for value in values]
    return rows


@pytest.mark.parametrize("name", asked())
def test_features_are_those_that_were_written_down(name: str) -> None:
    """After a change that is meant, teach the trees anew, and write the features with
    `PYTHONPATH=tests/common python tests/runtime/mixed_grouped_gemm/test_learnt_experts.py`."""
    assert not learnt_features.differing(FILE, asked(), name)


def test_every_feature_varies() -> None:
    assert learnt_features.all_differ(asked())


def test_trees_ask_about_these_features_alone() -> None:
    tactic = tactic_of(TACTICS[0], PROBLEMS[0])
    kernel = learnt.kernel_of(RECORDS[tactic.kernel], PROBLEMS[0], H200)
    learnt_features.check_names(learnt.CORRECTIONS, tuple(learnt.features(kernel, kernel.terms(tactic))))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_first_are_ordered_by_what_was_learnt(problem: Problem) -> None:
    fitting = [record for record in RECORDS.values() if FAMILY.misfit(record, problem) is None]
    ranked = FAMILY.rank(fitting, problem, H200)[:MOST_REFINED]
    estimates = learnt.refine([(each.record, each.tactic) for each in ranked], problem, H200)
    seconds = [round(estimate.seconds * 1e9) for estimate in estimates if estimate]
    assert len(seconds) == len(ranked) > 8
    assert seconds == sorted(seconds)
    assert [each.estimate for each in ranked] == list(estimates)


@pytest.mark.parametrize(("text", "model"), [(TACTICS[4], cost.Wgmma), (TACTICS[0], cost_stream.Stream)])
def test_what_is_learnt_is_bounded(
    text: str, model: type[terms.Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = PROBLEMS[0]
    tactic = tactic_of(text, problem)
    record = RECORDS[tactic.kernel]
    plain = model.estimator(record, problem, H200)(tactic)
    for sign in (-1, 1):
        trees = Trees(f"0<9999 {sign * 30000} 0")
        monkeypatch.setattr(learnt.CORRECTIONS, "trees", lambda _, trees=trees: trees)
        (bounded,) = learnt.refine([(record, tactic)], problem, H200)
        assert bounded
        assert bounded.seconds == pytest.approx(plain.seconds * math.exp(sign * MOST))


def test_nothing_is_learnt_of_smaller_gpus() -> None:
    tactic, small = tactic_of(TACTICS[4], PROBLEMS[0]), H200._replace(sm_count=78)
    assert learnt.refine([(RECORDS[tactic.kernel], tactic)], PROBLEMS[0], small) == [None]


if __name__ == "__main__":
    learnt_features.write(FILE, asked())
