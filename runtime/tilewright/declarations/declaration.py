"""The declaration of what a family's kernels take: extents, operands, numbers, codes, a tactic.

These follow from the declaration: the C struct (`arguments`), its header (`headers`), the launcher's order of
operands, the checks of a call's arguments (`calls.checks`), and the copies of operands (`calls.copies`). It
does not need torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeAlias

from tilewright.base.spelling import did_you_mean
from tilewright.declarations.codes import Codes
from tilewright.declarations.vocabulary import Words
from tilewright.formats.types import TMA_BYTES, TYPES, per_byte

Axis: TypeAlias = Literal["rows", "columns"]


@dataclass(frozen=True, eq=False, repr=False)
class Operand:
    """A tensor of a call. The struct holds its address, or null if the call has no such tensor.

    The public op's signature says whether a call may leave it out. If a call leaves out a `written` operand,
    the op makes the tensor.
    """

    name: str  # the op's argument; operands are in the launcher's order
    what: str  # a comment in the header
    field: str = ""  # the struct's member, if it is not `name`
    pointer: str = ""  # the member's C type, if it does not follow from `type`
    type: str | Callable[[Any], str] = ""
    """The type of its elements: a name in `types.TYPES`, the field of a problem that holds such a name, or a
    function of a problem. "" if the family checks the operand itself."""
    raw: bool = False  # whether uint8 may stand for a type of one byte or half a byte
    made_raw: bool = False  # whether the op makes it as uint8 if its type has half a byte
    # Whether the op copies a read operand that has gaps or other strides, instead of raising an error.
    copied: bool = False
    alignment: int = 1  # bytes that its address is a multiple of, for any kernel
    written: bool = False
    twin: str = ""  # the written operand whose tensor it may share: same address, same strides
    unread_if_zero: str = ""  # the number of a call with which it is multiplied
    wanted: Callable[[Any], bool] | None = None
    """Whether calls of a problem must pass it (true) or must not (false). None: as the signature says."""
    appended: bool = False
    """Whether its member is appended to the struct, in a header of its own (`headers.appended_header`).
    Kernels that do not read it include `args.h` alone, so that adding it compiles none of them anew."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", self.field or self.name)

    def type_of(self, problem: Any) -> str:
        """The type of its elements for a problem: a name in `types.TYPES`."""
        if callable(self.type):
            return self.type(problem)
        return self.type if self.type in TYPES else str(getattr(problem, self.type))

    @cached_property
    def strides(self) -> tuple[str, ...]:
        """The members of the struct that hold its strides."""
        return ()

    @property
    def is_number(self) -> bool:
        """Whether it may be a tensor of one float, at any address and of any shape."""
        return False


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Operand):
    """[rows, columns], or [batch, rows, columns]. The struct holds its leading dimension (`ld_*`) and its
    batch stride (`batch_stride_*`), in elements."""

    alignment: int = TMA_BYTES
    rows: str = ""  # the name of an extent or a property of the problem
    columns: str = ""  # the name of an extent or a property of the problem
    batch: str | Callable[[Any], str] = ""
    """The extent of the batch dimension; "" if there are two dimensions. A function if the problem
    decides."""
    single: bool | Callable[[Any], bool] = False
    """Whether one matrix may serve the whole batch. A result has no batch dimension if no operand has one. A
    function if the problem decides."""
    contiguous: Axis | Callable[[Any], Axis] = "columns"
    """The contiguous dimension; a function if the problem decides."""
    pairs: Axis = "rows"
    """The dimension along which two elements of FP4 lie in a byte, if the problem decides what is contiguous.
    Otherwise it is the contiguous one."""
    parts: Callable[[Any], int] = lambda problem: 1  # the factor of the extent `columns` in the columns
    remedy: str = ""  # what brings a tensor into the declared layout, for the error about another one

    @cached_property
    def strides(self) -> tuple[str, ...]:
        return (f"ld_{self.field}", f"batch_stride_{self.field}")

    def single_of(self, problem: Any) -> bool:
        return self.single(problem) if callable(self.single) else self.single

    def batch_of(self, problem: Any) -> str:
        return self.batch(problem) if callable(self.batch) else self.batch

    def inner(self, problem: Any) -> Axis:
        return self.contiguous(problem) if callable(self.contiguous) else self.contiguous

    def packed_strides(self, problem: Any) -> tuple[int, int]:
        """The leading dimension and the batch stride without gaps, except that each row (or column) begins
        at a multiple of the address's alignment."""
        (rows, columns), inner = self.shape(problem), self.inner(problem)
        length, number = (columns, rows) if inner == "columns" else (rows, columns)
        unit = max(1, 8 * self.alignment // TYPES[self.type_of(problem)].bits)
        width = -(-length // unit) * unit
        return width, width * number

    def shape(self, problem: Any) -> tuple[int, int]:
        """Rows and columns, in elements."""
        return getattr(problem, self.rows), getattr(problem, self.columns) * self.parts(problem)

    def tensor_shape(self, problem: Any) -> tuple[int, int]:
        """The rows and columns of its tensor, of which one element may hold two elements of the matrix."""
        rows, columns = self.shape(problem)
        packed = per_byte(self.type_of(problem))
        return (rows, columns // packed) if self.inner(problem) == "columns" else (rows // packed, columns)


@dataclass(frozen=True, eq=False, repr=False)
class Packed(Operand):
    """A vector, one number, or scale factors (`declarations.scaled`): elements without gaps."""

    extents: tuple[str, ...] = ()  # the names of its shape's extents; (): it is one number, of any shape
    shape: Callable[[Any], tuple[int, ...]] | None = None
    """The shape as a function of the problem, if its extents are not the problem's. Any shape with as many
    elements is accepted."""
    of: str = ""
    """The matrix whose batch it has. If the matrix is `single`, this tensor may serve the whole batch too."""
    measured: bool = False
    """Whether an extent of the problem is read from it, because no matrix has it. A plan's key then holds its
    shape."""

    @property
    def is_number(self) -> bool:
        return not self.extents and self.shape is None and self.alignment < TMA_BYTES and self.type != "s32"

    def has_shape(self, problem: Any) -> bool:
        """Whether it must have exactly this shape, and not another shape with as many elements."""
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
    field: str = ""  # the struct's member, if it is not `name`
    default: float = 0.0  # what can_implement sees, before a call gives the number
    of_product: bool = False
    """Whether the product of the operands is multiplied by it. If it is 0, no product is computed and the
    product's operands are not read, as in BLAS."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", self.field or self.name)


@dataclass(frozen=True, eq=False, repr=False)
class Code:
    """An int32 that is the same for all calls of a plan: a word of an enum, a flag."""

    name: str
    what: str | Codes  # in words, or the enum of whose words it is one
    of: Callable[[Any], Any] | None = None  # a number or a word for a problem; None: the field of this name
    appended: bool = False  # as `Operand.appended`

    @property
    def text(self) -> str:
        """What it is, for the header."""
        return self.what.name if isinstance(self.what, Codes) else self.what

    def value(self, problem: Any) -> int:
        value = getattr(problem, self.name) if self.of is None else self.of(problem)
        return self.what[value] if isinstance(self.what, Codes) else int(value)


@dataclass(frozen=True, eq=False, repr=False)
class TacticStruct:
    """The struct that passes a tactic's settings to a kernel. All members are int32."""

    name: str
    members: tuple[str, ...]
    values: Callable[[Any, int], Mapping[str, int]] | None = None
    """The members' values for a tactic and the GPU's number of SMs. None: the tactic's fields of these names,
    and `sm_count`."""
    header: str = ""  # the header of a struct that is written by hand; "": the family's header holds it
    text: str = ""  # the comment above the struct in the family's header

    def value(self, tactic: Any, sm_count: int) -> Mapping[str, int]:
        if self.values is not None:
            return self.values(tactic, sm_count)
        own = {name: getattr(tactic, name) for name in self.members if name != "sm_count"}
        return own | {"sm_count": sm_count}


@dataclass(frozen=True, eq=False, repr=False)
class Combinations:
    """The legal combinations of the types of operands and result."""

    read: tuple[str, ...]
    """Fields of a problem that hold types of operands. Every call passes these operands, and their dtypes
    give the types."""
    legal: Mapping[tuple[str, ...], tuple[str, ...]]
    """The types that the result may have, the default first, for each combination of `read`."""
    result: str = "d"  # the field of a problem that holds the result's type; "": there is none
    option: str = "out_dtype"  # the op's argument for the result's type


@dataclass(frozen=True, eq=False, repr=False)
class Interface:
    """The arguments of a family's kernels, in the order of their struct and their launchers."""

    words: Words[Any]  # the vocabulary: the family's name, its problems' extents and options
    text: str  # what the kernels compute, for the header
    operands: tuple[Operand, ...]
    tactic: TacticStruct
    numbers: tuple[Number, ...] = ()
    codes: tuple[Code, ...] = ()
    types: Combinations | None = None  # None: every operand's type is fixed, or the ops say it
    appended_text: str = ""  # what kernels compute that read appended members, for their header
    strides_text: str = "Elements between neighbours along the dimension that is not contiguous."

    def __post_init__(self) -> None:
        """Raises ValueError if an operand has an extent or a type that the problem does not have."""
        problem = self.words.problem
        names = {field.name for field in fields(problem)} | {name for name in dir(problem) if name[0] != "_"}
        types = {"", *TYPES, *names}
        for operand in self.operands:
            name, follows = operand.type, type(operand).type_of is not Operand.type_of
            if isinstance(name, str) and name not in types and not follows:
                message = f"type is {name!r}, which is no type and no field of the problem"
                raise ValueError(f"{operand.name}: {message}{did_you_mean(name, types)}")
            extents: dict[str, Any] = {}
            if isinstance(operand, Matrix):
                extents = {name: getattr(operand, name) for name in ("rows", "columns", "batch")}
            elif isinstance(operand, Packed):
                extents = {f"extents[{index}]": name for index, name in enumerate(operand.extents)}
            for what, name in extents.items():
                if isinstance(name, str) and name and name not in names:
                    raise ValueError(
                        f"{operand.name}: {what} is {name!r}, which is no extent of the problem"
                        f"{did_you_mean(name, names)}; there are: {', '.join(self.extents)}"
                    )

    @property
    def family(self) -> str:
        return self.words.family

    @cached_property
    def extents(self) -> tuple[str, ...]:
        return tuple([extent.name for extent in self.words.extents if not extent.hint])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The operands, in the launcher's order."""
        return tuple(self.by_name)

    @cached_property
    def by_name(self) -> dict[str, Operand]:
        return {operand.name: operand for operand in self.operands}

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """The matrices by their names in the struct."""
        return {operand.field: operand for operand in self.operands if isinstance(operand, Matrix)}

    @cached_property
    def appends(self) -> bool:
        """Whether members are appended to the struct."""
        return any(
            [*(operand.appended for operand in self.operands), *(code.appended for code in self.codes)]
        )

    @property
    def enums(self) -> tuple[Codes, ...]:
        """The enums of which codes are values."""
        return tuple({code.what: None for code in self.codes if isinstance(code.what, Codes)})

    def operand(self, name: str) -> Operand:
        return self.by_name[name]
