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
from tilewright.ops.common.plan import Near


def launched(key: tuple[Any, ...], call: tuple[Any, ...], wants_gradients: bool) -> bool:
    """Carries a call out if one like it is remembered.

    Args:
        key: begins with the name of the function; what decides about the launch beside how tensors lie and
            their elements' types, and shapes of two, so that few launchers are tried.
        call: the launcher's operands, as the caller has them, and its numbers.
        wants_gradients: whether an operand does. Ops refuse that while gradients are recorded.
    """
    if is_dynamo_compiling() or modes() or (wants_gradients and torch.is_grad_enabled()):
        return False
    near = contexts.current().plans.near.get(key)
    if near is None:
        return False
    near.used = True
    try:
        return bool(near.launch(*call, None) == 0)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False  # the op says what is wrong


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
    near = context.plans.near.get(key)
    if near is None:
        near = Near()
        context.remember(key, near, near=True)
    if near.seen < Near.MOST:
        near.add(make())
