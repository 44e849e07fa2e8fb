"""The public ops: products with scale factors, and products of rows that belong to groups.

All compute D[m,n] = sum over k of A[m,k] * scale_a[m,k/128] * B[g,k,n] * scale_b[g,k/128,n or n/128], plus
C, where g is the group of row m. They differ in who says which rows are of which group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.errors import AlignmentError, ArgumentError
from tilewright.interface.declaration import Combinations
from tilewright.interface.op import Op, Values
from tilewright.interface.placement import Arguments, Placement, as_it_lies
from tilewright.interface.publish import public
from tilewright.ops.common import custom_ops
from tilewright.ops.common.symbolic import certainly
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.grouped_gemm.family import FAMILY
from tilewright.ops.grouped_gemm.interface import INTERFACE
from tilewright.ops.grouped_gemm.problem import OUTPUTS, Problem, part_multiple
from tilewright.table import KernelRecord

_SCALES = ("scale_a", "scale_b")
_FOUR = 16 // 4  # floats in what TMA's strides are multiples of
_EIGHT = 16 // 2  # elements of D that are stored at once, where columns are skipped


class _Product(Op):
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
        return as_it_lies(INTERFACE, arguments, addresses, judged=_SCALES)

    def alignments(self, problem: Problem, record: KernelRecord) -> Mapping[str, int]:
        return {"scale_b": 16} if problem.scales == "1x128" else {}

    def without_kernel(self, problem: Problem, given: Values) -> None:
        """k is 0: D is C, or 0."""
        out, c = given["out"], given["c"]
        out.zero_() if c is None else out.copy_(c)


class _ProductOfHeads(_Product):
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


class _ProductOfParts(_Product):
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
            length = tensor.shape[inner]
            if certainly(tensor.stride(-3 - inner) != length) and certainly(tensor.shape[-3 - inner] > 1):
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


@public(_ProductOfHeads("none"))
def scaled_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    head_left: int = 0,
    head_gap: int = 0,
    head_right: int = 0,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """(a * scale_a) @ (b * scale_b) + c, on the current stream: FP8 whose elements share F32 scale factors
    along 128 of k. Sums of 128 of k are scaled and added up in F32.

    Args:
        a: [m, k], or [batch, m, k], row-major. float8_e4m3fn.
        b: [k, n], or [batch, k, n], column-major: the transpose of a weight [n, k]. An operand without
            batch, or with a batch stride of 0, serves every batch. k is a multiple of 16, n of 8 (float32
            D: of 4).
        scale_a: [m, ceil(k/128)], or with a batch first: those of 128 of k of a row, columns contiguous and
            at multiples of 4 rows (`quantize_fp8_blockwise` makes them so; see
            `tilewright.blockwise_scales`). float32.
        scale_b: [ceil(k/128), ceil(n/128)]: those of blocks of 128 x 128, with either dimension contiguous;
            or [ceil(k/128), n]: those of 128 of k of a column, with n contiguous and rows at multiples of
            4: the transpose of a weight's. float32.
        out: [m, n] or [batch, m, n], rows contiguous; made if absent. It may be c, and overlaps nothing else.
        out_dtype: D's type where `out` is absent: bfloat16 (the default) or float32.
        c: D's type and shape, added to it.
        head_left, head_gap, head_right: D's columns come in heads of head_left + head_right, and behind the
            first `head_left` of each head D has `head_gap` columns more, which are not written: multiples of
            8, of D of bfloat16, without c. 0: none are skipped.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m, n or the batch is 0; c, or 0, where k is 0.

    Raises:
        AlignmentError: an operand that TMA cannot read or write; none is copied.
    """
    raise AssertionError("the body is `interface.calls`'s")


@public(_Product("", "group_of_row", "group_ends"))
def grouped_gemm_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    *,
    group_of_row: torch.Tensor | None = None,
    group_ends: torch.Tensor | None = None,
    row_alignment: int = 128,
    zero_padding: bool = False,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """As `scaled_gemm`, or without scale factors in BF16, where each row of a has the b of its group: the
    rows of all groups lie in one matrix. The groups are read on the device when the kernel runs, so that a
    CUDA graph can be replayed with others.

    Args:
        a: [m, k], row-major. float8_e4m3fn, or bfloat16 without scale factors. What padding holds, NaN too,
            reaches no other row.
        b: [groups, k, n], each column-major; of bfloat16 it may be row-major.
        scale_a: [m, ceil(k/128)], as `scaled_gemm` takes it.
        scale_b: [groups, ceil(k/128), ceil(n/128)] or [groups, ceil(k/128), n], likewise.
        group_of_row: int32 [m]: the group of each row; a number that is no group's, as -1, is padding. Any
            order is right; it is fast where rows of a group lie together.
        group_ends: int32 [groups], instead: the row behind each group's last. A group begins where the one
            before it ends, at the next multiple of `row_alignment`.
        row_alignment: the multiple, itself one of 4 for FP8; with group_of_row it helps to choose a kernel,
            and changes no result.
        zero_padding: whether all rows of padding are zeroed, those behind the last group too.
        out: [m, n]. Without `zero_padding`, rows of padding are zeroed, or stay as they are where no row near
            them counts.

    Returns, raises, and the rest: as `scaled_gemm`.
    """
    raise AssertionError("the body is `interface.calls`'s")


@public(_Product("rows_valid", "rows_valid"))
def grouped_gemm_masked(
    a: torch.Tensor,
    b: torch.Tensor,
    rows_valid: torch.Tensor,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    *,
    expected_m: int = 0,
    zero_padding: bool = False,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """As `grouped_gemm_contiguous`, where each group has rows of its own, of which the first `rows_valid`
    count.

    Args:
        a: [groups, m, k], each row-major.
        rows_valid: int32 [groups], on the device, read when the kernel runs.
        scale_a: [groups, m, ceil(k/128)].
        expected_m: how many rows of a group are likely to count; 0: all. It helps to choose a kernel, and
            changes no result.
        zero_padding: whether all rows that do not count are zeroed.
        out: [groups, m, n]. Without `zero_padding`, rows that do not count are zeroed, or stay as they are
            where no row near them counts.

    Returns, raises, and the rest: as `grouped_gemm_contiguous`.
    """
    raise AssertionError("the body is `interface.calls`'s")


@public(_ProductOfParts("k_sizes", "group_k"))
def grouped_gemm_k(
    a: torch.Tensor,
    b: torch.Tensor,
    group_k: torch.Tensor,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
    c: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """A product of each group's part of k, on the current stream: gradients of the weights of a mixture of
    experts. out[g] = sum over the k of group g of (a * scale_a) @ (b * scale_b), plus c[g].

    Args:
        a: [m, k]. bfloat16: column-major, the transpose of [k, m], whose first rows are the first group's.
            float8_e4m3fn: the memory of [m, k of the group], row-major, of one group behind the other: a
            tensor without gaps, of whose shape m and the k of all groups are read.
        b: [k, n]. bfloat16: row-major. float8_e4m3fn: likewise of [n, k of the group], the transpose of a
            tensor [n, k] without gaps.
        group_k: int32 [groups], on the device, read when the kernel runs: multiples of 128 (bfloat16: of
            64), 0 too, which add up to k.
        scale_a: of FP8, float32 [m, k/128]: those of 128 of k of a row, columns contiguous and at multiples
            of 4 rows; the columns of one group behind those of the other.
        scale_b: of FP8, float32 [k/128, n], n contiguous and rows at multiples of 4.
        out: float32 [groups, m, n], rows contiguous; made if absent. It may be c: then the product is added.
        c: float32 [groups, m, n].
        tactic: a kernel's name, or a tactic, instead of the one the model selects.

    Returns:
        D: c, or zeros, of a group without k.
    """
    raise AssertionError("the body is `interface.calls`'s")
