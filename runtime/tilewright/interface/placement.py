"""What of a call's arguments a plan depends on, and what of them is copied first. Needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.errors import AlignmentError
from tilewright.interface.declaration import Interface, Matrix
from tilewright.interface.matrices import MatrixView

if TYPE_CHECKING:
    import torch

    from tilewright.context import Context
    from tilewright.device import DeviceProperties
    from tilewright.ops.common.family import Family


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments: types, shapes and devices are right; addresses are not judged yet."""

    problem: Any
    matrices: Mapping[str, MatrixView]  # those that are read or written and that the call brings
    results: tuple[tuple[tuple[int, ...], torch.dtype], ...]  # shape and type of all that the call writes
    device: torch.device | None  # None: there are no tensors yet
    noted: Any = None  # what the op itself remembers of the call (`Op.described`)
    scattered: frozenset[str] = frozenset()  # those that are copied wherever a kernel runs, for their strides

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first result."""
        return self.results[0][0]

    @property
    def dtype(self) -> torch.dtype:
        return self.results[0][1]

    @classmethod
    def dense(cls, interface: Interface, problem: Any) -> Arguments:
        """Those of a problem that has no tensors yet: matrices without gaps, and results to be made."""
        declared = [one for one in interface.operands if isinstance(one, Matrix) and not one.written]
        there = {one.name: one for one in declared if getattr(problem, one.name, True)}
        views = {name: MatrixView.dense(one, problem) for name, one in there.items()}
        return cls(problem, views, (), None)


@dataclass(frozen=True, slots=True)
class Placement:
    """The problem as it is computed, and the arguments to copy (what is written: to write elsewhere first).
    Its extents are those to which copies are padded, with zeros."""

    problem: Any
    copies: frozenset[str] = frozenset()
    rearranged: bool = False  # whether `Op.copied` changes operands besides, because the call asks for it


def misaligned(interface: Interface, addresses: Mapping[str, int]) -> set[str]:
    """The arguments whose addresses no kernel of the interface takes."""
    aligned = {one.name: one.alignment for one in interface.operands}
    return {name for name, address in addresses.items() if address % aligned.get(name, 1)}


def aligned(
    interface: Interface, arguments: Arguments, most: int, addresses: Mapping[str, int]
) -> dict[str, int]:
    """Elements that leading dimension, batch stride and address of each matrix are multiples of, by its name
    in the struct: powers of two, `most` at most."""
    there = ((field, one, arguments.matrices.get(one.name)) for field, one in interface.matrices.items())
    return {
        field: view.aligned(one.inner(arguments.problem), most, addresses.get(one.name))
        for field, one, view in there
        if view is not None
    }


def least_wanted(
    context: Context, family: Family[Any], problem: Any, device: DeviceProperties
) -> Mapping[str, int]:
    """What `aligned` is of matrices that the kernels take which ask least; nothing where one takes them as
    they lie, or there is none of the problem's kind."""
    records = context.registry.runnable(family.name, device.capability)
    if family.fitting_kept(context.registry, records, problem):
        return {}
    would = family.of_kind(context.registry, records, problem.kind)
    asked: list[Mapping[str, int]] = [record.facts["alignment"] for record in would]
    return min(asked, key=lambda one: sum(one.values()), default={})


def place_without_copies(
    interface: Interface,
    arguments: Arguments,
    addresses: Mapping[str, int],
    judged: Collection[str] = (),
) -> Placement:
    """Nothing is copied. Raises AlignmentError for an operand that TMA, or the binding, does not take; of
    those whose strides the family has `judged`, for an address."""
    wrong = misaligned(interface, addresses)
    for operand in interface.operands:
        name = operand.name
        if name in wrong:
            raise AlignmentError(name, f"its address is not a multiple of {operand.alignment} bytes")
        view = arguments.matrices.get(name)
        if isinstance(operand, Matrix) and view is not None and name not in judged:
            reason = view.misplaced(operand.inner(arguments.problem), alignment=operand.alignment)
            if reason is not None:
                raise AlignmentError(name, reason)
    return Placement(arguments.problem)
