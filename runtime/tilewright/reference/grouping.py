"""Products of rows that belong to groups, each with a matrix of its own."""

from __future__ import annotations

import torch


def groups_of_rows(ends: torch.Tensor, rows: int, row_alignment: int) -> torch.Tensor:
    """int32 [rows]: the group of each row, -1 where it is of none; `ends` int32 [groups] says which row is
    behind each group's last. A group begins where the one before it ends, at the next multiple of
    `row_alignment`."""
    found = torch.full((rows,), -1, dtype=torch.int32, device=ends.device)
    start = 0
    for group, end in enumerate(ends.tolist()):
        found[start : min(end, rows)] = group
        start = -(-end // row_alignment) * row_alignment
    return found


def grouped_product(a: torch.Tensor, b: torch.Tensor, group_of_row: torch.Tensor) -> torch.Tensor:
    """float64 [m, n] of a [m, k] and b [groups, k, n]: each row's product with the matrix of its group;
    zeros where it is of none."""
    made = torch.zeros(a.shape[0], b.shape[-1], dtype=torch.float64, device=a.device)
    for group in range(b.shape[0]):
        rows = (group_of_row == group).nonzero().flatten()
        made[rows] = a[rows].double() @ b[group].double()
    return made
