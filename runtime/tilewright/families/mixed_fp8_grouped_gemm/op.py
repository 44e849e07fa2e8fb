"""The public op."""

from __future__ import annotations

import torch

from tilewright.calls.publish import public
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_fp8_gemm.op import check_sums, recheck_sums
from tilewright.families.mixed_fp8_grouped_gemm.family import FAMILY
from tilewright.families.mixed_fp8_grouped_gemm.interface import INTERFACE
from tilewright.families.mixed_grouped_gemm.op import MixedGrouped


class _MixedFp8Grouped(MixedGrouped):
    interface = INTERFACE
    family = FAMILY
    rules, recheck = staticmethod(check_sums), staticmethod(recheck_sums)


@public(_MixedFp8Grouped())
def packed_fp8_grouped_gemm(
    a: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    *,
    n: int,
    weight_format: str = "int4_g128",
    group_of_row: torch.Tensor | None = None,
    group_ends: torch.Tensor | None = None,
    rows_valid: torch.Tensor | None = None,
    row_alignment: int = 1,
    expected_m: int = 0,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    a_scale: torch.Tensor | None = None,
    alpha: float = 1.0,
    group_factors: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    fast_accum: bool = False,
    largest_scale: float = 2.0**127,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes alpha * group_factors[g] * a_scale[:, None] * (a @ W[g].T) + bias[g] for FP8 activations on
    the current stream, where g is the group of each row of a, and W [groups, n, k] a packed weight of 4 bits.
    The groups are read on the device when the kernel runs, so that a CUDA graph can be replayed with others.

    Weights are multiplied as in `packed_fp8_gemm`; groups are those of `packed_grouped_gemm`.
    A call passes one of `group_of_row`, `group_ends` and `rows_valid`.

    Args:
        a: [m, k], or with `rows_valid` [groups, m, k]: float8_e4m3fn, rows contiguous, in a wider tensor too;
            k a multiple of 32. What padding holds, NaN too, reaches no other row.
        weight: uint8 [groups, ceil(n/64), ceil(k/128) * 4096], contiguous: the packed elements.
        scale: uint8 [groups, ceil(n/64), ceil(k/128) * bytes], contiguous: the packed scales. Those of
            integers have D's type.
        n: rows of each W, a multiple of 8.
        weight_format: int4_g32, int4_g64, int4_g128, int4_zp_g32, int4_zp_g64, int4_zp_g128 or mxfp4
            (docs/packed_weights.md says which have kernels).
        group_of_row, group_ends, rows_valid, row_alignment, expected_m: as in `packed_grouped_gemm`.
        out: [m, n] or [groups, m, n] of D's type, rows contiguous; made if absent. Rows of padding are
            zeroed, or stay as they are where no row near them counts.
        out_dtype: D's type where `out` is absent: bfloat16 (default) or float16.
        a_scale: float32 [m] or [groups, m], contiguous: a factor of each row of a; 1 if absent.
        alpha: a factor. If it is 0, a and W are not read.
        group_factors: float32 [groups]: a factor of each group's product.
        bias: [groups, n] of D's type, contiguous.
        fast_accum, largest_scale: as in `packed_fp8_gemm`; the largest scale of all groups.
        tactic: a kernel's name, or a tactic (`NAME@cluster=2x1`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m or n is 0; bias[g], and 0 in padding, where k or alpha is 0.

    Raises:
        AlignmentError: rows of a or out that do not begin at multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")
