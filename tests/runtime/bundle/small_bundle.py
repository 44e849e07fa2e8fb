"""The products of a small model, and operands of its calls."""

from __future__ import annotations

import torch
from host_modules import HOST_ROWS

from tilewright.models.product import Listing, Product

N, K, MOST = 32, 64, 300
WORDS = {"types": "bf16", "n": N, "k": K}
ROWS = [row for row in HOST_ROWS if row["name"] in ("host_bf16_tn", "host_bf16_tn_streamk")]


def products() -> Listing:
    """Two layers that are one problem, a problem of steps, and one that no kernel computes."""
    of = Product.of_words
    return Listing(
        "a small model",
        [
            of("up", "tilewright.gemm", "gemm", WORDS, range(1, MOST + 1), count=2),
            of("gate", "tilewright.gemm", "gemm", WORDS, range(1, MOST + 1)),
            of("rows", "tilewright.gemm", "gemm", {**WORDS, "n": 48}, range(8, 65, 8)),
            of("half", "tilewright.gemm", "gemm", {**WORDS, "types": "f16"}, range(1, 9)),
        ],
    )


def operands(m: int, n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(m)
    a, weight = (torch.randn(rows, K, generator=generator).to(torch.bfloat16) for rows in (m, n))
    return a, weight
