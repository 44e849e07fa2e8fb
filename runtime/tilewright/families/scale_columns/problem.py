"""What a caller of `scale_columns` asks, apart from where the tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import blockwise_scales
from tilewright.declarations.problem import ProblemBase

LAYOUTS = ("m_major", "packed")
GROUPINGS = ("none", "row_ends", "k_sizes", "k_ends")  # their order is C's
ALONG_K = ("k_sizes", "k_ends")


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """out[line, m]: column `line` of scales[m, columns], or four columns' exponents in a word (packed)."""

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
    block: int = 128  # elements of k that share a scale, for k_sizes and k_ends
    row_major: bool = True  # columns of scales are contiguous; else m is

    @property
    def packed(self) -> bool:
        return self.layout == "packed"

    @property
    def lines(self) -> int:
        """Rows of the result. Each group starts a new word, so that up to three bytes of its last word are
        unused."""
        if not self.packed:
            return self.columns
        along_k = self.grouping in ALONG_K
        return blockwise_scales.words(self.columns) + (self.group_count if along_k else 0)

    @property
    def leading(self) -> int:
        """Columns of the result: m and padding."""
        return blockwise_scales.leading(self.m)

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: scales and lines once."""
        return 4 * self.batch * (self.m * self.columns + self.lines * self.leading)

    @property
    def types_text(self) -> str:
        grouped = "" if self.grouping == "none" else f", {self.group_count} groups by {self.grouping}"
        return f"f32 -> {self.layout}{grouped}"
