"""Families by name, as selection sees them. What a family is made of imports nothing of this."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilewright.ops.common.family import Family


def family_of(name: str) -> Family[Any]:
    """Raises ModuleNotFoundError for a family that has no op."""
    family: Family[Any] = import_module(f"tilewright.ops.{name}.family").FAMILY
    return family
