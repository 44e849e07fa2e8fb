"""Conditions on sizes that may be symbols: fake kernels run an op's checks on tensors of dynamic shapes.

What the op checks when it runs needs no guard when it is traced: a guard is a recompilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def certainly(condition: Any) -> bool:
    """Whether a condition holds; of symbols, whether it must hold. Adds no guard."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # noqa: PLC0415 (slow)

    return bool(statically_known_true(condition))


def differ(shape: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two shapes are certainly different."""
    pairs = zip(shape, wanted, strict=False)
    return len(shape) != len(wanted) or any(certainly(x != y) for x, y in pairs)


def symbolic(tensor: torch.Tensor) -> bool:
    """Whether an extent or a stride of a tensor is a symbol."""
    return any(not isinstance(number, int) for number in (*tensor.shape, *tensor.stride()))
