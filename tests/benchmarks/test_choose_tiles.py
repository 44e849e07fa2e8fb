"""Which tiles are kept of those that were timed, and how times are read."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import pytest

from tilewright.declarations.tactics import Tactic

ROOT = Path(__file__).parents[2]
NAME = "gemm_sm90_bf16_bf16_f32_bf16_tn_{}"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    from benchmarks.fit import choose_tiles  # noqa: PLC0415

    return choose_tiles


def test_a_tile_is_kept_for_what_it_wins(benchmark: Any) -> None:
    """`never` is near the fastest everywhere and adds nothing; `specialist` is the fastest once."""
    problems = [
        *({"always": 1.0, "never": 1.001, "specialist": 1.5} for _ in range(9)),
        {"always": 1.2, "never": 1.2, "specialist": 1.0},
    ]
    assert benchmark.kept(problems) == ["always", "specialist"]
    assert benchmark.losses(problems, {"always"}) == [*[1.0] * 9, 1.2]
    assert benchmark.losses(problems[:1], {"unknown"}) == [benchmark.LACKING]


def test_a_tile_must_win_a_ten_thousandth(benchmark: Any) -> None:
    for gain, expected in ((0.002, ["always", "specialist"]), (0.0009, ["always"])):
        problems = [
            *({"always": 1.0, "specialist": 1.1} for _ in range(9)),
            {"always": 1 + gain, "specialist": 1.0},
        ]
        assert benchmark.kept(problems) == expected


def test_tiles_stand_in_the_specs_groups(benchmark: Any) -> None:
    names = [
        NAME.format(rest)
        for rest in ("128x256x64_lean_coop", "64x8x128_lean_coop_swap", "128x8x128_lean_coop_fastacc_swap",
                     "64x96x128_lean_pingpong", "128x96x64_lean_pingpong_swap", "128x64x64_lean_coop")
    ]  # fmt: skip
    assert benchmark.groups(names) == {
        "wide": ["128x64x64", "128x256x64"],
        "swapped": ["64x8x128", "128x8x128"],
        "turns": ["64x96x128"],
        "swapped_turns": ["128x96x64"],
    }


def test_a_kernel_is_as_fast_as_its_best_tactic(benchmark: Any, tmp_path: Path) -> None:
    first, second = NAME.format("128x64x64_lean_coop"), NAME.format("128x256x64_lean_coop")
    rows = [
        "dtype,layout,batch,seed,m,n,k,tactic,us,again",
        "bf16,tn,1,11,3,512,1024,peer,4.2,1",
        f",,,,,,,{first},4.5,0",
        f',,,,,,,"{first}@cluster=2x1,splits=2",4.0,1',
        f",,,,,,,{second},5.0,0",
        f",,,,,,,{NAME.format('16x8x64_stream_coop_swap')},3.0,1",  # has no tile to choose
        "bf16,tn,1,2026,3,512,1024,peer,7,1",
        f",,,,,,,{second},6.0,0",
    ]
    path = tmp_path / "times.csv.bz2"
    with bz2.open(path, "wt") as file:
        file.write("\n".join(rows))
    case, other_case = benchmark.read([path])
    assert (case.seed, case.problem.m, case.problem.a, case.peer) == (11, 3, "bf16", pytest.approx(4.2e-6))
    assert benchmark.fastest_by_kernel(case) == pytest.approx({first: 4.0e-6, second: 5.0e-6})
    assert Tactic(first, cluster="2x1", splits=2) in case.again
    assert (other_case.seed, other_case.best) == (2026, pytest.approx(6.0e-6))
