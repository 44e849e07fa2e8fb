"""The problem of a call of a block-scaled product."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

from tilewright.declarations.products import Product
from tilewright.declarations.scaled import matrix_bytes, scale_shape
from tilewright.formats.types import TYPES, bits

Format = Literal["nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2"]
BLOCK = {name: TYPES[name].block[1] for name in get_args(Format)}  # elements that share a scale factor
Output = Literal["bf16", "f16", "f32", "nvfp4", "mxfp8", "e4m3", "e5m2"]
OUTPUTS = get_args(Output)
ACTIVATIONS = ("none", "relu", "gelu", "silu")  # their order is C's
QUANTIZED_OUTPUTS = ("nvfp4", "mxfp8")  # types of D for which the epilogue makes scale factors
FP8_OUTPUTS = ("e4m3", "e5m2")  # types of D that have no scale factors: elements saturate
SCALE_LAYOUT: Final = "128x4"  # of the scale factors that the kernels read
MOST_ALIGNED = 128  # elements: the largest alignment that a kernel needs


class Alignment(NamedTuple):
    """The number of elements at whose multiples a matrix, its lines and the matrices of a batch begin: a
    power of two, at most `MOST_ALIGNED`."""

    a: int = MOST_ALIGNED
    b: int = MOST_ALIGNED
    c: int = MOST_ALIGNED
    d: int = MOST_ALIGNED


@dataclass(frozen=True, slots=True)
class Problem(Product):
    """D[m,n] = activation(x + beta * C[m,n] + bias[n]), x = alpha * (A[m,k] * SFA[m,k/block]) (B[n,k] *
    SFB[n,k/block]).

    k is contiguous in A and B, n in C and D. `a` and `b` are formats (nvfp4, mxfp4, mxfp8, mxfp8_e5m2), d is
    a type (bf16, f16, f32, e4m3, e5m2) or a format whose scale factors the epilogue makes (nvfp4, mxfp8).
    """

    op_text = "blockscaled_gemm"
    kind_fields = ("a", "b", "d", "c", "bias", "activation")

    a: str = "nvfp4"
    b: str = "nvfp4"
    d: str = "bf16"
    c: bool = False  # beta * C is added
    bias: bool = False
    activation: str = "none"
    alignment: Alignment = field(default=Alignment())

    @property
    def quantizes(self) -> bool:
        return self.d in QUANTIZED_OUTPUTS

    @property
    def type_of_c(self) -> str:
        return c_type(self.d)

    @property
    def pads_scales(self) -> bool:
        """Whether the scale factors of a quantised D have padding, which no kernel writes."""
        return scale_shape(self.m, self.n, self.d) != (self.m, self.n // BLOCK[self.d])

    @property
    def operand_bytes(self) -> tuple[int, int]:
        """The bytes of one A and of one B, with their scale factors."""
        return matrix_bytes(self.m, self.k, self.a), matrix_bytes(self.n, self.k, self.b)

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix and each scale factor once."""
        outputs = matrix_bytes(self.m, self.n, self.d)
        outputs += matrix_bytes(self.m, self.n, self.type_of_c) if self.c else 0
        return self.batch * (sum(self.operand_bytes) + outputs)

    @property
    def types_text(self) -> str:
        added = filter(None, ("c" * self.c, "bias" * self.bias, self.activation.replace("none", "")))
        tail = ", ".join(added)
        return f"{self.a} x {self.b} -> {self.d}" + (f" with {tail}" if tail else "")


def c_type(d: str) -> str:
    """The type of C and the bias for a type of D: the same, or bf16 for a D of 4 or 8 bits."""
    return d if bits(d) > 8 else "bf16"
