"""FP8 operands with packed scales, and the arguments of the op that a call reaches."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tilewright import blockwise_scales

BIAS = 127  # of a UE8M0 exponent
Pair = tuple[torch.Tensor, torch.Tensor]


def codes(*shape: int, seed: int) -> torch.Tensor:
    return torch.randint(BIAS - 8, BIAS + 8, shape, generator=torch.Generator().manual_seed(seed))


def values(exponents: torch.Tensor) -> torch.Tensor:
    return torch.ldexp(torch.ones(exponents.shape), exponents - BIAS)


class Operand(NamedTuple):
    """FP8 data, packed scales of it, and the factor of each element."""

    data: torch.Tensor
    words: torch.Tensor
    factors: torch.Tensor

    @property
    def pair(self) -> Pair:
        return self.data, self.words


def operand(*shape: int, block: int, seed: int = 0) -> Operand:
    *rows, k = shape
    exponents = codes(*rows, -(-k // block), seed=seed)
    factors = values(exponents).repeat_interleave(block, -1)[..., :k]
    return Operand(
        torch.zeros(shape, dtype=torch.float8_e4m3fn),
        blockwise_scales.pack(exponents.to(torch.uint8)),
        factors,
    )


def factors(scales: torch.Tensor, block: int, k: int) -> torch.Tensor:
    """The factor of each element of [..., rows, k], by packed scales as a kernel reads them."""
    assert blockwise_scales.lies_m_major(scales)
    exponents = blockwise_scales.unpack(scales, -(-k // block)).view(torch.uint8).int()
    return values(exponents).repeat_interleave(block, -1)[..., :k]


class Call:
    """The arguments of an op's last call."""

    def __init__(self) -> None:
        self.positional: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}

    def __call__(self, *positional: Any, **named: Any) -> None:
        self.positional, self.named = positional, named

    def factors(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The factors of A [..., m, k] and of B [..., n, k]."""
        rows, columns = self.positional[-2:]
        block = self.named["scale_block"]
        return factors(rows, block, k), factors(columns.mT, block, k)


def bf16(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


M, N, K = 128, 256, 1152  # the last word of 128 of k holds one exponent
GROUPS = torch.tensor([128, 256], dtype=torch.int32)
SIZES = torch.tensor([128, 640, 0, 384, 128], dtype=torch.int32)  # of k
