"""What every op does around a plan: parts of the plan's key, and running it for given addresses and on its
device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from tilewright.context import Context
from tilewright.declarations.matrices import alignment_of

if TYPE_CHECKING:
    from tilewright.calls.plan import Plan

MOST_ALIGNED = 32  # bytes: more than this no kernel asks of an address

P = TypeVar("P", bound="Plan")


def layout_key(tensor: torch.Tensor | None) -> Any:
    """The part of a plan's key for an optional tensor."""
    if tensor is None:
        return None
    # With its type: no plan is remembered for a tensor of a subclass (a fake one, say), so none is found.
    return (type(tensor), tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device())


def addresses(tensors: Mapping[str, torch.Tensor]) -> frozenset[tuple[str, int]]:
    """The tensors whose addresses are not multiples of `MOST_ALIGNED` bytes, with the alignment of each."""
    alignments = [(name, alignment_of(tensor.data_ptr(), MOST_ALIGNED)) for name, tensor in tensors.items()]
    return frozenset([(name, alignment) for name, alignment in alignments if alignment < MOST_ALIGNED])


def for_addresses(
    context: Context,
    op: str,
    key: Any,
    addresses: frozenset[tuple[str, int]],
    make: Callable[[frozenset[tuple[str, int]]], P],
) -> P:
    """The plan of a call for tensors at these addresses. It is remembered if the call has a key."""
    if key is None:
        return make(addresses)
    key = (op, key, addresses)
    plan: P | None = context.plans.get(key)
    if plan is None:
        plan = make(addresses)
        context.remember(key, plan)
    plan.used = True
    return plan


def run_on_its_device(plan: Plan, call: tuple[Any, ...]) -> None:
    """Carries a plan out on its GPU, even if another GPU is current."""
    if plan.device.type == "cuda":
        with torch.cuda.device(plan.device):
            plan.run(call)
    else:
        plan.run(call)
