"""docs/lean_kernels.md: its kernel compiles as it stands, and what the page names is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from lean_kernels_page import FILES, PAGE, compiled

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError


def test_the_kernel_compiles_without_spills_and_multiplies_by_wgmma(tmp_path: Path) -> None:
    try:
        library, said = compiled(tmp_path)
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    assert "0 bytes spill stores" in said
    assert "C75" not in said, "wgmma is serialised"
    cuobjdump = find_toolchain().cuobjdump
    sass = subprocess.run([cuobjdump, "-sass", library], capture_output=True, text=True, check=True).stdout
    assert "HGMMA.64x128x16.F32.BF16" in sass
    # The loading warp's copies are no loops over threads (what has to hold, 6).
    assert "UTMALDG" in sass
    assert "BRA.U.ANY" not in sass


def test_headers_and_names_of_the_page_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("## The parts")[2].partition("## A whole kernel")[0]
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
