"""One package per family; `tilewright.<op>` is the function of that name in the package whose `OPS` lists it.

A package imports torch with the op, not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ops.common.words import Words
    from tilewright.schema import Schema


def names() -> list[str]:
    """The families, sorted: every package here but `common`."""
    import pkgutil  # noqa: PLC0415 (some of the first lookup's milliseconds)

    return [one.name for one in pkgutil.iter_modules(__path__) if one.ispkg and one.name != "common"]


def words_of(name: str) -> Words[Any]:
    """The words in which a family's problems are asked for."""
    words: Words[Any] = import_module(f"{__name__}.{name}.words").WORDS
    return words


def default_name() -> str:
    """The family that a command means which names none."""
    return next(name for name in names() if words_of(name).default)


def targets_of(name: str) -> tuple[str, ...]:
    """The targets that a spec of a family may name."""
    targets: tuple[str, ...] = import_module(f"{__name__}.{name}.row").TARGETS
    return targets


def kind_of(name: str) -> Schema:
    """What tuned files hold of a family's kinds of problems: any of the problem's fields but extents and
    alignment."""
    kind: Schema = import_module(f"{__name__}.{name}.row").KIND
    return kind


def row_of(name: str) -> dict[str, Schema]:
    """What rows of a family's tables hold in `config` and in `facts`; nothing is known of one without an
    op."""
    try:
        row = import_module(f"{__name__}.{name}.row")
    except ModuleNotFoundError:
        return {}
    return {"config": row.CONFIG, "facts": row.FACTS}
