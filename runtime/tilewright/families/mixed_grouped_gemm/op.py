"""The public op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright import weight_formats
from tilewright.calls.op import Op, Values
from tilewright.calls.publish import public
from tilewright.declarations.groups import LAYOUTS, grouping_of
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_gemm.op import check_weight
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.interface import INTERFACE
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem


def groups_of_rows(values: Values, problem: GroupedProblem) -> torch.Tensor:
    """The group of each row of D, or a number that is no group's: of the shape of D without its columns."""
    device = values["a"].device
    if problem.groups == 0:
        return torch.full(values["out"].shape[:-1], -1, device=device)
    if problem.grouping == "row_index":
        group: torch.Tensor = values["group_of_row"].long()
        return group.where((group >= 0) & (group < problem.groups), -1)
    rows = torch.arange(problem.m, device=device)
    if problem.grouping == "rows_valid":
        groups = torch.arange(problem.groups, device=device)[:, None]
        return groups.where(rows < values["rows_valid"][:, None], -1)
    ends = values["group_ends"].long()
    unit = problem.row_alignment
    begins = torch.cat((ends.new_zeros(1), -(-ends[:-1] // unit) * unit))
    inside = (rows >= begins[:, None]) & (rows < ends[:, None])
    return inside.int().argmax(0).where(inside.any(0), -1)


class MixedGrouped(Op):
    """What ops of packed weights of groups have in common."""

    passed = ("a", "weight", "scale", "out")
    replaced = tuple(LAYOUTS)

    @staticmethod
    def flops(a: Any, weight: Any, *_: Any, **__: Any) -> int:
        rows = a[0] if len(a) == 2 else a[0] * a[1]
        return int(2 * rows * a[-1] * weight[-2] * weight_formats.UNIT_N)

    def fields(self, values: Values) -> Mapping[str, Any]:
        weight = values["weight"]
        groups = weight.shape[0] if isinstance(weight, torch.Tensor) and weight.dim() == 3 else 1
        return {"grouping": grouping_of(values), "groups": groups}

    def without_kernel(self, problem: GroupedProblem, values: Values) -> None:
        """activation(bias) of each row's group: k or alpha is 0."""
        out, bias = values["out"], values["bias"]
        group = groups_of_rows(values, problem)[..., None]
        has_bias = bias is not None and problem.groups > 0
        value = torch.zeros_like(out)
        if has_bias:
            value = ACTIVATED[problem.activation](bias[group[..., 0].clamp(min=0)].float())
        out.copy_(value.where(group >= 0, 0))


class _Mixed(MixedGrouped):
    interface = INTERFACE
    family = FAMILY
    rules = staticmethod(check_weight)


@public(_Mixed())
def packed_grouped_gemm(
    a: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    *,
    n: int,
    weight_format: str = "int4_g128",
    group_of_row: torch.Tensor | None = None,
    group_ends: torch.Tensor | None = None,
    rows_valid: torch.Tensor | None = None,
    row_alignment: int = 1,
    expected_m: int = 0,
    out: torch.Tensor | None = None,
    alpha: float = 1.0,
    group_factors: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes activation(alpha * group_factors[g] * (a @ W[g].T) + bias[g]) on the current stream, where g
    is the group of each row of a, and W [groups, n, k] a packed weight. The groups are read on the device
    when the kernel runs, so that a CUDA graph can be replayed with others.

    W is decoded to a's type and multiplied with sums in FP32 (docs/packed_kernels.md says what is exact).
    A call passes one of `group_of_row`, `group_ends` and `rows_valid`.

    Args:
        a: [m, k], or with `rows_valid` [groups, m, k]: bfloat16 or float16 (MXFP4: bfloat16), rows
            contiguous, in a wider tensor too; k a multiple of 32. What padding holds, NaN too, reaches no
            other row.
        weight: uint8 [groups, ceil(n/64), ceil(k/128) * 4096], of 8 bits * 8192, contiguous: the packed
            elements.
        scale: uint8 [groups, ceil(n/64), ceil(k/128) * bytes], contiguous: the packed scales. Those of
            integers and of E4M3 have a's type.
        n: rows of each W, a multiple of 8.
        weight_format: int4_g32, int4_g64, int4_g128, int4_zp_g32, int4_zp_g64, int4_zp_g128, mxfp4, nvfp4,
            int8_g128 or e4m3_g128 (docs/packed_weights.md says which have kernels).
        group_of_row: int32 [m]: the group of each row; a number that is no group's, as -1, is padding. Any
            order is right; it is fast where rows of a group lie together.
        group_ends: int32 [groups]: the row after each group's last. A group begins where the one before it
            ends, at the next multiple of `row_alignment`.
        rows_valid: int32 [groups]: how many of the m rows of each group count, the first ones.
        row_alignment: the multiple; with group_of_row it helps to choose a kernel, and changes no result.
        expected_m: how many rows of a group are likely to count; 0: all that a has. It helps to choose a
            kernel, and changes no result.
        out: [m, n] or [groups, m, n] of a's type, for silu_mul with n/2 columns, rows contiguous; made if
            absent. Rows of padding are zeroed, or stay as they are where no row near them counts.
        alpha: a factor. If it is 0, a and W are not read.
        group_factors: float32 [groups]: a factor of each group's product, as NVFP4's scales of whole weights.
        bias: [groups, n] of a's type, contiguous.
        activation: none, or silu_mul: D is silu(gate) * up, of weights that `pack_weight(..., gated=True)`
            packed, whose n rows, like the bias, are those of gate and then those of up; n is a multiple of
            16. With other weights D is wrong: the bytes do not say how they were packed
            (`mixed_grouped_gemm` knows).
        tactic: a kernel's name, or a tactic (`NAME@cluster=2x1`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m is 0; activation(bias[g]), and 0 in padding, where k or alpha is 0.

    Raises:
        AlignmentError: rows of a or out that do not begin at multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")
