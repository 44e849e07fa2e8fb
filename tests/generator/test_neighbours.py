"""The legal values that a message about a rejected configuration names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Command

from tilewright.configurations.shapes import Tile
from tilewright.families.gemm.config import GemmConfig
from tilewright_generator import families, limits, neighbours
from tilewright_generator.neighbours import Neighbour, Search, changed, suggestion
from tilewright_generator.rules import verdicts

GEMM = families.get("gemm")
LEAN: GemmConfig = GEMM.config(
    **GEMM.defaults({}), arch="sm_90a", a="bf16", b="bf16", d="bf16", tile=Tile(128, 128, 64)
)


def nearest(config: GemmConfig, only: str | None = None) -> list[str]:
    return [str(actual) for actual in Search(GEMM).nearest(config, verdicts(GEMM, config), only)]


def test_of_a_tile_that_is_too_large_the_nearest_is_first() -> None:
    assert nearest(replace(LEAN, tile=Tile(256, 256, 64))) == ["tile=256x176x64", "tile=128x256x64"]


def test_words_of_other_fields_may_be_legal_too() -> None:
    config = replace(LEAN, tile=Tile(128, 192, 64), schedule="pingpong")
    assert nearest(config) == ["tile=128x176x64", "tile=64x192x64", "schedule=cooperative"]
    assert nearest(config, "schedule") == ["schedule=cooperative"]


def test_two_extents_change_where_neither_alone_is_enough() -> None:
    assert nearest(replace(LEAN, tile=Tile(100, 129, 64)))[:1] == ["tile=128x128x64"]


def test_another_mainloop_brings_its_defaults() -> None:
    config = replace(LEAN, a="tf32", b="tf32", d="f32", tile=Tile(128, 128, 32))
    assert nearest(config) == ["mainloop=cutlass"]
    legal = changed(GEMM, config, "mainloop", "cutlass")
    assert (legal.cluster, legal.bias) == ((1, 1), False)


def test_a_number_of_stages_goes_down_to_what_fits() -> None:
    config = replace(LEAN, tile=Tile(128, 256, 64), stages=9)
    (verdict,) = verdicts(GEMM, config)
    auto, (_, stages) = Search(GEMM).nearest(config, [verdict], "stages")
    assert auto.value == "auto"
    assert verdicts(GEMM, replace(config, stages=stages)) == []
    assert verdicts(GEMM, replace(config, stages=stages + 1))


def test_every_neighbour_is_legal() -> None:
    wrong = [
        replace(LEAN, **change)
        for change in (
            {"tile": Tile(m, n, k)}
            for m in (32, 64, 192, 320)
            for n in (4, 8, 120, 272)
            for k in (16, 64, 512)
        )
        if verdicts(GEMM, replace(LEAN, **change))
    ]
    assert len(wrong) > 30
    count = 0
    for config in wrong:
        for name, value in Search(GEMM).nearest(config, verdicts(GEMM, config)):
            count += 1
            assert verdicts(GEMM, changed(GEMM, config, name, value)) == []
    assert count > 20


def test_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def never(*_: Any, **__: Any) -> list[str]:
        nonlocal asked
        asked += 1
        return ["illegal"]

    monkeypatch.setattr(neighbours, "verdicts", never)
    config = replace(LEAN, tile=Tile(256, 256, 64))
    search = Search(GEMM)
    assert search.nearest(config, verdicts(GEMM, config), "tile") == []
    assert 1_000 < asked <= limits.MOST_NEIGHBOURS_ASKED
    for _ in range(100):
        search.nearest(config, verdicts(GEMM, config))
    assert asked == limits.MOST_NEIGHBOURS_OF_SPEC


def test_it_ends_a_message() -> None:
    assert suggestion([]) == ""
    near = [Neighbour("tile", Tile(1, 2, 3)), Neighbour("tile", Tile(1, 1, 3)), Neighbour("bias", True)]
    assert suggestion(near) == "; legal nearby: tile 1x2x3 or 1x1x3, or bias true"


def test_faults_of_a_spec_and_explain_say_it(tmp_path: Path, tilewright: Command) -> None:
    spec = tmp_path / "specs" / "x.yaml"
    spec.parent.mkdir()
    head = "family: gemm\narch: sm_90a\na: bf16\nb: bf16\nd: bf16\nconfigs:\n"
    spec.write_text(f"{head}  - tile: 256x256x64\n  - tile: [128x128x64, 100x128x64]\n")
    explicit, value, _ = tilewright("check", "--root", tmp_path).err.splitlines()
    assert explicit.endswith("; legal nearby: tile 256x176x64 or 128x256x64")
    assert value.endswith("; legal nearby: tile 128x128x64")
    terms = ("arch=sm_90a", "a=bf16", "b=bf16", "d=bf16", "tile=256x256x64")
    spec.write_text(f"{head}  - tile: 128x128x64\n")
    answer = tilewright("explain", "gemm", *terms, "--root", tmp_path)
    assert "legal nearby: tile=256x176x64, tile=128x256x64" in answer.out
    (actual,) = json.loads(tilewright("explain", "gemm", *terms, "--json", "--root", tmp_path).out)
    assert actual["legal_nearby"] == [{"tile": "256x176x64"}, {"tile": "128x256x64"}]
