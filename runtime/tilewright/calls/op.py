"""A public op: what its family says of it, and what follows from its signature.

    @public(Multiply())
    def product(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
        '''What it computes, its arguments, what it answers and raises.'''

What `public` (`calls.publish`) makes of it has this signature and docstring. It runs the one protocol of
all ops (`calls.protocol`), is known to torch (`calls.registered`) and can be prepared
(`tilewright.calls.prepared`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter as Declared
from types import MappingProxyType
from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.architectures.device import DeviceProperties
from tilewright.calls.copies import copy_of
from tilewright.calls.placement import Arguments, Placement, place_without_copies
from tilewright.calls.signature import Parameter
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations, Interface, Matrix, Packed
from tilewright.declarations.table import KernelRecord
from tilewright.errors import NoKernelError
from tilewright.formats.dtypes import as_bytes
from tilewright.formats.types import bits
from tilewright.selection.family import Family

Values = Mapping[str, Any]  # of a call: each parameter's, by name
Operands = tuple[Any, ...]  # of a call: in the launcher's order


class Op:
    """A public op. A family's subclass overrides what does not follow from signature and declaration."""

    interface: Interface
    family: Family[Any]
    """The family, as selection asks it."""
    written: tuple[str, ...] = ("out",)
    """The arguments that the op writes. It makes those that a call leaves out, and returns all of them."""
    passed: tuple[str, ...] = ("a", "b", "out")
    """The arguments that a call of a plan passes, in order."""
    replaced: tuple[str, ...] = ()
    """The arguments that a call of a plan may replace by keyword without a slower path."""
    constants: Values = MappingProxyType({})
    """Values of the launcher's numbers that the op has no argument for. Such operands are None."""
    flops: Callable[..., int] | None = None
    """Floating-point operations by the tensors' shapes, for torch's FlopCounterMode."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    addends: Mapping[str, str]
    """The operand that each addend factor is a factor of. An attribute, because dynamo traces its use."""

    def combinations(self, values: Values) -> Combinations | None:
        """The combinations of types that a call may have; None if the op has no operand for one type."""
        types = self.interface.types
        required = {operand.type for operand in self.interface.operands if operand.name in self.required}
        return types if types and required.issuperset(types.read) else None

    def fields(self, values: Values) -> Mapping[str, Any]:
        """Fields of the problem that follow from the op or its options. When this is called, tensors are
        known to be tensors on one device and flags to be booleans; nothing else is checked."""
        return {}

    def batched(self, values: Values) -> bool:
        """Whether results have a batch dimension although no operand has one."""
        return False

    def rules(self, values: Values, problem: Any) -> None:
        """Raises ArgumentError where arguments break a rule that the declaration cannot express. Extents may
        be symbols."""

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """The problem as it is computed, and which arguments are copied for it. `addresses`: of arguments
        with little alignment, what their address is a multiple of. Raises AlignmentError where a kernel
        cannot read an argument and the op makes no copies."""
        return place_without_copies(self.interface, arguments, addresses)

    def alignments(self, problem: Any, record: KernelRecord) -> Mapping[str, int]:
        """Bytes to which a kernel wants operands aligned, where that is more than the declaration says: those
        of the matrices that are in its row's `alignment`."""
        alignments, matrices = record.facts.get("alignment", {}), self.interface.matrices
        aligned = [(matrices[field], count) for field, count in alignments.items() if field in matrices]
        return {matrix.name: count * bits(matrix.type_of(problem)) // 8 for matrix, count in aligned}

    def described(self, values: Values, problem: Any) -> tuple[Any, Any]:
        """The problem, with the fields that its extents decide, and the value that `Arguments.noted` keeps
        for the op.

        All operands are checked before; extents may be symbols. Raises what `rules` raises.
        """
        return problem, None

    def recheck(self, problem: Any) -> Callable[..., None] | None:
        """A check of each call's numbers, which a plan's key does not hold; None if the op needs none."""
        return None

    @property
    def rechecks(self) -> bool:
        """Whether plans of this op may have a `recheck`."""
        return type(self).recheck is not Op.recheck

    def without_kernel(self, problem: Any, values: Values) -> None:
        """Computes with torch a problem that has results and needs no kernel, because an extent that is
        summed over is 0, or a factor of the product. `values` are the launcher's operands and numbers."""
        raise NoKernelError(f"{problem}: an extent is 0, and no kernel computes that")

    def copied(self, arguments: Arguments, placement: Placement, values: dict[str, Any]) -> dict[str, Any]:
        """A call's operands and numbers by name, with copies of those that the placement names. A result that
        is to be copied back is left out, so that the op makes one."""
        copied = {name: self.interface.by_name[name] for name in placement.copies}
        return {
            name: copy_of(copied[name], value, placement.problem) if name in copied else value
            for name, value in values.items()
            if name not in copied or not copied[name].written
        }

    def restored(self, arguments: Arguments, name: str, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Copies a result back to the caller's tensor, without its padding."""
        operand = self.interface.operand(name)
        if isinstance(operand, Packed) and operand.has_gaps(arguments.problem):
            tensor, result = blockwise_scales.with_padding(tensor), blockwise_scales.with_padding(result)
        raw = as_bytes(result)
        is_matrix = isinstance(operand, Matrix)  # else only the number is the same
        as_bytes(tensor).copy_(raw[tuple(map(slice, tensor.shape))] if is_matrix else raw.view(tensor.shape))

    def make(self, arguments: Arguments, index: int) -> torch.Tensor:
        """A new tensor for a result, with arbitrary values."""
        operand = self.interface.operand(self.written[index])
        shape, dtype = arguments.results[index]
        assert arguments.device is not None
        if isinstance(operand, Packed) and operand.has_gaps(arguments.problem):
            return blockwise_scales.allocate(shape, dtype=dtype, device=arguments.device)
        return torch.empty(shape, dtype=dtype, device=arguments.device)

    @property
    def may_fill(self) -> bool:
        """Whether some plans complete a call's operands by `fill`; those of an op with several results do."""
        return len(self.written) > 1

    def fills(self, arguments: Arguments) -> bool:
        """Whether a plan for these arguments completes a call's operands by `fill`."""
        return self.may_fill

    def fill(self, arguments: Any, operands: Operands) -> Operands:
        """A call's operands, with those that a kernel needs and the call leaves out: by default all results
        except the first."""
        complete = list(operands)
        for result, name in enumerate(self.written[1:], 1):
            index = self.interface.names.index(name)
            if complete[index] is None:
                complete[index] = self.make(arguments, result)
        return tuple(complete)

    def empty_results(self, values: Values) -> tuple[torch.Tensor, ...]:
        """Tensors with arbitrary values for everything that a call writes. A call that torch traces uses them
        if it passes only some of the results. Nothing is checked.

        torch traces these lines instead of an op, because copies of an op's results lose the padding after
        their elements (`blockwise_scales`), and copies of `torch.empty`'s memory keep it.
        """
        raise NotImplementedError(f"{self.name} has no `empty_results`: pass all results or none in a graph")

    def variants(self) -> Mapping[str, tuple[str, ...]]:
        """The forms of this op in `torch.ops`: for each suffix of the name, what that form writes. It is
        always a first part of `written`."""
        return {"": self.written}

    def variant(self, values: Values) -> str:
        """The suffix of the op of torch that a call goes to."""
        return ""

    def updates(self, suffix: str) -> tuple[str, ...]:
        """The arguments that a variant changes and does not return. Other variants do not have these
        arguments, because torch has no vmap for an op that changes an argument."""
        return ()

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        """A call's values, as the op of torch takes them."""
        return values

    def options(self, values: Values) -> dict[str, Any]:
        """The options for a second call of the op, on copies."""
        held = (*self.tensors, *self.numbers)
        return {name: values[name] for name in self.names if name not in held}

    def of(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """The parameters of some kinds."""
        return tuple([parameter.name for parameter in self.parameters if parameter.kind in kinds])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All parameters, in the signature's order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        return tuple([parameter.name for parameter in self.parameters if parameter.is_number])

    @cached_property
    def product_factors(self) -> tuple[str, ...]:
        """The numbers of a call by which the product is multiplied."""
        numbers = [number.name for number in self.interface.numbers if number.of_product]
        return tuple([name for name in numbers if name in self.numbers])

    def skips_product(self, values: Values) -> bool:
        """Whether a call computes no product, because a factor of it is 0."""
        return any(values[name] == 0 for name in self.product_factors)

    def with_factors(self, values: Values) -> dict[str, Any]:
        """A call's values, with a number for each addend factor that the call leaves out."""
        absent = {factor: name for factor, name in self.addends.items() if values[factor] is None}
        return {**values, **{factor: float(values[name] is not None) for factor, name in absent.items()}}

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        return tuple([parameter.name for parameter in self.parameters if parameter.is_tensor])

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The tensors that every call passes."""
        return self.of(("tensor",))

    def defaults(self) -> dict[str, Any]:
        """The defaults of the parameters that have one."""
        defaults = {parameter.name: parameter.default for parameter in self.parameters}
        return {name: value for name, value in defaults.items() if value is not Declared.empty}

    def operands(self, values: Values) -> Operands:
        """In the launcher's order."""
        return tuple(map({**self.constants, **values}.get, self.interface.names))
