"""How a family declares what its kernels take: extents, operands, numbers, codes, a tactic.

The C struct (`arguments`), its header (`headers`), the launcher's order of operands, the checks of a call's
arguments (`checks`) and what is copied of them (`copying`) follow from a declaration; nothing else knows
them. It does not need torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeAlias

from tilewright.base.spelling import did_you_mean
from tilewright.declarations.vocabulary import Words
from tilewright.formats.types import TMA_BYTES, TYPES, per_byte

Axis: TypeAlias = Literal["rows", "columns"]
_POINTED = {"f32": "float", "s32": "int32_t"}  # in C; of other types, and of those that differ, void


@dataclass(frozen=True, eq=False, repr=False)
class Operand:
    """A tensor of a call. The struct holds its address; null where there is none.

    The public op's signature says whether a call may leave it out. One that is `written` is then made.
    """

    name: str  # the op's argument; operands are in the launcher's order
    what: str  # for the header
    field: str = ""  # in the struct, where it is not `name`
    pointer: str = ""  # in the struct, where it does not follow from the type
    type: str | Callable[[Any], str] = ""
    """Of its elements: a name among `types.TYPES`, the field of a problem that holds one, or a function of a
    problem. "" where the family checks the operand itself."""
    raw: bool = False  # whether uint8 may stand for a type of one byte, or of half of one
    made_raw: bool = False  # whether the op makes it of uint8 where its type has half a byte
    copied: bool = (
        False  # whether one that is read and has gaps, or other strides, is copied, and is no error
    )
    alignment: int = 1  # bytes that its address is a multiple of, whatever the kernel
    written: bool = False
    twin: str = ""  # the written operand that it may be: same address, same strides
    unread_if_zero: str = ""  # the number of a call with which it is multiplied
    wanted: Callable[[Any], bool] | None = None
    """Whether calls of a problem have to bring it, or must not. None: as the signature says."""

    @property
    def member(self) -> str:
        return self.field or self.name

    @property
    def in_c(self) -> str:
        """The struct's type for its address."""
        pointed = _POINTED.get(self.type, "void") if isinstance(self.type, str) else "void"
        return self.pointer or f"{'' if self.written else 'const '}{pointed}*"

    def type_of(self, problem: Any) -> str:
        """Its elements' type, by its name among `types.TYPES`."""
        if callable(self.type):
            return self.type(problem)
        return self.type if self.type in TYPES else str(getattr(problem, self.type))

    def strides(self) -> tuple[str, ...]:
        """The members of the struct that hold its strides."""
        return ()


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Operand):
    """[rows, columns], or [batch, rows, columns]. The struct holds its leading dimension (`ld_*`) and its
    batch stride (`batch_stride_*`), in elements."""

    alignment: int = TMA_BYTES
    rows: str = ""  # extents' names, or those of properties of a problem
    columns: str = ""
    batch: str | Callable[[Any], str] = ""
    """The extent of the batch dimension; "" where there are two dimensions. A function where the problem
    decides."""
    single: bool | Callable[[Any], bool] = False
    """Whether one matrix may serve the whole batch. A result has no batch dimension where no operand has one.
    A function where the problem decides."""
    contiguous: Axis | Callable[[Any], Axis] = "columns"
    """The contiguous dimension; a function where the problem decides."""
    parts: Callable[[Any], int] = lambda problem: 1  # columns are so many times the extent `columns`

    def strides(self) -> tuple[str, ...]:
        return (f"ld_{self.member}", f"batch_stride_{self.member}")

    def single_of(self, problem: Any) -> bool:
        return self.single(problem) if callable(self.single) else self.single

    def batch_of(self, problem: Any) -> str:
        return self.batch(problem) if callable(self.batch) else self.batch

    def inner(self, problem: Any) -> Axis:
        return self.contiguous(problem) if callable(self.contiguous) else self.contiguous

    def shape(self, problem: Any) -> tuple[int, int]:
        """Rows and columns, in elements."""
        return getattr(problem, self.rows), getattr(problem, self.columns) * self.parts(problem)

    def tensor_shape(self, problem: Any) -> tuple[int, int]:
        """Rows and columns of a tensor of it, of which an element may hold two."""
        rows, columns = self.shape(problem)
        packed = per_byte(self.type_of(problem))
        return (rows, columns // packed) if self.inner(problem) == "columns" else (rows // packed, columns)


@dataclass(frozen=True, eq=False, repr=False)
class Packed(Operand):
    """A vector, one number, or scale factors (`declarations.scaled`): elements without gaps."""

    extents: tuple[str, ...] = ()  # its shape's; none: it is one number, of any shape
    shape: Callable[[Any], tuple[int, ...]] | None = None
    """A function of the problem, where its extents are not the problem's. Any shape with as many elements is
    taken."""
    of: str = ""
    """The matrix whose batch it has: with a `single` matrix, one may serve the whole batch."""
    measured: bool = False
    """Whether the problem takes an extent from it that no matrix has. A plan's key then holds its shape."""

    def has_shape(self, problem: Any) -> bool:
        """Whether it must have this very shape, and not another one with as many elements."""
        return bool(self.extents)

    def has_gaps(self, problem: Any) -> bool:
        """Whether there is padding between its columns (`ld_*`), as in `blockwise_scales`."""
        return False

    def shape_of(self, problem: Any) -> tuple[int, ...]:
        return self.shape(problem) if self.shape else tuple(getattr(problem, name) for name in self.extents)


@dataclass(frozen=True, eq=False, repr=False)
class Number:
    """A float of a call."""

    name: str
    what: str
    field: str = ""  # in the struct, where it is not `name`
    of_product: bool = False
    """Whether the product of the operands is multiplied by it. Where it is 0, no product is computed and no
    operand of it is read, as in BLAS."""

    @property
    def member(self) -> str:
        return self.field or self.name


@dataclass(frozen=True, eq=False, repr=False)
class Code:
    """An int32 that is the same for all calls of a plan: an enum, a flag."""

    name: str
    what: str
    of: Callable[[Any], int] | None = None  # of a problem; None: its field of this name

    def value(self, problem: Any) -> int:
        return int(getattr(problem, self.name) if self.of is None else self.of(problem))


@dataclass(frozen=True, eq=False, repr=False)
class TacticStruct:
    """The struct in which a kernel gets what tuning chooses. All members are int32."""

    name: str
    members: tuple[str, ...]
    values: Callable[[Any, int], Mapping[str, int]] | None = None
    """The members' values for a tactic, on a GPU with so many multiprocessors. None: the tactic's fields of
    these names, and `sm_count`."""
    header: str = ""  # where the struct is written by hand, else
    text: str = ""  # what stands above it in the family's own header

    def value(self, tactic: Any, sm_count: int) -> Mapping[str, int]:
        if self.values is not None:
            return self.values(tactic, sm_count)
        own = {name: getattr(tactic, name) for name in self.members if name != "sm_count"}
        return own | {"sm_count": sm_count}


@dataclass(frozen=True, eq=False, repr=False)
class Combinations:
    """Which types of operands and result go together."""

    read: tuple[str, ...]
    """Fields of a problem that hold types of operands, which every call brings: their dtypes tell."""
    legal: Mapping[tuple[str, ...], tuple[str, ...]]
    """The types that the result may have, the default first, for each combination of `read`."""
    result: str = "d"  # the field of a problem that holds the result's type; "": they decide none
    option: str = "out_dtype"  # the op's argument that asks for one


@dataclass(frozen=True, eq=False, repr=False)
class Interface:
    """What a family's kernels take, in the order in which their struct and their launchers have it."""

    words: Words[Any]  # the family's name, its problems' extents and options
    text: str  # what the kernels compute, for the header
    operands: tuple[Operand, ...]
    tactic: TacticStruct
    numbers: tuple[Number, ...] = ()
    codes: tuple[Code, ...] = ()
    types: Combinations | None = None  # None: every operand's type is fixed, or the ops say it
    enums: str = ""  # that codes take their values from, in C
    strides_text: str = "Elements between neighbours along the dimension that is not contiguous."

    def __post_init__(self) -> None:
        """Raises ValueError where an operand has an extent that its problem has not."""
        problem = self.words.problem
        known = {field.name for field in fields(problem)} | {name for name in dir(problem) if name[0] != "_"}
        for operand in self.operands:
            extents: dict[str, Any] = {}
            if isinstance(operand, Matrix):
                extents = {name: getattr(operand, name) for name in ("rows", "columns", "batch")}
            elif isinstance(operand, Packed):
                extents = {f"extents[{index}]": name for index, name in enumerate(operand.extents)}
            for what, name in extents.items():
                if isinstance(name, str) and name and name not in known:
                    raise ValueError(
                        f"{operand.name}: {what} is {name!r}, which is no extent of the problem"
                        f"{did_you_mean(name, known)}; there are: {', '.join(self.extents)}"
                    )

    @property
    def family(self) -> str:
        return self.words.family

    @property
    def extents(self) -> tuple[str, ...]:
        return tuple(extent.name for extent in self.words.extents if not extent.hint)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The operands, in the launcher's order."""
        return tuple(operand.name for operand in self.operands)

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """By their names in the struct."""
        return {one.member: one for one in self.operands if isinstance(one, Matrix)}

    def operand(self, name: str) -> Operand:
        return self.operands[self.names.index(name)]
