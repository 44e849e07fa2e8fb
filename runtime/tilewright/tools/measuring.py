"""Measures kernels on random operands that are not in L2. A result is checked before its kernel is timed.

A family's `measuring.py` has `make(problem, generator)`, which makes one set of operands (a subclass of
`Operands`, with the family's `check`), and `peer(problem)`: another library's function for the problem, if
there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

import torch

from tilewright import blockwise_scales, context
from tilewright.architectures.device import DeviceProperties
from tilewright.calls import checks
from tilewright.calls.publish import published
from tilewright.declarations.declaration import Interface, Matrix, Packed
from tilewright.declarations.tactics import Tactic
from tilewright.errors import WrongResultError
from tilewright.formats.dtypes import as_bytes, dtype_of
from tilewright.formats.types import per_byte
from tilewright.selection.kernels import Problem
from tilewright.tools import timing

_MOST_BYTES = 16 * 10**9  # bytes of all sets of operands together
_CHECKED_ROWS = 512  # rows of a result that are checked, spread evenly


class Operands(SimpleNamespace):
    """One set of operands of a problem: a call of its op.

    Its attributes are the call's arguments by the op's names, including defaults, and others that `check`
    needs. Memory for results is allocated if it is not given.
    """

    error_text = "error norm {:.2e} against float64"  # what `check` answers
    more_bytes = 0  # bytes of a set beside those of the problem: a peer's operands

    def __init__(self, problem: Any, op: Callable[..., Any], **arguments: Any) -> None:
        self._declared = published[op]
        values = self._declared.with_factors(self._declared.defaults() | arguments)
        if absent := [name for name in self._declared.required if name not in values]:
            raise TypeError(f"a call of {self._declared.name} needs {', '.join(absent)}, too")
        super().__init__(problem=problem, op=op, **values)
        self._names = tuple(values)
        self._written = self._declared.variants()[self._declared.variant(values)]
        if any(values[name] is None for name in self._written):
            checked = checks.check(self._declared, context.current(), values)
            for index, name in enumerate(self._written):
                if values[name] is None:
                    setattr(self, name, self._declared.make(checked, index))

    def changed(self, **arguments: Any) -> Any:
        """The same call with other arguments."""
        before = {name: getattr(self, name) for name in self._names}
        return type(self)(self.problem, self.op, **before | arguments)

    def elsewhere(self) -> Any:
        """The same call on copies of its tensors. Single numbers are shared."""
        operands = ((name, getattr(self, name)) for name in self._names)
        large = {
            name: operand
            for name, operand in operands
            if isinstance(operand, torch.Tensor) and operand.numel() > 1
        }
        return self.changed(**{name: elsewhere(tensor) for name, tensor in large.items()})

    def poison(self) -> None:
        """Fills results with values that no kernel writes."""
        for name in self._written:
            tensor, operand = getattr(self, name), self._declared.interface.operand(name)
            padded = isinstance(operand, Packed) and operand.has_gaps(self.problem)
            poison(blockwise_scales.with_padding(tensor) if padded else tensor)

    def call(self, tactic: Tactic | None = None) -> Any:
        """Runs the op with the tactic, or with the selected one."""
        taken = {parameter.name: getattr(self, parameter.name) for parameter in self._declared.parameters}
        return self.op(**taken | {"tactic": tactic})

    def check(self) -> float:
        """The error norm, against float64, of what the call has written. Raises WrongResultError where it is
        too large."""
        raise NotImplementedError


# The name of another library's op for the problem, and a call of it.
Peer: TypeAlias = tuple[str, Callable[[Any], Any]]


class Measured(Protocol):
    """A family's `measuring.py`; with `peer` if another library has such an op."""

    def make(self, problem: Any, generator: torch.Generator) -> Operands:
        """One set, of random values, on the generator's device."""


def peer_of(of_family: Any, problem: Any) -> Peer | None:
    """A function of another library that computes the problem; None if no other library has such an op."""
    peer: Peer | None = getattr(of_family, "peer", lambda problem: None)(problem)
    return peer


def make_operands(
    of_family: Measured, problem: Problem, device: DeviceProperties, seed: int = 0
) -> list[Any]:
    """Enough sets of operands to keep L2 cold when they are used in turn: copies of one set, at other
    addresses."""
    first = of_family.make(problem, torch.Generator("cuda").manual_seed(seed))
    count = timing.rotations(problem.bytes, device.l2_bytes)
    return copies(first, min(count, _MOST_BYTES // (problem.bytes + first.more_bytes)))


def copies(first: Operands, count: int) -> list[Any]:
    """A set of operands and copies of it: `count` in all, and one at least."""
    return [first, *(first.elsewhere() for _ in range(count - 1))]


def spread(rows: int, most: int = _CHECKED_ROWS) -> slice:
    """The indices of about `_CHECKED_ROWS` rows, at equal distances."""
    return slice(None, None, max(1, rows // most))


def random_matrix(operand: Matrix, problem: Any, generator: torch.Generator) -> torch.Tensor:
    """A matrix as its family declares it, without gaps, on the generator's device, with random elements:
    normally distributed, or uniform for integers of 8 bits and FP4."""
    rows, columns = operand.tensor_shape(problem)
    name = operand.batch_of(problem)
    count = getattr(problem, name) if name else 1
    batch = (count,) if name and (count > 1 or not operand.single) else ()
    by_rows = operand.inner(problem) == "columns"
    shape = (*batch, rows, columns) if by_rows else (*batch, columns, rows)
    type, device = operand.type_of(problem), generator.device
    dtype = dtype_of(type)
    if per_byte(type) > 1:
        matrix = torch.randint(256, shape, generator=generator, device=device, dtype=torch.uint8).view(dtype)
    elif dtype.is_floating_point:
        matrix = torch.randn(shape, generator=generator, device=device).to(dtype)
    else:
        matrix = torch.randint(-128, 128, shape, generator=generator, device=device, dtype=dtype)
    return matrix if by_rows else matrix.mT


def random_matrices(
    interface: Interface, problem: Any, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The matrices that a call of the problem reads, by name. If the problem has a field with an operand's
    name, the field says whether the call has the operand."""
    declared = [
        operand for operand in interface.operands if isinstance(operand, Matrix) and not operand.written
    ]
    used = [
        operand for operand in declared if operand.type and getattr(problem, operand.name, True) is not False
    ]
    return {operand.name: random_matrix(operand, problem, generator) for operand in used}


def elsewhere(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, including the memory between elements (scales may have padding)."""
    raw = as_bytes(tensor)
    whole = raw.as_strided((raw.untyped_storage().nbytes() // raw.element_size(),), (1,), 0)
    lies = raw.shape, raw.stride(), raw.storage_offset()
    return whole.clone().as_strided(*lies).view(tensor.dtype)


def check_norms(
    problem: Problem, found: torch.Tensor, wanted: torch.Tensor, tolerance: float, ratio_tolerance: float
) -> float:
    """The norm of the error over the norm of `wanted` (float64). Raises WrongResultError if it, or the ratio
    of the norms, is too far off: the ratio shows a missing factor even if elements lose precision."""
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
    """Median seconds of a call of our op with a cold L2. D is checked first."""
    checked(operands[0], tactic)
    return timing.graph_seconds([lambda x=operand: x.call(tactic) for operand in operands], replays=replays)  # type: ignore[misc]


def peer_seconds(peer: Peer | None, operands: Sequence[Operands], replays: int = 15) -> float | None:
    """Median seconds of the peer, measured the same way; None if there is no peer."""
    if peer is None:
        return None
    _, call = peer
    for operand in operands:  # a peer may make operands of its own, ahead of its timing
        call(operand)
    return timing.graph_seconds([lambda x=operand: call(x) for operand in operands], replays=replays)  # type: ignore[misc]


def poison(out: torch.Tensor) -> None:
    """Fills a result with NaN, or with a pattern if its type has no NaN."""
    if out.is_floating_point() and out.element_size() > 1:
        out.fill_(float("nan"))
    else:
        out.view(torch.uint8).fill_(0x5A)
