"""What the trees of `mixed_gemm` learn from a row of times, and which tactics are timed."""

from __future__ import annotations

import bz2
import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")

from benchmarks.fit import lessons
from benchmarks.fit.learn_experts_model import COURSE as EXPERTS
from benchmarks.fit.learn_mixed_model import COURSE

from tilewright.declarations.table import KernelRecord
from tilewright.libraries.registry import Registry

NAME = "mixed_gemm_sm90_bf16_int4_g128_"
FIRST, SECOND, FAR = f"{NAME}64x8x128_stream@splits=2", f"{NAME}128x16x128_early", f"{NAME}256x64x128"
ROW: dict[str, Any] = {
    "format": "int4_g128", "m": 5, "n": 4096, "k": 4096, "first": FIRST,
    "us": {FIRST: [8.0, 18.0, 7.5], SECOND: [9.0, None, 9.5], FAR: [30.0, 31.0, 40.0]},
}  # fmt: skip


@pytest.fixture(scope="module")
def records() -> dict[str, KernelRecord]:
    return {record.name: record for record in Registry().kernels("mixed_gemm")}


def test_both_measures_count_alike(records: dict[str, KernelRecord]) -> None:
    """The mean of 8 and 18 is 12; one that was not taken in the second measure counts by the first."""
    lesson = COURSE.lesson(ROW, records)
    assert lesson
    assert [round(math.exp(time) * 1e6, 3) for time in lesson.times] == [12.0, 9.0, 30.496]
    assert math.exp(lesson.fastest) * 1e6 == pytest.approx(9.0)


def test_kernels_that_are_gone_teach_nothing(records: dict[str, KernelRecord]) -> None:
    gone = {f"{NAME}8x8x8_gone": [1.0, 1.0, 1.0]}
    lesson = COURSE.lesson(ROW | {"us": ROW["us"] | gone}, records)
    assert lesson
    assert len(lesson.times) == 3
    assert COURSE.lesson(ROW | {"us": gone}, records) is None


def test_far_tactics_are_left_out_of_the_file(tmp_path: Path) -> None:
    course = COURSE._replace(data=tmp_path / "times.jsonl.bz2")
    course.thin([ROW])
    (kept,) = map(json.loads, bz2.decompress(course.data.read_bytes()).decode().splitlines())
    assert kept == {
        "format": "int4_g128", "m": 5, "n": 4096, "k": 4096,
        "us": {FIRST: [8.0, 18.0], SECOND: [9.0, None]},
    }  # fmt: skip
    assert [*lessons.read(course.data)] == [kept]


def test_experts_learn_from_one_measure() -> None:
    """The second number of their tactics is the model's."""
    records = {record.name: record for record in Registry().kernels("mixed_grouped_gemm")}
    names = [name for name in records if "_bf16_int4_g128_" in name][:2]
    row = {
        "format": "int4_g128", "tokens": 16, "chosen": 2, "experts": 8, "n": 4096, "k": 4096,
        "activation": "none", "uneven": 0.5, "us": {names[0]: [8.0, 1.0], names[1]: [17.0, 2.0]},
    }  # fmt: skip
    lesson = EXPERTS.lesson(row, records)
    assert lesson
    assert lesson.shape == (32, 4096, 4096)
    assert [round(math.exp(time) * 1e6, 3) for time in lesson.times] == [8.0, 17.0]
    assert EXPERTS.thinned(row) == {
        **{name: row[name] for name in EXPERTS.fields},
        "us": {names[0]: [8.0]},
    }
