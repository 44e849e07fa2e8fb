"""What the trees of `grouped_gemm` learn from a row of times, cold and warm."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("numpy")

from benchmarks.fit import learn_grouped_model

from tilewright.declarations.table import KernelRecord
from tilewright.libraries.registry import Registry

NAME = "grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_"
FIRST, SECOND, THIRD = (
    f"{NAME}{tile}" for tile in ("128x128x128_overlapped", "64x64x256_overlapped", "192x128x128")
)
COLD: dict[str, Any] = {
    **{"kind": "scaled", "problem": {"m": 500, "n": 4096, "k": 4096}, "first": FIRST},
    **{"us": {FIRST: 19.0, SECOND: 25.0, THIRD: 90.0}, "turns": {FIRST: 20.0}},
}
WARM: dict[str, Any] = {
    **COLD,
    "warm_us": {FIRST: 18.0, SECOND: 16.0},
    "warm_turns": {FIRST: 18.0, SECOND: 16.0},
}


@pytest.fixture(scope="module")
def records() -> dict[str, KernelRecord]:
    return {record.name: record for record in Registry().kernels("grouped_gemm")}


def test_no_time_is_faster_than_the_fastest_in_turn() -> None:
    times = learn_grouped_model.counted({"a": 9.0, "b": 15.0, "c": 0.4}, {"d": 10.0})
    assert times == {"a": 10.0, "b": 15.0, "d": 10.0}


@pytest.mark.parametrize("row", [COLD, WARM], ids=["cold", "cold and warm"])
def test_cold_times_teach(row: dict[str, Any], records: dict[str, KernelRecord]) -> None:
    lesson = learn_grouped_model.lesson(row, records)
    forms = [19.2, 24.2, 89.2]  # 0.8 sooner than in the row
    assert [round(math.exp(time) * 1e6, 3) for time in lesson.times] == forms
    assert math.exp(lesson.fastest) * 1e6 == pytest.approx(19.2)


def test_times_of_forms_teach_as_they_are(records: dict[str, KernelRecord]) -> None:
    lesson = learn_grouped_model.lesson(COLD | {"forms": True}, records)
    assert [round(math.exp(time) * 1e6, 3) for time in lesson.times] == [20.0, 25.0, 90.0]


def test_far_tactics_and_those_in_turn_are_not_kept_twice() -> None:
    assert learn_grouped_model.teaching({"a": 10.0, "b": 19.0, "c": 21.0}, {"a": 10.0}) == {"b": 19.0}
