"""The problem of a call of `reduced_gemm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.declarations.products import Product
from tilewright.formats.types import bytes_of

# A and B, and the types that D may have: the first is the default.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("bf16", "bf16"): ("bf16", "f32"),
    ("f16", "f16"): ("f16", "f32"),
}


@dataclass(frozen=True, slots=True)
class Problem(Product):
    """D[m,n] = alpha * sum over the batch of A[m,k] B[k,n] + beta * C[m,n]."""

    op_text = "reduced_gemm"
    kind_fields = ("a",)

    a: str = "bf16"
    b: str = "bf16"
    d: str = "bf16"
    c: bool = False  # beta * C is added

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix once."""
        operands = self.batch * (self.m + self.n) * self.k * bytes_of(self.a)
        return operands + self.m * self.n * bytes_of(self.d) * (2 if self.c else 1)

    @property
    def types_text(self) -> str:
        return f"{self.a} x {self.b} -> {self.d}{' with c' if self.c else ''}"
