"""How calls say which rows belong to which group, where three arguments may say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.declarations.declaration import Code, Packed
from tilewright.errors import ArgumentError

GROUPINGS = ("row_index", "ends", "rows_valid")  # their order is C's
LAYOUTS = {"group_of_row": "row_index", "group_ends": "ends", "rows_valid": "rows_valid"}
"""The groupings by the argument that says which rows belong to which group."""
NOTES = {
    "row_index": "group_of_row",
    "ends": "group_ends",
    "rows_valid": "rows_valid of the m rows that each group has in A and in D",
}
"""What a header says about each grouping."""
OPERANDS = (
    Packed("group_of_row", "[m]: -1 is padding; or null", extents=("m",), type="s32", alignment=4),
    Packed(
        "group_ends", "[groups]: the row behind each group's last; or null",
        extents=("groups",), type="s32", alignment=4,
    ),
    Packed(
        "rows_valid", "[groups]: rows of each that count; or null",
        extents=("groups",), type="s32", alignment=4,
    ),
)  # fmt: skip
ROW_ALIGNMENT = Code("row_alignment", "of group_ends: groups begin at multiples of it")
ZERO_PADDING = Code(
    "zero_padding", "tiles that hold padding alone are zeroed, too, else they stay as they are"
)


def batch(problem: Any) -> str:
    """The batch of A and D: each group has rows of its own, or they share what there is."""
    return "groups" if problem.grouping == "rows_valid" else ""


def grouping_of(values: Mapping[str, Any]) -> str:
    """The grouping of a call's values. Raises ArgumentError unless one argument says it."""
    present = [name for name in LAYOUTS if values[name] is not None]
    if len(present) != 1:
        shown = " and ".join(present) or "none of them"
        raise ArgumentError(
            "group_of_row", f"expected one of group_of_row, group_ends and rows_valid, got {shown}"
        )
    return LAYOUTS[present[0]]
