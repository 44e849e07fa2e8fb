"""Calls of products whose rows, or ranges of k, belong to groups: checks, placement, and calls without k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls import custom_ops
from tilewright.calls.guards import certainly
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement, place_without_copies
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations
from tilewright.declarations.table import KernelRecord
from tilewright.errors import AlignmentError, ArgumentError
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.interface import INTERFACE
from tilewright.families.grouped_gemm.problem import (
    FP4_SCALES,
    OUTPUTS,
    PACKED_SCALES,
    Problem,
    part_multiple,
)

_SCALES = ("scale_a", "scale_b")
_FOUR = 16 // 4  # floats in 16 bytes, of which TMA's strides are multiples
_EIGHT = 16 // 2  # elements of D in 16 bytes, which a kernel stores at once if columns are skipped


class Product(Op):
    """`grouping`: the grouping of every call, or "" if the operands decide it."""

    interface = INTERFACE
    family = FAMILY
    flops = staticmethod(custom_ops.flops)

    def __init__(self, grouping: str, *layouts: str) -> None:
        self.grouping = grouping
        self.replaced = tuple(layouts)

    def fields(self, values: Values) -> Mapping[str, Any]:
        if values["scale_block"] not in PACKED_SCALES.values():
            raise ArgumentError("scale_block", f"expected 32 or 128, got {values['scale_block']!r}")
        grouping = self.grouping or ("row_index" if values["group_of_row"] is not None else "ends")
        if any(_is_packed(values[name]) for name in _SCALES):
            sizes = PACKED_SCALES.items()
            scales = {"scales": next(name for name, size in sizes if size == values["scale_block"])}
        else:
            scales = _scales(values["b"], values["scale_b"])
        return {"grouping": grouping, **scales, "layout": self.layout(values)}

    def layout(self, values: Values) -> str:
        """BLAS's name of the layout. k is contiguous in A; in a B of 16 bits, n may be."""
        return "tt" if values["scale_b"] is None and _row_major(values["b"]) else "tn"

    def rules(self, values: Values, problem: Problem) -> None:
        scaled = problem.scaled
        if problem.fp4 and problem.scales != FP4_SCALES:
            message = "expected 32, and scale factors of int32, beside FP4"
            raise ArgumentError("scale_block", f"{message}; got {values['scale_block']}, {problem.scales}")
        if not self.grouping and (values["group_of_row"] is None) == (values["group_ends"] is None):
            actual = "neither" if values["group_ends"] is None else "both"
            raise ArgumentError("group_of_row", f"expected either group_of_row or group_ends, got {actual}")
        # TMA reads factors from multiples of 16 bytes on, and tiles begin with their group.
        if scaled and problem.grouping == "ends" and problem.row_alignment % _FOUR:
            multiple = f"expected a multiple of {_FOUR} beside scale factors"
            raise ArgumentError("row_alignment", f"{multiple}, got {problem.row_alignment}")
        scales = values["scale_b"]
        if scaled and problem.scales == "128x128":
            lie = zip(scales.shape[-2:], scales.stride()[-2:], strict=True)
            if all(certainly(extent > 1) and certainly(step != 1) for extent, step in lie):
                message = f"expected 1 for one of the last two strides, got strides {tuple(scales.stride())}"
                raise ArgumentError("scale_b", message)
        if not isinstance(values.get("zero_padding", False), bool):
            raise ArgumentError("zero_padding", f"expected a bool, got {values['zero_padding']!r}")

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Copies nothing. Columns of scale factors may have any length, because TMA reads any."""
        for name in _SCALES:
            view = arguments.matrices.get(name)
            if view is None or (name == "scale_b" and arguments.problem.scales == "128x128"):
                continue
            outer, step, _, neighbour = view.along("rows" if name == "scale_a" else "columns")
            several = view.batch > 1
            if neighbour != 1 or (outer > 1 and step % _FOUR) or (several and view.batch_stride % _FOUR):
                raise AlignmentError(
                    name,
                    f"shape [{view.rows}, {view.columns}] with strides ({view.row_stride}, "
                    f"{view.column_stride}), and {view.batch_stride} between matrices",
                    hint="Columns of scale factors must be contiguous and begin at multiples of 16 bytes, "
                    "as in the layout m_major of tilewright.blockwise_scales.",
                )
        return place_without_copies(INTERFACE, arguments, addresses, judged=_SCALES)

    def alignments(self, problem: Problem, record: KernelRecord) -> Mapping[str, int]:
        return {"scale_b": 16} if problem.scales in ("1x128", *PACKED_SCALES) else {}

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """k is 0: D is C, or 0."""
        out, c = values["out"], values["c"]
        out.zero_() if c is None else out.copy_(c)


class ProductOfHeads(Product):
    """Products of a batch. The columns of D may come in heads with gaps."""

    def combinations(self, values: Values) -> Combinations:
        """BF16 is refused, because it has no scale factors, and every call passes some."""
        scaled = {pair: outputs for pair, outputs in OUTPUTS.items() if "bf16" not in pair}
        return Combinations(("a", "b"), scaled)

    def rules(self, values: Values, problem: Problem) -> None:
        super().rules(values, problem)
        sizes = {name: values[name] for name in ("head_left", "head_gap", "head_right")}
        head = problem.head_left + problem.head_right
        if not any(sizes.values()):
            return
        for name, size in sizes.items():
            if size % _EIGHT:
                raise ArgumentError(name, f"expected a multiple of {_EIGHT}, got {size}")
        if not head or certainly(problem.n % head != 0):
            sizes_text = f"{problem.head_left} + {problem.head_right}"
            message = (
                f"expected {problem.n} columns in whole heads of head_left + head_right, got {sizes_text}"
            )
            raise ArgumentError("head_left", message)
        if problem.d != "bf16":
            raise ArgumentError(
                "head_gap",
                f"expected a D of bfloat16 beside a head_gap of {problem.head_gap}, got {problem.d}",
            )
        if problem.c:
            raise ArgumentError("c", "not supported where columns of D are skipped")

    def without_kernel(self, problem: Problem, values: Values) -> None:
        if not problem.head_gap:
            super().without_kernel(problem, values)
            return
        head = problem.head_left + problem.head_gap + problem.head_right
        heads = values["out"].unflatten(-1, (-1, head))
        for part in (heads[..., : problem.head_left], heads[..., head - problem.head_right :]):
            part.zero_()


class ProductOfParts(Product):
    """Products of ranges of k: each group has a range of k and a D, in F32."""

    def combinations(self, values: Values) -> Combinations:
        """FP4 is refused: a group's rows would end within a byte's pair, or a stage of its neighbour's."""
        pairs = [pair for pair in OUTPUTS if "mxfp4" not in pair]
        return Combinations(("a", "b"), dict.fromkeys(pairs, ("f32",)))

    def layout(self, values: Values) -> str:
        """In FP8 each group's range is a matrix of its own, with k contiguous; in 16 bits the ranges are rows
        of [k, m] and [k, n]."""
        return "tn" if values["scale_b"] is not None else "nt"

    def fields(self, values: Values) -> Mapping[str, Any]:
        sizes = values["group_k"]
        groups = sizes.shape[0] if isinstance(sizes, torch.Tensor) and sizes.dim() == 1 else 1
        return {**super().fields(values), "groups": groups}

    def rules(self, values: Values, problem: Problem) -> None:
        super().rules(values, problem)
        if problem.scales == "128x128":
            raise ArgumentError(
                "scale_b", "expected a factor for 128 of k of each n: [k/128, n], n contiguous"
            )
        multiple = part_multiple(problem.a)
        if certainly(problem.k % multiple != 0):
            raise ArgumentError("a", f"expected a multiple of {multiple} for k, got {problem.k}")
        if problem.scales == "none":
            return
        for name, inner in (("a", -1), ("b", -2)):
            tensor = values[name]
            length, several = tensor.shape[inner], certainly(tensor.shape[-3 - inner] > 1)
            if several and certainly(length > 0) and certainly(tensor.stride(-3 - inner) != length):
                raise ArgumentError(name, f"expected memory without gaps, got strides {tensor.stride()}")


def _is_packed(scales: Any) -> bool:
    """Whether scale factors are words. If only one operand's are, the other's type is wrong."""
    return isinstance(scales, torch.Tensor) and scales.dtype == torch.int32


def _scales(b: Any, scales: Any) -> dict[str, Any]:
    """The granularity of B's F32 scale factors, and whether k is their contiguous dimension."""
    if (
        not isinstance(scales, torch.Tensor)
        or not isinstance(b, torch.Tensor)
        or scales.dim() < 2
        or b.dim() < 2
    ):
        return {"scales": "none" if scales is None else "128x128"}
    per_column = certainly(scales.shape[-1] == b.shape[-1])
    k_major = not per_column and certainly(scales.stride(-1) != 1) and certainly(scales.shape[-1] > 1)
    return {"scales": "1x128" if per_column else "128x128", "scales_k_major": k_major}


def _row_major(b: Any) -> bool:
    """Whether n is contiguous in B, and k is not."""
    if not isinstance(b, torch.Tensor) or b.dim() < 2:
        return False
    return not certainly(b.stride(-2) == 1) and certainly(b.stride(-1) == 1) and certainly(b.shape[-1] > 1)
