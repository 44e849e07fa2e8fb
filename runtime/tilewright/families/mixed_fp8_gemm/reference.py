"""What kernels of `mixed_fp8_gemm` multiply, in plain torch."""

from __future__ import annotations

import torch

from tilewright import weight_layout
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_gemm import reference as dense


def weight_of(packed: weight_layout.Packed, problem: Problem) -> torch.Tensor:
    """W [n, k] in float64: kernels multiply by its codes, and sums of each group by the group's scale.

    MXFP4: where a scale is less than 2^-16 of the largest of its row and 128 of k, a kernel may cut off bits
    that are less than 2^-17 of the largest scale."""
    return dense.exact(packed, problem.dense)
