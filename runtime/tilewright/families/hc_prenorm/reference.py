"""`hc_prenorm` in float64, for comparisons."""

from __future__ import annotations

import itertools

import torch

from tilewright.families.hc_prenorm.problem import BLOCK_K


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Rounds finite float32 as TMA does: to the nearest number with 10 bits of mantissa, ties to even."""
    bits = x.view(torch.int32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def split_bounds(k: int, splits: int) -> list[int]:
    """The starts of the splits of k, and the end of the last one."""
    blocks, rest = divmod(-(-k // BLOCK_K), splits)
    return [min(k, BLOCK_K * (i * blocks + min(i, rest))) for i in range(splits + 1)]


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    splits: int | None = None,
    normalize: bool = False,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """D and the sums of squares, in float64, as `tilewright.hc_prenorm` returns them."""
    x, y = a.double(), tf32(b).double()
    bounds = split_bounds(a.shape[1], splits or 1)
    parts = [slice(*ends) for ends in itertools.pairwise(bounds)]
    out = torch.stack([x[:, part] @ y[:, part].T for part in parts])
    squares = torch.stack([x[:, part].square().sum(-1) for part in parts])
    if splits is not None:
        return out, squares
    out, squares = out[0], squares[0]
    if normalize:
        out = out / (squares / a.shape[1] + eps).sqrt().unsqueeze(-1)
    return out, squares
