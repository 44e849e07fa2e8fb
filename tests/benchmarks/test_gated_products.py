"""Products with silu(gate) * up: which problems are timed, and what a record says of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.compare import gated_products as benchmark

HEAD = {"command": "python -m benchmarks.compare.gated_products", "gpu": "H200", "driver": "1", "torch": "2"}


def test_problems_are_legal_and_the_same_for_a_seed() -> None:
    drawn = list(benchmark.problems(50, seed=3))
    assert drawn == list(benchmark.problems(50, seed=3)) != list(benchmark.problems(50, seed=4))
    assert all(n % 16 == 0 and k % 8 == 0 and m > 0 for m, n, k in drawn)
    assert all(m & (m - 1) or m < 3 for m, _, _ in drawn[-50:])
    assert (48, 28672, 4096) in drawn


def test_a_record_has_ratios_of_both_ways_to_activate() -> None:
    times = {"peer": 12.0, "unfused": 11.0, "fused": 10.0, "product": 9.5}
    row = benchmark.row_of(48, 28672, 4096, times)
    assert (row["ratio"], row["unfused_ratio"], row["product_ratio"]) == (1.2, 1.0909, 0.95)
    text = benchmark.page(HEAD, [row], ["1x2x3: not built"])
    assert "| peer over fused | 1 | 1.200 | 1.200 | 1.000 | 1.000 |" in text
    assert "| product over fused | 1 | 0.950 | 0.950 | 1.000 | 0.000 |" in text
    assert "| 48 | 28672 | 4096 | 12.000 | 11.000 | 10.000 | 9.500 | 1.200 | 1.091 | 0.950 |" in text
    assert "- 1x2x3: not built" in text


def test_arguments() -> None:
    assert benchmark.parsed(["--random", "3", "--seconds", "5"]).random == 3
