"""Products of two tensors in the notation of `torch.einsum`, each computed as one product of views."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.compiler import is_dynamo_compiling

from tilewright.calls import call_planning, fast_path
from tilewright.calls.guards import check_dtype, check_strided, dims, dtypes
from tilewright.contractions.equations import Layout, View, lower
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.gemm.op import gemm
from tilewright.families.gemm.problem import OUTPUTS
from tilewright.families.reduced_gemm.op import reduced_gemm
from tilewright.formats.dtypes import dtype_of
from tilewright.libraries.library import Launcher

log = logging.getLogger("tilewright")


def einsum(
    equation: str,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
) -> torch.Tensor:
    """Computes alpha * (the sum of products of a and b that `equation` names) + beta * c on the current
    stream.

    One `gemm` of views: letters of a, b and the product count its batch, those of a and the product its rows,
    those of b and the product its columns, and the sum goes over those of a and b alone. Several letters of a
    kind are one extent where they follow one another in memory. Where those of the sum do not (b and k of
    `bmk,bnk->mn`), `reduced_gemm` adds up the products of a batch, if it takes the operands; in other cases
    that operand is copied, which the log says. Letters stand in any order, and nothing is transposed in
    memory.

    Args:
        equation: `bhr,hdr->bhd`, say: terms of letters, no letter twice in one, each letter in two or three.
        a, b: of as many dimensions as their terms have letters; types as `gemm` takes them.
        out: the product's tensor; its last dimension is contiguous, others may have any strides. Made if
            absent, contiguous as its term says.
        out_dtype: the product's type where `out` is absent, as for `gemm`.
        c: of out's type and shape; may be out. Not read if beta is 0.
        alpha: a factor. If it is 0, a and b are not read.
        beta: a factor; by default 1 with c and 0 without.

    Returns:
        The product.

    Raises:
        ArgumentError: the equation is no such product, extents differ, or letters of the product, of `out`
            or of `c` cannot be one extent.
        TilewrightError: what `gemm` raises.
    """
    if beta is None:
        beta = 0.0 if c is None else 1.0
    key: tuple[Any, ...] | None = None
    if out is not None and type(alpha) is type(beta) is float and not is_dynamo_compiling():
        added = None if beta == 0 else c
        try:
            key = ("einsum", equation, type(a), a.shape, type(b), b.shape, out_dtype, alpha == 0, beta == 0)
            wants = a.requires_grad or b.requires_grad or out.requires_grad
            wants = wants or (c is not None and c.requires_grad)
            if fast_path.launch(key, (a, b, added, out, alpha, beta), wants):
                return out
        except AttributeError:
            key = None  # an argument that is no tensor is refused below
    lowered = lowered_call(equation, a, b, out=out, c=c, out_dtype=out_dtype)
    try:
        result: torch.Tensor = lowered.op(
            lowered.left, lowered.right, out=lowered.out, out_dtype=out_dtype, c=lowered.c, alpha=alpha,
            beta=beta,
        )  # fmt: skip
    except ArgumentError as error:
        if lowered.swapped:
            _rename(error)
        raise
    if key is not None:
        fast_path.keep_launcher(key, lambda: _launcher(lowered, (a, b, added, out), alpha, beta))
    if out is not None:
        return out
    return lowered.result if lowered.result is not None else result.view(lowered.shape)


def _rename(error: ArgumentError) -> None:
    """Replaces the operand's name in an error by einsum's, if the operands are swapped."""
    named = {"a": "b", "b": "a"}.get(error.argument)
    if named is not None:
        reason = error.message.removeprefix(f"{error.argument}: ")
        error.message = f"{named}, as {error.argument} of the product: {reason}"
        error.args, error.argument = (error.message,), named


class LoweredCall(NamedTuple):
    """The call of the op that computes an einsum."""

    op: Callable[..., torch.Tensor]  # gemm, or reduced_gemm
    left: torch.Tensor
    right: torch.Tensor
    out: torch.Tensor | None  # a view of the einsum's `out`, or of `result`
    c: torch.Tensor | None
    swapped: bool  # left is b
    copies: bool  # whether an operand is copied
    result: torch.Tensor | None  # the einsum's result, if neither the caller nor the op makes it
    shape: tuple[int, ...]  # the shape of the einsum's result


def lowered_call(
    equation: str,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    out_dtype: torch.dtype | None = None,
) -> LoweredCall:
    """The call, with its arguments, that computes an einsum. Raises ArgumentError."""
    if not isinstance(equation, str):
        raise ArgumentTypeError("equation", f"expected a str, got {type(equation).__name__}")
    for name, tensor in (("a", a), ("b", b), ("out", out), ("c", c)):
        if tensor is not None or name in ("a", "b"):
            check_strided(name, tensor)
    find = lower.__wrapped__ if fast_path.traced() else lower  # symbolic extents have no hash
    both_16_bit = a.dtype == b.dtype and a.dtype in (torch.bfloat16, torch.float16)
    written = (None if out is None else _layout(out), None if c is None else _layout(c))
    way = find(equation, (_layout(a), _layout(b)), written, both_16_bit)
    left, right = (b, a) if way.swapped else (a, b)
    left, right = _viewed(left, way.left, "ab"[way.swapped]), _viewed(right, way.right, "ba"[way.swapped])
    result = None
    if out is None and way.out is not None:
        out = result = torch.empty(way.shape, dtype=_type_of_result(a, b, out_dtype), device=a.device)
    to = None if out is None or way.out is None else _viewed(out, way.out, "out")
    added = None if c is None or way.c is None else _viewed(c, way.c, "c")
    copies = way.left.layout is None or way.right.layout is None
    op = reduced_gemm if way.reduced else gemm
    return LoweredCall(op, left, right, to, added, way.swapped, copies, result, way.shape)


def _launcher(
    lowered: LoweredCall, passed: tuple[torch.Tensor | None, ...], alpha: float, beta: float
) -> Launcher | None:
    """A launcher that takes an einsum's own a, b, c and out, with the layouts of `passed`, then alpha and
    beta. None if an operand is copied, or if the call is more than a launch."""
    if lowered.copies:
        return None
    a, b, c, out = passed
    left, right = ("b", "a") if lowered.swapped else ("a", "b")
    return call_planning.launcher_of_call(
        lowered.op, {left: a, right: b, "c": c, "out": out, "alpha": alpha, "beta": beta},
        lowered.left, lowered.right, out=lowered.out, c=None if c is None else lowered.c, alpha=alpha,
        beta=beta,
    )  # fmt: skip


def _layout(tensor: torch.Tensor) -> Layout:
    return tensor.shape, tensor.stride()


def _viewed(tensor: torch.Tensor, view: View, name: str) -> torch.Tensor:
    """The view of a tensor that the product takes; `name` is the argument's."""
    if view.layout is not None and not fast_path.traced():
        return tensor.as_strided(*view.layout)  # in one step
    if view.layout is None:
        log.warning("einsum: copies %s %s, whose strides are %s", name, dims(tensor.shape), tensor.stride())
    # An exported program also runs with tensors of other strides, for which as_strided would be wrong. A
    # tensor that is written is never copied.
    ordered = tensor.permute(view.order)
    merged = ordered.view(view.shape) if name == "out" else ordered.reshape(view.shape)
    return merged.mT if view.transposed else merged


def _type_of_result(a: torch.Tensor, b: torch.Tensor, asked: torch.dtype | None) -> torch.dtype:
    """The type of a result that is made here, as `gemm` chooses it; any type for operands that `gemm`
    refuses.

    Raises ArgumentTypeError if `asked` is not a type of such a product.
    """
    of_each = {tuple(map(dtype_of, types)): tuple(map(dtype_of, d)) for types, d in OUTPUTS.items()}
    legal = of_each.get((a.dtype, b.dtype), (a.dtype,))
    if asked is None:
        return legal[0]
    check_dtype("out_dtype", asked)
    if (a.dtype, b.dtype) in of_each and asked not in legal:
        raise ArgumentTypeError("out_dtype", f"expected one of {dtypes(legal)}, got {asked}")
    return asked if asked in legal else legal[0]
