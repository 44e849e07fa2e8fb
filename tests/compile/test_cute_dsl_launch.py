"""What the host code of kernels in CuTe-DSL asks of the driver, without a GPU and without CuTe-DSL."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain

pytestmark = pytest.mark.compile

INVALID_VALUE, INVALID_CLUSTER_SIZE, NOT_SUPPORTED = 1, 912, -1
HEURISTIC, ALONG_M, ALONG_N = 0, 1, 2

Launch = Callable[..., list[str]]


def compiled(folder: Path, name: str) -> Path:
    """A program of a file beside this one."""
    toolchain, program = find_toolchain(), folder / name
    command = [
        *toolchain.host, "-std=c++17", f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
        str(Path(__file__).with_name(f"{name}.cc")), "-o", str(program),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return program


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """Launches a problem twice, and once in another context; the lines that cute_dsl_launch.cc prints."""
    program = compiled(tmp_path_factory.mktemp("launch"), "cute_dsl_launch")

    def run(
        m: int, n: int, k: int, batch: int = 1, *, ld_a: int | None = None, stride_b: int | None = None,
        raster: int = HEURISTIC, swizzle: int = 1, sms: int = 132, splits: int = 1, fault: str = "",
    ) -> list[str]:  # fmt: skip
        numbers = (
            m, n, k, batch, k if ld_a is None else ld_a, n * k if stride_b is None else stride_b,
            raster, swizzle, sms, splits,
        )  # fmt: skip
        words = [str(program), *map(str, numbers), *filter(None, [fault])]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    return run


def test_maps_and_parameters_are_those_of_the_program(launch: Launch) -> None:
    """A thread block loads half of B's tile, which it shares with the other of its cluster."""
    lines = launch(1000, 520, 200, 3, ld_a=208)
    assert lines[:2] == ["kernel the_kernel", "shared 230400"]
    assert lines[2:5] == [
        "map 0x100: 200 1000 3 strides 416 416000 box 64 128 1",
        "map 0x200: 200 520 3 strides 400 208000 box 64 128 1",
        "map 0x300: 520 1000 3 strides 1040 1040000 box 64 128 1",
    ]
    assert lines[5:8] == ["grid 72 threads 384 shared 230400", "cluster 2", "pdl 1"]
    assert lines[8:12] == [
        "extents 1000 200 3",
        "extents 520 200 3",
        "extents 1000 520 3",
        "alpha 1.5 beta 0",
    ]
    assert lines[12].startswith("k_tiles 4 blocks 4 3 36 ")


def test_one_matrix_of_b_serves_the_whole_batch(launch: Launch) -> None:
    lines = launch(128, 256, 64, 5, stride_b=0)
    assert "map 0x200: 64 256 1 strides 128 32768 box 64 128 1" in lines
    assert "extents 256 64 1" in lines


@pytest.mark.parametrize(("sms", "blocks"), [(132, 132), (41, 40), (1, 2), (1000, 132)])
def test_the_grid_is_what_runs_at_once(launch: Launch, sms: int, blocks: int) -> None:
    """66 clusters of two run at once, and no more SMs than the tactic says are used, but for one cluster."""
    assert f"grid {blocks} threads 384 shared 230400" in launch(8192, 8192, 64, sms=sms)


@pytest.mark.parametrize(("raster", "down"), [(ALONG_M, 1), (ALONG_N, 0)])
def test_the_order_of_tiles_is_the_tactics(launch: Launch, raster: int, down: int) -> None:
    assert f"k_tiles 1 blocks 32 32 1024 swizzle 4 down {down}" in launch(
        8192, 8192, 64, raster=raster, swizzle=4
    )


def test_a_program_is_loaded_once_and_made_a_function_in_each_context(launch: Launch) -> None:
    lines = launch(128, 256, 64)
    assert lines[-1] == "status 0 0 0 loads 1 launches 3"
    assert lines.count("kernel the_kernel") == 2


def test_thread_blocks_that_share_k_are_a_cluster(launch: Launch) -> None:
    """The kernel's columns are the rows of D: four tiles of 256. How many clusters run at once is asked for
    each size of them."""
    lines = launch(1000, 128, 1024, splits=4)
    grids = [line.split()[1] for line in lines if line.startswith("grid")]
    clusters = [line.split()[1] for line in lines if line.startswith("cluster")]
    assert (grids, clusters) == (["16", "4", "16"], ["4", "1", "4"])
    assert lines.count("kernel the_kernel") == 3
    assert lines[-1] == "status 0 0 0 loads 1 launches 3"


@pytest.mark.parametrize(("splits", "k"), [(3, 1024), (16, 4096), (8, 7 * 64), (0, 1024)])
def test_splits_that_the_program_does_not_know_are_refused(launch: Launch, splits: int, k: int) -> None:
    assert launch(64, 256, k, splits=splits)[-1].startswith(f"status {NOT_SUPPORTED} 0 {NOT_SUPPORTED} ")


@pytest.mark.parametrize(
    ("fault", "status", "launches"),
    [
        ("load", INVALID_VALUE, 0),
        ("cluster", INVALID_CLUSTER_SIZE, 0),
        ("encode", INVALID_VALUE, 0),
        ("launch", INVALID_VALUE, 3),
    ],
)
def test_what_the_driver_refuses_is_the_status(
    launch: Launch, fault: str, status: int, launches: int
) -> None:
    last = launch(128, 256, 64, fault=fault)[-1].split()
    assert last[:4] == ["status", *3 * [str(status)]]
    assert last[-1] == str(launches)


def test_what_tma_cannot_load_is_refused_before_the_driver_is_asked(launch: Launch) -> None:
    expected = [f"status {NOT_SUPPORTED} {NOT_SUPPORTED} {NOT_SUPPORTED} loads 0 launches 0"]
    assert launch(128, 256, 64, ld_a=66) == expected
    assert launch(128, 252, 64) == expected


def test_a_narrow_block_scaled_tile_has_all_columns(tmp_path: Path) -> None:
    """The scale factors of another tile would begin within an atom of 128 columns, as those of 64 may."""
    program = compiled(tmp_path, "blockscaled_rows")

    def status(tile_n: int, swapped: int, m: int, n: int) -> int:
        words = [str(program), *map(str, (tile_n, swapped, m, n))]
        return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    for tile_n in (8, 16, 32):
        assert status(tile_n, 1, tile_n, 4096) == 0
        assert status(tile_n, 1, tile_n + 1, 4096) == NOT_SUPPORTED
    assert status(64, 1, 65, 4096) == 0
    assert status(64, 0, 65, 4096) == 0
