"""Quantised operands for tests, and what their products are."""

from __future__ import annotations

import torch

from tilewright import reference


def operand(
    rows: int, k: int, name: str = "nvfp4", batch: tuple[int, ...] = (), seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """A quantised matrix [.., rows, k] and its scales."""
    generator = torch.Generator().manual_seed(seed + rows + k)
    value = torch.randn(*batch, rows, k, generator=generator)
    value *= 2.0 ** torch.randint(-3, 4, (*batch, rows, 1), generator=generator)
    return reference.quantize(value, name, 37.0 if name == "nvfp4" else None)


def product(
    m: int, n: int, k: int, a: str = "nvfp4", b: str = "nvfp4", *, batch: tuple[int, ...] = ()
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """(a, b, a_descale, b_descale), and the exact product."""
    left, left_scales = operand(m, k, a, batch)
    right, right_scales = operand(n, k, b, batch, seed=1)
    call = [left, right.mT, left_scales, right_scales]
    return call, reference.product(*call, a, format_b=b)


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted.to(found.dtype))
