"""Operands of products that DeepGEMM has, too, and what is timed of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.compat import deep_gemm as ours

Call = Callable[[Any, "Operands"], None]  # of a module


@dataclass
class Operands:
    """The tensors that one call reads and writes."""

    tensors: tuple[Any, ...]
    d: torch.Tensor
    wanted: torch.Tensor | None = None  # of the rows that count, and which those are
    rows: torch.Tensor | None = None

    def copy(self) -> Operands:
        return Operands(_cloned(self.tensors), torch.empty_like(self.d).copy_(self.d))


@dataclass
class Problem:
    """A product. `make` makes one set of operands; `call` calls a module's function. `torch` makes a call of
    torch's own op for a set, with all further tensors that this op needs."""

    kind: str
    shape: str
    flops: float
    make: Callable[[], Operands]
    call: Call
    most: float = 1e-3  # what the results may differ by (`calc_diff`)
    torch: Callable[[Operands], Callable[[], Any]] | None = None
    torch_name: str = ""
    ours_alone: bool = False  # DeepGEMM does not have it


def _cloned(value: Any) -> Any:
    """Copies that lie as the originals do."""
    if isinstance(value, tuple):
        return tuple(map(_cloned, value))
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    whole = value.dtype.itemsize == 1
    (copy.view(torch.uint8) if whole else copy).copy_(value.view(torch.uint8) if whole else value)
    return copy


def random_matrix(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def by_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 with scales of 128 of k of a row, as kernels read them."""
    data, scales = ours.per_token_cast_to_fp8(x.reshape(-1, x.shape[-1]), use_ue8m0=False)
    scales = scales.view(*x.shape[:-1], -1)
    return data.view(x.shape), ours.get_mn_major_tma_aligned_tensor(scales)


def by_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 with scales of blocks of 128x128."""
    if x.dim() == 2:
        return ours.per_block_cast_to_fp8(x, use_ue8m0=False)
    pairs = [ours.per_block_cast_to_fp8(matrix, use_ue8m0=False) for matrix in x]
    return torch.stack([data.view(torch.uint8) for data, _ in pairs]).view(torch.float8_e4m3fn), torch.stack(
        [scales for _, scales in pairs]
    )


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, device="cuda", dtype=dtype)
