"""docs/lean_kernels.md: its kernel compiles as it stands, and what the page names is there."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
from lean_kernels_page import FILES, NAME, PAGE, compiled, launching

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The library, and what ptxas said."""
    try:
        return compiled(tmp_path_factory.mktemp("page"))
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")


def test_the_kernel_compiles_without_spills_and_multiplies_by_wgmma(built: tuple[Path, str]) -> None:
    library, log = built
    assert "0 bytes spill stores" in log
    assert "C75" not in log, "wgmma is serialised"
    cuobjdump = find_toolchain().cuobjdump
    sass = subprocess.run([cuobjdump, "-sass", library], capture_output=True, text=True, check=True).stdout
    assert "HGMMA.64x128x16.F32.BF16" in sass
    # The loading warp's copies are no loops over threads (what has to hold, 6).
    assert "UTMALDG" in sass
    assert "BRA.U.ANY" not in sass


def test_its_host_side_answers_without_a_gpu(built: tuple[Path, str]) -> None:
    """By the structs of the page's launch.py."""
    pytest.importorskip("torch", reason="torch is not installed")
    launch = launching()
    kernel = launch.load(str(built[0]))
    assert kernel.name.decode() == NAME
    assert kernel.args_bytes == ctypes.sizeof(launch.Args)

    def answer(n: int, ld_a: int, **tactic: int) -> int:
        usual = {"swizzle": 1, "splits": 1, "cluster_m": 1, "cluster_n": 1, "sm_count": 1}
        args = launch.Args(8, n, 8, None, None, None, ld_a, 8, n, launch.Tactic(**usual | tactic))
        return int(kernel.can_implement(ctypes.addressof(args)))

    assert answer(8, 8) == 0
    assert answer(12, 8) == -1, "TMA stores whole 16 bytes"
    assert answer(8, 9) == -1, "rows that TMA cannot read"
    assert answer(8, 8, splits=2) == -1
    assert answer(8, 8, cluster_m=3, cluster_n=7) == -1


def test_rungs_of_the_ladder_are_the_record_s() -> None:
    record = (PAGE.parents[1] / "benchmarks/results/lean_start.md").read_text(encoding="utf-8")
    lines = record.splitlines()
    (head,) = (line for line in lines if line.startswith("| operands |"))
    (means,) = (line for line in lines if line.startswith("| *cuBLAS over ours, geomean* |"))
    by_column = dict(zip(cells(head), cells(means), strict=True))
    rungs = re.findall(r"^\| (\d) \|.*\| speed ([\d.]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    columns = ("before", "barriers", "parameters", "waits", "now")
    assert rungs == [(str(rung), by_column[column]) for rung, column in enumerate(columns)]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_rungs_that_are_not_of_that_record_are_other_pages() -> None:
    hopper, tiles, selection, text = (
        " ".join((PAGE.parent / f"{name}.md").read_text(encoding="utf-8").split())
        for name in ("hopper", "hopper_tiles", "selection", PAGE.stem)
    )
    assert "684x512x5248: 19.7 to 12.6 us" in text
    assert "684x512x5248 took 19.7 us, and takes 12.6 us since" in hopper
    assert "on 161 hard shapes: 0.987 to 0.998" in text
    assert "| 3 | 99 that cuBLAS has | 161 on which ours still lost | 44 |" in tiles
    assert "| 3 | 0.987 | 0.998 |" in tiles
    assert "time over the fastest tactic's: 1.045 to 1.011" in text
    assert "| mechanisms alone | 1.045 |" in selection
    assert "| mechanisms and trees | 1.011 |" in selection


def test_headers_and_names_of_the_page_are_there() -> None:
    parts = PAGE.with_name("lean_parts.md").read_text(encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8") + parts
    table = parts.partition("## The parts")[2].partition("## By mma.sync")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    for row in rows:
        _, headers, gives, _, _ = row.split("|")
        code = "".join(
            (paths.include_dir() / "tilewright/sm90" / header).read_text(encoding="utf-8")
            for header in re.findall(r"`([\w.]+\.hpp)`", headers)
        )
        for name in re.findall(r"`(\w+)", gives):
            assert re.search(rf"\b{name}\b", code), f"{name} of {headers}"
    for family, header in re.findall(r"`(gemm|grouped_gemm|reduced_gemm)/(\w+\.hpp)`", text):
        assert (paths.include_dir() / "tilewright" / family / header).is_file()


def test_the_page_has_all_files() -> None:
    assert set(FILES) == {
        "tilewright/plain_product/args.h",
        "tilewright/plain_product/kernel.hpp",
        "plain_product_128x128.cu",
    }
