"""Products of rows that belong to groups, each with a matrix of its own."""

from __future__ import annotations

import torch


def groups_of_rows(ends: torch.Tensor, rows: int, row_alignment: int) -> torch.Tensor:
    """The group of each row, int32 [rows], -1 for a row of no group. `ends`, int32 [groups], is the row after
    each group's last; numbers below 0 and above `rows` count as these. A group begins at the end of the group
    before it, rounded up to a multiple of `row_alignment`."""
    group_of_row = torch.full((rows,), -1, dtype=torch.int32, device=ends.device)
    start = 0
    for group, end in enumerate(ends.clamp(0, rows).tolist()):
        group_of_row[start:end] = group
        start = -(-end // row_alignment) * row_alignment
    return group_of_row


def grouped_product(a: torch.Tensor, b: torch.Tensor, group_of_row: torch.Tensor) -> torch.Tensor:
    """Each row's product with the matrix of its group: float64 [m, n] from a [m, k] and b [groups, k, n].
    Rows of no group are zeros."""
    result = torch.zeros(a.shape[0], b.shape[-1], dtype=torch.float64, device=a.device)
    for group in range(b.shape[0]):
        rows = (group_of_row == group).nonzero().flatten()
        result[rows] = a[rows].double() @ b[group].double()
    return result
