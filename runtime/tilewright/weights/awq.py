"""Weights as AutoAWQ writes them."""

from __future__ import annotations

import torch

from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import check_dtype, check_matrix, check_shape, group_size, octets_of

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Field i of a word, counted from the lowest bits, belongs to row 8 c + ORDER[i] of W."""


def from_awq(
    qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor, *, group: int | None = None
) -> QuantizedWeight:
    """Reads a layer of an AWQ checkpoint of 4 bits, version `GEMM`.

    A word is an int32 of 8 fields of 4 bits. Counted from the lowest bits, they belong to the rows 0, 2, 4,
    6, 1, 3, 5, 7 of 8 successive rows of W.

    Args:
        qweight: int32 [k, n/8]: the word [r, c] has the codes of column r and rows 8 c to 8 c + 7 of W.
        qzeros: int32 [ceil(k/group), n/8]: likewise the zero points of the groups, as they are (no +1).
        scales: float16 [ceil(k/group), n].
        group: `q_group_size` (`group_size`) of the quantisation config; None: from the shapes.

    Raises:
        ArgumentError: shapes that do not go together, as in a checkpoint of version `GEMV`.
    """
    check_dtype("qweight", qweight, (torch.int32,))
    check_dtype("qzeros", qzeros, (torch.int32,))
    check_matrix("qweight", qweight, "[k, n/8]")
    check_matrix("qzeros", qzeros, "[groups, n/8]")
    check_dtype("scales", scales, (torch.float16, torch.bfloat16, torch.float32))
    k, words = map(int, qweight.shape)
    groups = int(qzeros.shape[0])
    check_shape("qzeros", qzeros, (groups, words), "as many words as qweight's rows")
    check_shape("scales", scales, (groups, 8 * words), "groups of qzeros, 8 rows of W a word of qweight")
    return QuantizedWeight(
        codes=_rows(qweight),
        scales=scales.t().contiguous(),
        group=group_size("scales", k, groups, group),
        format="int4",
        zeros=_rows(qzeros),
    )


def _rows(words: torch.Tensor) -> torch.Tensor:
    """uint8 [8 c, r] of int32 words [r, c]."""
    octets = octets_of(words.t())
    rows = torch.empty((words.shape[1], 8, words.shape[0]), dtype=torch.uint8, device=words.device)
    for field, row in enumerate(ORDER):
        octet = octets[..., field // 2]
        rows[:, row] = octet >> 4 if field % 2 else octet & 15
    return rows.flatten(0, 1)
