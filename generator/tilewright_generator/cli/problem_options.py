"""Options that say which problems are run or measured: they follow from the words of the families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

from tilewright.declarations import catalog
from tilewright.declarations.vocabulary import TYPES, TYPES_OPTIONS, Extent, Flag, Word, Words

Command = TypeVar("Command", bound=Callable[..., Any])
_Declared: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"  # what `click.option` takes
_PREFIX = "word_"  # of the parameters of words, which no other option of a command may take


def options_of(words: Words[Any]) -> list[click.Option]:
    """One family's: its extents, and all its words."""
    declared = [
        *(_extent(extent, extent.help, required=extent.default is None) for extent in words.extents),
        _types(words.types.help, words.types.option),
        *(_word(word, word.help) for word in words.others),
    ]
    return [click.Option(names, **attributes) for names, attributes in declared]


def problem_options(default: str) -> Callable[[Command], Command]:
    """The options of every family, and sizes; `default` describes the sizes that are used without options."""
    declared = [*_of_all_families(), *_sizes(default)]

    def add(command: Command) -> Command:
        for names, attributes in reversed(declared):
            command = click.option(*names, **attributes)(command)
        return command

    return add


def family_option(default: str) -> Callable[[Command], Command]:
    """`--family`; `default` says which is taken without it."""
    names = catalog.names()
    return click.option(
        "--family",
        "--op",
        "family",
        type=click.Choice(names),
        metavar="FAMILY",
        help=f"One of {', '.join(names)}. {default}",
    )


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the words that are given out of a command's options: by name, as `Words.make` takes them."""
    taken = {name: options.pop(name) for name in [*options] if name.startswith(_PREFIX)}
    return {name.removeprefix(_PREFIX): value for name, value in taken.items() if value is not None}


def _of_all_families() -> list[_Declared]:
    """One option for each word, whichever families have it; the help says what it means to each."""
    extents: dict[str, Extent] = {}
    words_by_name: dict[str, Word] = {}
    for words in map(catalog.words_of, catalog.names()):
        extents |= {extent.name: extent for extent in words.extents if extent.default is not None}
        words_by_name |= {word.name: word for word in words.others}
    return [
        _types(_by_family(lambda words: words.types.help)),
        *(_word(word, _by_family(_help_on(word.name))) for word in words_by_name.values()),
        *(_extent(extent, _by_family(_help_on(extent.name))) for extent in extents.values()),
    ]


def _help_on(name: str) -> Callable[[Words[Any]], str]:
    """The help of a family for an extent or a word; "" if the family has none of that name."""
    return lambda words: next(
        (word.help for word in (*words.extents, *words.others) if word.name == name), ""
    )


def _by_family(text_of: Callable[[Words[Any]], str]) -> str:
    """The texts of families, each after the family's name. Families with the same text are named together."""
    groups: dict[str, list[str]] = {}
    for words in map(catalog.words_of, catalog.names()):
        if text := text_of(words):
            groups.setdefault(text, []).append(words.family)
    return " ".join(f"{', '.join(names)}: {text}" for text, names in groups.items())


def _sizes(default: str) -> list[_Declared]:
    size = (
        f"This size, the family's extents; may be repeated. {_by_family(lambda words: f'{words.size_text}.')}"
    )
    sizes = (
        "small (m 1 to 64), medium (m 128 to 512), large (m 1024 to 4096), all, or a YAML file: a list of "
        "MxNxK or {m: [...], n: ..., k: ...}, or {m: [...], layers: [{n: ..., k: ...}], squares: [...]}, or "
        f"{{m: [...], k: [...]}}. {default}"
    )
    return [
        (("--sizes",), {"metavar": "LIST|FILE", "help": sizes}),
        (("-s", "--size", "given"), {"multiple": True, "metavar": "MxNxK", "help": size}),
    ]


def _types(help_: str, first: str = TYPES_OPTIONS[0]) -> _Declared:
    names = sorted(TYPES_OPTIONS, key=lambda name: name != first)
    return (*names, f"{_PREFIX}{TYPES}"), {"metavar": "TYPE", "help": help_}


def _word(word: Word, help_: str) -> _Declared:
    names = (word.option, f"{_PREFIX}{word.name}")
    if isinstance(word, Flag) or word.flag:
        return names, {"is_flag": True, "flag_value": word.turned, "default": None, "help": help_}
    return names, {"metavar": "WORD", "help": help_}


def _extent(extent: Extent, help_: str, *, required: bool = False) -> _Declared:
    names = (extent.option, f"{_PREFIX}{extent.name}")
    return names, {"type": int, "metavar": "NUMBER", "required": required, "help": help_}
