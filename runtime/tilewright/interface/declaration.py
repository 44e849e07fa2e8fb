"""How a family declares what its kernels take: extents, operands, numbers, codes, a tactic.

The C struct (`arguments`), its header (`headers`) and the launcher's order of operands follow from a
declaration; nothing else knows them. It needs neither torch nor pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

TMA_BYTES = 16  # of which TMA wants addresses, leading dimensions and batch strides to be multiples
Axis: TypeAlias = Literal["rows", "columns"]


@dataclass(frozen=True)
class Operand:
    """A tensor of a call, of which the struct holds the address. Absent ones are null."""

    name: str  # in the launcher's order
    what: str  # for the header
    field: str = ""  # in the struct, where it is not `name`
    pointer: str = "const void*"
    alignment: int = 1  # bytes that its address is a multiple of, whatever the kernel
    written: bool = False
    twin: str = ""  # the written operand that it may be: same address, same strides
    unread_if_zero: str = ""  # the number of a call with which it is multiplied
    raw: Callable[[Any], str | None] = lambda problem: None
    """torch's name of its type, where that has one byte and uint8 may stand for it."""

    @property
    def member(self) -> str:
        return self.field or self.name

    def strides(self) -> tuple[str, ...]:
        """The members of the struct that say how it lies."""
        return ()


@dataclass(frozen=True)
class Matrix(Operand):
    """[rows, columns], or a batch of such. The struct holds, in elements, what lies between neighbours along
    the dimension that is not contiguous (`ld_*`), and between matrices of a batch (`batch_stride_*`)."""

    rows: str = ""  # extents' names
    columns: str = ""
    type: str | Callable[[Any], str] = (
        ""  # the field of a problem, or of a problem its name among `types.TYPES`
    )
    contiguous: Axis | Callable[[Any], Axis] = "columns"  # the dimension along which neighbours touch
    parts: Callable[[Any], int] = lambda problem: 1  # of which the columns are so many times the extent

    def strides(self) -> tuple[str, ...]:
        return (f"ld_{self.member}", f"batch_stride_{self.member}")

    def inner(self, problem: Any) -> Axis:
        return self.contiguous(problem) if callable(self.contiguous) else self.contiguous

    def type_of(self, problem: Any) -> str:
        found = self.type(problem) if callable(self.type) else getattr(problem, self.type)
        return str(found)

    def shape(self, problem: Any) -> tuple[int, int]:
        """Rows and columns, in elements."""
        return getattr(problem, self.rows), getattr(problem, self.columns) * self.parts(problem)


@dataclass(frozen=True)
class Packed(Operand):
    """A vector, one number, or scale factors: elements without gaps, of any shape."""


@dataclass(frozen=True)
class ScaleColumns(Operand):
    """Scale factors: columns at a distance (`ld_*`) where a problem's layout says so, else packed."""

    strided: Callable[[Any], bool] = lambda problem: False
    leading: Callable[[int], int] = lambda rows: rows  # of so many rows, where a single column says nothing

    def strides(self) -> tuple[str, ...]:
        return (f"ld_{self.member}",)


@dataclass(frozen=True)
class Number:
    """A float of a call."""

    name: str
    what: str
    field: str = ""  # in the struct, where it is not `name`

    @property
    def member(self) -> str:
        return self.field or self.name


@dataclass(frozen=True)
class Code:
    """An int32 that a plan fixes: an enum, a flag."""

    name: str
    what: str
    of: Callable[[Any], int]  # of a problem


@dataclass(frozen=True)
class TacticStruct:
    """The struct with which a kernel gets what tuning chooses: int32 all."""

    name: str
    members: tuple[str, ...]
    values: Callable[[Any, int], Mapping[str, int]]  # of a tactic, on a GPU of so many multiprocessors
    header: str = ""  # where the struct is written by hand, else
    text: str = ""  # what stands above it in the family's own header


@dataclass(frozen=True)
class Interface:
    """What a family's kernels take, in the order in which their struct and their launchers have it."""

    family: str
    text: str  # what the kernels compute, for the header
    extents: tuple[str, ...]
    operands: tuple[Operand, ...]
    numbers: tuple[Number, ...]
    tactic: TacticStruct
    codes: tuple[Code, ...] = ()
    enums: str = ""  # that codes take their values from, in C
    strides_text: str = "Elements between neighbours along the dimension that is not contiguous."

    @property
    def names(self) -> tuple[str, ...]:
        """The operands, in the launcher's order."""
        return tuple(operand.name for operand in self.operands)
