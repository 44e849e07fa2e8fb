"""The problem of a call of `mixed_fp8_gemm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import weight_formats
from tilewright.families.mixed_gemm.problem import FORMATS as PACKED_FORMATS
from tilewright.families.mixed_gemm.problem import PackedProblem
from tilewright.families.mixed_gemm.problem import Problem as DenseProblem
from tilewright.formats.types import TMA_BYTES, TYPES

FORMATS = tuple(
    name
    for name, (format, _) in PACKED_FORMATS.items()
    if format != "nvfp4" and weight_formats.FORMATS[format].bits == 4
)
"""Formats of packed 4-bit weights whose elements FP8 holds exactly. NVFP4's are products with a scale for
every 16 of k: they have six significant bits, and a block of wgmma's has 32 of k."""
# A, and the types that D may have: the first is the default.
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {("e4m3",): ("bf16", "f16")}


@dataclass(frozen=True, slots=True)
class Problem(PackedProblem):
    """D[m,n] = activation(alpha * F[m] * sum over k of A[m,k] W[n,k] + bias[n]), of packed weights W."""

    op_text = "mixed_fp8_gemm"
    kind_fields = ("a", "d", "weight_format", "fast_accum")

    m: int
    n: int
    k: int
    a: str = "e4m3"
    d: str = "bf16"
    weight_format: str = "int4_g128"
    a_scale: bool = False
    bias: bool = False
    activation: str = "none"
    fast_accum: bool = False  # MXFP4: sums of all of k stay in the tensor core
    alignment: int = TMA_BYTES  # bytes at whose multiples D and its rows begin

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix and each scale once."""
        matrices = self.m * (self.k * TYPES[self.a].bits + self.n * TYPES[self.d].bits) // 8
        return self.packed_bytes + matrices + 4 * self.m * self.a_scale

    @property
    def dense(self) -> DenseProblem:
        """The problem of `mixed_gemm` with the same weight: its scales are of D's type."""
        return DenseProblem(self.m, self.n, self.k, self.d, self.d, self.weight_format)

    @property
    def types_text(self) -> str:
        extras = [
            *(["fast_accum"] if self.fast_accum else []),
            *(["bias"] if self.bias else []),
            self.activation.replace("none", ""),
        ]
        tail = ", ".join(filter(None, extras))
        return f"{self.a} x {self.weight_format} -> {self.d}" + (f" with {tail}" if tail else "")
