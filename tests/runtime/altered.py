"""Families that differ from one in what is to be tested."""

from __future__ import annotations

from copy import copy
from typing import Any

from tilewright.selection.family import Family


def altered(family: Family[Any], **changes: Any) -> Family[Any]:
    """The family with other attributes, or functions in place of methods."""
    made = copy(family)
    vars(made).update(changes)
    return made
