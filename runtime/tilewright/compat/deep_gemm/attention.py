"""Logits of an indexer: `tilewright.mqa_logits` and `tilewright.paged_mqa_logits` under DeepGEMM's names.

The kernels have weights of F32 and 16 heads or more. Weights of BF16 and FP16 are converted first, and fewer
heads are padded with heads of zeros, whose weights are 0. Neither changes a bit of the logits.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch.nn.functional import pad

import tilewright
from tilewright.errors import ArgumentError

Scaled: TypeAlias = tuple[torch.Tensor, torch.Tensor]
_LEAST_HEADS = 16  # of the kernels
_ROW_BYTES = 1024  # of which rows of logits are multiples, as DeepGEMM lays them out


def fp8_fp4_mqa_logits(
    q: tuple[torch.Tensor, torch.Tensor | None],
    kv: Scaled,
    weights: torch.Tensor,
    cu_seq_len_k_start: torch.Tensor,
    cu_seq_len_k_end: torch.Tensor,
    clean_logits: bool = True,
    max_seqlen_k: int = 0,
    logits_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """[queries, keys]; with `max_seqlen_k`, compressed rows of that number of columns, which are not cleaned.

    q is FP8 and None, or FP4 (int8, two to a byte) and int32 words of exponents; kv the same, of FP8 with
    float32 scales.
    """
    if max_seqlen_k and clean_logits:
        raise ArgumentError("clean_logits", "it is True, and max_seqlen_k is given; expected False")
    data, q_scale, weights = _heads(_bytes(q[0]), q[1], weights)
    out = _rows(len(data), max_seqlen_k or len(kv[0]), logits_dtype, data.device)
    return tilewright.mqa_logits(
        data, _bytes(kv[0]), kv[1], weights, cu_seq_len_k_start, cu_seq_len_k_end, q_scale=q_scale, out=out,
        columns=max_seqlen_k, clean=clean_logits,
    )  # fmt: skip


def get_paged_mqa_logits_metadata(
    context_lens: torch.Tensor, block_kv: int, num_sms: int, indices: torch.Tensor | None = None
) -> torch.Tensor:
    """[num_sms + 1, 2], int32: what each thread block is to do. The size of pages does not matter here."""
    next_n = context_lens.shape[1] if context_lens.dim() == 2 else 1
    return tilewright.paged_mqa_schedule(context_lens, blocks=num_sms, next_n=next_n, indices=indices)


def fp8_fp4_paged_mqa_logits(
    q: tuple[torch.Tensor, torch.Tensor | None],
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
    schedule_meta: torch.Tensor,
    max_context_len: int,
    clean_logits: bool = False,
    logits_dtype: torch.dtype = torch.float32,
    indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """[batch * next_n, max_context_len]. `context_lens` of one dimension are those of the last of each
    sequence's queries."""
    if q[0].dim() != 4 or kv_cache.dim() != 4:
        raise ArgumentError("q", "expected four dimensions of q and kv_cache")
    data, q_scale, weights = _heads(_bytes(q[0]), q[1], weights)
    out = _rows(data.shape[0] * data.shape[1], max_context_len, logits_dtype, data.device)
    return tilewright.paged_mqa_logits(
        data.flatten(0, 1), kv_cache.flatten(1), weights, context_lens, block_table, schedule_meta,
        keys=max_context_len, q_scale=None if q_scale is None else q_scale.flatten(0, 1), indices=indices,
        out=out, clean=clean_logits,
    )  # fmt: skip


def fp8_mqa_logits(
    q: torch.Tensor,
    kv: Scaled,
    weights: torch.Tensor,
    cu_seq_len_k_start: torch.Tensor,
    cu_seq_len_k_end: torch.Tensor,
    clean_logits: bool = True,
    max_seqlen_k: int = 0,
) -> torch.Tensor:
    """`fp8_fp4_mqa_logits` of FP8, to FP32."""
    return fp8_fp4_mqa_logits(
        (q, None), kv, weights, cu_seq_len_k_start, cu_seq_len_k_end, clean_logits, max_seqlen_k
    )


def fp8_paged_mqa_logits(
    q: torch.Tensor,
    fused_kv_cache: torch.Tensor,
    weights: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
    schedule_meta: torch.Tensor,
    max_context_len: int,
    clean_logits: bool = False,
    indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """`fp8_fp4_paged_mqa_logits` of FP8, to FP32."""
    return fp8_fp4_paged_mqa_logits(
        (q, None), fused_kv_cache, weights, context_lens, block_table, schedule_meta, max_context_len,
        clean_logits, indices=indices,
    )  # fmt: skip


def _heads(
    data: torch.Tensor, q_scale: torch.Tensor | None, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """q, its exponents and weights as kernels read them: F32 weights of at least 16 heads."""
    if weights.dtype in (torch.bfloat16, torch.float16):
        weights = weights.float()
    lacking = _LEAST_HEADS - data.shape[-2]
    if lacking > 0 and weights.shape[-1] == data.shape[-2]:
        data = pad(data.view(torch.uint8), (0, 0, 0, lacking)).view(data.dtype)
        weights = pad(weights, (0, lacking))
        q_scale = None if q_scale is None else pad(q_scale, (0, lacking))
    return data, q_scale, weights


def _bytes(data: torch.Tensor) -> torch.Tensor:
    """FP4 arrives as int8."""
    return data.view(torch.uint8) if data.dtype == torch.int8 else data


def _rows(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Logits in rows at multiples of 1,024 bytes."""
    unit = _ROW_BYTES // dtype.itemsize
    return torch.empty(rows, -(-columns // unit) * unit, dtype=dtype, device=device)[:, :columns]
