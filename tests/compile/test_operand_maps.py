"""How long L2 is to keep operands of dense and reduced products, and how much of them it fetches at once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain

pytestmark = pytest.mark.compile


class Operand(NamedTuple):
    """How it lies, in bytes, and whether more than one tile reads it."""

    batch: int = 1
    row: int = 1024
    matrix: int = 0
    mn_major: bool = False
    again: bool = False


Told = tuple[tuple[int, int], ...]
KEPT, GONE = 1, 0
HEADS = {"batch": 128, "row": 128 * 1024, "matrix": 1024}  # [b, h, r] as a batch of h
WEIGHTS = {"batch": 128, "row": 1024, "matrix": 128 * 1024}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Told]:
    toolchain, program = find_toolchain(), tmp_path_factory.mktemp("operands") / "operand_maps"
    command = [
        *toolchain.host, "-std=c++17", f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
        str(Path(__file__).with_name("operand_maps.cc")), "-o", str(program),
    ]  # fmt: skip
    subprocess.run(command, check=True)

    def ask(a: Operand, b: Operand, *, writes: bool = False, lean: bool = False) -> Told:
        words = [str(int(number)) for number in (*a, *b, writes, lean)]
        done = subprocess.run([str(program), *words], capture_output=True, text=True, check=True)
        return tuple((int(kept), int(size)) for kept, size in map(str.split, done.stdout.splitlines()))

    return ask


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        # Few rows: B is read once.
        (Operand(again=True), Operand(), ((KEPT, 256), (GONE, 128))),
        (Operand(again=True), Operand(again=True), ((KEPT, 128), (KEPT, 128))),
        # bhr,hdr->bhd: rows of heads lie between those of others, and are read once.
        (Operand(**HEADS), Operand(**WEIGHTS, again=True), ((KEPT, 256), (KEPT, 256))),
        (Operand(**HEADS, again=True), Operand(**WEIGHTS, again=True), ((KEPT, 256), (KEPT, 128))),
        # bhd,bhr->hdr: those of k do, of which boxes of one stage read what lies side by side.
        (Operand(**HEADS, mn_major=True), Operand(**HEADS, mn_major=True), ((KEPT, 128), (KEPT, 128))),
        # A batch of matrices one behind the other, and one matrix for all.
        (Operand(**WEIGHTS), Operand(batch=128), ((GONE, 128), (GONE, 128))),
    ],
)
def test_what_l2_is_told(told: Callable[..., Told], a: Operand, b: Operand, wanted: Told) -> None:
    assert told(a, b) == wanted


def test_operands_that_are_read_again_beside_many_writes(told: Callable[..., Told]) -> None:
    again, once = Operand(again=True), Operand()
    assert told(again, again, writes=True) == ((KEPT, 256), (KEPT, 256))
    assert told(again, once, writes=True) == ((KEPT, 256), (GONE, 128))
    assert told(once, once, writes=True) == ((GONE, 128), (GONE, 128))


def test_misaligned_rows_of_lean_products_are_fetched_by_lines(told: Callable[..., Told]) -> None:
    again, once = Operand(again=True), Operand()
    assert told(again, once, lean=True) == ((KEPT, 256), (GONE, 128))
    misaligned = again._replace(row=1040)
    assert told(misaligned, once) == ((KEPT, 256), (GONE, 128))
    assert told(misaligned, once, lean=True) == ((KEPT, 128), (GONE, 128))
    assert told(once, misaligned, lean=True) == ((GONE, 128), (KEPT, 128))
    assert told(again, once._replace(row=1040), lean=True) == ((KEPT, 256), (GONE, 128))
