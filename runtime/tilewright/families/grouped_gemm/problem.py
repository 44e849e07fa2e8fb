"""The problem of a call of a grouped product, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.blockwise_scales import words
from tilewright.declarations.problem import ProblemBase
from tilewright.families.blockscaled_gemm.problem import Format
from tilewright.formats.types import bits

BLOCK = 128  # elements of k that share a scale of F32

GROUPINGS = ("none", "row_index", "ends", "rows_valid", "k_sizes")  # their order is C's
LAYOUTS = ("tn", "tt", "nt")
OWN_ROWS = ("none", "rows_valid")
GROUPED_ROWS = ("row_index", "ends", "rows_valid")  # each row has the B of its group
# Granularities of B's scales of F32. A's scales are 1x128 with either.
FLOAT_SCALES = ("128x128", "1x128")
# Scales of both operands in UE8M0, four to a word (`blockwise_scales`, packed), with the elements of k that
# share a scale.
PACKED_SCALES = {"1x32_ue8m0": 32, "1x128_ue8m0": 128}
SCALES = ("none", *FLOAT_SCALES, *PACKED_SCALES)
# What `blockscaled_gemm` calls operands with packed scales, by their types.
MX_FORMATS: dict[str, Format] = {"e4m3": "mxfp8", "mxfp4": "mxfp4"}
FP4_SCALES = "1x32_ue8m0"  # of both operands, if either is of FP4
# The scales, layout and D of products whose k is divided among groups.
# A word of UE8M0 scales of 128 of k would hold those of two groups.
PARTS = (("1x128", "tn", "f32"), ("none", "nt", "f32"), ("1x32_ue8m0", "tn", "f32"))


def parts_on_tcgen05(scales: str, d: str) -> bool:
    """Whether groups of a kernel of tcgen05 may divide k, too: it has such scales, and a D of this type."""
    return scales in PACKED_SCALES and d == "f32"


OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("bf16", "bf16"): ("bf16", "f32"),
    ("e4m3", "e4m3"): ("bf16", "f32"),
    ("mxfp4", "mxfp4"): ("bf16", "f32"),
    ("e4m3", "mxfp4"): ("bf16", "f32"),
    ("mxfp4", "e4m3"): ("bf16", "f32"),
}


def part_multiple(type: str) -> int:
    """The elements of k of which each group's k is a multiple: the 128 bytes of a stage."""
    return BLOCK * 8 // bits(type)


def scales_text(scales: str) -> str:
    """The granularities of A's and B's scales, in words."""
    return f"1x128 and {scales}" if scales in FLOAT_SCALES else f"{scales} of both"


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """D[m,n] = sum over k of A[m,k] SA[m,k/128] B[g,k,n] SB[g,k/128,n or n/128] + C[m,n].

    With packed scales of 32 of k, k/32 stands for k/128. The meaning of m, k and `groups` by grouping:

    - `none`: `groups` matrices of m rows.
    - `rows_valid`: each group has m rows in A and D. Only the device knows how many of them count.
    - `row_index`, `ends`: m counts the rows of all groups.
    - `k_sizes`: each group has a D, and k counts the k of all groups.

    `layout` is BLAS's, A before B: an A is `t`, and a B `n`, whose k is contiguous.
    """

    op_text = "grouped_gemm"
    kind_fields = ("a", "b", "d", "scales", "grouping", "c", "layout", "constant_b")

    m: int
    n: int
    k: int
    groups: int = 1
    a: str = "e4m3"
    b: str = "e4m3"
    d: str = "bf16"
    scales: str = "128x128"  # granularity of B's scales; of both operands' where they are packed
    grouping: str = "none"
    c: bool = False
    layout: str = "tn"
    constant_b: bool = False  # B is constant while kernels run
    zero_padding: bool = False  # tiles that hold nothing but padding are zeroed too
    scales_k_major: bool = False  # k is the contiguous dimension of B's 128x128 scales
    expected_m: int = 0  # with rows_valid and ends: rows of a group that are expected to count; 0: all
    row_alignment: int = 128  # groups begin at multiples of this row
    # D's columns come in heads.
    head_left: int = 0  # columns written at the start of each head
    head_gap: int = 0  # columns of D left untouched after them
    head_right: int = 0  # columns written after the gap

    @property
    def scaled(self) -> bool:
        """Whether the operands have scales."""
        return self.a != "bf16"

    @property
    def fp4(self) -> bool:
        """Whether an operand is of FP4."""
        return "mxfp4" in {self.a, self.b}

    @property
    def scale_block(self) -> int:
        """Elements of k that share a scale."""
        return PACKED_SCALES.get(self.scales, BLOCK)

    @property
    def k_blocks(self) -> int:
        return -(-self.k // self.scale_block)

    @property
    def scale_type(self) -> str:
        """The type of an element of the scales' tensors."""
        return "s32" if self.scales in PACKED_SCALES else "f32"

    @property
    def scale_lines(self) -> int:
        """Scales of a row of A, or words of four."""
        return words(self.k_blocks) if self.scales in PACKED_SCALES else self.k_blocks

    @property
    def scale_columns(self) -> int:
        """Columns of B's scales."""
        return -(-self.n // BLOCK) if self.scales == "128x128" else self.n

    @property
    def d_columns(self) -> int:
        """Columns of D, with those that are skipped."""
        head = self.head_left + self.head_right
        return self.n + self.n // head * self.head_gap if head else self.n

    @property
    def own_rows(self) -> bool:
        """Whether each group has rows of its own in A and D: a batch of matrices."""
        return self.grouping in OWN_ROWS

    @property
    def rows(self) -> int:
        """Rows of A that are expected to count."""
        if self.grouping == "none":
            return self.m * self.groups
        if self.grouping == "rows_valid":
            return min(self.expected_m or self.m, self.m) * self.groups
        if self.grouping == "ends" and self.expected_m:
            return min(self.expected_m * self.groups, self.m)
        return self.m

    @property
    def rows_in_place(self) -> int:
        """Rows of A, of all groups in one matrix, from the first to the last that is expected to count."""
        if self.grouping != "ends" or not self.expected_m:
            return self.m
        aligned = -(-self.expected_m // self.row_alignment) * self.row_alignment
        return min(aligned * self.groups, self.m)

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix once."""
        by_k = self.grouping == "k_sizes"
        matrices_b, rows_d = (1, self.m * self.groups) if by_k else (self.groups, self.rows)
        operands = self.rows * self.k * bits(self.a) + matrices_b * self.n * self.k * bits(self.b)
        return (operands + rows_d * self.n * bits(self.d) * (2 if self.c else 1)) // 8

    @property
    def extents_text(self) -> str:
        return f"{self.m}x{self.n}x{self.k} groups {self.groups}"

    @property
    def types_text(self) -> str:
        scaled = f", scales {scales_text(self.scales)}" if self.scaled else ""
        layout = "" if self.layout == "tn" else f", layout {self.layout}"
        tail = (" with c" if self.c else "") + (", constant b" if self.constant_b else "")
        if self.head_gap:
            tail += f", {self.head_gap} columns skipped between {self.head_left} and {self.head_right}"
        return f"{self.a} x {self.b} -> {self.d}{scaled}{layout}, grouping {self.grouping}{tail}"
