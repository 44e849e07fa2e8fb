"""The words in which a family's problems are asked for.

A family's `vocabulary.py` says which extents its problems have, which words stand for types, and which other
words there are, each with the field of a problem that it sets, the values that it may have, and its option on
a command line. From that alone follow NAME=VALUE of `explain --problem`, the options of `run`,
`bench compare` and `tune`, and which sizes these take. Plain data: it imports neither torch nor a command
line. Nobody compares or prints it, and it has no methods for that, because they take a millisecond to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from tilewright.base.spelling import did_you_mean
from tilewright.errors import ArgumentError

P = TypeVar("P")
Fields: TypeAlias = "Mapping[str, Any]"
"""Fields of a problem by name, as far as the words before have set them."""

TYPES = "types"  # under this name a caller gives the word for types, and an error is about it
TYPES_OPTIONS = ("--formats", "--dtype", "--format")  # every command takes each of them, of every family
# What kernels take: TMA's coordinates, of bytes along a row (sm90/producer.hpp), are signed numbers of 32
# bits, and what an extent is rounded up to is an int.
MOST_EXTENT = 2**30
_NUMBER = f"a number from 1 to {MOST_EXTENT}"


def _one(_: Fields) -> int:
    return 1


def _always(_: Fields) -> bool:
    return True


@dataclass(eq=False, repr=False)
class Extent:
    """A number of a problem: elements along a dimension, or matrices."""

    name: str
    help: str
    usual: int  # for an example
    default: int | None = None
    """None: it is always given, as a part of MxNxK. Others are options of their own."""
    multiple: Callable[[Fields], int] = _one
    """What it must be a multiple of, given the types."""
    because: str = ""  # why it must
    hint: bool = False
    """Whether it helps to choose a kernel, and no kernel is told. The default may be 0."""

    @property
    def option(self) -> str:
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name.replace('_', '-')}"

    @property
    def why(self) -> str:
        return f"; {self.because}" if self.because else ""

    def read(self, text: str) -> int:
        """Raises ArgumentError."""
        if text.isascii() and text.isdecimal() and len(text) <= 20:
            return int(text)
        raise ArgumentError(self.name, f"{_short(text)}: {_NUMBER} is wanted")

    def allows(self, value: int) -> bool:
        """Whether there may be so many, whatever the types."""
        return 0 < value <= MOST_EXTENT or (self.hint and value == self.default)

    def check(self, value: int, fields: Fields) -> None:
        """Raises ArgumentError."""
        if not self.allows(value):
            raise ArgumentError(self.name, f"{value}: {_NUMBER} is wanted")
        multiple = self.multiple(fields)
        if value % multiple:
            raise ArgumentError(self.name, f"{value}: a multiple of {multiple} is wanted{self.why}")


MATRIX_EXTENTS = (
    Extent("m", "Rows of A and D.", usual=64),
    Extent("n", "Columns of B and D.", usual=4096),
    Extent("k", "Columns of A, rows of B.", usual=4096),
    Extent("batch", "Matrices.", usual=1, default=1),
)
"""Of a matrix product."""


def _one_of(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"one of {', '.join(values)}"


@dataclass(eq=False, repr=False)
class Types:
    """The word for the types of operands, as `fp8` or `mxfp8xmxfp4`."""

    option: str  # of `TYPES_OPTIONS`, the one that messages name
    default: str
    fields: Mapping[str, Fields | str]
    """What each word stands for; a text says why one stands for nothing."""
    help: str
    wanted: str = ""  # where it is not one of them: "one or two of nvfp4, mxfp8 are"

    def read(self, word: str | None) -> Fields:
        """Raises ArgumentError."""
        word = self.default if word is None else word
        legal = [one for one, meant in self.fields.items() if not isinstance(meant, str)]
        wanted = self.wanted or f"{_one_of(legal)} is"
        found = self.fields.get(word, f"{wanted} wanted{did_you_mean(word, self.fields)}")
        if isinstance(found, str):
            raise ArgumentError(TYPES, f"{_short(word)}: {found}")
        return found


@dataclass(eq=False, repr=False)
class Choice:
    """A word that is one of some texts; the first is the default."""

    name: str
    help: str
    values: Sequence[str] | Callable[[Fields], Sequence[str]]
    field: str | None = ""  # of the problem; "": that of its name; None: it sets none
    stands_for: str = ""
    """The value that the option, a flag, stands for; "": the option takes a value."""
    flag: str = ""  # the option's name then

    @property
    def option(self) -> str:
        return self.flag or _option(self.name)

    @property
    def turned(self) -> str:
        """What a flag means."""
        return self.stands_for

    def parse(self, text: str) -> str:
        return text

    def possible(self, fields: Fields) -> Sequence[str]:
        return self.values(fields) if callable(self.values) else self.values

    def read(self, given: str | None, fields: Fields, of: str) -> str:
        """The value; `of` is the word for types. Raises ArgumentError."""
        values = self.possible(fields)
        if given is None:
            return values[0]
        if given not in values:
            wanted = _one_of(values)
            only = f" for {of}" if callable(self.values) else ""
            message = f"{_short(given)}: {wanted} is wanted{only}{did_you_mean(given, values)}"
            raise ArgumentError(self.name, message)
        return given


@dataclass(eq=False, repr=False)
class Flag:
    """A word that is true or false."""

    name: str
    help: str
    default: bool = False
    flag: str = ""  # the option, which means the opposite of the default; "": --name
    allowed: Callable[[Fields], bool] = _always
    because: str = ""  # why it is not, where it is not

    @property
    def field(self) -> str:
        return self.name

    @property
    def option(self) -> str:
        return self.flag or _option(self.name)

    @property
    def turned(self) -> bool:
        """What the option means."""
        return not self.default

    def parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ArgumentError(self.name, f"{_short(text)}: true or false is wanted")
        return text == "true"

    def read(self, given: bool | None, fields: Fields, of: str) -> bool:
        """The value; `of` is the word for types. Raises ArgumentError."""
        if given is None or given is self.default:
            return self.default
        if not self.allowed(fields):
            raise ArgumentError(self.name, f"not for {of}: {self.because}")
        return given


Word: TypeAlias = Choice | Flag


@dataclass(eq=False, repr=False)
class Words(Generic[P]):
    """All words of a family."""

    family: str
    summary: str  # what it computes, in a line
    problem: type[P]
    """A frozen dataclass with a field for each extent and word, and those of types."""
    extents: tuple[Extent, ...]
    types: Types
    others: tuple[Word, ...] = ()
    also_sizes: tuple[tuple[str, ...], ...] = ()
    """Extents of other families' sizes of which this one takes its own."""
    default: bool = False
    """Whether a command that names no family means this one."""

    @property
    def size(self) -> tuple[str, ...]:
        """The extents that a size has, in order."""
        return tuple(one.name for one in self.extents if one.default is None)

    @property
    def size_text(self) -> str:
        """`MxNxK`."""
        return "x".join(map(str.upper, self.size))

    @property
    def example(self) -> dict[str, int]:
        """Usual extents of a size."""
        return {one.name: one.usual for one in self.extents if one.default is None}

    @property
    def options(self) -> list[str]:
        """The options that say what is computed, but for extents."""
        return [self.types.option, *(word.option for word in self.others)]

    def option(self, name: str) -> str:
        """The option of an extent, a word, or `TYPES`."""
        known: dict[str, str] = {TYPES: self.types.option}
        known |= {one.name: one.option for one in (*self.extents, *self.others)}
        return known.get(name, _option(name))

    def make(self, extents: Mapping[str, int], given: Mapping[str, Any]) -> P:
        """The problem of these extents; what no word of `given` says is the default.

        Raises ArgumentError, whose `argument` is the name of an extent or a word, or `TYPES`.
        """
        fields: dict[str, Any] = dict(self.types.read(given.get(TYPES)))
        of = given.get(TYPES) or self.types.default
        others = {word.name: word for word in self.others}
        numbers = {one.name: one for one in self.extents}
        for name in given:
            if name not in (*others, *numbers, TYPES):
                raise ArgumentError(name, f"{self.family} has none; it has {', '.join(self.options)}")
        for word in self.others:
            value = word.read(given.get(word.name), fields, of)
            if word.field is not None:
                fields[word.field or word.name] = value
        for name, one in numbers.items():
            value = extents.get(name, given.get(name, one.default))
            if value is None:
                raise ArgumentError(name, "not given")
            one.check(value, fields)
            fields[name] = value
        return self.problem(**fields)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
