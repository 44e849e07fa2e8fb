"""What the contract tests call: every public op, with every operand that it can take.

A family brings a module `<family>_calls.py`: `HOST`, the fixture whose kernels compute its calls on the CPU,
and `CALLS`, for each of its ops the functions that make the arguments of a call, by name. Between them, the
calls of a family bring all tensors of its ops, those that are written included. `FREE`, if it is there: the
operands of which a call may bring any number of elements, whatever the others are. `MEASURED`, of a family
that has a `measuring.py`: problems of which that makes operands. Of a family from outside the module is
anywhere on sys.path. All else that the tests know of an op follows from its signature and its
declaration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

import tilewright.torch_ops  # noqa: F401 (publishes every op)
from tilewright.calls.op import Op
from tilewright.calls.publish import published
from tilewright.declarations import catalog
from tilewright.declarations.declaration import Operand

MODULES: dict[str, ModuleType] = {
    family: import_module(f"{family}_calls") for family in catalog.names() if find_spec(f"{family}_calls")
}
MORE_ROOM = 4096  # bytes behind a moved tensor: scale factors may have padding behind them


@dataclass(frozen=True)
class Case:
    """An op, and a complete call of it."""

    family: str
    op: Op
    host: str
    template: Callable[[], dict[str, Any]]
    free: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.op.name}-{self.template.__name__}"

    def make(self) -> dict[str, Any]:
        """The call's arguments, in memory of their own."""
        given = _made(self.template).items()
        return {name: moved(one, 0) if isinstance(one, torch.Tensor) else one for name, one in given}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a call brings, in the order of the parameters."""
        values = self.make()
        found = {name: values.get(name) for name in self.op.tensors}
        return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}

    @property
    def first(self) -> str:
        """The operand whose device the others are to be on."""
        return next(one.name for one in self.op.parameters if one.kind == "tensor")

    @property
    def written(self) -> tuple[str, ...]:
        """What a call writes."""
        return tuple(name for name in self.op.written if name in self.make())

    def declared(self, name: str) -> Operand:
        """Of an operand, what its family declares."""
        return self.op.interface.operands[self.op.interface.names.index(name)]

    def overlapping(self, written: str, name: str) -> dict[str, torch.Tensor]:
        """An operand that lies where a result does: not quite, where it may be the result itself."""
        result, operand = self.tensors[written], self.tensors[name]
        room = torch.zeros(max(bytes_of(result), bytes_of(operand)) + MORE_ROOM, dtype=torch.uint8)
        offset = 16 if self.declared(name).twin == written else 0
        return {written: moved(result, 0, room), name: moved(operand, offset, room)}

    def call(self, **changes: Any) -> Any:
        return self.op.function(**(self.make() | changes))

    def make_all(self) -> dict[str, Any]:
        """The arguments of a call that brings nothing to write to."""
        return {name: one for name, one in self.make().items() if name not in self.op.written}


@functools.cache
def _made(template: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return template()


def ops_of(family: str) -> dict[str, Op]:
    """A family's public ops, by name."""
    return {op.name: op for op in published.values() if op.interface.family == family}


def cases() -> Iterator[Case]:
    """Every call of every family's. One that brings none fails `test_every_op_is_called_by_these_tests`."""
    for family in filter(MODULES.get, catalog.names()):
        module = MODULES[family]
        for name, op in ops_of(family).items():
            for template in module.CALLS[name]:
                yield Case(family, op, module.HOST, template, getattr(module, "FREE", ()))


def first_cases() -> Iterator[Case]:
    """One call of every public op."""
    seen = {}
    for case in cases():
        seen.setdefault(case.op.name, case)
    yield from seen.values()


def moved(tensor: torch.Tensor, offset: int, room: torch.Tensor | None = None) -> torch.Tensor:
    """The tensor so many bytes behind an aligned address: within `room` (which keeps what it holds), or in
    room of its own, with its values."""
    buffer = torch.zeros(bytes_of(tensor) + offset + MORE_ROOM, dtype=torch.uint8) if room is None else room
    ends = offset + (len(buffer) - offset) // tensor.element_size() * tensor.element_size()
    found = buffer[offset:ends].view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
    if room is None:
        raw(found).copy_(raw(tensor))
    return found


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that torch can copy and compare, whatever its type."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def bytes_of(tensor: torch.Tensor) -> int:
    """From its first byte to its last."""
    last = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())


def lies(tensor: torch.Tensor) -> tuple[Any, ...]:
    """All that a fake tensor knows of a real one."""
    return tensor.shape, tensor.dtype, tensor.stride(), tensor.device


def all_of(result: Any) -> tuple[torch.Tensor, ...]:
    """What an op answers, as a tuple."""
    return result if isinstance(result, tuple) else (result,)
