"""Finds families. Each is a package in `tilewright/families`, or a plugin (`tilewright.base.plugins`).

`tilewright.<op>` is the function of that name in the package whose `OPS` lists it. A package imports torch
with its op, not before. Nothing else in the core knows where families lie.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base import plugins
from tilewright.configurations import rows

if TYPE_CHECKING:
    from tilewright.base.schema import Schema
    from tilewright.declarations.vocabulary import Words


IN_TREE = "tilewright.families"


@cache
def packages() -> dict[str, str]:
    """The package of each family, by its name: those that come with tilewright, and plugins."""
    import pkgutil  # noqa: PLC0415 (some of the first lookup's milliseconds)

    folders = import_module(IN_TREE).__path__
    ours = {
        module.name: f"{IN_TREE}.{module.name}" for module in pkgutil.iter_modules(folders) if module.ispkg
    }
    theirs = {name: f"{plugins.NAMESPACE}.{name}" for name in plugins.families()}
    return dict(sorted((theirs | ours).items()))


def names() -> list[str]:
    """The families, sorted."""
    return list(packages())


def of_op(word: str) -> str:
    """`"; OP is an op of FAMILY"` if `word` is an op whose family has another name, else ""."""
    for name, home in packages().items():
        if word != name and word in import_module(home).OPS:
            return f"; {word} is an op of {name}"
    return ""


def meant(word: str, families: Collection[str]) -> str:
    """The end of an unknown-family message: `"; did you mean 'x'?"`, `"; OP is an op of FAMILY"`, or ""."""
    from tilewright.base.spelling import did_you_mean  # noqa: PLC0415 (only a message needs it)

    return of_op(word) or did_you_mean(word, families)


def family_module(name: str, module: str) -> Any:
    """A module of a family's package. Raises ModuleNotFoundError if it does not exist."""
    own = f"{IN_TREE}.{name}"
    try:
        return import_module(".".join((own, module)))
    except ModuleNotFoundError as error:
        if error.name != own:
            raise
    return import_module(".".join((plugins.NAMESPACE, name, module)))


def words_of(name: str) -> Words[Any]:
    """The vocabulary of a family's problems."""
    words: Words[Any] = family_module(name, "vocabulary").WORDS
    return words


def default_name() -> str:
    """The family of a command that does not name one."""
    return next(name for name in names() if words_of(name).default)


def configuration_of(name: str) -> Any:
    """The module that declares the kernels of a family (`CONFIG`, `FACTS`): `config`, or `kernel` if the
    family has no `config`."""
    try:
        return family_module(name, "config")
    except ModuleNotFoundError as error:
        if not str(error.name).endswith(f"{name}.config"):
            raise
    return family_module(name, "kernel")


def targets_of(name: str) -> tuple[str, ...]:
    """The targets that a spec of a family may name."""
    return rows.targets(configuration_of(name).CONFIG)


@cache
def kind_of(name: str) -> Schema:
    """The schema of a family's kinds of problems in tuned files: the problem's fields except extents and
    alignment."""
    from tilewright.declarations.kind_schema import kind_schema  # noqa: PLC0415 (for tuned files alone)

    return kind_schema(words_of(name))


class RowParts(NamedTuple):
    """The schemas of `config` and `facts` in the rows of a family's tables, and the values of fields of
    `config` that a row lacks."""

    config: Schema
    facts: Schema
    defaults: Mapping[str, Any]


def row_of(name: str) -> RowParts | None:
    """None for a family that is not known here."""
    try:
        module = configuration_of(name)
    except ModuleNotFoundError:
        return None
    config = module.CONFIG
    return RowParts(rows.config_schema(config), rows.facts_schema(module.FACTS), rows.defaults(config))
