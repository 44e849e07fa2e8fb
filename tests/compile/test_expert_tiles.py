"""Which tiles kernels of `mixed_grouped_gemm` compute for the groups that the device reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run
from test_grouped_work import STAND_INS

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program() -> Path:
    head = "#pragma once\n#include <cstdint>\nnamespace tilewright::sm90 {\n"
    return compiled(
        "expert_tiles",
        [HERE / "expert_tiles.cc"],
        ["-std=c++17", "-O2", f"-I{HERE}", f"-I{ROOT / 'runtime/include'}"],
        files={f"tilewright/sm90/{name}.hpp": f"{head}{text}}}\n" for name, text in STAND_INS.items()},
    )


@pytest.mark.parametrize("count", [1, 7, 32, 33, 70])
@pytest.mark.parametrize(
    ("rows", "most", "alignment"), [(8, 12, 1), (8, 20, 4), (64, 70, 1), (64, 90, 128), (256, 300, 16)]
)
def test_every_row_that_counts_is_stored_once(
    program: Path, count: int, rows: int, most: int, alignment: int
) -> None:
    """Tiles of `rows` rows; groups of at most `most` rows, some of none; by ends, indices and counts."""
    done = run(program, str(rows), count, most, alignment)
    assert (done.returncode, done.stdout) == (0, "")
