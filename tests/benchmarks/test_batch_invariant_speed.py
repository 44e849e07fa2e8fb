"""Batch-invariant mode beside cuBLAS: which problems, and what is recorded of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.compare import batch_invariant

from tilewright.families.gemm.problem import Problem

HEAD = {"command": "python", "gpu": "NVIDIA H200", "driver": "1", "torch": "2"}
PROBLEM = Problem(7, 512, 4096)


def test_the_problems_are_all_layers_and_random_ones_in_one_order() -> None:
    drawn = batch_invariant.problems(["bf16", "fp8"], 20, seed=3)
    assert drawn == batch_invariant.problems(["bf16", "fp8"], 20, seed=3)
    kinds = [(dtype, kind) for dtype, kind, _ in drawn]
    assert kinds.count(("bf16", "random")) == kinds.count(("fp8", "random")) == 20
    assert kinds.count(("bf16", "layers")) > 100
    assert {kind for _, kind in kinds[:40]} == {"layers", "random"}


def test_a_row_compares_the_modes_choice_with_both() -> None:
    row = batch_invariant.row_of("bf16", "random", PROBLEM, ["whole", "split"], (20.0, 18.0, 10.0))
    assert (row["ratio"], row["share"], row["free"]) == (0.9, 0.5, "split")
    row = batch_invariant.row_of("bf16", "random", PROBLEM, ["whole", "whole"], (20.0, 18.0))
    assert (row["share"], row["free"], row["free_us"]) == (1.0, "the same", 20.0)


def test_the_page_says_what_the_mode_costs() -> None:
    rows = [
        batch_invariant.row_of("bf16", "random", PROBLEM, ["whole", "split"], (20.0, 18.0, 10.0)),
        batch_invariant.row_of("bf16", "random", PROBLEM, ["whole", "whole"], (10.0, 12.0)),
    ]
    page = batch_invariant.page(HEAD, rows)
    assert "| bf16 | random | 2 | 1.039 | 0.900 | 0.500 | 0.500 | 0.707 | 0.500 | 1 |" in page
