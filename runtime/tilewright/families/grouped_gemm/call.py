"""What is special about calls of products whose rows, or parts of k, belong to groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls import custom_ops
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement, place_without_copies
from tilewright.calls.symbolic import certainly
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations
from tilewright.declarations.table import KernelRecord
from tilewright.errors import AlignmentError, ArgumentError
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.interface import INTERFACE
from tilewright.families.grouped_gemm.problem import OUTPUTS, Problem, part_multiple

_SCALES = ("scale_a", "scale_b")
_FOUR = 16 // 4  # floats in what TMA's strides are multiples of
_EIGHT = 16 // 2  # elements of D that are stored at once, where columns are skipped


class Product(Op):
    """`grouping`: that of every call, or "" where its operands say it."""

    interface = INTERFACE
    family = FAMILY
    flops = staticmethod(custom_ops.flops)

    def __init__(self, grouping: str, *layouts: str) -> None:
        self.grouping = grouping
        self.replaced = tuple(layouts)

    def fields(self, values: Values) -> Mapping[str, Any]:
        grouping = self.grouping or ("row_index" if values["group_of_row"] is not None else "ends")
        scales = _scales(values["b"], values["scale_b"])
        return {"grouping": grouping, **scales, "layout": self.layout(values)}

    def layout(self, values: Values) -> str:
        """As BLAS writes it. A has k contiguous; B of 16 bits may have n."""
        return "tt" if values["scale_b"] is None and _row_major(values["b"]) else "tn"

    def rules(self, values: Values, problem: Problem) -> None:
        scaled = problem.a == "e4m3"
        if not self.grouping and (values["group_of_row"] is None) == (values["group_ends"] is None):
            raise ArgumentError("group_of_row", "one of group_of_row and group_ends is wanted")
        # TMA reads factors from multiples of 16 bytes on, and tiles begin with their group.
        if scaled and problem.grouping == "ends" and problem.row_alignment % _FOUR:
            wanted = f"a multiple of {_FOUR} is wanted of operands that have scale factors"
            raise ArgumentError("row_alignment", f"it is {problem.row_alignment}; {wanted}")
        scales = values["scale_b"]
        if scaled and problem.scales == "128x128":
            lie = zip(scales.shape[-2:], scales.stride()[-2:], strict=True)
            if all(certainly(extent > 1) and certainly(step != 1) for extent, step in lie):
                message = f"its strides are {tuple(scales.stride())}; one of the last two is wanted to be 1"
                raise ArgumentError("scale_b", message)
        if not isinstance(values.get("zero_padding", False), bool):
            raise ArgumentError("zero_padding", f"it is {values['zero_padding']!r}; a bool is wanted")

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Nothing is copied. Columns of scale factors may end anywhere, as TMA does not mind."""
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
                    hint="Contiguous columns of scale factors that begin at multiples of 4 (16 bytes) are "
                    "wanted: the layout m_major of tilewright.blockwise_scales.",
                )
        return place_without_copies(INTERFACE, arguments, addresses, judged=_SCALES)

    def alignments(self, problem: Problem, record: KernelRecord) -> Mapping[str, int]:
        return {"scale_b": 16} if problem.scales == "1x128" else {}

    def without_kernel(self, problem: Problem, given: Values) -> None:
        """k is 0: D is C, or 0."""
        out, c = given["out"], given["c"]
        out.zero_() if c is None else out.copy_(c)


class ProductOfHeads(Product):
    """A batch, whose columns of D may come in heads with gaps."""

    def rules(self, values: Values, problem: Problem) -> None:
        super().rules(values, problem)
        sizes = {name: values[name] for name in ("head_left", "head_gap", "head_right")}
        head = problem.head_left + problem.head_right
        if not any(sizes.values()):
            return
        for name, size in sizes.items():
            if size % _EIGHT:
                raise ArgumentError(name, f"it is {size}; a multiple of {_EIGHT} is wanted")
        if not head or certainly(problem.n % head != 0):
            wanted = f"{problem.n} columns are wanted to be whole heads of head_left + head_right"
            raise ArgumentError(
                "head_left", f"it is {problem.head_left}, head_right {problem.head_right}; {wanted}"
            )
        if problem.d != "bf16":
            raise ArgumentError(
                "head_gap", f"it is {problem.head_gap}; D of bfloat16 is wanted, not {problem.d}"
            )
        if problem.c:
            raise ArgumentError("c", "it is given; where columns are skipped none is added")

    def without_kernel(self, problem: Problem, given: Values) -> None:
        if not problem.head_gap:
            super().without_kernel(problem, given)
            return
        head = problem.head_left + problem.head_gap + problem.head_right
        heads = given["out"].unflatten(-1, (-1, head))
        for part in (heads[..., : problem.head_left], heads[..., head - problem.head_right :]):
            part.zero_()


class ProductOfParts(Product):
    """Of parts of k: each group has a D, of F32."""

    def combinations(self, values: Values) -> Combinations:
        return Combinations(("a", "b"), dict.fromkeys(OUTPUTS, ("f32",)))

    def layout(self, values: Values) -> str:
        """FP8's parts are matrices of their own, with k contiguous; those of 16 bits are rows of [k, m] and
        [k, n]."""
        return "tn" if values["scale_b"] is not None else "nt"

    def fields(self, values: Values) -> Mapping[str, Any]:
        sizes = values["group_k"]
        groups = sizes.shape[0] if isinstance(sizes, torch.Tensor) and sizes.dim() == 1 else 1
        return {**super().fields(values), "groups": groups}

    def rules(self, values: Values, problem: Problem) -> None:
        super().rules(values, problem)
        if problem.scales == "128x128":
            raise ArgumentError("scale_b", "one for 128 of k of each n is wanted: [k/128, n], n contiguous")
        multiple = part_multiple(problem.a)
        if certainly(problem.k % multiple != 0):
            raise ArgumentError("a", f"its k is {problem.k}; a multiple of {multiple} is wanted")
        if problem.scales == "none":
            return
        for name, inner in (("a", -1), ("b", -2)):
            tensor = values[name]
            length, several = tensor.shape[inner], certainly(tensor.shape[-3 - inner] > 1)
            if several and certainly(length > 0) and certainly(tensor.stride(-3 - inner) != length):
                raise ArgumentError(name, f"its strides are {tensor.stride()}; memory without gaps is wanted")


def _scales(b: Any, scales: Any) -> dict[str, Any]:
    """What of B shares a scale factor, and how they lie."""
    if (
        not isinstance(scales, torch.Tensor)
        or not isinstance(b, torch.Tensor)
        or scales.dim() < 2
        or b.dim() < 2
    ):
        return {"scales": "none" if scales is None else "128x128"}
    of_each = certainly(scales.shape[-1] == b.shape[-1])
    k_major = not of_each and certainly(scales.stride(-1) != 1) and certainly(scales.shape[-1] > 1)
    return {"scales": "1x128" if of_each else "128x128", "scales_k_major": k_major}


def _row_major(b: Any) -> bool:
    """Whether it has n contiguous, and not k."""
    if not isinstance(b, torch.Tensor) or b.dim() < 2:
        return False
    return not certainly(b.stride(-2) == 1) and certainly(b.stride(-1) == 1) and certainly(b.shape[-1] > 1)
