"""Kernels in CuTe-DSL beside others: the problems that are drawn, and what the record compares."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.compare import cute_dsl as benchmark  # noqa: E402

from tilewright.scale_factors import LAYOUTS  # noqa: E402

HEAD = dict.fromkeys(("command", "date", "gpu", "driver", "torch", "clocks"), "?")
GEMM_ROWS: list[dict[str, Any]] = [
    {
        **{"m": 100, "n": 64, "k": 32, "layout": "tn", "work": 2e6, "other bits": []},
        "us": {
            "cublas": 10.0,
            "cute_dsl 128x256x64": 8.0,
            "cute_dsl 128x128x64": 20.0,
            "lean 128x128x64": 5.0,
        },
        "tactics": {"cute_dsl 128x256x64": "x", "lean 128x128x64": "y"},
    },
    {
        **{"m": 300, "n": 64, "k": 32, "layout": "tn", "work": 2e6, "other bits": ["choice"]},
        "us": {"cublas": 10.0, "cute_dsl 128x256x64": 20.0, "choice": 4.0},
        "tactics": {"cute_dsl 128x256x64": "x", "choice": "y"},
    },
]


def test_products_have_rows_for_these_tiles_and_end_soon() -> None:
    drawn = list(itertools.islice(benchmark.gemm_problem_draws(3, 65), 100))
    assert all(p.m >= 65 and p.m & (p.m - 1) and 2 * p.m * p.n * p.k <= benchmark.MOST_FLOP for p in drawn)
    assert drawn == list(itertools.islice(benchmark.gemm_problem_draws(3, 65), 100))
    assert drawn != list(itertools.islice(benchmark.gemm_problem_draws(4, 65), 100))


def test_matrices_of_each_type_and_layout_are_drawn() -> None:
    drawn = list(itertools.islice(benchmark.quantize_problem_draws(3), 90))
    kinds = {(p.x, p.layout) for p in drawn[:9]}
    assert kinds == set(itertools.product(benchmark.QUANTIZED, LAYOUTS))
    assert all(p.m & (p.m - 1) and p.m * p.k <= benchmark.MOST_ELEMENTS for p in drawn)


def test_the_best_in_cute_dsl_and_each_tile_are_compared() -> None:
    lines = {(line[0], line[1]): line[2:] for line in benchmark.compared(GEMM_ROWS)}
    assert set(lines) == {
        ("`cute_dsl`", "`cublas`"),
        ("`cute_dsl`", "`lean`"),
        ("`cute_dsl`", "`choice`"),
        ("`cute_dsl 128x128x64`", "`lean 128x128x64`"),
    }
    # The geometric mean of 10/8 and 10/20.
    assert lines["`cute_dsl`", "`cublas`"] == [2, pytest.approx(0.7906, abs=1e-4), 0.5, 1.25]
    assert lines["`cute_dsl`", "`choice`"] == [1, 0.2, 0.2, 0.2]
    assert lines["`cute_dsl 128x128x64`", "`lean 128x128x64`"] == [1, 0.25, 0.25, 0.25]


def test_the_page_counts_unequal_bits_and_has_the_rates() -> None:
    page = benchmark.page("gemm", HEAD, GEMM_ROWS)
    assert "Bits: 3 results are equal to the first side's of their problem; 1 are not (`choice`)." in page
    # 2e6 operations in 8 us, and in 10 us.
    assert "| 100 | 64 | 32 | 10.000 | 8.000 | 20.000 | 5.000 |  | 0.250 | 0.200 |" in page
    equal = benchmark.page("gemm", HEAD, GEMM_ROWS[:1])
    assert "Bits: 2 results are equal to the first side's of their problem, which is all." in equal
