"""The problem of a call of `mixed_fp8_grouped_gemm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.families.mixed_fp8_gemm.problem import Problem as DenseProblem
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem


@dataclass(frozen=True, slots=True)
class Problem(GroupedProblem):
    """D[m,n] = alpha * F[g] * S[m] * sum over k of A[m,k] W[g,n,k] + bias[g,n], of packed weights W.

    Groups and m are those of `mixed_grouped_gemm`.
    """

    op_text = "mixed_fp8_grouped_gemm"
    kind_fields = (*GroupedProblem.kind_fields, "fast_accum")

    a: str = "e4m3"
    a_scale: bool = False
    fast_accum: bool = False  # MXFP4: sums of all of k stay in the tensor core

    @property
    def scales_shape(self) -> tuple[int, ...]:
        """The shape of the factors of A's rows."""
        return (self.groups, self.m) if self.own_rows else (self.m,)

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least."""
        return self.product_bytes + 4 * self.rows * self.a_scale

    @property
    def of_group(self) -> DenseProblem:
        """The product of one group."""
        return DenseProblem(
            self.m, self.n, self.k, self.a, self.d, self.weight_format, self.a_scale,
            fast_accum=self.fast_accum,
        )  # fmt: skip

    @property
    def types_text(self) -> str:
        # Slots make the class anew, and a plain super() would know the class before.
        shared = super(Problem, self).types_text
        return f"{shared}, fast_accum" if self.fast_accum else shared
