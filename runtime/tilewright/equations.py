"""Which product of matrices an equation of `torch.einsum` is, of tensors of such shapes and strides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias

from tilewright.errors import ArgumentError
from tilewright.ops.common.guards import dims
from tilewright.types import TMA_BYTES

Lies: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"  # shape and strides


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


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as the product takes it: its letters in another order, those of a group as one extent.

    `lies`: how that view lies; None where letters of a group do not follow one another in memory, and a copy
    has to be made."""

    order: tuple[int, ...]  # of the tensor's letters
    grouped: tuple[int, ...]  # an extent for each group
    turned: bool = False  # then the last two change places
    lies: Lies | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How an equation is computed for tensors of such shapes and strides."""

    swapped: bool  # left is b
    reduced: bool  # products of a batch are added up
    left: View
    right: View
    shape: tuple[int, ...]  # of the product
    out: View | None  # how its tensor is written; None: the product is made in order
    c: View | None


@lru_cache(maxsize=4096)
def way_of(
    equation: str, read: tuple[Lies, Lies], written: tuple[Lies | None, Lies | None], sixteen: bool
) -> Way:
    """The way of tensors of such shapes and strides: a and b, and out and c where there are such. `sixteen`:
    whether a and b are of the same 16-bit type. Raises ArgumentError."""
    terms, (a, b) = contraction(equation), read
    extents = _extents(equation, terms, a, b)
    shape = tuple(extents[letter] for letter in terms.out)
    groups = (terms.batch, terms.rows, terms.columns)
    views: list[View | None] = []
    for name, given in zip(("out", "c"), written, strict=True):
        if given is not None and tuple(given[0]) != shape:
            raise ArgumentError(name, f"its shape is {dims(given[0])}; {dims(shape)} is wanted: {equation}")
        view = None if given is None else _view(terms.out, groups, given)
        if given is not None and view is not None and view.lies is None:
            together = " and ".join(group for group in groups if len(group) > 1)
            message = f"its strides are {given[1]}; {together} are wanted to follow one another in memory"
            raise ArgumentError(name, message)
        views.append(view)
    if written[0] is None and "".join(groups) != terms.out:
        views[0] = made = _view(terms.out, groups, (shape, _dense(shape)))
        if made.lies is None:
            apart = next(one for one in groups if len(one) > 1 and one not in terms.out)
            reason = f"{apart!r} are one extent, whose letters are wanted side by side in the product"
            raise _wrong(equation, f"{reason}: write '->{''.join(groups)}', and permute what comes of it")
    left, right = (b, a) if terms.swapped else (a, b)
    batches = _batches(terms, left, right) if sixteen else None
    operands = batches or (
        _view(terms.left, (terms.batch, terms.rows, terms.summed), left),
        _view(terms.right, (terms.batch, terms.summed, terms.columns), right),
    )
    return Way(terms.swapped, batches is not None, operands[0], operands[1], shape, views[0], views[1])


def _extents(equation: str, terms: Contraction, a: Lies, b: Lies) -> dict[str, int]:
    extents: dict[str, int] = {}
    given = (terms.right, terms.left) if terms.swapped else (terms.left, terms.right)
    for name, term, (shape, _) in zip("ab", given, (a, b), strict=True):
        if len(shape) != len(term):
            raise ArgumentError(name, f"its shape is {dims(shape)}; {term!r} is wanted: {equation}")
        for letter, extent in zip(term, shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ArgumentError(name, f"{letter!r} is {extent} and a's is {extents[letter]}: {equation}")
    return extents


def _view(term: str, groups: tuple[str, ...], lies: Lies) -> View:
    """With an extent for each group (no batch: a matrix)."""
    kept = groups if groups[0] else groups[1:]
    found, apart = [], False
    for group in kept:
        extent, step = 1, 1
        for letter in reversed(group):
            own, stride = (each[term.index(letter)] for each in lies)
            if extent == 1:
                extent, step = own, stride
                continue
            # Where there is no element, strides say nothing.
            if own != 1 and stride != extent * step and 0 not in [lies[0][term.index(x)] for x in group]:
                apart = True
            extent *= own
        found.append((extent, step))
    order = tuple(term.index(letter) for group in kept for letter in group)
    grouped, steps = tuple(extent for extent, _ in found), tuple(step for _, step in found)
    return View(order, grouped, lies=None if apart else (grouped, steps))


def _batches(terms: Contraction, left: Lies, right: Lies) -> tuple[View, View] | None:
    """The operands as batches whose products are added up, where the letters of the sum are not one extent,
    and kernels read them as they lie: the last letters of the sum are contiguous."""
    for cut in range(len(terms.summed)) if not terms.batch else ():
        outer, inner = terms.summed[:cut], terms.summed[cut:]
        a = _view(terms.left, (outer, terms.rows, inner), left)
        b = _view(terms.right, (outer, terms.columns, inner), right)
        if a.lies is None or b.lies is None:
            continue
        if not outer:
            return None  # one product does
        (batch, n, k), (of_batch, of_n, of_k) = b.lies
        turned = replace(b, turned=True, lies=((batch, k, n), (of_batch, of_k, of_n)))
        return (a, turned) if _readable(a.lies) and _readable(b.lies) else None
    return None


def _readable(batch: Lies) -> bool:
    """Whether TMA can load rows of [batch, rows, k] of 16-bit elements."""
    unit = TMA_BYTES // 2
    (*_, k), (*others, inner) = batch
    return (inner == 1 or k == 1) and not any(step % unit for step in others)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _wrong(equation: str, reason: str) -> ArgumentError:
    return ArgumentError("equation", f"it is {equation!r}; {reason}")
