"""`tilewright list`: kernels of specs, with their fields."""

from __future__ import annotations

import json
from pathlib import Path

import tiny_family
from command_line import Command
from small_spec import FAST, SPEC


def test_list(project: Path, tilewright: Command) -> None:
    assert tilewright("list", "--device", "H200").out.splitlines() == [
        "small: 4 kernels",
        "  ----- tiny_bf16_128x128x64_1x1",
        "  ----- tiny_bf16_128x128x64_1x1_fast",
        "  ----- tiny_bf16_64x64x64_1x1",
        "  ----- tiny_bf16_64x64x64_1x1_fast",
        "b built here, t tuned for NVIDIA H200, c compiled, r run on a GPU, h hammered",
        "there (~ as another source, ! failed, - no)",
        "beside them: the set shipped (tilewright list --set shipped)",
    ]
    result = tilewright("list", "--long", "--filter", "*64x64x64*fast", "--device", "h200")
    _, about, kernel, head, name, row, *_, legend, _ = result.out.splitlines()
    assert about == "  Kernels for tests"
    assert legend == "tuned for NVIDIA H200; compiled, run, hammered: by the committed records"
    assert [kernel, *head.split()] == ["  kernel", "built", "tuned", "compiled", "run", "hammered"]
    assert [name, *row.split(maxsplit=5)] == [
        f"  {FAST}",
        "no",
        "0",
        "never",
        "never",
        "never",
        "tiny bf16 | 64x64x64",
    ]
    (row,) = json.loads(tilewright("list", "--json", "--filter", "*64x64x64*fast").out)
    assert row["name"] == FAST
    assert row["config"]["tile"] == [64, 64, 64]
    assert row["position"] == "specs/small.yaml:6:5"
    none = tilewright("list", "--filter", "none", "--filter", "fast=*")
    assert (none.code, none.err) == (2, "Error: no kernel meets --filter none --filter fast=*\n")


def test_list_takes_modules_and_paths(project: Path, tilewright: Command) -> None:
    text = tiny_family.SPEC.replace("bf16", "f16").replace("family: tiny", "family: tiny  # the least")
    (project / "specs/other.yaml").write_text(text)
    assert tilewright("list", "small", "other").out.count("4 kernels") == 2
    assert tilewright("list", "other").out == tilewright("list", "specs/other.yaml").out
    assert tilewright("list", "other").out.startswith("other: 4 kernels\n")
    wrong = tilewright("list", "othre")
    assert (wrong.code, "no spec and no module 'othre'; did you mean 'other'?" in wrong.err) == (2, True)
    assert "the modules are: other, small" in tilewright("list", "specs/none.yaml").err
    family = tilewright("list", "tiny")
    assert (family.code, family.err) == (
        2, "Error: no spec and no module 'tiny'; tiny is a family, of other, small\n"
    )  # fmt: skip


def test_a_filter_that_matches_nothing_says_what_there_is(project: Path, tilewright: Command) -> None:
    assert tilewright("list", "--filter", "tile=1x*").err == (
        "Error: no kernel meets --filter tile=1x*; tile is one of: 128x128x64, 64x64x64\n"
    )
    assert "did you mean '*bf16_64x64*'?" in tilewright("list", "--filter", "bf16_64x64").err
    assert tilewright("list", "--filter", "compiler=nvc*").code == 0
    assert "; compiler is one of: nvcc" in tilewright("list", "--filter", "compiler=cute_dsl").err


def test_what_looks_like_a_spec_and_is_none_is_mentioned(project: Path, tilewright: Command) -> None:
    (project / "specs/mine.yml").write_text(SPEC)
    (project / "specs/deep").mkdir()
    (project / "specs/deep/more.yaml").write_text(SPEC)
    result = tilewright("list")
    assert result.code == 0
    assert result.err.splitlines() == [
        "specs/deep/more.yaml is ignored: specs are specs/*.yaml",
        "specs/mine.yml is ignored: specs are specs/*.yaml",
    ]
    assert tilewright("list", "small").err == ""
