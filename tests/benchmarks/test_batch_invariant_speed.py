"""Batch-invariant mode beside cuBLAS: which problems, and what is recorded of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.compare import batch_invariant

from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.problem import Problem

HEAD = {"command": "python", "gpu": "NVIDIA H200", "driver": "1", "torch": "2"}
PROBLEM = Problem(7, 512, 4096)
MODE, FREE, WHOLE = Tactic("k", splits=2), Tactic("k", splits=7), Tactic("k")
ALL_DIFFER = batch_invariant.Tactics(MODE, FREE, WHOLE)
ALL_EQUAL = batch_invariant.Tactics(WHOLE, WHOLE, WHOLE)
TIMES = {MODE: 20.0, FREE: 10.0, WHOLE: 30.0}


def test_the_problems_are_all_layers_and_random_ones_in_one_order() -> None:
    drawn = batch_invariant.problems(["bf16", "fp8"], 20, seed=3)
    assert drawn == batch_invariant.problems(["bf16", "fp8"], 20, seed=3)
    kinds = [(dtype, kind) for dtype, kind, _ in drawn]
    assert kinds.count(("bf16", "random")) == kinds.count(("fp8", "random")) == 20
    assert kinds.count(("bf16", "layers")) > 100
    assert {kind for _, kind in kinds[:40]} == {"layers", "random"}
    alone = batch_invariant.problems(["bf16"], 20, 3, ["random"])
    assert {problem for _, _, problem in alone} < {problem for _, _, problem in drawn}
    assert [kind for _, kind, _ in alone] == ["random"] * 20


def test_a_row_compares_the_modes_choice_with_both() -> None:
    row = batch_invariant.row_of("bf16", "random", PROBLEM, ALL_DIFFER, TIMES, peer_us=18.0)
    assert (row["ratio"], row["share"], row["gain"]) == (0.9, 0.5, 1.5)
    assert (row["splits"], row["tactic"], row["free"]) == (2, "k@splits=2", "k@splits=7")
    row = batch_invariant.row_of("bf16", "random", PROBLEM, ALL_EQUAL, TIMES, peer_us=18.0)
    assert (row["share"], row["gain"], row["free"], row["free_us"]) == (1.0, 1.0, "the same", 30.0)


def test_the_page_says_what_the_mode_costs() -> None:
    rows = [
        batch_invariant.row_of("bf16", "random", PROBLEM, ALL_DIFFER, TIMES, peer_us=18.0),
        batch_invariant.row_of("bf16", "random", PROBLEM, ALL_EQUAL, TIMES, peer_us=36.0),
    ]
    page = batch_invariant.page(HEAD, rows)
    assert (
        "| bf16 | random | 2 | 1.039 | 0.900 | 0.500 | 0.500 | 0.707 | 0.500 | 1 | 1 | 1.225 | 1.000 |"
        in page
    )
