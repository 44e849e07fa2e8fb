"""What a caller of `gemm` asks, apart from where the tensors lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.ops.common.problem import Told
from tilewright.ops.common.products import product_extents
from tilewright.types import bits

# A and B, and the types that D may have: the first is the default.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("bf16", "bf16"): ("bf16", "f32"),
    ("f16", "f16"): ("f16", "f32"),
    ("e4m3", "e4m3"): ("bf16", "f16", "f32"),
    ("e5m2", "e4m3"): ("bf16", "f16", "f32"),
    ("tf32", "tf32"): ("f32",),
    ("s8", "s8"): ("s32",),
}
FP8 = ("e4m3", "e5m2")
ACTIVATIONS = ("none", "relu", "gelu", "silu")
INTEGER_ACTIVATIONS = ("none", "relu")  # of D of s32


class Kind(NamedTuple):
    """What of a problem decides which kernels compute it, but for alignment."""

    a: str
    b: str
    d: str
    layout: str
    c: bool
    bias: bool
    activation: str
    fast_accum: bool


@dataclass(frozen=True, slots=True)
class Problem(Told):
    """D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n]).

    `layout` is as BLAS writes it, A then B: A is `t` where k is contiguous (row-major), B is `n` where
    k is contiguous (column-major). D is row-major.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    a: str = "bf16"
    b: str = "bf16"
    d: str = "bf16"
    layout: str = "tn"
    c: bool = False  # beta * C is added
    bias: bool = False
    activation: str = "none"
    fast_accum: bool = False  # FP8: sums may stay in the tensor core

    @property
    def a_k_major(self) -> bool:
        return self.layout[0] == "t"

    @property
    def b_k_major(self) -> bool:
        return self.layout[1] == "n"

    @property
    def integer(self) -> bool:
        """Of D, and of the factors."""
        return self.d == "s32"

    @property
    def kind(self) -> Kind:
        return Kind(self.a, self.b, self.d, self.layout, self.c, self.bias, self.activation, self.fast_accum)

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix once."""
        operands = self.m * self.k * bits(self.a) + self.n * self.k * bits(self.b)
        outputs = self.m * self.n * bits(self.d) * (2 if self.c else 1)
        return self.batch * (operands + outputs) // 8

    def contiguous_extents(self) -> dict[str, int]:
        """Elements along the contiguous dimension of each matrix, by its argument's name."""
        return {
            "a": self.k if self.a_k_major else self.m,
            "b": self.k if self.b_k_major else self.n,
            "d": self.n,
        }

    @property
    def op_text(self) -> str:
        return "gemm"

    @property
    def extents_text(self) -> str:
        return product_extents(self.m, self.n, self.k, self.batch)

    @property
    def types_text(self) -> str:
        extras = [
            word
            for word, present in (
                ("c", self.c),
                ("bias", self.bias),
                (self.activation, self.activation != "none"),
                ("fast_accum", self.fast_accum),
            )
            if present
        ]
        tail = f" with {', '.join(extras)}" if extras else ""
        return f"{self.a} x {self.b} -> {self.d}, layout {self.layout}{tail}"
