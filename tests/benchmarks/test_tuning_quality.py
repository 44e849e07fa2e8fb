"""What the benchmark of tuning makes of its times, and which problems it draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    from benchmarks.fit import tuning_quality  # noqa: PLC0415

    return tuning_quality


def test_the_draw_hangs_on_the_seed_alone(benchmark: Any) -> None:
    drawn = benchmark.drawn(20, 0)
    assert len(set(drawn)) == 20
    assert drawn == benchmark.drawn(20, 0) != benchmark.drawn(20, 1)
    assert {problem.a for problem in drawn} == {"bf16"}
    near = zip(benchmark.OFF_GRID, benchmark.GRID, strict=True)
    assert all(m < above < 2 * m and above & (above - 1) == 0 for m, above in near)


def test_the_summary(benchmark: Any) -> None:
    rows = [
        {"model_ratio": 1.0, "rank": 0, "first_ten": 1.0, "tuned_ratio": 1.0, "tuning_seconds": 0.5},
        {"model_ratio": 1.21, "rank": 10, "first_ten": 1.03, "tuned_ratio": 1.01, "tuning_seconds": 1.5},
    ]
    between = [
        {"source": "neighbour", "picked_ratio": 1.04, "model_ratio": 1.1},
        {"source": "model", "picked_ratio": 1.0, "model_ratio": 1.0},
    ]
    actual = benchmark.summary(rows, between)
    assert (actual["model_geomean"], actual["model_worst"]) == (1.1, 1.21)
    assert (actual["best_in_first_ten"], actual["best_of_first_ten_worst"]) == (1, 1.03)
    assert (actual["tuned_worst"], actual["tuning_seconds_mean"]) == (1.01, 1.0)
    assert (actual["off_grid"], actual["off_grid_by_neighbour"], actual["neighbour_geomean"]) == (2, 1, 1.04)
    assert benchmark.summary([], [])["model_geomean"] is None
