"""One package per family; `tilewright.<op>` is the function of that name in the package whose `OPS` lists it.

A package imports torch with the op, not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ops.common.family import Family


def family_of(name: str) -> Family[Any]:
    """A family as selection sees it. Raises ModuleNotFoundError for one that has no op."""
    family: Family[Any] = import_module(f"{__name__}.{name}.family").FAMILY
    return family
