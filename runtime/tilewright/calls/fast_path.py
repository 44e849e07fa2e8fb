"""The fast path of functions that call an op on views of their arguments: `einsum`, DeepGEMM's names.

The first call of a kind runs the op, with all its checks. A launcher is then kept for tensors that lie as the
caller's do, so that a later call makes no views and saves two microseconds of the host. The launcher compares
how operands lie, their addresses and whether they overlap; a call that it refuses runs the op again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as modes
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from tilewright import context as contexts
from tilewright.calls import call_planning
from tilewright.libraries.launcher_cache import CachedLaunchers
from tilewright.libraries.library import Launcher


def traced() -> bool:
    """Whether torch traces calls instead of executing them: tensors may then have no memory, and extents may
    be symbols."""
    return bool(is_dynamo_compiling() or modes())


def launch(key: tuple[Any, ...], call: tuple[Any, ...], wants_gradients: bool) -> bool:
    """Launches a call if a launcher for one like it is kept, and answers whether it has.

    Args:
        key: the function's name; then all that decides about the launch but how tensors lie and their
            elements' types; then the shapes of two operands, so that few launchers share a key.
        call: operands, then numbers, in the order of the names with which a launcher was kept.
        wants_gradients: whether an operand does. Ops refuse that while gradients are recorded, and dual
            tensors, for which they look in a level of forward-mode AD.
    """
    # `traced`, without another function to call: that would be a fiftieth of a warm call.
    if is_dynamo_compiling() or modes() or forward_ad._current_level >= 0:
        return False
    if wants_gradients and torch.is_grad_enabled():
        return False
    try:
        cached = contexts.current().plans.launchers.get(key)
        if cached is None:
            return False
        cached.used = True
        return bool(cached.launch(*call, None) == 0)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False  # the op says what is wrong


def keep(
    key: tuple[Any, ...],
    call: tuple[Any, ...],
    names: tuple[str, ...],
    op: Callable[..., Any],
    /,
    *given: Any,
    **options: Any,
) -> None:
    """Keeps a launcher for `call`, which `op` has carried out with `given` and `options`: views of `call`'s
    tensors that have the same first elements. `names`: of the op's operands and numbers, those that `call`
    holds. Keeps none where the call is more than a launch, or where an address is aligned to less than most
    are."""
    passed = dict(zip(names, call, strict=True))
    keep_launcher(key, lambda: call_planning.launcher_of_call(op, passed, *given, **options))


def keep_launcher(key: tuple[Any, ...], make: Callable[[], Launcher | None]) -> None:
    """Keeps what `make` makes, for tensors that lie as those of a call that has been carried out."""
    if traced():
        return
    try:
        cached = contexts.current().launchers(key)
    except TypeError:  # a list, say, has no hash: such calls run the op
        return
    if cached.layouts_seen < CachedLaunchers.MOST:
        cached.add(make())
