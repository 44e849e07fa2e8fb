"""What two pull requests of FlashInfer did by hand, as edits of a spec.

2460 added two tiles and stream-K for SM120 (221 lines in 4 files), 2303 the K 768 tiles of SM103 (1,013 lines
in 9 files). `docs/specs.md` has the count.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Command

SPECS = {
    # spec: what it is without the pull request (text to put in the place of text)
    "sm120_nvfp4_gemm": {
        "tile: [128x128x128, 128x128x256, 256x128x128]": "tile: 128x128x128",
        "scheduler: [data_parallel, stream_k]": "scheduler: data_parallel",
    },
    "sm103_nvfp4_gemm": {
        "tile: [128x128x768, 128x192x768, 128x256x768]": "tile: 128x128x768",
        "schedule: [1sm, 2sm]": "schedule: 1sm",
    },
}
ADDED = {
    "sm120_nvfp4_gemm": {
        f"blockscaled_gemm_sm120f_nvfp4_nvfp4_{d}_{tile}_1x1_coop{streamk}{swap}"
        for d in ("bf16", "f16")
        for tile in ("128x128x128", "128x128x256", "256x128x128")
        for streamk in ("", "_streamk")
        for swap in ("", "_swap")
        if (tile, streamk) != ("128x128x128", "")
    },
    "sm103_nvfp4_gemm": {
        f"blockscaled_gemm_sm103_nvfp4_nvfp4_{d}_{tile}_dyn_{schedule}_direct256_nopdl"
        for d in ("bf16", "f16")
        for tile in ("128x128x768", "128x192x768", "128x256x768")
        for schedule in ("1sm", "2sm")
        if (tile, schedule) != ("128x128x768", "1sm")
    },
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with these specs as they would be without the pull requests, generated."""
    (tmp_path / "specs").mkdir()
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    for name, edits in SPECS.items():
        text = (ROOT / "specs" / f"{name}.yaml").read_text()
        for now, before in edits.items():
            assert text.count(now) == 1, f"{name} says {now!r} no more"
            text = text.replace(now, before)
        (tmp_path / "specs" / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", SPECS)
def test_a_pull_request_is_an_edit_of_a_line_or_two(project: Path, tilewright: Command, name: str) -> None:
    spec, folder = project / "specs" / f"{name}.yaml", project / "generated" / name
    assert tilewright("generate", "--root", project).code == 0
    before = _rows(folder)
    sources = {path: path.read_bytes() for path in folder.glob("*.cu")}
    assert not ADDED[name] & set(before)

    now = (ROOT / "specs" / f"{name}.yaml").read_text()
    changed = [line for line in now.splitlines() if line not in spec.read_text().splitlines()]
    assert len(changed) <= 2
    spec.write_text(now)

    plan = tilewright("generate", "--root", project, "--dry-run")
    assert plan.code == 0
    lines = [line.strip() for line in plan.out.splitlines()]
    assert {line for line in lines if line.startswith("+")} == {
        f"+ {name}/{kernel}.cu" for kernel in ADDED[name]
    }
    assert {line for line in lines if line.startswith("~")} == {
        f"~ {name}/{file}" for file in ("table.json", "table.cc", "manifest.txt")
    }
    assert not [line for line in lines if line.startswith("- ")]
    assert f"{len(ADDED[name])} units to compile" in plan.out

    assert tilewright("generate", "--root", project).code == 0
    after = _rows(folder)
    assert set(after) - set(before) == ADDED[name]
    assert {row: after[row] for row in before} == before  # the rows that stood, stand
    assert all(path.read_bytes() == text for path, text in sources.items())
    table = (folder / "table.cc").read_text()
    assert all(f"X({kernel})" in table for kernel in ADDED[name])
    assert set(after) == set(_rows(ROOT / "generated" / name))


def _rows(folder: Path) -> dict[str, object]:
    return {row["name"]: row for row in json.loads((folder / "table.json").read_text())["kernels"]}


def _committed() -> list[Any]:
    """The rows of all `blockscaled_gemm` kernels."""
    tables = [json.loads(path.read_text()) for path in (ROOT / "generated").glob("*/table.json")]
    return [row for table in tables if table["family"] == "blockscaled_gemm" for row in table["kernels"]]


# For these no kernel of F16 has been compiled. MXFP4 with F16 runs sm_100f's kernels on a B300, and Thor's
# kernels of F16 with a bias compute what those without one would.
BF16_ALONE = {
    "blockscaled_gemm_sm103_mxfp4_mxfp4_D_128x256x768_dyn_2sm_direct256_nopdl",
    "blockscaled_gemm_sm103_nvfp4_nvfp4_D_128x128x768_dyn_2sm_nopdl",
    "blockscaled_gemm_sm103_nvfp4_nvfp4_D_128x256x768_dyn_2sm_nopdl",
    "blockscaled_gemm_sm110_mxfp4_mxfp4_D_128x128x256_dyn_1sm_c",
    "blockscaled_gemm_sm110_mxfp4_mxfp4_D_128x64x256_dyn_1sm_swap",
    "blockscaled_gemm_sm110_mxfp8_mxfp8_D_128x64x128_dyn_1sm_swap",
    "blockscaled_gemm_sm110_nvfp4_nvfp4_D_128x64x128_dyn_1sm_swap",
}


@pytest.mark.parametrize("arch", ["sm_120f", "sm_103a", "sm_110a"])
def test_f16_has_every_kernel_that_bf16_has(arch: str) -> None:
    """What is BF16 in one model is FP16 in the next: neither may get the poorer choice. Of the kernels that
    selection chooses among, which are those in CuTe-DSL if they swap operands."""
    names: dict[str, set[str]] = {"bf16": set(), "f16": set()}
    for row in _committed():
        chosen = row["config"].get("mainloop") != "tcgen05" or row["config"]["swap_ab"]
        if row["config"]["d"] in names and row["arch"] == arch and chosen:
            names[row["config"]["d"]].add(row["name"].replace(f"_{row['config']['d']}_", "_D_", 1))
    assert names["bf16"]
    assert names["f16"] == names["bf16"] - BF16_ALONE


def test_f16_on_sm_100_has_the_tiles_and_schedules_of_bf16() -> None:
    """CUTLASS's NVFP4 kernels. BF16 alone has stream-K; with exchanged operands F16 has one tile."""
    tiles: dict[str, set[tuple[object, ...]]] = {"bf16": set(), "f16": set()}
    for row in _committed():
        config = row["config"]
        cutlass = config.get("mainloop", "default") == "default" and row["arch"] == "sm_100f"
        plain = not config["swap_ab"] and config["store"] == "tma" and config["cluster"] == "dynamic"
        if cutlass and plain and config["a"] == config["b"] == "nvfp4" and config["d"] in tiles:
            tiles[config["d"]].add((*config["tile"], config["schedule"], config["c"]))
    assert len(tiles["bf16"]) == 10
    assert tiles["bf16"] <= tiles["f16"]


def test_f16_has_the_kernels_in_cute_dsl_for_few_rows_that_bf16_has() -> None:
    names: dict[str, set[str]] = {"bf16": set(), "f16": set()}
    for row in _committed():
        config = row["config"]
        if config.get("mainloop") == "tcgen05" and config["swap_ab"] and config["d"] in names:
            names[config["d"]].add(row["name"].replace(f"_{config['d']}_", "_D_", 1))
    assert len(names["bf16"]) > 5
    assert names["f16"] == names["bf16"]


# A D of FP8 without scale factors: the kernels for sm_90a store 16 and 32 bits, and for Thor none is
# compiled.
PLAIN_FP8 = {
    ("nvfp4", "nvfp4", "e4m3"), ("nvfp4", "nvfp4", "e5m2"), ("mxfp4", "mxfp4", "e4m3"),
    ("mxfp8", "mxfp8", "e4m3"), ("mxfp8", "mxfp4", "e4m3"),
}  # fmt: skip
# Types (A, B and D) that kernels of another architecture compute. A B300 runs sm_100f's kernels, too.
LACKING = {
    "sm_90a": {
        *PLAIN_FP8, ("nvfp4", "nvfp4", "nvfp4"), ("mxfp8", "mxfp8", "mxfp8"), ("mxfp8", "mxfp4", "f16"),
        ("mxfp8", "mxfp4", "f32"), ("mxfp4", "mxfp8", "f16"), ("mxfp4", "mxfp8", "f32"),
    },
    "sm_100f": set(),
    "sm_110a": {*PLAIN_FP8, ("nvfp4", "nvfp4", "nvfp4"), ("mxfp8", "mxfp8", "mxfp8")},
    "sm_120f": {("mxfp4", "mxfp8", "f32")},
}  # fmt: skip


def test_an_architecture_has_the_types_of_the_others() -> None:
    """A type that one architecture gains, the others gain as well, or the list above says they lack it."""
    types: dict[str, set[tuple[str, str, str]]] = {arch: set() for arch in LACKING}
    for row in _committed():
        config = row["config"]
        if config["arch"] in types:
            types[config["arch"]].add((config["a"], config["b"], config["d"]))
    everything = set().union(*types.values())
    assert {arch: everything - own for arch, own in types.items()} == LACKING
