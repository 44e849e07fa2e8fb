"""Products without scales, by our kernels and by cuBLAS: D = A B^T, plus C."""

from __future__ import annotations

from typing import TypeAlias

import torch

import tilewright
from tilewright.calls import fast_path
from tilewright.compat.deep_gemm.layouts import of_layout

OptionalTensor: TypeAlias = torch.Tensor | None

_CALL = ("a", "b", "c", "out", "beta")


def bf16_gemm_nt(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: OptionalTensor = None, compiled_dims: str = "nk"
) -> None:
    """d [m, n] = a [m, k] b [n, k]^T + c, of bfloat16; d and c bfloat16 or float32, c may be d."""
    beta = 0.0 if c is None else 1.0
    key = ("bf16_gemm_nt", type(a), a.shape, type(b), b.shape, beta)
    call = (a, b, c, d, beta)
    wants = a.requires_grad or b.requires_grad or d.requires_grad or (c is not None and c.requires_grad)
    if not fast_path.launch(key, call, wants):
        tilewright.gemm(a, b.mT, out=d, c=c, beta=beta)
        fast_path.keep(key, call, _CALL, tilewright.gemm, a, b.mT, out=d, c=c, beta=beta)


bf16_gemm_nn = of_layout("nn", bf16_gemm_nt)
bf16_gemm_tn = of_layout("tn", bf16_gemm_nt)
bf16_gemm_tt = of_layout("tt", bf16_gemm_nt)


def cublaslt_gemm_nt(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: OptionalTensor = None) -> None:
    """d = a b^T + c by cuBLAS, through torch; of bfloat16, or of float8_e4m3fn without scales."""
    if a.dtype == torch.float8_e4m3fn:
        unit_scale = torch.ones((), dtype=torch.float32, device=a.device)
        product = torch._scaled_mm(a, b.mT, scale_a=unit_scale, scale_b=unit_scale, out_dtype=d.dtype)
        torch.add(product, c, out=d) if c is not None else d.copy_(product)
    elif c is None:
        torch.mm(a, b.mT, out_dtype=d.dtype, out=d) if d.dtype != a.dtype else torch.mm(a, b.mT, out=d)
    elif d.dtype == a.dtype:
        torch.addmm(c, a, b.mT, out=d)
    else:
        torch.addmm(c, a, b.mT, out_dtype=d.dtype, out=d)


cublaslt_gemm_nn = of_layout("nn", cublaslt_gemm_nt)
cublaslt_gemm_tn = of_layout("tn", cublaslt_gemm_nt)
cublaslt_gemm_tt = of_layout("tt", cublaslt_gemm_nt)
