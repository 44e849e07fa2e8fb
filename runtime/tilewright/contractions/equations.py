"""Lowers an equation of `torch.einsum` to one matrix product of views, by shapes and strides alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias

from tilewright.calls.guards import dims
from tilewright.errors import ArgumentError
from tilewright.formats.types import TMA_BYTES

Layout: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"  # shape and strides


@dataclass(frozen=True, slots=True)
class Contraction:
    """The letters of an equation by their part in a matrix product: out[batch, rows, columns] is the sum of
    left[batch, rows, summed] * right[batch, summed, columns] over `summed`.

    Rows of D are contiguous, so the last letter of `out` is one of `columns`. Where it is a letter of `a`,
    the operands are swapped.
    """

    swapped: bool  # left is b
    left: str
    right: str
    out: str
    batch: str
    rows: str
    columns: str
    summed: str


def contraction(equation: str) -> Contraction:
    """The letters of an equation. Raises ArgumentError if it is no product of two tensors."""
    operands, arrow, out = equation.replace(" ", "").partition("->")
    a, comma, b = operands.partition(",")
    if not (arrow and comma) or not all(term.isalpha() for term in (a, b, out) if term):
        raise _wrong(equation, "expected two tensors and their product, in letters alone: 'ab,bc->ac'")
    for term in (a, b, out):
        if len(set(term)) != len(term):
            raise _wrong(equation, f"{term!r} has a letter twice; diagonals are not supported")
    for letter in (*a, *b, *out):
        if (letter in a) + (letter in b) + (letter in out) < 2:
            raise _wrong(equation, f"{letter!r} is in one term only; expected each letter in two or three")
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


@dataclass(frozen=True, slots=True)
class View:
    """The view of a tensor that the product takes: permuted, with the letters of each group merged to one
    extent.

    `layout`: the layout of the view; None if the letters of a group are not adjacent in memory, so that the
    tensor must be copied.
    """

    order: tuple[int, ...]  # the permutation of the tensor's dimensions
    shape: tuple[int, ...]  # an extent for each group
    transposed: bool = False  # whether the last two dimensions are swapped after the permutation
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Lowering:
    """How an equation is computed for tensors of given layouts."""

    swapped: bool  # left is b
    reduced: bool  # the products of a batch are added up, by `reduced_gemm`
    left: View
    right: View
    shape: tuple[int, ...]  # the shape of the einsum's result
    out: View | None  # the view of the tensor that is written; None: the op makes its result
    c: View | None


@lru_cache(maxsize=4096)
def lower(
    equation: str,
    read: tuple[Layout, Layout],
    written: tuple[Layout | None, Layout | None],
    both_16_bit: bool,
) -> Lowering:
    """Lowers an equation for the layouts of a and b (`read`), and of out and c if the caller passes them
    (`written`). `both_16_bit`: whether a and b have the same 16-bit type, as `reduced_gemm` requires.

    Raises ArgumentError if the equation is no product, or if extents or strides do not fit it.
    """
    terms, (a, b) = contraction(equation), read
    extents = _extents(equation, terms, a, b)
    shape = tuple(extents[letter] for letter in terms.out)
    groups = (terms.batch, terms.rows, terms.columns)
    views: list[View | None] = []
    for name, layout in zip(("out", "c"), written, strict=True):
        if layout is not None and tuple(layout[0]) != shape:
            raise ArgumentError(name, f"its shape is {dims(layout[0])}; expected {dims(shape)}: {equation}")
        view = None if layout is None else _view(terms.out, groups, layout)
        if layout is not None and view is not None and view.layout is None:
            together = " and ".join(group for group in groups if len(group) > 1)
            message = f"its strides are {layout[1]}; expected {together} to be adjacent in memory"
            raise ArgumentError(name, message)
        views.append(view)
    if written[0] is None and "".join(groups) != terms.out:
        views[0] = result = _view(terms.out, groups, (shape, _contiguous_strides(shape)))
        if result.layout is None:
            apart = next(group for group in groups if len(group) > 1 and group not in terms.out)
            reason = f"expected the letters {apart!r}, which are one extent, side by side in the product"
            raise _wrong(equation, f"{reason}: write '->{''.join(groups)}', and permute the result")
    left, right = (b, a) if terms.swapped else (a, b)
    batches = _reduced_batches(terms, left, right) if both_16_bit else None
    operands = batches or (
        _view(terms.left, (terms.batch, terms.rows, terms.summed), left),
        _view(terms.right, (terms.batch, terms.summed, terms.columns), right),
    )
    return Lowering(terms.swapped, batches is not None, operands[0], operands[1], shape, views[0], views[1])


def _extents(equation: str, terms: Contraction, a: Layout, b: Layout) -> dict[str, int]:
    extents: dict[str, int] = {}
    own_terms = (terms.right, terms.left) if terms.swapped else (terms.left, terms.right)
    for name, term, (shape, _) in zip("ab", own_terms, (a, b), strict=True):
        if len(shape) != len(term):
            raise ArgumentError(name, f"its shape is {dims(shape)}; expected {term!r}: {equation}")
        for letter, extent in zip(term, shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ArgumentError(name, f"{letter!r} is {extent} and a's is {extents[letter]}: {equation}")
    return extents


def _view(term: str, groups: tuple[str, ...], layout: Layout) -> View:
    """The view of a tensor with an extent for each group of letters (without a batch, a matrix)."""
    kept = groups if groups[0] else groups[1:]
    lines, apart = [], False
    for group in kept:
        extent, step = 1, 1
        for letter in reversed(group):
            own, stride = (numbers[term.index(letter)] for numbers in layout)
            if extent == 1:
                extent, step = own, stride
                continue
            # The strides of a tensor without elements are arbitrary.
            if own != 1 and stride != extent * step and 0 not in [layout[0][term.index(x)] for x in group]:
                apart = True
            extent *= own
        lines.append((extent, step))
    order = tuple(term.index(letter) for group in kept for letter in group)
    merged, steps = tuple(extent for extent, _ in lines), tuple(step for _, step in lines)
    return View(order, merged, layout=None if apart else (merged, steps))


def _reduced_batches(terms: Contraction, left: Layout, right: Layout) -> tuple[View, View] | None:
    """The operands as batches whose products are added up. If the letters of the sum cannot be one extent,
    the first of them become a batch and the others k, which must be contiguous. None if one product is
    enough, or if TMA cannot read the operands as batches."""
    for cut in range(len(terms.summed)) if not terms.batch else ():
        outer, inner = terms.summed[:cut], terms.summed[cut:]
        a = _view(terms.left, (outer, terms.rows, inner), left)
        b = _view(terms.right, (outer, terms.columns, inner), right)
        if a.layout is None or b.layout is None:
            continue
        if not outer:
            return None  # one product is enough
        (batch, n, k), (of_batch, of_n, of_k) = b.layout
        transposed = replace(b, transposed=True, layout=((batch, k, n), (of_batch, of_k, of_n)))
        return (a, transposed) if _readable(a.layout) and _readable(b.layout) else None
    return None


def _readable(batch: Layout) -> bool:
    """Whether TMA can load the rows of 16-bit elements [batch, rows, k]. A k of 1 does not occur: it is one
    extent with the batch."""
    unit = TMA_BYTES // 2
    *outer, inner = batch[1]
    return inner == 1 and not any(step % unit for step in outer)


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _wrong(equation: str, reason: str) -> ArgumentError:
    return ArgumentError("equation", f"it is {equation!r}; {reason}")
