"""What the learnt trees are asked about, written down for tactics of all kinds: each feature by its place."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from host_modules import make_lean_row

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.cost_lean import Kernel
from tilewright.families.gemm.learnt import features
from tilewright.families.gemm.problem import Problem

FILE = Path(__file__).parents[1] / "data" / "learnt_features.json"
KERNELS: dict[str, dict[str, Any]] = {
    "plain": {"tile": [128, 256, 64]},
    "swapped": {"tile": [64, 48, 128], "swap_ab": True},
    "pingpong": {"tile": [192, 96, 64], "splits": False},
    "fp8": {"a": "e4m3", "b": "e4m3", "tile": [128, 192, 128]},
    "boxed": {"layout": "nn", "tile": [64, 96, 64]},
}
TACTICS = {
    "plain": ("plain@cluster=2x1", "plain@cluster=1x4,splits=2", "plain"),
    "swapped": ("swapped@cluster=4x2", "swapped@splits=3", "swapped@cluster=1x2"),
    "pingpong": ("pingpong@cluster=2x3", "pingpong@cluster=3x1"),
    "fp8": ("fp8@cluster=2x1",),
    "boxed": ("boxed@cluster=1x4",),
}
PROBLEMS = (
    Problem(1000, 3100, 4096),
    Problem(48, 7168, 2112, 3),
    Problem(8192, 520, 1536),
    Problem(808, 2056, 1184),
)


def asked() -> dict[str, list[float]]:
    """The features of every tactic on every problem."""
    actual = {}
    for name, fields in KERNELS.items():
        record = KernelRecord.parse(make_lean_row(name, **fields))
        kind = {field: record.config[field] for field in ("a", "b", "layout")}
        for problem in (replace(problem, **kind) for problem in PROBLEMS):
            kernel = Kernel(record, problem, H200)
            for tactic in TACTICS[name]:
                terms = kernel.terms(Tactic.parse(tactic))
                actual[f"{tactic} {problem}"] = [
                    float(feature) for feature in features(kernel, terms).values()
                ]
    return actual


@pytest.mark.parametrize("name", asked())
def test_features_are_those_that_were_written_down(name: str) -> None:
    """After a change that is meant, teach the trees anew, and write the features with
    `python tests/runtime/gemm/test_learnt_features.py`."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    assert known.keys() == asked().keys()
    now, before = asked()[name], known[name]
    assert len(now) == len(before) == 58
    differ = [
        place
        for place, pair in enumerate(zip(now, before, strict=True))
        if not isclose(*pair, rel_tol=1e-9, abs_tol=1e-12)
    ]
    assert not differ, f"features at {differ} differ"


def test_every_feature_varies() -> None:
    """Else exchanging two of them would not show."""
    columns = list(zip(*asked().values(), strict=True))
    assert len(set(columns)) == len(columns), "two features are always equal"


if __name__ == "__main__":
    FILE.write_text(json.dumps(asked(), indent=1) + "\n", encoding="utf-8")
