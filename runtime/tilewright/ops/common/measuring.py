"""How products are measured: on random operands that are not in L2, right before they are timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import torch

from tilewright import timing
from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.interface.declaration import Interface, Matrix
from tilewright.ops.common.formats import as_bytes, dtype_of
from tilewright.ops.common.kernels import Problem
from tilewright.ops.common.tactics import Tactic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
D = TypeVar("D", bound="DataclassInstance")
# The name of another library's op for the problem, and a call of it.
Peer: TypeAlias = tuple[str, Callable[[O], Any]]


def sets(problem: Problem, device: DeviceProperties, more_bytes: int = 0) -> int:
    """How many sets of operands keep L2 cold when they are taken in turn; a set takes `more_bytes` beside
    what the problem moves."""
    count = timing.rotations(problem.bytes, device.l2_bytes)
    return max(1, min(count, _MOST_BYTES // (problem.bytes + more_bytes)))


def random_matrix(operand: Matrix, problem: Any, generator: torch.Generator) -> torch.Tensor:
    """A matrix as its family declares it, without gaps, on the generator's device: of a normal distribution,
    or of integers of 8 bits."""
    rows, columns = operand.tensor_shape(problem)
    name = operand.batch_of(problem)
    count = getattr(problem, name) if name else 1
    batch = (count,) if name and (count > 1 or not operand.single) else ()
    by_rows = operand.inner(problem) == "columns"
    shape = (*batch, rows, columns) if by_rows else (*batch, columns, rows)
    dtype = dtype_of(operand.type_of(problem))
    made: torch.Tensor
    if dtype.is_floating_point:
        made = torch.randn(shape, generator=generator, device=generator.device).to(dtype)
    else:
        made = torch.randint(-128, 128, shape, generator=generator, device=generator.device, dtype=dtype)
    return made if by_rows else made.mT


def random_matrices(
    interface: Interface, problem: Any, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Those that a call of the problem brings to read, by name: a field of the problem that has an operand's
    name says whether it is there."""
    declared = [one for one in interface.operands if isinstance(one, Matrix) and not one.written]
    there = [one for one in declared if one.type and getattr(problem, one.name, True) is not False]
    return {one.name: random_matrix(one, problem, generator) for one in there}


def elsewhere(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that lies as the tensor does, with what its memory holds besides (scales may have padding)."""
    raw = as_bytes(tensor)
    whole = raw.as_strided((raw.untyped_storage().nbytes() // raw.element_size(),), (1,), 0)
    lies = raw.shape, raw.stride(), raw.storage_offset()
    return whole.clone().as_strided(*lies).view(tensor.dtype)


def copies(first: D, count: int) -> list[D]:
    """A set of operands and copies of it, which lie elsewhere: `count` in all. Single numbers are shared."""
    values = {field.name: getattr(first, field.name) for field in fields(first)}
    large = {
        name: value for name, value in values.items() if isinstance(value, torch.Tensor) and value.numel() > 1
    }
    others = ({name: elsewhere(tensor) for name, tensor in large.items()} for _ in range(count - 1))
    return [first, *(replace(first, **each) for each in others)]


def check_norms(
    problem: Problem, found: torch.Tensor, wanted: torch.Tensor, tolerance: float, ratio_tolerance: float
) -> float:
    """The norm of the error, of that of `wanted` (float64). Raises WrongResultError where it, or the norms'
    ratio, is too far off: a ratio shows a factor that is missed, whatever single elements lose."""
    norm = float(wanted.norm())
    error, ratio = float((found - wanted).norm()) / norm, float(found.norm()) / norm
    if not (error <= tolerance and abs(ratio - 1) <= ratio_tolerance):  # a NaN fails
        raise WrongResultError(
            f"{problem}: error norm {error:.2e}, norm ratio {ratio:.6f}; "
            f"{tolerance:.0e} and 1 +- {ratio_tolerance:.0e} are allowed"
        )
    return error


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
