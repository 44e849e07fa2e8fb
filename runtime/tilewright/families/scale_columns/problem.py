"""The problem of a call of `scale_columns`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tilewright import blockwise_scales, scale_factors
from tilewright.declarations.problem import ProblemBase
from tilewright.formats.types import bytes_of

ATOMS: Final = "128x4"  # the layout of `scale_factors` that block-scaled tensor cores read
LAYOUTS = ("m_major", "packed", ATOMS)
ATOM_BLOCK = 32  # elements of k that a byte of it scales
ATOM_ROWS = 128  # of a matrix, that share a row of scales in blocks of 128x128
ATOM_SOURCE_BLOCKS = (32, 128)  # elements of k that a scale may stand for, to become such bytes
GROUPINGS = ("none", "row_ends", "k_sizes", "k_ends")  # their order is C's
ALONG_K = ("k_sizes", "k_ends")


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """out[line, m]: column `line` of scales[m, columns], or four columns' exponents in a word (packed); for
    128x4 the bytes of scales of a matrix [rows, k]."""

    op_text = "scale_columns"
    kind_fields = ("layout",)
    shown_beyond_1 = (("batch", " batch {}"),)

    m: int
    columns: int
    batch: int = 1
    layout: str = "m_major"
    grouping: str = "none"
    group_count: int = 0
    alignment: int = 128  # groups begin at multiples of it, for row_ends and k_ends
    block: int = 128  # elements of k that share a scale, for k_sizes, k_ends and 128x4
    row_major: bool = True  # columns of scales are contiguous; else m is
    words: bool = False  # for 128x4: an element of scales holds four exponents
    rows: int = 0  # for 128x4: of the matrix, m or 128 m of them; 0: m
    k: int = 0  # for 128x4: of the matrix; 0: as much as the columns scale

    @property
    def packed(self) -> bool:
        return self.layout == "packed"

    @property
    def atoms(self) -> bool:
        return self.layout == ATOMS

    @property
    def column_k(self) -> int:
        """Elements of k that a column of scales stands for."""
        return self.block * (blockwise_scales.SCALES_PER_WORD if self.words else 1)

    @property
    def atom_shape(self) -> tuple[int, int]:
        """Rows and columns of the result in the 128x4 layout, padding included."""
        return scale_factors.padded(self.lines, self.k or self.columns * self.column_k, ATOM_BLOCK, ATOMS)

    @property
    def lines(self) -> int:
        """Rows of the result; for 128x4 without padding. Each group starts a new word, so that up to three
        bytes of its last word are unused."""
        if self.atoms:
            return self.rows or self.m
        if not self.packed:
            return self.columns
        along_k = self.grouping in ALONG_K
        return blockwise_scales.words(self.columns) + (self.group_count if along_k else 0)

    @property
    def out_rows(self) -> int:
        """Rows of the result, padding included."""
        return self.atom_shape[0] if self.atoms else self.lines

    @property
    def leading(self) -> int:
        """Columns of the result, padding included."""
        return self.atom_shape[1] if self.atoms else blockwise_scales.leading(self.m)

    @property
    def out_type(self) -> str:
        return "ue8m0" if self.atoms else "s32" if self.packed else "f32"

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: scales and lines once."""
        written = self.out_rows * self.leading * bytes_of(self.out_type)
        return self.batch * (4 * self.m * self.columns + written)

    @property
    def types_text(self) -> str:
        grouped = "" if self.grouping == "none" else f", {self.group_count} groups by {self.grouping}"
        return f"{'words' if self.words else 'f32'} -> {self.layout}{grouped}"
