"""What every op does around a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from tilewright.context import Context
from tilewright.interface.matrices import alignment_of

if TYPE_CHECKING:
    from tilewright.ops.common.plan import Plan

MOST_ALIGNED = 32  # bytes: more than this no kernel asks of an address

P = TypeVar("P", bound="Plan")


def outline(tensor: torch.Tensor | None) -> Any:
    """What a plan's key holds of an optional tensor."""
    if tensor is None:
        return None
    # The type: of what is not quite a tensor (a fake one, say) no plan is remembered, and none is found.
    return (type(tensor), tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device())


def addresses(tensors: Mapping[str, torch.Tensor]) -> frozenset[tuple[str, int]]:
    """The tensors not at multiples of `MOST_ALIGNED` bytes, each with what its address is a multiple of."""
    found = ((name, alignment_of(tensor.data_ptr(), MOST_ALIGNED)) for name, tensor in tensors.items())
    return frozenset((name, alignment) for name, alignment in found if alignment < MOST_ALIGNED)


def for_addresses(
    context: Context,
    op: str,
    key: Any,
    addresses: frozenset[tuple[str, int]],
    make: Callable[[frozenset[tuple[str, int]]], P],
) -> P:
    """The plan for the call of `key` with tensors at such addresses, remembered where the call has a key."""
    if key is None:
        return make(addresses)
    key = (op, key, addresses)
    found: P | None = context.plans.get(key)
    if found is None:
        found = make(addresses)
        context.remember(key, found)
    found.used = True
    return found


def run_there(plan: Plan, call: tuple[Any, ...]) -> None:
    """Carries a plan out on its GPU, whichever is current."""
    if plan.device.type == "cuda":
        with torch.cuda.device(plan.device):
            plan.run(call)
    else:
        plan.run(call)
