"""A public op: what its family says of it, and what follows from its signature.

    @public(Multiply())
    def product(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
        '''What it computes, its arguments, what it answers and raises.'''

What `public` (`interface.publish`) makes of it has this signature and docstring. It runs the one protocol of
all ops (`interface.calls`), is known to torch (`interface.registered`) and can be prepared
(`tilewright.prepared`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter as Declared
from types import MappingProxyType
from typing import Any

import torch

from tilewright.context import Context
from tilewright.interface.declaration import Interface
from tilewright.interface.signature import Parameter
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.tactics import Tactic

Values = Mapping[str, Any]  # of a call: each parameter's, by name
Operands = tuple[Any, ...]  # of a call: in the launcher's order


class Op:
    """What is special about a public op. Its family overrides what does not follow from the signature."""

    interface: Interface
    written: tuple[str, ...] = ("out",)
    """What the op makes where a call brings none, and answers."""
    passed: tuple[str, ...] = ("a", "b", "out")
    """What a prepared call passes, in order."""
    replaced: tuple[str, ...] = ()
    """What a prepared call replaces by keyword at no cost."""
    may_fill: bool = False
    """Whether there are plans that `fill` a call's operands."""
    constants: Values = MappingProxyType({})
    """Of operands and numbers that the launcher has, and the op has not."""
    flops: Callable[..., int] | None = None
    """For FlopCounterMode, of the tensors' shapes."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]

    def check(self, context: Context, values: Values, *, fake: bool = False) -> Any:
        """What a plan depends on. Raises ArgumentError or ArgumentTypeError for the first argument that is
        wrong; numbers have gone through `factor`. `fake`: tensors may be on the meta device, extents be
        symbols."""
        raise NotImplementedError

    def plan(
        self,
        context: Context,
        arguments: Any,
        tactic: Tactic | None,
        again: Callable[..., Any],
        addresses: frozenset[tuple[str, int]] = frozenset(),
    ) -> Plan:
        """How checked arguments are computed. `again` is the op with the call's options, for operands that
        need no copies; `addresses` says of operands what their address is a multiple of, where it is not of
        `calls.MOST_ALIGNED`."""
        raise NotImplementedError

    def fill(self, arguments: Any, operands: Operands) -> Operands:
        """Operands with what the call has left out and a kernel wants, of a plan that `fills`."""
        return operands

    def pretend(self, context: Context, values: Values) -> tuple[torch.Tensor, ...]:
        """What a call writes, of any values: the checks that can be made of fake tensors come first."""
        arguments = self.check(context, values, fake=True)
        return (torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device),)

    def room(self, values: Values) -> tuple[torch.Tensor, ...]:
        """What a call writes, of any values, without a check: of a call that torch sees, and that brings a
        part of it."""
        raise NotImplementedError

    def variants(self) -> Mapping[str, tuple[str, ...]]:
        """By the suffix of its name in torch: what an op writes, the first of `written`."""
        return {"": self.written}

    def variant(self, values: Values) -> str:
        """The suffix of a call's."""
        return ""

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        """A call's values as torch's ops take them."""
        return values

    def options(self, values: Values) -> dict[str, Any]:
        """What `again` is told."""
        return {
            one.name: values[one.name]
            for one in self.parameters
            if not one.is_tensor and one.kind != "number"
        }

    def of(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """The parameters of some kinds."""
        return tuple(one.name for one in self.parameters if one.kind in kinds)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        return self.of(("number",))

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.parameters if one.is_tensor)

    def defaults(self) -> dict[str, Any]:
        """Of the parameters that have one."""
        given = {one.name: one.default for one in self.parameters}
        return {name: value for name, value in given.items() if value is not Declared.empty}

    def operands(self, values: Values) -> Operands:
        """In the launcher's order."""
        return tuple(map({**self.constants, **values}.get, self.interface.names))
