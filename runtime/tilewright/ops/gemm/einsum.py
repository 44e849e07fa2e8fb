"""Products of two tensors, written as `torch.einsum` writes them: each is one product of views."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch

from tilewright.errors import ArgumentError
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.guards import dims
from tilewright.ops.gemm.op import gemm
from tilewright.ops.gemm.problem import OUTPUTS

log = logging.getLogger("tilewright")


@dataclass(frozen=True, slots=True)
class Contraction:
    """What the letters of an equation are to a product of matrices: out[batch, rows, columns] is the sum of
    left[batch, rows, summed] * right[batch, summed, columns] over `summed`.

    Rows of D are contiguous, so the last letter of `out` is one of `columns`: where `a` brings it, the
    operands change places.
    """

    swapped: bool  # left is b
    left: str
    right: str
    out: str
    batch: str
    rows: str
    columns: str
    summed: str


@lru_cache(maxsize=256)
def contraction(equation: str) -> Contraction:
    """Raises ArgumentError where an equation is no product of two tensors."""
    operands, arrow, out = equation.replace(" ", "").partition("->")
    a, comma, b = operands.partition(",")
    if not (arrow and comma) or not all(term.isalpha() for term in (a, b, out) if term):
        raise _wrong(equation, "'ab,bc->ac', two tensors and their product, is wanted")
    for term in (a, b, out):
        if len(set(term)) != len(term):
            raise _wrong(equation, f"{term!r} has a letter twice, which no matrix has")
    for letter in (*a, *b, *out):
        if (letter in a) + (letter in b) + (letter in out) < 2:
            raise _wrong(equation, f"{letter!r} stands in one term alone")
    if out and out[-1] in a and out[-1] in b:
        raise _wrong(equation, f"{out[-1]!r} counts a batch, which cannot be contiguous in the product")
    swapped = bool(out) and out[-1] in a
    left, right = (b, a) if swapped else (a, b)
    return Contraction(
        swapped,
        left,
        right,
        out,
        batch="".join(x for x in out if x in a and x in b),
        rows="".join(x for x in out if x in left and x not in right),
        columns="".join(x for x in out if x in right and x not in left),
        summed="".join(x for x in a if x in b and x not in out),
    )


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
    kind are one extent where they follow one another in memory; where they do not, a or b is copied, which
    the log says. Letters stand in any order, and nothing is transposed in memory.

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
        ArgumentError: the equation is no such product, extents differ, or letters of `out` or `c` cannot be
            one extent.
        As `gemm`.
    """
    terms = contraction(equation)
    extents = _extents(equation, terms, a, b)
    shape = tuple(extents[letter] for letter in terms.out)
    for name, given in (("out", out), ("c", c)):
        if given is not None and tuple(given.shape) != shape:
            raise ArgumentError(
                name, f"its shape is {dims(given.shape)}; {dims(shape)} is wanted: {equation}"
            )
    names, operands = ("ba", (b, a)) if terms.swapped else ("ab", (a, b))
    left = _operand(names[0], operands[0], terms.left, (terms.batch, terms.rows, terms.summed), extents)
    right = _operand(names[1], operands[1], terms.right, (terms.batch, terms.summed, terms.columns), extents)
    groups = (terms.batch, terms.rows, terms.columns)
    if out is None and "".join(groups) != terms.out:
        out = torch.empty(shape, dtype=out_dtype or _made(a, b), device=a.device)
    to = None if out is None else _view("out", out, terms.out, groups, extents)
    added = None if c is None else _view("c", c, terms.out, groups, extents)
    made = gemm(left, right, out=to, out_dtype=out_dtype, c=added, alpha=alpha, beta=beta)
    return made.view(shape) if out is None else out


def _made(a: torch.Tensor, b: torch.Tensor) -> torch.dtype:
    """D's type where a caller gives none: as `gemm` chooses it. For types that it refuses, any."""
    possible = (d for types, d in OUTPUTS.items() if tuple(map(dtype_of, types)) == (a.dtype, b.dtype))
    return next((dtype_of(default) for default, *_ in possible), a.dtype)


def _extents(equation: str, terms: Contraction, a: torch.Tensor, b: torch.Tensor) -> dict[str, int]:
    extents: dict[str, int] = {}
    given = (terms.right, terms.left) if terms.swapped else (terms.left, terms.right)
    for name, term, tensor in zip("ab", given, (a, b), strict=True):
        if tensor.dim() != len(term):
            raise ArgumentError(name, f"its shape is {dims(tensor.shape)}; {term!r} is wanted: {equation}")
        for letter, extent in zip(term, tensor.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ArgumentError(name, f"{letter!r} is {extent} and a's is {extents[letter]}: {equation}")
    return extents


def _ordered(tensor: torch.Tensor, term: str, groups: Sequence[str]) -> torch.Tensor:
    return tensor.permute([term.index(letter) for group in groups for letter in group])


def _shape(groups: Sequence[str], extents: dict[str, int]) -> list[int]:
    """A matrix, or with a batch three dimensions."""
    kept = groups if groups[0] else groups[1:]
    return [prod(extents[letter] for letter in group) for group in kept]


def _operand(
    name: str, tensor: torch.Tensor, term: str, groups: Sequence[str], extents: dict[str, int]
) -> torch.Tensor:
    ordered, shape = _ordered(tensor, term, groups), _shape(groups, extents)
    try:
        return ordered.view(shape)
    except RuntimeError:  # torch has no other way to ask
        log.warning("einsum: copies %s %s, whose strides are %s", name, dims(tensor.shape), tensor.stride())
        return ordered.reshape(shape)


def _view(
    name: str, tensor: torch.Tensor, term: str, groups: Sequence[str], extents: dict[str, int]
) -> torch.Tensor:
    try:
        return _ordered(tensor, term, groups).view(_shape(groups, extents))
    except RuntimeError:
        raise ArgumentError(
            name,
            f"its strides are {tensor.stride()}; {' and '.join(g for g in groups if len(g) > 1)} "
            "are wanted to follow one another in memory",
        ) from None


def _wrong(equation: str, reason: str) -> ArgumentError:
    return ArgumentError("equation", f"it is {equation!r}; {reason}")
