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

from tilewright import blockwise_scales
from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.errors import NoKernelError
from tilewright.interface.copies import copy_of
from tilewright.interface.declaration import Combinations, Interface, Matrix, Packed
from tilewright.interface.placement import Arguments, Placement, place_without_copies
from tilewright.interface.signature import Parameter
from tilewright.ops.common.family import Family
from tilewright.ops.common.formats import as_bytes
from tilewright.table import KernelRecord
from tilewright.types import bits

Values = Mapping[str, Any]  # of a call: each parameter's, by name
Operands = tuple[Any, ...]  # of a call: in the launcher's order


class Op:
    """What is special about a public op. Its family overrides what does not follow from the signature."""

    interface: Interface
    family: Family[Any]
    """As selection sees it."""
    written: tuple[str, ...] = ("out",)
    """What the op makes where a call brings none, and answers."""
    passed: tuple[str, ...] = ("a", "b", "out")
    """What a prepared call passes, in order."""
    replaced: tuple[str, ...] = ()
    """What a prepared call replaces by keyword at no cost."""
    may_fill: bool = False
    """Whether there are plans that `fill` a call's operands."""
    constants: Values = MappingProxyType({})
    """Of numbers that the launcher has, and the op has not. Of operands it is None."""
    flops: Callable[..., int] | None = None
    """For FlopCounterMode, of the tensors' shapes."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]

    def combinations(self, values: Values) -> Combinations | None:
        """The types that the call may have; None where the op lacks an operand that tells one."""
        types = self.interface.types
        told = {one.type for one in self.interface.operands if one.name in self.required}
        return types if types and told.issuperset(types.read) else None

    def fields(self, values: Values) -> Mapping[str, Any]:
        """Fields of the problem that the op, or its options, say. Tensors are such, of one device, and flags
        are true or false; nothing else is checked yet."""
        return {}

    def batched(self, values: Values) -> bool:
        """Whether what is written has a dimension for its batch though no operand has one."""
        return False

    def rules(self, values: Values, problem: Any) -> None:
        """Raises ArgumentError for what no declaration says of a call's arguments. Extents may be symbols."""

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """The problem as it is computed, and what is copied for it. `addresses` says of arguments what their
        address is a multiple of, where that is little. Raises AlignmentError where the op does not copy."""
        return place_without_copies(self.interface, arguments, addresses)

    def alignments(self, problem: Any, record: KernelRecord) -> Mapping[str, int]:
        """Bytes that a kernel asks of operands' addresses, where it asks for more than its interface: of the
        matrices that its table's row speaks of."""
        asked, matrices = record.facts.get("alignment", {}), self.interface.matrices
        there = ((matrices[field], count) for field, count in asked.items() if field in matrices)
        return {one.name: count * bits(one.type_of(problem)) // 8 for one, count in there}

    def described(self, values: Values, problem: Any) -> tuple[Any, Any]:
        """The problem, with fields that its extents decide, and what `Arguments.noted` is to hold. Extents
        may be symbols. Raises as `rules` does; all operands are checked."""
        return problem, None

    def recheck(self, problem: Any) -> Callable[..., None] | None:
        """What is to be checked of each call's numbers, if anything."""
        return None

    def without_kernel(self, problem: Any, given: Values) -> None:
        """Computes, by torch, what has results and no kernel: an extent that is summed over is 0. `given`:
        the launcher's operands and numbers by name."""
        raise NoKernelError(f"{problem}: an extent is 0, and no kernel computes that")

    def copied(self, arguments: Arguments, placement: Placement, given: dict[str, Any]) -> dict[str, Any]:
        """A call's operands and numbers (those that are there, by name), with copies in place of those that
        the placement names. What is written elsewhere first is left out."""
        wanted = {one.name: one for one in self.interface.operands if one.name in placement.copies}
        return {
            name: copy_of(wanted[name], each, placement.problem) if name in wanted else each
            for name, each in given.items()
            if name not in wanted or not wanted[name].written
        }

    def restored(self, arguments: Arguments, name: str, tensor: torch.Tensor, made: torch.Tensor) -> None:
        """Puts what was written elsewhere where it belongs: all but the padding."""
        operand = self.interface.operand(name)
        if isinstance(operand, Packed) and operand.has_gaps(arguments.problem):
            tensor, made = blockwise_scales.with_padding(tensor), blockwise_scales.with_padding(made)
        raw = as_bytes(made)
        is_matrix = isinstance(operand, Matrix)  # else only the number is the same
        as_bytes(tensor).copy_(raw[tuple(map(slice, tensor.shape))] if is_matrix else raw.view(tensor.shape))

    def make(self, arguments: Arguments, index: int) -> torch.Tensor:
        """A tensor of any values for one of the results."""
        operand = self.interface.operand(self.written[index])
        shape, dtype = arguments.results[index]
        assert arguments.device is not None
        if isinstance(operand, Packed) and operand.has_gaps(arguments.problem):
            return blockwise_scales.allocate(shape, dtype=dtype, device=arguments.device)
        return torch.empty(shape, dtype=dtype, device=arguments.device)

    def fills(self, arguments: Arguments) -> bool:
        """Whether `fill` has to complete a call's operands."""
        return self.may_fill

    def fill(self, arguments: Any, operands: Operands) -> Operands:
        """Operands with what the call has left out and a kernel wants, of a plan that `fills`: results beside
        the first."""
        made = list(operands)
        for result, name in enumerate(self.written[1:], 1):
            index = self.interface.names.index(name)
            if made[index] is None:
                made[index] = self.make(arguments, result)
        return tuple(made)

    def empty_results(self, values: Values) -> tuple[torch.Tensor, ...]:
        """What a call writes, of any values, without a check: of a call that torch sees, and that brings a
        part of it. torch traces this, and not an op that would make it: copies of what an op has made lose
        padding behind their elements (`blockwise_scales`), copies of `torch.empty`'s memory keep it."""
        raise NotImplementedError

    def variants(self) -> Mapping[str, tuple[str, ...]]:
        """By the suffix of its name in torch: what an op writes, the first of `written`."""
        return {"": self.written}

    def variant(self, values: Values) -> str:
        """The suffix of a call's."""
        return ""

    def updates(self, suffix: str) -> tuple[str, ...]:
        """What a variant changes and does not answer. Other variants go without: torch has no vmap of an op
        that changes an argument."""
        return ()

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

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The tensors that every call brings."""
        return self.of(("tensor",))

    def defaults(self) -> dict[str, Any]:
        """Of the parameters that have one."""
        given = {one.name: one.default for one in self.parameters}
        return {name: value for name, value in given.items() if value is not Declared.empty}

    def operands(self, values: Values) -> Operands:
        """In the launcher's order."""
        return tuple(map({**self.constants, **values}.get, self.interface.names))
