"""Which product of matrices an equation of `torch.einsum` is, of tensors of such shapes and strides."""

from __future__ import annotations

from dataclasses import dataclass
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
    """An operand as the product takes it. `copied`: the order of its letters, where its letters do not follow
    one another in memory, and a copy has to be made of which `lies` is the shape."""

    lies: Lies
    copied: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How an equation is computed for tensors of such shapes and strides."""

    swapped: bool  # left is b
    reduced: bool  # products of a batch are added up
    left: View
    right: View
    shape: tuple[int, ...]  # of the product
    out: Lies | None  # how its tensor is written; None: the product is made in order
    c: Lies | None


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
    views: list[Lies | None] = []
    for name, given in zip(("out", "c"), written, strict=True):
        if given is not None and tuple(given[0]) != shape:
            raise ArgumentError(name, f"its shape is {dims(given[0])}; {dims(shape)} is wanted: {equation}")
        view = None if given is None else _grouped(terms.out, groups, given)
        if given is not None and view is None:
            together = " and ".join(group for group in groups if len(group) > 1)
            message = f"its strides are {given[1]}; {together} are wanted to follow one another in memory"
            raise ArgumentError(name, message)
        views.append(view)
    if written[0] is None and "".join(groups) != terms.out:
        views[0] = _grouped(terms.out, groups, (shape, _dense(shape)))
        if views[0] is None:
            apart = next(one for one in groups if len(one) > 1 and one not in terms.out)
            reason = f"{apart!r} are one extent, whose letters are wanted side by side in the product"
            raise _wrong(equation, f"{reason}: write '->{''.join(groups)}', and permute what comes of it")
    left, right = (b, a) if terms.swapped else (a, b)
    batches = _batches(terms, left, right) if sixteen else None
    if batches is None:
        operands = [
            _operand(terms.left, (terms.batch, terms.rows, terms.summed), left, extents),
            _operand(terms.right, (terms.batch, terms.summed, terms.columns), right, extents),
        ]
    else:
        operands = [View(batch) for batch in batches]
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


def _grouped(term: str, groups: tuple[str, ...], lies: Lies) -> Lies | None:
    """A view with an extent for each group (no batch: a matrix); None where the letters of a group do not
    follow one another in memory."""
    found = []
    for group in groups if groups[0] else groups[1:]:
        extent, step = 1, 1
        for letter in reversed(group):
            own, stride = (each[term.index(letter)] for each in lies)
            if extent == 1:
                extent, step = own, stride
            elif own != 1 and stride != extent * step:
                return None
            else:
                extent *= own
        found.append((extent, step))
    return tuple(extent for extent, _ in found), tuple(step for _, step in found)


def _operand(term: str, groups: tuple[str, ...], lies: Lies, extents: dict[str, int]) -> View:
    view = _grouped(term, groups, lies)
    if view is not None:
        return View(view)
    kept = groups if groups[0] else groups[1:]
    shape = tuple(prod(extents[letter] for letter in group) for group in kept)
    return View((shape, ()), tuple(term.index(letter) for group in groups for letter in group))


def _batches(terms: Contraction, left: Lies, right: Lies) -> tuple[Lies, Lies] | None:
    """The operands as batches whose products are added up, where the letters of the sum are not one extent,
    and kernels read them as they lie: the last letters of the sum are contiguous."""
    for cut in range(len(terms.summed)) if not terms.batch else ():
        outer, inner = terms.summed[:cut], terms.summed[cut:]
        a = _grouped(terms.left, (outer, terms.rows, inner), left)
        b = _grouped(terms.right, (outer, terms.columns, inner), right)
        if a is None or b is None:
            continue
        if not outer:
            return None  # one product does
        (shape, strides) = b
        turned = (shape[0], shape[2], shape[1]), (strides[0], strides[2], strides[1])
        return (a, turned) if _readable(a) and _readable(b) else None
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
