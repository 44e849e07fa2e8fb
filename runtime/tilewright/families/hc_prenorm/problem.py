"""The problem of a call of `hc_prenorm`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.declarations.problem import ProblemBase

BLOCK_K = 64  # elements of a k block; a split of k has whole blocks


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """D[s,m,n] = sum over the k of split s of A[m,k] B[n,k]; squares[s,m] = that of A[m,k]^2."""

    op_text = "hc_prenorm"
    shown_beyond_1 = (("splits", " in {} splits"),)

    m: int
    n: int
    k: int
    splits: int = 1
    normalize: bool = False  # D is divided by the root of its row's mean square

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: each matrix once."""
        return 2 * self.m * self.k + 4 * self.n * self.k + 4 * self.splits * self.m * (self.n + 1)

    @property
    def types_text(self) -> str:
        return "bf16 x f32 -> f32" + (", normalized" if self.normalize else "")
