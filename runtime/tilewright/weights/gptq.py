"""Weights as AutoGPTQ and GPTQModel write them."""

from __future__ import annotations

from typing import Literal

import torch

from tilewright.errors import ArgumentError
from tilewright.weight_formats import WHOLE_ROW
from tilewright.weights.quantized import QuantizedWeight
from tilewright.weights.tensors import (
    check_bits,
    check_dtype,
    check_matrix,
    check_name,
    check_shape,
    fields,
    fields_of_columns,
    group_size,
)


def from_gptq(
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor | None = None,
    *,
    bits: Literal[4, 8] = 4,
    group: int | None = None,
    checkpoint_format: Literal["gptq", "gptq_v2"] = "gptq",
) -> QuantizedWeight:
    """Reads a layer of a GPTQ checkpoint.

    A word is an int32 of p = 32 / bits fields, the lowest bits first.

    Args:
        qweight: int32 [k/p, n]: field i of word [r, c] is the code of W[c, p r + i].
        qzeros: int32 [ceil(k/group), n/p]: field i of word [g, c] belongs to the zero point of group g of row
            p c + i of W. It is the zero point minus 1 in the format `gptq`, and the zero point in `gptq_v2`.
            If all are 2^(bits-1), as in checkpoints with `sym: true`, the result has no zero points.
        scales: [ceil(k/group), n], float16 as a rule.
        g_idx: int32 [k], the group of each column of W, or None.
        bits, group, checkpoint_format: `bits`, `group_size` and `checkpoint_format` of the checkpoint's
            quantisation config. A group of None follows from the shapes where k is a multiple of the groups.

    Raises:
        ArgumentError: shapes that do not go together; act-order (`desc_act`), where columns of a group are
            not neighbours; a zero point of 16 (256), which `gptq` cannot store.
    """
    check_bits(bits)
    check_dtype("qweight", qweight, (torch.int32,))
    check_dtype("qzeros", qzeros, (torch.int32,))
    check_matrix("qweight", qweight, f"[k * {bits} / 32, n]")
    check_matrix("qzeros", qzeros, f"[groups, n * {bits} / 32]")
    check_dtype("scales", scales, (torch.float16, torch.bfloat16, torch.float32))
    per_word = 32 // bits
    k, n = qweight.shape[0] * per_word, int(qweight.shape[1])
    groups = int(qzeros.shape[0])
    check_shape("qzeros", qzeros, (groups, n // per_word), f"{n} rows of W, {per_word} in a word")
    check_shape("scales", scales, (groups, n), f"groups of qzeros, {n} rows of W")
    size = group_size("scales", k, groups, group)
    if g_idx is not None:
        check_in_order("g_idx", g_idx, k, size)
    zeros = _zero_points(fields(qzeros, bits).t().contiguous(), bits, checkpoint_format)
    return QuantizedWeight(
        codes=fields_of_columns(qweight, bits),
        scales=scales.t().contiguous(),
        group=size,
        format="int4" if bits == 4 else "int8",
        zeros=zeros,
    )


def check_in_order(argument: str, g_idx: torch.Tensor, k: int, group: int) -> None:
    """Raises ArgumentError where columns of a group are not neighbours, or groups are not in order."""
    check_dtype(argument, g_idx, (torch.int32, torch.int64))
    check_shape(argument, g_idx, (k,), "a group for each column of W")
    columns = torch.arange(k, device=g_idx.device)
    expected = torch.zeros_like(columns) if group == WHOLE_ROW else columns // group
    if not torch.equal(g_idx.long(), expected):
        raise ArgumentError(
            argument,
            "columns of a group are not neighbours (act-order), which is not supported",
            hint="quantise with desc_act: false, or use a checkpoint that was quantised so",
        )


def _zero_points(stored: torch.Tensor, bits: int, checkpoint_format: str) -> torch.Tensor | None:
    """Zero points from the fields of qzeros; None where all are the middle."""
    check_name("checkpoint_format", checkpoint_format, ("gptq", "gptq_v2"))
    largest = 2**bits - 1
    if checkpoint_format == "gptq":
        if bool((stored == largest).any()):
            raise ArgumentError(
                "qzeros",
                f"a field of {largest}, which is a zero point of {largest + 1} in the format 'gptq'; "
                f"expected zero points up to {largest}",
                hint="pass checkpoint_format='gptq_v2' if the quantisation config says so",
            )
        stored = stored + 1
    return None if bool((stored == 2 ** (bits - 1)).all()) else stored
