"""The problem of a call of a block-scaled product of groups, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.declarations.problem import ProblemBase
from tilewright.declarations.scaled import matrix_bytes
from tilewright.formats.types import bits

SCALE_ROWS = 128  # rows of an atom of the 128x4 layout: a group's scale factors begin with an atom
# D's types by the formats of A and B.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("nvfp4", "nvfp4"): ("bf16", "f16", "f32"),
    ("mxfp4", "mxfp4"): ("bf16", "f16", "f32"),
    ("mxfp8", "mxfp8"): ("bf16", "f16", "f32"),
    ("mxfp8", "mxfp4"): ("bf16", "f16", "f32"),
    ("mxfp8_e5m2", "mxfp4"): ("bf16", "f16", "f32"),
}


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """D[m,n] = alpha[g] * sum over k of (A[m,k] * SFA[m,k/block]) (B[g,n,k] * SFB[g,n,k/block]).

    g is the group of row m. The meaning of m by grouping:

    - `row_index`, `ends`: m counts the rows of all groups.
    - `rows_valid`: each group has m rows in A and D. Only the device knows how many of them count.

    `a` and `b` are formats (nvfp4, mxfp4, mxfp8, mxfp8_e5m2), d is a type (bf16, f16, f32).
    """

    op_text = "blockscaled_grouped_gemm"
    kind_fields = ("a", "b", "d", "grouping")

    m: int
    n: int
    k: int
    groups: int = 1
    a: str = "nvfp4"
    b: str = "nvfp4"
    d: str = "bf16"
    grouping: str = "ends"
    scale_begins: bool = False  # the scale factors of each group of A begin at a row of their own
    zero_padding: bool = False  # tiles that hold nothing but padding are zeroed too
    expected_m: int = 0  # with rows_valid and ends: rows of a group that are expected to count; 0: all
    row_alignment: int = SCALE_ROWS  # groups begin at multiples of this row

    @property
    def own_rows(self) -> bool:
        """Whether each group has rows of its own in A and D: a batch of matrices."""
        return self.grouping == "rows_valid"

    @property
    def rows(self) -> int:
        """Rows of A that are expected to count."""
        if self.own_rows:
            return min(self.expected_m or self.m, self.m) * self.groups
        if self.grouping == "ends" and self.expected_m:
            return min(self.expected_m * self.groups, self.m)
        return self.m

    @property
    def scale_rows(self) -> int:
        """Rows of the tensor of A's scale factors. Where each group's begin at a row of their own, this is
        room for the rows of all groups, those of each rounded up to whole atoms."""
        rows = self.m + (SCALE_ROWS - 1) * self.groups if self.scale_begins else self.m + SCALE_ROWS - 1
        return rows // SCALE_ROWS * SCALE_ROWS

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each row, and the B of each group, once."""
        operands = matrix_bytes(self.rows, self.k, self.a)
        operands += self.groups * matrix_bytes(self.n, self.k, self.b)
        return operands + self.rows * self.n * bits(self.d) // 8

    @property
    def extents_text(self) -> str:
        return f"{self.m}x{self.n}x{self.k} groups {self.groups}"

    @property
    def types_text(self) -> str:
        return f"{self.a} x {self.b} -> {self.d}, grouping {self.grouping}"
