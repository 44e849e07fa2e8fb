"""Families by name, as selection sees them. What a family is made of imports nothing of this."""

from __future__ import annotations

from typing import Any

from tilewright.declarations import catalog
from tilewright.selection.family import Family


def family_of(name: str) -> Family[Any]:
    """Raises ModuleNotFoundError for a family that has no op."""
    family: Family[Any] = catalog.part(name, "family").FAMILY
    return family
