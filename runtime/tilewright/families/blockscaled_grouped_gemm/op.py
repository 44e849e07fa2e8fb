"""The public ops: block-scaled products of rows that belong to groups.

All ops have the arguments and the behaviour that `grouped_mm_nvfp4` describes; they differ in the formats of
a and b.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls import custom_ops
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement, place_without_copies
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations
from tilewright.declarations.groups import LAYOUTS, grouping_of
from tilewright.declarations.tactics import Tactic
from tilewright.errors import AlignmentError, ArgumentError
from tilewright.families.blockscaled_grouped_gemm.family import FAMILY
from tilewright.families.blockscaled_grouped_gemm.interface import INTERFACE
from tilewright.families.blockscaled_grouped_gemm.problem import OUTPUTS, SCALE_ROWS, Problem
from tilewright.formats.types import bits

UNPACKED_BYTES = 64  # of FP4 beside FP8, which TMA unpacks to bytes, 128 elements at a time


class _MultiplyGroups(Op):
    interface = INTERFACE
    family = FAMILY
    replaced = ("a_descale", "b_descale", "alpha", *LAYOUTS, "scale_begins")

    def __init__(self, *pairs: tuple[str, str]) -> None:
        """`pairs`: the formats of a and b."""
        self._combinations = Combinations(("a", "b"), {pair: OUTPUTS[pair] for pair in pairs})

    def combinations(self, values: Values) -> Combinations:
        return self._combinations

    def fields(self, values: Values) -> Mapping[str, Any]:
        return {"grouping": grouping_of(values)}

    def rules(self, values: Values, problem: Problem) -> None:
        if problem.scale_begins and problem.grouping != "ends":
            raise ArgumentError("scale_begins", "expected None unless group_ends lists the groups")
        if problem.grouping == "ends" and not problem.scale_begins and problem.row_alignment % SCALE_ROWS:
            raise ArgumentError(
                "row_alignment",
                f"expected a multiple of {SCALE_ROWS}, got {problem.row_alignment}",
                hint="or say in scale_begins where the scale factors of each group begin",
            )

        if not isinstance(values["zero_padding"], bool):
            raise ArgumentError("zero_padding", f"expected a bool, got {values['zero_padding']!r}")

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Copies nothing."""
        problem = arguments.problem
        for name, matrix in INTERFACE.matrices.items():
            view = arguments.matrices.get(matrix.name)
            if view is None or bits(problem.a) == bits(problem.b) or bits(matrix.type_of(problem)) != 4:
                continue
            reason = view.misplaced(matrix.inner(problem), alignment=UNPACKED_BYTES)
            if reason is not None:
                raise AlignmentError(name, f"{reason}: 128 elements of FP4 beside FP8 are loaded at a time")
        return place_without_copies(INTERFACE, arguments, addresses)

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """k is 0: D is 0."""
        values["out"].zero_()

    def flops(self, a: torch.Size, b: torch.Size, *_: Any, **__: Any) -> int:
        packed = all(bits(name) == 4 for types in self._combinations.legal for name in types)
        return custom_ops.flops(a, b) * (2 if packed else 1)


@public(_MultiplyGroups(("nvfp4", "nvfp4")))
def grouped_mm_nvfp4(
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    *,
    group_of_row: torch.Tensor | None = None,
    group_ends: torch.Tensor | None = None,
    rows_valid: torch.Tensor | None = None,
    row_alignment: int = 128,
    scale_begins: torch.Tensor | None = None,
    expected_m: int = 0,
    zero_padding: bool = False,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes alpha[g] * (a * a_descale) @ (b[g] * b_descale[g]) on the current stream, where g is the group
    of each row of a. The groups are read on the device when the kernel runs, so that a CUDA graph can be
    replayed with others.

    NVFP4, and the 128x4 layout of scale factors, are as `mm_nvfp4` has them. The two tensors' global scales
    go into `alpha`. A call passes one of `group_of_row`, `group_ends` and `rows_valid`.

    Args:
        a: [m, k/2], or with `rows_valid` [groups, m, k/2], row-major. float4_e2m1fn_x2 or uint8. What padding
            holds, NaN too, reaches no other row.
        b: [groups, k/2, n], each column-major: the transposes of weights [n, k/2]. k is a multiple of 32, n
            of 8 (float32 D: of 4).
        a_descale: the scale factors of a, in the layout of one matrix [m, k], or with `rows_valid` of one for
            each group; contiguous, padding and all, of any shape. With `scale_begins` it has the rows
            (m + 127 * groups) // 128 * 128, room for each group's in whole multiples of 128. float8_e4m3fn
            or uint8.
        b_descale: the scale factors of b, in the layout of one matrix [n, k] for each group.
        alpha: float32 [groups], a factor of each group's product; 1 if absent.
        group_of_row: int32 [m]: the group of each row; a number that is no group's, as -1, is padding. Groups
            begin at multiples of 128 rows: 128 rows of several groups become NaN.
        group_ends: int32 [groups]: the row after each group's last. A group begins where the one before it
            ends, at the next multiple of `row_alignment`.
        rows_valid: int32 [groups]: how many of the m rows of each group count, the first ones.
        row_alignment: the multiple, itself one of 128 unless `scale_begins` is passed; with group_of_row it
            changes nothing.
        scale_begins: int32 [groups], with group_ends: the row of a_descale with which each group's scale
            factors begin, a multiple of 128. Groups may then begin at any row of a.
        expected_m: with group_ends and rows_valid: how many rows of a group are likely to count; 0: all. It
            helps to choose a kernel, and changes no result.
        zero_padding: whether all rows of padding are zeroed, those after the last group too. They are where
            row_alignment is no multiple of 128.
        out: [m, n] or [groups, m, n], rows contiguous; made if absent. Without `zero_padding`, rows of
            padding are zeroed, or stay as they are where no row near them counts.
        out_dtype: D's type where `out` is absent: bfloat16 (the default), float16 or float32.
        tactic: a kernel's name, or a tactic (`NAME@cluster=2x1`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m or n is 0; 0 where k is 0.

    Raises:
        AlignmentError: an operand that TMA cannot read or write; none is copied.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_MultiplyGroups(("mxfp4", "mxfp4")), like=grouped_mm_nvfp4)
def grouped_mm_mxfp4(*_: Any, **__: Any) -> Any:
    """Multiplies MXFP4 matrices of groups, as `grouped_mm_nvfp4` does NVFP4 ones: blocks of 32 along k, each
    with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or uint8)."""


@public(_MultiplyGroups(("mxfp8", "mxfp8")), like=grouped_mm_nvfp4)
def grouped_mm_mxfp8(*_: Any, **__: Any) -> Any:
    """Multiplies MXFP8 matrices of groups, as `grouped_mm_nvfp4` does NVFP4 ones: a [m, k] and b [groups, k,
    n] of float8_e4m3fn, blocks of 32 along k, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu
    or uint8). k is a multiple of 16."""


@public(_MultiplyGroups(("mxfp8", "mxfp4"), ("mxfp8_e5m2", "mxfp4")), like=grouped_mm_nvfp4)
def grouped_mm_mxfp8_mxfp4(*_: Any, **__: Any) -> Any:
    """Multiplies MXFP8 activations a [m, k] of float8_e4m3fn or float8_e5m2 by MXFP4 weights b [groups, k/2,
    n], as `grouped_mm_nvfp4` does NVFP4 matrices. Both have blocks of 32 along k, each with a UE8M0 scale
    factor, 2^(byte - 127) (float8_e8m0fnu or uint8). k is a multiple of 128."""
