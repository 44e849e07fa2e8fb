"""How products are measured: on random operands that are not in L2, right before they are timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import torch

from tilewright import timing
from tilewright.device import DeviceProperties
from tilewright.ops.common.family import Problem
from tilewright.ops.common.tactics import Tactic

_MOST_BYTES = 16 * 10**9  # of all sets of operands together


class Operands(Protocol):
    """One set of random operands, and a D of its own."""

    def poison(self) -> None:
        """Fills D with what no kernel writes."""

    def call(self, tactic: Tactic | None = None) -> Any:
        """Runs the op: the tactic, or what is selected."""

    def check(self) -> float:
        """The error norm of what D holds against float64; raises WrongResultError where it is too far off."""
        ...


O = TypeVar("O", bound=Operands)  # noqa: E741 (as short as T)
# The name of another library's op for the problem, and a call of it.
Peer: TypeAlias = tuple[str, Callable[[O], Any]]


def sets(problem: Problem, device: DeviceProperties, more_bytes: int = 0) -> int:
    """How many sets of operands keep L2 cold when they are taken in turn; a set takes `more_bytes` beside
    what the problem moves."""
    count = timing.rotations(problem.bytes, device.l2_bytes)
    return max(1, min(count, _MOST_BYTES // (problem.bytes + more_bytes)))


def checked(operands: Operands, tactic: Tactic | None = None) -> float:
    """Runs the op once, on a poisoned D, and answers its error norm."""
    operands.poison()
    operands.call(tactic)
    return operands.check()


def seconds(operands: Sequence[Operands], tactic: Tactic | None = None, replays: int = 15) -> float:
    """Median seconds of a call of ours, L2 cold. D is checked first."""
    checked(operands[0], tactic)
    return timing.graph_seconds([lambda x=one: x.call(tactic) for one in operands], replays=replays)  # type: ignore[misc]


def peer_seconds(peer: Peer[O] | None, operands: Sequence[O], replays: int = 15) -> float | None:
    """Median seconds of the peer, measured the same way; None where there is none."""
    if peer is None:
        return None
    _, call = peer
    for one in operands:  # a peer may make operands of its own, ahead of its timing
        call(one)
    return timing.graph_seconds([lambda x=one: call(x) for one in operands], replays=replays)  # type: ignore[misc]


def poison(out: torch.Tensor) -> None:
    """Fills a result with NaN, or a pattern where its type has none."""
    if out.is_floating_point() and out.element_size() > 1:
        out.fill_(float("nan"))
    else:
        out.view(torch.uint8).fill_(0x5A)
