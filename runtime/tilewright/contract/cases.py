"""Complete calls of a family's ops, of which the contract tests make all others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tilewright.torch_ops  # noqa: F401 (publishes every op)
from tilewright.calls.op import Op
from tilewright.calls.publish import published
from tilewright.contract.tensors import MORE_ROOM, bytes_of, moved
from tilewright.declarations.declaration import Operand


@dataclass(frozen=True)
class Case:
    """An op, and a complete call of it."""

    family: str
    op: Op
    kernels: str
    template: Callable[[], dict[str, Any]]
    free: Sequence[str]

    def __str__(self) -> str:
        return f"{self.op.name}-{self.template.__name__}"

    def make(self) -> dict[str, Any]:
        """The call's arguments, in memory of their own."""
        values = _made(self.template).items()
        return {name: moved(value, 0) if isinstance(value, torch.Tensor) else value for name, value in values}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a call brings, in the order of the parameters."""
        values = self.make()
        tensors = {name: values.get(name) for name in self.op.tensors}
        return {name: value for name, value in tensors.items() if isinstance(value, torch.Tensor)}

    @property
    def first(self) -> str:
        """The operand whose device the others are to be on."""
        return next(parameter.name for parameter in self.op.parameters if parameter.kind == "tensor")

    @property
    def written(self) -> tuple[str, ...]:
        """What a call writes."""
        return tuple(name for name in self.op.written if name in self.make())

    def declared(self, name: str) -> Operand:
        """The family's declaration of an operand."""
        return self.op.interface.operands[self.op.interface.names.index(name)]

    def overlapping(self, written: str, name: str) -> dict[str, torch.Tensor]:
        """An operand that overlaps a result, at 16 bytes from it if it may be the result itself."""
        result, operand = self.tensors[written], self.tensors[name]
        room = torch.zeros(max(bytes_of(result), bytes_of(operand)) + MORE_ROOM, dtype=torch.uint8)
        offset = 16 if self.declared(name).twin == written else 0
        return {written: moved(result, 0, room), name: moved(operand, offset, room)}

    def call(self, **changes: Any) -> Any:
        return self.op.function(**(self.make() | changes))

    def make_all(self) -> dict[str, Any]:
        """The arguments of a call that brings nothing to write to."""
        return {name: value for name, value in self.make().items() if name not in self.op.written}


@functools.cache
def _made(template: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return template()


def ops_of(family: str) -> dict[str, Op]:
    """A family's public ops, by name."""
    return {op.name: op for op in published.values() if op.interface.family == family}


@dataclass(frozen=True)
class FamilyCalls:
    """The calls of a family's ops. Between them they bring every tensor of every op, results included."""

    family: str
    calls: Mapping[str, Sequence[Callable[[], dict[str, Any]]]]
    """For each op, functions that make the arguments of a complete call, by name."""
    kernels: str = "kernels"
    """The fixture under which kernels compute the calls on the CPU."""
    free: Sequence[str] = ()
    """Operands of which a call may bring any number of elements, whatever the others are."""
    measured: Sequence[Any] = ()
    """Problems of which the family's `measuring.py` makes operands; () if it has none."""

    def __str__(self) -> str:
        return self.family

    def cases(self) -> Iterator[Case]:
        """Every call."""
        for name, op in ops_of(self.family).items():
            for template in self.calls.get(name, ()):  # `test_every_op_is_called_by_these_tests` fails
                yield Case(self.family, op, self.kernels, template, self.free)

    def first_cases(self) -> Iterator[Case]:
        """One call of every op."""
        first = {case.op.name: case for case in reversed([*self.cases()])}
        return reversed(first.values())
