"""The arguments that a plan depends on, and which of them are copied first. Needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.declarations.declaration import Interface, Matrix
from tilewright.declarations.matrices import MatrixView
from tilewright.errors import AlignmentError

if TYPE_CHECKING:
    import torch

    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context
    from tilewright.selection.family import Family


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's arguments after the checks of types, shapes and devices. Addresses are not checked yet."""

    problem: Any
    matrices: Mapping[str, MatrixView]  # of the operands that the call passes and reads
    results: tuple[tuple[tuple[int, ...], torch.dtype], ...]  # shape and type of each result
    device: torch.device | None  # None: there are no tensors yet
    noted: Any = None  # what the op itself remembers of the call (`Op.described`)
    scattered: frozenset[str] = frozenset()  # arguments whose strides no kernel takes: they are copied

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.results[0][0]

    @property
    def dtype(self) -> torch.dtype:
        return self.results[0][1]

    @classmethod
    def dense(cls, interface: Interface, problem: Any) -> Arguments:
        """The arguments of a problem that has no tensors yet: matrices without gaps, results to be made."""
        read = [matrix for matrix in interface.matrices.values() if not matrix.written]
        present = [matrix for matrix in read if getattr(problem, matrix.name, True)]
        views = {matrix.name: MatrixView.dense(matrix, problem) for matrix in present}
        return cls(problem, views, (), None)


@dataclass(frozen=True, slots=True)
class Placement:
    """The problem as it is computed, with the extents to which copies are padded with zeros.

    `copies`: arguments that are copied before; of results, those that are written to a new tensor and copied
    back.
    """

    problem: Any
    copies: frozenset[str] = frozenset()
    rearranged: bool = False  # whether `Op.copied` changes operands besides, because the call asks for it


def misaligned(interface: Interface, addresses: Mapping[str, int]) -> set[str]:
    """The arguments whose addresses are less aligned than every kernel of the interface wants."""
    return {
        operand.name
        for operand in interface.operands
        if operand.name in addresses and addresses[operand.name] % operand.alignment
    }


def aligned(
    interface: Interface, arguments: Arguments, most: int, addresses: Mapping[str, int]
) -> dict[str, int]:
    """The alignment of each matrix, by its name in the struct: elements that its leading dimension, batch
    stride and address are multiples of, a power of two and `most` at most."""
    return {
        field: view.aligned(matrix.inner(arguments.problem), most, addresses.get(matrix.name))
        for field, matrix in interface.matrices.items()
        if (view := arguments.matrices.get(matrix.name)) is not None
    }


def least_wanted(
    context: Context, family: Family[Any], problem: Any, device: DeviceProperties
) -> Mapping[str, int]:
    """The alignments (see `aligned`) that the least demanding kernel for this kind of problem requires.

    Empty if some kernel takes the problem as it is, or if no kernel is of its kind.
    """
    records = context.registry.runnable(family.name, device.capability)
    if family.fitting_kept(context.registry, records, problem):
        return {}
    would = family.of_kind(context.registry, records, problem.kind)
    asked: list[Mapping[str, int]] = [record.facts["alignment"] for record in would]
    return min(asked, key=lambda alignments: sum(alignments.values()), default={})


def place_without_copies(
    interface: Interface,
    arguments: Arguments,
    addresses: Mapping[str, int],
    judged: Collection[str] = (),
) -> Placement:
    """A placement without copies. Raises AlignmentError for an operand that TMA or the binding cannot take;
    of operands whose strides the family has `judged` itself, only the address is checked."""
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
