"""The problem of a call of `mixed_grouped_gemm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.families.mixed_gemm.problem import SILU_MUL, PackedProblem
from tilewright.formats.types import TYPES

# A, and the type that D has.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {("bf16",): ("bf16",), ("f16",): ("f16",)}
ACTIVATIONS = ("none", SILU_MUL)  # their order is C's


@dataclass(frozen=True, slots=True)
class GroupedProblem(PackedProblem):
    """D[m,n] = alpha * F[g] * sum over k of A[m,k] W[g,n,k] + bias[g,n], of packed weights W, whatever the
    type of A.

    g is the group of row m. The meaning of m by grouping:

    - `row_index`, `ends`: m counts the rows of all groups.
    - `rows_valid`: each group has m rows in A and D. Only the device knows how many of them count.
    """

    kind_fields: ClassVar[tuple[str, ...]] = ("a", "d", "weight_format", "grouping")

    m: int
    n: int
    k: int
    groups: int = 1
    a: str = "bf16"
    d: str = "bf16"
    weight_format: str = "int4_g128"
    grouping: str = "ends"
    bias: bool = False
    expected_m: int = 0  # rows of a group that are expected to count; 0: all
    row_alignment: int = 1  # groups begin at multiples of this row

    @property
    def activation(self) -> str:
        """What is applied last."""
        return "none"

    @property
    def own_rows(self) -> bool:
        """Whether each group has rows of its own in A and D: a batch of matrices."""
        return self.grouping == "rows_valid"

    @property
    def rows(self) -> int:
        """Rows of A that are expected to count."""
        if self.own_rows:
            return min(self.expected_m or self.m, self.m) * self.groups
        return min(self.expected_m * self.groups, self.m) if self.expected_m else self.m

    @property
    def groups_read(self) -> int:
        """Groups that are expected to have rows, where each row falls to a group at random."""
        return max(1, round(self.groups * (1 - (1 - 1 / self.groups) ** self.rows)))

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.n * self.k

    @property
    def product_bytes(self) -> int:
        """Bytes of each row, and of the weight of each group that has rows."""
        return (
            self.packed_bytes * self.groups_read
            + self.rows * (self.k * TYPES[self.a].bits + self.d_columns * TYPES[self.d].bits) // 8
        )

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least."""
        return self.product_bytes

    @property
    def extents_text(self) -> str:
        return f"{self.m}x{self.n}x{self.k} groups {self.groups}"

    @property
    def types_text(self) -> str:
        extras = [*(["bias"] if self.bias else []), *([self.activation] if self.gated else [])]
        tail = f" with {', '.join(extras)}" if extras else ""
        return f"{self.a} x {self.weight_format} -> {self.d}, grouping {self.grouping}{tail}"


@dataclass(frozen=True, slots=True)
class Problem(GroupedProblem):
    """A product of groups by activations of 16 bits.

    With the activation silu_mul, each W is a gated weight of n rows, and D [m, n/2] is silu(gate) * up."""

    op_text = "mixed_grouped_gemm"
    kind_fields = (*GroupedProblem.kind_fields, "gated")

    activation: str = "none"
