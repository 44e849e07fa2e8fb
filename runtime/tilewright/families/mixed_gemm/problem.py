"""The problem of a call of `mixed_gemm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright import weight_formats
from tilewright.declarations.problem import ProblemBase
from tilewright.formats.types import TMA_BYTES, TYPES

# Formats of packed weights by the names of problems and kernels, with the group size if a format has several.
FORMATS = {
    name if len(kind.groups) == 1 else f"{name}_g{group}": (name, group)
    for name, kind in weight_formats.FORMATS.items()
    for group in kind.groups
    if group != weight_formats.WHOLE_ROW
}
# A, and the types that D may have: the first is the default.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {("bf16",): ("bf16", "f32"), ("f16",): ("f16", "f32")}
ACTIVATIONS = ("none", "relu", "gelu", "silu")  # their order is C's
SILU_MUL = "silu_mul"
"""The activation of gated products: D = silu(gate) * up, of the two halves of W's rows."""
GATED_MULTIPLE = 2 * weight_formats.GATED_ROWS
"""What n of a gated product is a multiple of."""
TYPES_OF_A = {name: ("bf16",) if name == "mxfp4" else ("bf16", "f16") for name in FORMATS}
"""The types of A that a format is multiplied by: FP16 has too little range for MXFP4."""


def format_name(format: str, group: int) -> str:
    """The name in FORMATS of a format of `weight_layout` and its group size."""
    packed = weight_formats.packed_group(group)
    return format if format in FORMATS else f"{format}_g{packed}"


class PackedProblem(ProblemBase):
    """Base of problems with packed weights of `weight_format` and [n, k]."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def m(self) -> int: ...

        @property
        def n(self) -> int: ...

        @property
        def k(self) -> int: ...

        @property
        def d(self) -> str: ...

        @property
        def weight_format(self) -> str: ...

        @property
        def activation(self) -> str: ...

        @property
        def bytes(self) -> int: ...

    @property
    def alignment(self) -> int:
        """Bytes at whose multiples D and its rows begin. TMA stores the D of groups."""
        return TMA_BYTES

    @property
    def gated(self) -> bool:
        """Whether D has a column for a row of gate and one of up."""
        return self.activation == SILU_MUL

    @property
    def d_columns(self) -> int:
        """Columns of D."""
        return self.n // 2 if self.gated else self.n

    @property
    def slices(self) -> int:
        """Rows of one packed weight: each holds 64 rows of W."""
        return self.packed_shapes[0][0]

    @property
    def weight_bytes(self) -> int:
        return self.packed_shapes[0][1]

    @property
    def scale_bytes(self) -> int:
        return self.packed_shapes[1][1]

    @property
    def packed_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return weight_formats.packed_shapes(self.n, self.k, *FORMATS[self.weight_format])

    @property
    def packed_bytes(self) -> int:
        """Bytes of one packed weight with its scales."""
        return self.slices * (self.weight_bytes + self.scale_bytes)


@dataclass(frozen=True, slots=True)
class Problem(PackedProblem):
    """D[m,n] = activation(alpha * sum over k of A[m,k] W[n,k] + bias[n]), of packed weights W.

    With the activation silu_mul, W is a gated weight of n rows, and D [m, n/2] is silu(gate) * up."""

    op_text = "mixed_gemm"
    kind_fields = ("a", "d", "weight_format", "gated")

    m: int
    n: int
    k: int
    a: str = "bf16"
    d: str = "bf16"
    weight_format: str = "int4_g128"
    bias: bool = False
    activation: str = "none"
    alignment: int = TMA_BYTES  # bytes at whose multiples D and its rows begin

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix and each scale once."""
        of_row = self.k * TYPES[self.a].bits + self.d_columns * TYPES[self.d].bits
        return self.packed_bytes + self.m * of_row // 8

    @property
    def types_text(self) -> str:
        extras = [*(["bias"] if self.bias else []), self.activation.replace("none", "")]
        tail = ", ".join(filter(None, extras))
        return f"{self.a} x {self.weight_format} -> {self.d}" + (f" with {tail}" if tail else "")
