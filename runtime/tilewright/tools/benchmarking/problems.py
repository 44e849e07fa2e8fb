"""Makes a family's problems from the words of a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.base.spelling import did_you_mean
from tilewright.declarations import catalog
from tilewright.declarations.vocabulary import TYPES, Words
from tilewright.errors import ArgumentError
from tilewright.tools.benchmarking.sizes import Size


def make(family: str, given: Mapping[str, Any], sizes: Sequence[Size]) -> list[Any]:
    """The family's problems, each once, in the order of sizes.

    `given`: words of the family by name, as for `Words.make`. Raises ArgumentError for a word that the family
    lacks or for a size; its `argument` is the word's option.
    """
    words = catalog.words_of(family)
    return list(dict.fromkeys(_of_size(words, given, size) for size in sizes))


def _of_size(words: Words[Any], given: Mapping[str, Any], size: Size) -> Any:
    extents = size.of(words)
    try:
        return words.make(extents, given)
    except ArgumentError as error:
        if error.argument in extents:
            raise ArgumentError("--size", f"{size}: {error.argument} {_reason(error)}") from None
        raise ArgumentError(words.option(error.argument), _reason(error)) from None


def of_words(given: Sequence[str]) -> tuple[str, Any]:
    """Reads a family and a problem from words: the family's name, the word for types (or none, for the
    default), and NAME=VALUE for extents and other words, in any order.

    Raises ArgumentError for any other word.
    """
    family, *terms = given
    families = catalog.names()
    if family not in families:
        expected = f"expected one of {', '.join(families)}{catalog.meant(family, families)}"
        raise ArgumentError("problem", f"begins with {family}; {expected}")
    words = catalog.words_of(family)
    example = " ".join(f"{name}={value}" for name, value in words.example.items())
    named = {word.name: word.read for word in words.extents} | {
        word.name: word.parse for word in words.others
    }
    types = [word for word in terms if "=" not in word]
    if name := next((word for word in types if word in named), None):
        raise ArgumentError("problem", f"has {name} without a value; expected NAME=VALUE, as in: {example}")
    if number := next((word for word in types if word[:1].isdecimal()), None):
        raise ArgumentError("problem", f"has {number}; extents have names: {example}")
    if len(types) > 1:
        raise ArgumentError("problem", f"names types twice: {' and '.join(types)}")
    read: dict[str, Any] = dict.fromkeys([TYPES], types[0]) if types else {}
    for name, _, value in (word.partition("=") for word in terms if "=" in word):
        if not name or not value:
            raise ArgumentError("problem", f"has {name}={value}; expected NAME=VALUE, as in: {example}")
        if name not in named:
            there_are = f"there are {', '.join(named)}{did_you_mean(name, named)}"
            raise ArgumentError(name, f"is no part of a problem; {there_are}")
        if name in read:
            raise ArgumentError(name, "given twice")
        read[name] = named[name](value)
    if missing := [name for name in words.size if name not in read]:
        of = types[0] if types else words.types.default
        raise ArgumentError(", ".join(missing), f"not given; for example: {family} {of} {example}")
    try:
        return family, words.make({}, read)
    except ArgumentError as error:
        argument = family if error.argument == TYPES else error.argument
        raise ArgumentError(argument, _reason(error)) from None


def _reason(error: ArgumentError) -> str:
    return error.message.removeprefix(f"{error.argument}: ")
