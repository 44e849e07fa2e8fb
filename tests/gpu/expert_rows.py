"""Rows of experts: how many each one has, and where they end."""

from __future__ import annotations

import torch


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def counts_of(tile: int, groups: int) -> list[int]:
    """Rows of each group: none, one, a whole tile, partial tiles, several tiles."""
    kinds = [0, 1, tile, tile - 1, 2 * tile + 3, 5]
    return [kinds[index % len(kinds)] for index in range(groups)]


def ends_of(counts: list[int], alignment: int = 1) -> torch.Tensor:
    ends, start = [], 0
    for count in counts:
        ends.append(start + count)
        start = -(-ends[-1] // alignment) * alignment
    return int32(*ends)
