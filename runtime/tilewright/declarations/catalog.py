"""Finds families. Each is a package in `tilewright/families`, or a plugin (`tilewright.base.plugins`).

`tilewright.<op>` is the function of that name in the package whose `OPS` lists it. A package imports torch
with its op, not before. Nothing else in the core knows where families lie.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright.base import plugins

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


def part(name: str, module: str) -> Any:
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
    words: Words[Any] = part(name, "vocabulary").WORDS
    return words


def default_name() -> str:
    """The family of a command that does not name one."""
    return next(name for name in names() if words_of(name).default)


def targets_of(name: str) -> tuple[str, ...]:
    """The targets that a spec of a family may name."""
    targets: tuple[str, ...] = part(name, "row").TARGETS
    return targets


@cache
def kind_of(name: str) -> Schema:
    """The schema of a family's kinds of problems in tuned files: the problem's fields except extents and
    alignment. A family defines it in its `row` as KIND if its vocabulary does not hold all of these
    fields."""
    from tilewright.declarations.kind_schema import kind_schema  # noqa: PLC0415 (for tuned files alone)

    own: Schema | None = getattr(part(name, "row"), "KIND", None)
    return own or kind_schema(words_of(name))


def row_of(name: str) -> dict[str, Schema]:
    """The schemas of `config` and `facts` in the rows of a family's tables; none for a family without an
    op."""
    try:
        row = part(name, "row")
    except ModuleNotFoundError:
        return {}
    return {"config": row.CONFIG, "facts": row.FACTS}
