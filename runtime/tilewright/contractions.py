"""Products of two tensors, written as `torch.einsum` writes them: each is one product of views."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.compiler import is_dynamo_compiling

from tilewright import call_planning, fast_path
from tilewright.equations import Lies, View, way_of
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.interface.publish import published
from tilewright.library import Launcher
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.guards import check_strided, dims
from tilewright.ops.gemm.op import gemm
from tilewright.ops.gemm.problem import OUTPUTS
from tilewright.ops.reduced_gemm.op import reduced_gemm

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
    beta: float = 0.0,
) -> torch.Tensor:
    """alpha * (the sum of products of a and b that `equation` names) + beta * c, on the current stream.

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
        c: of out's type and shape; may be out. Read if beta is not 0.
        alpha, beta: factors.

    Returns:
        The product.

    Raises:
        ArgumentError: the equation is no such product, extents differ, or letters of the product, of `out`
            or of `c` cannot be one extent.
        As `gemm`.
    """
    key: tuple[Any, ...] | None = None
    if out is not None and type(alpha) is type(beta) is float and not is_dynamo_compiling():
        added = None if beta == 0 else c
        try:
            key = ("einsum", equation, type(a), a.shape, type(b), b.shape, out_dtype, beta == 0)
            wants = a.requires_grad or b.requires_grad or out.requires_grad
            wants = wants or (c is not None and c.requires_grad)
            if fast_path.launch(key, (a, b, added, out, alpha, beta), wants):
                return out
        except AttributeError:
            key = None  # what is no tensor is refused below
    found = product(equation, a, b, out=out, c=c, out_dtype=out_dtype)
    try:
        made: torch.Tensor = found.op(
            found.left, found.right, out=found.out, out_dtype=out_dtype, c=found.c, alpha=alpha, beta=beta
        )
    except ArgumentError as error:
        if found.swapped:
            _rename(error)
        raise
    if key is not None:
        fast_path.keep_launcher(key, lambda: _launcher(found, (a, b, added, out), alpha, beta))
    return out if out is not None else found.made if found.made is not None else made.view(found.shape)


def _rename(error: ArgumentError) -> None:
    """Says einsum's name of an operand of a product whose operands have changed places."""
    named = {"a": "b", "b": "a"}.get(error.argument)
    if named is not None:
        reason = error.message.removeprefix(f"{error.argument}: ")
        error.message = f"{named}, as {error.argument} of the product: {reason}"
        error.args, error.argument = (error.message,), named


class Product(NamedTuple):
    """The one product that an einsum is."""

    op: Callable[..., torch.Tensor]  # gemm, or reduced_gemm
    left: torch.Tensor
    right: torch.Tensor
    out: torch.Tensor | None  # a view of the einsum's, or of `made`
    c: torch.Tensor | None
    swapped: bool  # left is b
    viewed: bool  # both operands are as they lie
    made: torch.Tensor | None  # the einsum's result, where a call brings none and the op makes none
    shape: tuple[int, ...]


def product(
    equation: str,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    out_dtype: torch.dtype | None = None,
) -> Product:
    """What `einsum` computes, with its arguments. Raises ArgumentError."""
    if not isinstance(equation, str):
        raise ArgumentTypeError("equation", f"it is a {type(equation).__name__}; a str is wanted")
    for name, given in (("a", a), ("b", b), ("out", out), ("c", c)):
        if given is not None or name in ("a", "b"):
            check_strided(name, given)
    find = way_of.__wrapped__ if fast_path.traced() else way_of  # symbols for extents have no hash
    sixteen = a.dtype == b.dtype and a.dtype in (torch.bfloat16, torch.float16)
    written = (None if out is None else _lies(out), None if c is None else _lies(c))
    way = find(equation, (_lies(a), _lies(b)), written, sixteen)
    left, right = (b, a) if way.swapped else (a, b)
    left, right = _viewed(left, way.left, "ab"[way.swapped]), _viewed(right, way.right, "ba"[way.swapped])
    made = None
    if out is None and way.out is not None:
        out = made = torch.empty(way.shape, dtype=out_dtype or _made(a, b), device=a.device)
    to = None if out is None or way.out is None else _viewed(out, way.out, "out")
    added = None if c is None or way.c is None else _viewed(c, way.c, "c")
    viewed = way.left.lies is not None and way.right.lies is not None
    op = reduced_gemm if way.reduced else gemm
    return Product(op, left, right, to, added, way.swapped, viewed, made, way.shape)


def _launcher(
    found: Product, passed: tuple[torch.Tensor | None, ...], alpha: float, beta: float
) -> Launcher | None:
    """What launches the product for tensors that lie as an einsum's a, b, c and out, whose views it takes,
    and two numbers; None where an operand is copied for it."""
    if not found.viewed:
        return None
    more = [None] * (len(published[found.op].interface.names) - len(passed))  # operands that no einsum has
    a, b, c, out = passed
    left, right = (b, a) if found.swapped else (a, b)
    launch = call_planning.launcher_of_call(
        found.op, (left, right, c, out, *more), found.left, found.right, out=found.out,
        c=None if c is None else found.c, alpha=alpha, beta=beta,
    )  # fmt: skip
    if launch is None:
        return None
    if found.swapped:
        return lambda a, b, c, out, alpha, beta, room: launch(b, a, c, out, *more, alpha, beta, room)
    return lambda a, b, c, out, alpha, beta, room: launch(a, b, c, out, *more, alpha, beta, room)


def _lies(tensor: torch.Tensor) -> Lies:
    return tensor.shape, tensor.stride()


def _viewed(tensor: torch.Tensor, view: View, name: str) -> torch.Tensor:
    if view.lies is not None and not fast_path.traced():
        return tensor.as_strided(*view.lies)  # in one step
    if view.lies is None:
        log.warning("einsum: copies %s %s, whose strides are %s", name, dims(tensor.shape), tensor.stride())
    # A program that is exported is run with tensors of other strides, too: as_strided would take these for
    # theirs. What is written is never copied.
    ordered = tensor.permute(view.order)
    found = ordered.view(view.grouped) if name == "out" else ordered.reshape(view.grouped)
    return found.mT if view.turned else found


def _made(a: torch.Tensor, b: torch.Tensor) -> torch.dtype:
    """D's type where a caller gives none: as `gemm` chooses it. For types that it refuses, any."""
    possible = (d for types, d in OUTPUTS.items() if tuple(map(dtype_of, types)) == (a.dtype, b.dtype))
    return next((dtype_of(default) for default, *_ in possible), a.dtype)
