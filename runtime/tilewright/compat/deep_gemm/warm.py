"""Calls that are like an earlier one, in two microseconds of host time less than the library's ops take.

The first call of a kind runs the op, with all its checks, and then remembers a launcher for tensors that lie
as the caller's do: the transposed views which the op is given are not made again. The launcher compares how
operands lie, their addresses and overlaps, and refuses what is not as it was; such a call runs the op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as modes
from torch.compiler import is_dynamo_compiling

from tilewright import context as contexts
from tilewright import planned
from tilewright.interface.publish import published
from tilewright.library import Launcher

MOST_LAYOUTS = 4  # of one kind of call; further ones run the op


class _Layouts:
    """Launchers of a kind of call, each for tensors that lie in one way; a `context.Plan`."""

    __slots__ = ("launchers", "seen", "used")

    def __init__(self) -> None:
        self.launchers: list[Launcher] = []
        self.seen = 0  # layouts, with those for which no launcher does
        self.used = True


def launched(key: tuple[Any, ...], call: tuple[Any, ...], wants_gradients: bool) -> bool:
    """Carries a call out if one like it is remembered.

    Args:
        key: begins with the name of the function; types and shapes, and what else decides about the launch
            beside how tensors lie.
        call: the launcher's operands, as the caller has them, and its numbers.
        wants_gradients: whether an operand does. Ops refuse that while gradients are recorded.
    """
    if is_dynamo_compiling() or modes() or (wants_gradients and torch.is_grad_enabled()):
        return False
    found = contexts.current().plans.get(key)
    if found is None:
        return False
    found.used = True
    for launcher in found.launchers:
        try:
            if launcher(*call, None) == 0:
                return True
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return False  # the op says what is wrong
    return False


def remember(
    key: tuple[Any, ...], call: tuple[Any, ...], op: Callable[..., Any], /, *given: Any, **options: Any
) -> None:
    """Remembers a call that `op` has carried out, with `given` and `options`: views of `call`'s tensors that
    have the same first elements. Where it is more than a launch, or an address is a rare one, nothing is
    remembered."""
    operands = call[: len(published[op].interface.names)]
    keep(key, lambda: planned.direct(op, operands, *given, **options))


def keep(key: tuple[Any, ...], make: Callable[[], Launcher | None]) -> None:
    """Remembers what `make` makes for tensors that lie as those of a call that has been carried out."""
    if is_dynamo_compiling() or modes():
        return
    context = contexts.current()
    found = context.plans.get(key)
    if found is None:
        found = _Layouts()
        context.remember(key, found)
    elif found.seen >= MOST_LAYOUTS:
        return
    found.seen += 1
    launcher = make()
    if launcher is not None:
        found.launchers.append(launcher)
