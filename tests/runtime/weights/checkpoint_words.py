"""Codes and scales of weights as checkpoints hold them."""

from __future__ import annotations

import torch


def codes_of(n: int, k: int, bits: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2**bits, (n, k), generator=generator, dtype=torch.uint8)


def word(fields: list[int], bits: int) -> int:
    """An int32 of fields, the lowest bits first."""
    value = sum(field << bits * place for place, field in enumerate(fields))
    return value - 2**32 if value >= 2**31 else value


def words_along(values: torch.Tensor, bits: int) -> torch.Tensor:
    """int32 [rows, ceil(columns/p)] whose words hold successive columns; fields behind the last are 0."""
    per_word = 32 // bits
    rows = [row + [0] * (-len(row) % per_word) for row in values.int().tolist()]
    parts = [[word(row[i : i + per_word], bits) for i in range(0, len(row), per_word)] for row in rows]
    return torch.tensor(parts, dtype=torch.int32)


def scales_of(n: int, groups: int) -> torch.Tensor:
    return (torch.arange(n * groups, dtype=torch.float32).reshape(n, groups) + 1).half() / 64
