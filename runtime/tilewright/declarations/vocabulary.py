"""The vocabulary of a family's problems, on command lines and in lists of sizes.

A family's `vocabulary.py` names the extents of its problems, the words for types, and the other words. Each
word has the field of a problem that it sets, its legal values, and its option on a command line. From these
follow NAME=VALUE of `explain --problem`, the options of `run`, `bench compare` and `tune`, and the sizes that
these take. A vocabulary is plain data: it imports neither torch nor a command line. Its classes have neither
comparison nor `repr`, because generating those takes a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from tilewright.base.spelling import did_you_mean
from tilewright.errors import ArgumentError

P = TypeVar("P")
Fields: TypeAlias = "Mapping[str, Any]"
"""Fields of a problem by name, as far as earlier words have set them."""

TYPES = "types"  # the name of the word for types, for callers and in errors
TYPES_OPTIONS = ("--formats", "--dtype", "--format")  # every command takes each, for every family
# The largest extent that kernels support: TMA's coordinates count bytes along a row (sm90/producer.hpp) in
# signed 32-bit numbers, and an extent rounded up must be an int.
MOST_EXTENT = 2**30
_NUMBER = f"a number from 1 to {MOST_EXTENT}"


def _one(_: Fields) -> int:
    return 1


def _always(_: Fields) -> bool:
    return True


@dataclass(eq=False, repr=False)
class Extent:
    """An extent of a problem: a number of elements along a dimension, or of matrices."""

    name: str
    help: str
    usual: int  # its value in examples
    default: int | None = None
    """None: it is a part of the size MxNxK, and always given. Other extents have an option of their own."""
    multiple: Callable[[Fields], int] = _one
    """What it must be a multiple of, given the types."""
    because: str = ""  # why it must be a multiple
    hint: bool = False
    """Whether it only helps to choose a kernel, and is not passed to it. Its default may be 0."""

    @property
    def option(self) -> str:
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name.replace('_', '-')}"

    @property
    def why(self) -> str:
        return f"; {self.because}" if self.because else ""

    def read(self, text: str) -> int:
        """The number in a text. Raises ArgumentError."""
        if text.isascii() and text.isdecimal() and len(text) <= 20:
            return int(text)
        raise ArgumentError(self.name, f"{_short(text)}: expected {_NUMBER}")

    def allows(self, value: int) -> bool:
        """Whether the extent may have this value for some types."""
        return 0 < value <= MOST_EXTENT or (self.hint and value == self.default)

    def check(self, value: int, fields: Fields) -> None:
        """Raises ArgumentError if the extent may not have this value."""
        if not self.allows(value):
            raise ArgumentError(self.name, f"{value}: expected {_NUMBER}")
        multiple = self.multiple(fields)
        if value % multiple:
            raise ArgumentError(self.name, f"{value}: expected a multiple of {multiple}{self.why}")


MATRIX_EXTENTS = (
    Extent("m", "Rows of A and D.", usual=64),
    Extent("n", "Columns of B and D.", usual=4096),
    Extent("k", "Columns of A, rows of B.", usual=4096),
    Extent("batch", "Number of matrices.", usual=1, default=1),
)
"""The extents of a matrix product."""


def _one_of(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"one of {', '.join(values)}"


@dataclass(eq=False, repr=False)
class Types:
    """The word for the types of operands, as `fp8` or `mxfp8xmxfp4`."""

    option: str  # of `TYPES_OPTIONS`, the one that messages name
    default: str
    fields: Mapping[str, Fields | str]
    """The fields that each word stands for, or a text that says why the word is not legal."""
    help: str
    expected: str = ""  # what a message expects, if not one of the words: "one or two of nvfp4, mxfp8"

    def read(self, word: str | None) -> Fields:
        """The fields that a word stands for. Raises ArgumentError."""
        word = self.default if word is None else word
        legal = [name for name, fields in self.fields.items() if not isinstance(fields, str)]
        expected = self.expected or _one_of(legal)
        fields = self.fields.get(word, f"expected {expected}{did_you_mean(word, self.fields)}")
        if isinstance(fields, str):
            raise ArgumentError(TYPES, f"{_short(word)}: {fields}")
        return fields


@dataclass(eq=False, repr=False)
class Choice:
    """A word with a choice of values; the first is the default."""

    name: str
    help: str
    values: Sequence[str] | Callable[[Fields], Sequence[str]]
    field: str | None = ""  # the field of the problem that it sets; "": the field of its name; None: no field
    stands_for: str = ""
    """The value that the option stands for, if it is a flag; "": the option takes a value."""
    flag: str = ""  # the name of the option, if it is a flag
    of: str = ""  # the earlier `Flag` without which the word has no meaning, as C of C's type

    @property
    def option(self) -> str:
        return self.flag or _option(self.name)

    @property
    def turned(self) -> str:
        """The value that a flag sets."""
        return self.stands_for

    def parse(self, text: str) -> str:
        return text

    def possible(self, fields: Fields) -> Sequence[str]:
        return self.values(fields) if callable(self.values) else self.values

    def read(self, text: str | None, fields: Fields, types: str) -> str:
        """The value; `types` is the word for types. Raises ArgumentError."""
        values = self.possible(fields)
        if text is None:
            return values[0]
        if self.of and not fields[self.of]:
            raise ArgumentError(self.name, f"{_short(text)}: has no meaning without {self.of}")
        if text not in values:
            only = f" for {types}" if callable(self.values) else ""
            message = f"{_short(text)}: expected {_one_of(values)}{only}{did_you_mean(text, values)}"
            raise ArgumentError(self.name, message)
        return text


@dataclass(eq=False, repr=False)
class Flag:
    """A word that is true or false."""

    name: str
    help: str
    default: bool = False
    flag: str = ""  # the option, which sets the opposite of the default; "": --name
    allowed: Callable[[Fields], bool] = _always
    because: str = ""  # why it is not allowed, if it is not

    @property
    def field(self) -> str:
        return self.name

    @property
    def option(self) -> str:
        return self.flag or _option(self.name)

    @property
    def turned(self) -> bool:
        """The value that the option sets."""
        return not self.default

    def parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ArgumentError(self.name, f"{_short(text)}: expected true or false")
        return text == "true"

    def read(self, value: bool | None, fields: Fields, types: str) -> bool:
        """The value; `types` is the word for types. Raises ArgumentError."""
        if value is None or value is self.default:
            return self.default
        if not self.allowed(fields):
            raise ArgumentError(self.name, f"not supported for {types}: {self.because}")
        return value


Word: TypeAlias = Choice | Flag


@dataclass(eq=False, repr=False)
class Words(Generic[P]):
    """The vocabulary of a family."""

    family: str
    summary: str  # what the family computes, in a line
    problem: type[P]
    """A frozen dataclass with a field for each extent and word, and the fields of types."""
    extents: tuple[Extent, ...]
    """In the order that compiled kernels' launch arguments have (`declarations/arguments.py`)."""
    types: Types
    others: tuple[Word, ...] = ()
    also_sizes: tuple[tuple[str, ...], ...] = ()
    """Extents of sizes of other families from which this family takes its own extents."""
    default: bool = False
    """Whether it is the family of a command that names none."""

    @property
    def size(self) -> tuple[str, ...]:
        """The extents that a size has, in order."""
        return tuple(extent.name for extent in self.extents if extent.default is None)

    @property
    def size_text(self) -> str:
        """`MxNxK`."""
        return "x".join(map(str.upper, self.size))

    @property
    def example(self) -> dict[str, int]:
        """The usual extents of a size."""
        return {extent.name: extent.usual for extent in self.extents if extent.default is None}

    @property
    def options(self) -> list[str]:
        """The options that say what is computed, without those of extents."""
        return [self.types.option, *(word.option for word in self.others)]

    def option(self, name: str) -> str:
        """The option of an extent, a word, or `TYPES`."""
        options: dict[str, str] = {TYPES: self.types.option}
        options |= {word.name: word.option for word in (*self.extents, *self.others)}
        return options.get(name, _option(name))

    def make(self, extents: Mapping[str, int], words: Mapping[str, Any]) -> P:
        """The problem with these extents and words; words that are absent have their defaults.

        Raises ArgumentError, whose `argument` is the name of an extent or a word, or `TYPES`.
        """
        fields: dict[str, Any] = dict(self.types.read(words.get(TYPES)))
        types = words.get(TYPES) or self.types.default
        numbers = {extent.name: extent for extent in self.extents}
        for name in words:
            if name not in (*(word.name for word in self.others), *numbers, TYPES):
                raise ArgumentError(name, f"{self.family} has none; it has {', '.join(self.options)}")
        for word in self.others:
            value = word.read(words.get(word.name), fields, types)
            if word.field is not None:
                fields[word.field or word.name] = value
        for name, extent in numbers.items():
            value = extents.get(name, words.get(name, extent.default))
            if value is None:
                raise ArgumentError(name, "not given")
            extent.check(value, fields)
            fields[name] = value
        return self.problem(**fields)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
