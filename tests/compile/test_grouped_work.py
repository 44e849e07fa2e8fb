"""Which tiles kernels of `grouped_gemm` compute for groups of the device's, and what becomes of rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

HERE = Path(__file__).parent
# What work.hpp and tile.hpp take of headers that hold PTX, which no host assembles.
STAND_INS = {
    "ptx": """
uint32_t elect_one();
template <class... Any> void barrier_init(Any...);
template <class... Any> void barrier_wait(Any...);
template <class... Any> void barrier_arrive(Any...);
uint32_t zero_after(uint32_t);
template <class... Any> void store_words(Any...);
template <class Any> void load_words(uint32_t, Any&);
void prefetch_line(void const*);
""",
    "pipeline": """
template <int kStages> struct Position {
  int stage = 0;
  uint32_t phase = 0;
  void next();
};
""",
}
# What params.hpp takes of CUDA.
CUDA = {
    "cuda.h": """#pragma once
struct CUtensorMap {};
enum CUtensorMapSwizzle : int;
""",
    "cuda_runtime_api.h": """#pragma once
enum cudaError_t : int;
using cudaStream_t = void*;
""",
}
COUNTS = (1, 2, 7, 33, 70)  # of groups


@pytest.fixture(scope="module")
def program() -> Path:
    head = "#pragma once\n#include <cstdint>\nnamespace tilewright::sm90 {\n"
    return compiled(
        "grouped_work",
        [HERE / "grouped_work.cc"],
        ["-std=c++17", "-O2", f"-I{HERE}", f"-I{ROOT / 'runtime/include'}"],
        files=CUDA | {f"tilewright/sm90/{name}.hpp": f"{head}{text}}}\n" for name, text in STAND_INS.items()},
    )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("rows", "most", "alignment"),
    [(16, 20, 4), (16, 40, 128), (64, 70, 1), (128, 90, 32), (128, 140, 128), (256, 140, 64)],
)
def test_every_row_that_counts_is_stored_once(
    program: Path, count: int, rows: int, most: int, alignment: int
) -> None:
    """Tiles of `rows` rows, groups of `most` rows at most, which begin at multiples of `alignment`."""
    most *= 1 if count > 7 else 2
    done = run(program, "groups", count, rows, most, alignment)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("down", [1, 2])
def test_every_tile_of_each_part_of_k_is_computed_once(
    program: Path, count: int, rows: int, down: int
) -> None:
    done = run(program, "parts", count, rows, down)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("down", [1, 2, 4])
def test_warps_without_a_queue_compute_the_tiles_that_it_would_hold(
    program: Path, count: int, rows: int, down: int
) -> None:
    done = run(program, "known", count, rows, down)
    assert (done.returncode, done.stdout) == (0, "")


def test_columns_of_heads_leave_their_gap_out(program: Path) -> None:
    done = run(program, "heads")
    assert (done.returncode, done.stdout) == (0, "")
