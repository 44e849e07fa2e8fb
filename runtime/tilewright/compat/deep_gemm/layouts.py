"""The layouts of DeepGEMM's products: a function of layout `nt`, with operands transposed, has the others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

F = TypeVar("F", bound=Callable[..., None])


def of_layout(layout: str, nt: F) -> F:
    """The product `nt` for operands of another layout: a [k, m] if that begins with t, b [k, n] if it ends
    with n. Its name says the layout in place of `nt`."""
    turns_a, turns_b = layout[0] == "t", layout[1] == "n"
    shapes = [shape for shape, turns in (("a [k, m]", turns_a), ("b [k, n]", turns_b)) if turns]

    @functools.wraps(nt)
    def product(a: Any, b: Any, *others: Any, **options: Any) -> None:
        nt(transposed(a) if turns_a else a, transposed(b) if turns_b else b, *others, **options)

    product.__name__ = product.__qualname__ = nt.__name__.replace("_nt", f"_{layout}")
    product.__doc__ = f"Same as `{nt.__name__}`, with {' and '.join(shapes)}."
    return cast(F, product)


def transposed(operand: Any) -> Any:
    """A matrix, or a pair of a matrix and its scales, with rows and columns exchanged."""
    return operand.mT if isinstance(operand, torch.Tensor) else tuple(part.mT for part in operand)
