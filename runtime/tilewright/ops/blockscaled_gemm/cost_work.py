"""What the models of block-scaled kernels have in common."""

from __future__ import annotations

from tilewright.ops.blockscaled_gemm.problem import matrix_bytes
from tilewright.ops.common.persistent import TileModel


class Blockscaled(TileModel):
    """Operands of which scale factors are a part."""

    # FlashInfer 2303 on a B300, k of 28672, loses 4 percent from m of 4096 (66 MB of L2's 126) to 8192, and
    # with k of 8192 nothing.
    L2_SHARE_FOR_ONE = 0.6

    def operand_bytes(self) -> tuple[float, float]:
        problem = self.problem
        return matrix_bytes(problem.a, problem.m, problem.k), matrix_bytes(problem.b, problem.n, problem.k)
