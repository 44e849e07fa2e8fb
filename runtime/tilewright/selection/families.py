"""Finds the `Family` object of a family by name. The modules of a family do not import this one."""

from __future__ import annotations

from typing import Any

from tilewright.declarations import catalog
from tilewright.selection.family import Family


def family_of(name: str) -> Family[Any]:
    """The family of this name. Raises ModuleNotFoundError for a family that has no op."""
    family: Family[Any] = catalog.family_module(name, "family").FAMILY
    return family
