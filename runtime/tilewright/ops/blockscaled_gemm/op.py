"""The public ops: block-scaled products of NVFP4, MXFP4 and MXFP8 matrices.

All have the arguments and the behaviour that `mm_nvfp4` describes; they differ in the formats they take.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright.ops.blockscaled_gemm import torch_op
from tilewright.ops.blockscaled_gemm.arguments import MIXED, MXFP4, MXFP8, NVFP4
from tilewright.ops.blockscaled_gemm.call import multiply
from tilewright.ops.common.tactics import Tactic


def mm_nvfp4(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """alpha * (a * a_descale) @ (b * b_descale) + beta * c, on the current stream.

    NVFP4: E2M1 elements, two to a byte (the even one in the low nibble), blocks of 16 along k, each with an
    E4M3 scale factor. The two tensors' global scales go into `alpha`, as 1 / (scale_a * scale_b).

    Scale factors lie in the 128x4 layout: that of row r and block c of a matrix [rows, k] is at
    ((r/128)*KT + c/4)*512 + (r%32)*16 + ((r%128)/32)*4 + c%4, with KT = ceil(ceil(k/16)/4). Rows are padded
    to 128 and blocks to 4, with zeros. `tilewright.scale_factors` makes, pads and takes apart such buffers.

    Args:
        a: [m, k/2], or [batch, m, k/2], row-major. float4_e2m1fn_x2 or uint8.
        b: [k/2, n], or [batch, k/2, n], column-major: the transpose of a weight [n, k/2]. An operand without
            batch serves every batch; its scale factors are then repeated, which is a copy.
        a_descale, b_descale: the scale factors of a and of b, contiguous, padding and all, of any shape
            ([padded rows, padded blocks], or flat). float8_e4m3fn or uint8.
        alpha: one float32 on the device, read when the kernel runs; 1 if absent.
        out_dtype: bfloat16, float16, float32; or D quantised by the kernel: float4_e2m1fn_x2 (NVFP4) or
            float8_e4m3fn (MXFP8).
        out: D's tensor, of out_dtype (or uint8 for NVFP4), [m, n] (NVFP4: [m, n/2]) or with a batch first,
            rows contiguous, in a wider tensor too; made if absent. It may be c, and overlaps nothing else.
        c: [m, n], of D's type (bfloat16 beside a quantised D); read if beta is not 0.
        beta: a number.
        out_descale: the scale factors of a quantised D, to be written; made if absent.
        out_global_scale: one float32 on the device, with which a quantised D is multiplied first: NVFP4's
            global scale, 448 * 6 / amax(D). NVFP4 needs it; MXFP8 has 1 if absent.
        tactic: a kernel's name, or a tactic (`NAME@cluster=2x1,splits=4`), instead of the one selected.

    Returns:
        D; of a quantised D the pair (D, scale factors), the latter in the 128x4 layout, padding zeroed. An
        empty tensor where m, n or the batch is 0; beta * c, or 0, where k is 0.

    Raises:
        ArgumentError: an argument is wrong; it says which, what was given and what is wanted.
        UnsupportedDeviceError: no kernel runs on this GPU.
        NoKernelError: no kernel computes this problem.
        NotBuiltError: the kernel is not built, and TILEWRIGHT_JIT=0.

    Operands that no kernel can read as they lie (extents, strides or addresses that TMA does not take) are
    copied, with padding, which the log says.
    """
    return multiply(
        NVFP4,
        a,
        b,
        a_descale,
        b_descale,
        alpha,
        out_dtype,
        out,
        c,
        beta,
        out_descale,
        out_global_scale,
        tactic,
    )


def mm_mxfp4(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """As `mm_nvfp4`, of MXFP4 matrices: blocks of 32 along k, each with a UE8M0 scale factor, 2^(byte - 127)
    (float8_e8m0fnu or uint8)."""
    return multiply(
        MXFP4,
        a,
        b,
        a_descale,
        b_descale,
        alpha,
        out_dtype,
        out,
        c,
        beta,
        out_descale,
        out_global_scale,
        tactic,
    )


def mm_mxfp8(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """As `mm_nvfp4`, of MXFP8 matrices: a [m, k] and b [k, n] of float8_e4m3fn or float8_e5m2, blocks of 32
    along k, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or uint8)."""
    return multiply(
        MXFP8,
        a,
        b,
        a_descale,
        b_descale,
        alpha,
        out_dtype,
        out,
        c,
        beta,
        out_descale,
        out_global_scale,
        tactic,
    )


def mm_mxfp8_mxfp4(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """As `mm_nvfp4`, of one MXFP8 and one MXFP4 matrix, in either order: the one of float8_e4m3fn or
    float8_e5m2 is MXFP8, the one of float4_e2m1fn_x2 or uint8 is MXFP4, with k/2 bytes along k. Both have
    blocks of 32, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or uint8)."""
    return multiply(
        MIXED,
        a,
        b,
        a_descale,
        b_descale,
        alpha,
        out_dtype,
        out,
        c,
        beta,
        out_descale,
        out_global_scale,
        tactic,
    )


for _op in (NVFP4, MXFP4, MXFP8, MIXED):
    torch_op.register(_op, multiply)
