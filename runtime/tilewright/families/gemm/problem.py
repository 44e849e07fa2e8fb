"""The problem of a call of `gemm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.configurations.shared import flag
from tilewright.declarations.products import Product
from tilewright.formats.types import TYPES

FP8 = ("e4m3", "e5m2")
OWN_OPERANDS = ("bf16", "f16", *FP8)  # types that our mainloops multiply; only CUTLASS's multiply others
_OF_FP8 = ("bf16", "f16", "f32", *FP8)
# A and B, and the types that D may have: the first is the default.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("bf16", "bf16"): ("bf16", "f32"),
    ("f16", "f16"): ("f16", "f32"),
    **{(a, b): _OF_FP8 for b in FP8 for a in FP8},
    ("tf32", "tf32"): ("f32",),
    ("s8", "s8"): ("s32",),
}
ADDENDS = ("f32", "f16", "bf16", "s32")  # types of C and the bias; their order is C's
ACTIVATIONS = ("none", "relu", "gelu", "silu")  # their order is C's
GIVEN = "given"  # the activation of a kernel that applies the one that a call names
# Gated activations, and the activation of their gate: silu_mul is silu(first half) * second half, along n.
GATED = {"silu_mul": "silu"}
GATED_OUTPUTS = ("bf16", "f16")  # types of D with a gated activation
PAIRED_COLUMNS = 16  # n of a gated product is a multiple of this: kernels load 8 columns of each half in turn
INTEGER_ACTIVATIONS = ("none", "relu")  # for a D of s32


def addends(a: str, d: str) -> tuple[str, ...]:
    """The types that C and the bias may have; the first is the default. For operands of 16 bits or FP8 they
    are all floating-point types of more than 8 bits, for others D's type."""
    if a not in OWN_OPERANDS:
        return (d,)
    default = "bf16" if d in FP8 else d
    return (default, *(type for type in ("bf16", "f16", "f32") if type != default))


@dataclass(frozen=True, slots=True)
class Problem(Product):
    """D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n]).

    A D of FP8 is multiplied by scale_result before it is rounded.

    With a gated activation, D is [m, n/2]: with x the argument above, D = silu(x[:, :n/2]) * x[:, n/2:].

    `layout` is BLAS's, A before B: an A is `t` if k is contiguous (row-major), a B is `n` if k is contiguous
    (column-major). D is row-major.
    """

    op_text = "gemm"
    kind_fields = ("a", "b", "d", "layout", "added_c", "added_bias", "activation", "fast_accum")

    a: str = "bf16"
    b: str = "bf16"
    d: str = "bf16"
    layout: str = "tn"
    c: bool = False  # beta * C is added
    bias: bool = False
    activation: str = "none"
    fast_accum: bool = False  # FP8: sums may stay in the tensor core
    c_type: str = ""  # "" stands for the first of `addends`
    bias_type: str = ""
    alignment: int = 16  # bytes at whose multiples C, D and the bias, their rows and matrices, begin

    def __post_init__(self) -> None:
        usual = addends(self.a, self.d)[0]
        for name in ("c_type", "bias_type"):
            if getattr(self, name) == usual:
                object.__setattr__(self, name, "")

    @property
    def type_of_c(self) -> str:
        return self.c_type or addends(self.a, self.d)[0]

    @property
    def type_of_bias(self) -> str:
        return self.bias_type or addends(self.a, self.d)[0]

    @property
    def added_c(self) -> str:
        """The type of the C that is added, or "" if none is."""
        return self.type_of_c if self.c else ""

    @property
    def added_bias(self) -> str:
        return self.type_of_bias if self.bias else ""

    @property
    def gated(self) -> bool:
        """Whether D is made of two halves of the product."""
        return self.activation in GATED

    @property
    def d_columns(self) -> int:
        """The columns of D."""
        return self.n // 2 if self.gated else self.n

    @property
    def integer(self) -> bool:
        """Whether D and the factors are integers."""
        return self.d == "s32"

    @property
    def operand_bytes(self) -> tuple[int, int]:
        """The bytes of one A and of one B."""
        return self.m * self.k * TYPES[self.a].bits // 8, self.n * self.k * TYPES[self.b].bits // 8

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix once."""
        outputs = TYPES[self.d].bits + (TYPES[self.type_of_c].bits if self.c else 0)
        return self.batch * (sum(self.operand_bytes) + self.m * self.d_columns * outputs // 8)

    @property
    def types_text(self) -> str:
        c = f"c of {self.c_type}" if self.c_type else "c"
        bias = f"bias of {self.bias_type}" if self.bias_type else "bias"
        activation, fast = self.activation.replace("none", ""), flag("fast_accum", self.fast_accum)
        extras = ", ".join(filter(None, (flag(c, self.c), flag(bias, self.bias), activation, fast)))
        tail = f" with {extras}" if extras else ""
        return f"{self.a} x {self.b} -> {self.d}, layout {self.layout}{tail}"
