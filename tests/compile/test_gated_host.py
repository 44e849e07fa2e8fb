"""Tensor maps and parameters of kernels with a gated activation, and problems that their host refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain

pytestmark = pytest.mark.compile

Ask = Callable[..., dict[str, str]]
SWIZZLE_32, SWIZZLE_64, SWIZZLE_128 = 1, 2, 3  # CUtensorMapSwizzle
SILU = 3


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Asks a kernel's host about a problem; answers by the first word of a line."""
    toolchain, program = find_toolchain(), tmp_path_factory.mktemp("gated") / "gated_host"
    command = [
        *toolchain.host, "-std=c++17", f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
        str(Path(__file__).with_name("gated_host.cc")), "-o", str(program),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    usual = {
        "tile_m": 128, "tile_n": 96, "swapped": 0, "m": 100, "n": 320, "k": 256, "batch": 1, "ld_d": 160,
        "cluster_m": 1, "cluster_n": 1, "splits": 1, "split_k": 0, "beta": 0, "activation": SILU,
        "form": 0, "offset": 0, "alpha": 1, "given": 0,
    }  # fmt: skip

    def answer(**changed: int) -> dict[str, str]:
        assert changed.keys() <= usual.keys()
        words = [str(number) for number in (usual | changed).values()]
        done = subprocess.run([str(program), *words], capture_output=True, text=True, check=True)
        return dict(line.split(" ", 1) for line in done.stdout.splitlines())

    return answer


def test_rows_of_both_halves_alternate(ask: Ask) -> None:
    """Dimensions of the map of B: extent, stride in bytes, box."""
    told = ask()
    halves = f"512:0:128 8:512:8 2:{160 * 512}:2 20:{8 * 512}:6 1:{320 * 512}:1"
    assert told["pairs"] == f"{halves} {SWIZZLE_128} 128"
    assert told["other"].startswith("512:0:128 100:512:100 ")
    assert told["d"] == f"320:0:64 100:320:16 1:{100 * 320}:1 {SWIZZLE_64} 256"
    assert told["n"] == f"160 boxes 160 stage {(100 + 96) * 128} slices 100 96"


def test_swapped_the_kernels_own_a_has_the_pairs(ask: Ask) -> None:
    told = ask(swapped=1, batch=3)
    halves = f"512:0:128 8:512:8 2:{160 * 512}:2 20:{8 * 512}:8 3:{320 * 512}:1"
    assert told["pairs"].startswith(halves)
    assert told["n"] == f"160 boxes 160 stage {(128 + 96) * 128} slices 128 96"


@pytest.mark.parametrize(
    ("tile_n", "cluster_m", "rows"),
    [(96, 2, 48), (96, 4, 96), (128, 4, 32), (64, 4, 16), (32, 4, 32), (48, 2, 48)],
)
def test_multicast_slices_have_whole_pairs_or_all_of_a_tile(
    ask: Ask, tile_n: int, cluster_m: int, rows: int
) -> None:
    told = ask(tile_n=tile_n, cluster_m=cluster_m, m=1000)
    assert told["pairs"].split()[3].endswith(f":{rows // 16}")
    assert told["n"].endswith(f"stage {(128 + tile_n) * 128} slices 128 {rows}")


def test_a_matrix_of_fewer_columns_than_a_tile_has_smaller_boxes(ask: Ask) -> None:
    told = ask(n=48, ld_d=24)
    assert told["pairs"].split()[3] == f"3:{8 * 512}:3"
    assert told["n"] == f"24 boxes 24 stage {(100 + 48) * 128} slices 100 48"


def test_split_k_stores_other_boxes(ask: Ask) -> None:
    assert ask(splits=2)["d"].endswith(f"1:{100 * 320}:1 {SWIZZLE_32} 256")


def test_rows_of_d_that_tma_cannot_store(ask: Ask) -> None:
    told = ask(ld_d=163)
    assert told["d"] == ""
    assert told["n"].startswith("160 boxes 0 ")


def test_an_operand_that_is_read_again_is_fetched_ahead(ask: Ask) -> None:
    assert ask(m=1000, n=96, ld_d=48)["pairs"].endswith(" 256")
    assert ask(m=1000, n=96, ld_d=48, k=264)["pairs"].endswith(" 128")


@pytest.mark.parametrize(
    "changed",
    [{"n": 328}, {"beta": 1}, {"activation": 0}, {"activation": 2}, {"splits": 2, "split_k": 1}],
)
def test_other_problems_are_refused(ask: Ask, changed: dict[str, int]) -> None:
    assert ask(**changed)["takes"] == "0"
    assert ask()["takes"] == "1"


@pytest.mark.parametrize(
    "changed",
    [{"alpha": 2}, {"given": 1}, {"given": 2}, {"given": 4}, {"splits": 2}, {"offset": 8}, {"ld_d": 163}],
)
def test_a_plain_form_takes_plain_products_alone(ask: Ask, changed: dict[str, int]) -> None:
    """All others run the general code, which takes them (gated_plain_form.hpp)."""
    assert ask(form=1)["takes"] == "1"
    assert ask(form=1, **changed)["takes"] == "0"
    assert ask(**changed)["takes"] == "1"
