"""`tilewright.scale_columns` without a GPU: shapes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilewright
import tilewright.torch_ops
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError

GROUPS = torch.tensor([3, 5], dtype=torch.int32)


@pytest.mark.parametrize(
    ("shape", "options", "wanted"),
    [
        ((5, 3), {}, (3, 8)),
        ((2, 5, 3), {}, (2, 3, 8)),
        ((4, 9), {"layout": "packed"}, (3, 4)),
        ((2, 5, 3), {"layout": "packed"}, (2, 1, 8)),
        ((5, 3), {"groups": GROUPS, "grouping": "row_ends"}, (3, 8)),
        ((8, 9), {"groups": GROUPS, "grouping": "k_sizes", "layout": "packed"}, (5, 8)),
        ((8, 9), {"groups": GROUPS, "grouping": "k_ends", "layout": "packed"}, (5, 8)),
        ((0, 3), {}, (3, 0)),
    ],
)
def test_shape_and_type_of_the_result(
    host: Context, shape: tuple[int, ...], options: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    scales = torch.empty(shape, device="meta")
    given = {
        name: each.to("meta") if isinstance(each, torch.Tensor) else each for name, each in options.items()
    }
    made = torch.ops.tilewright.scale_columns(scales, **given)
    assert tuple(made.shape) == wanted
    assert made.dtype == (torch.int32 if options.get("layout") == "packed" else torch.float32)
    assert made.is_contiguous()


@pytest.mark.parametrize(
    ("options", "argument", "reason"),
    [
        ({"scales": torch.zeros(5)}, "scales", "three with a batch first"),
        ({"scales": torch.zeros(5, 3, dtype=torch.bfloat16)}, "scales", "expected float32"),
        (
            {"scales": torch.zeros(5, 8, 6)[:, ::2, ::2]},
            "scales",
            "expected 1 for one of the last two strides",
        ),
        ({"layout": "8x4"}, "layout", "expected one of m_major, packed"),
        ({"grouping": "rows"}, "grouping", "one of none, row_ends"),
        ({"groups": GROUPS}, "groups", "expected None for grouping 'none'"),
        ({"grouping": "row_ends"}, "groups", "expected a tensor for grouping 'row_ends'"),
        (
            {"groups": GROUPS[:0], "grouping": "row_ends"},
            "groups",
            "expected a number for each group",
        ),
        ({"groups": GROUPS.long(), "grouping": "row_ends"}, "groups", "expected int32"),
        ({"groups": GROUPS, "grouping": "k_sizes"}, "grouping", "is only supported for layout packed"),
        ({"groups": GROUPS, "grouping": "row_ends", "alignment": 0}, "alignment", "number, 1 or more"),
        ({"groups": GROUPS, "grouping": "row_ends", "block": 1.5}, "block", "expected a whole number"),
        (
            {"scales": torch.zeros(2, 5, 3), "groups": GROUPS, "grouping": "row_ends"},
            "scales",
            "expected two dimensions with groups",
        ),
        ({"out": torch.zeros(3, 5)}, "out", r"expected \[3, 8\]"),
        ({"out": torch.zeros(3, 8, dtype=torch.int32)}, "out", "expected float32"),
    ],
)
def test_what_is_refused(host: Context, options: dict[str, Any], argument: str, reason: str) -> None:
    given = {"scales": torch.zeros(5, 3), **options}
    with pytest.raises(ArgumentError, match=reason) as error:
        tilewright.scale_columns(**given)
    assert error.value.argument == argument


def test_numbers_are_no_texts(host: Context) -> None:
    with pytest.raises(ArgumentTypeError, match="alignment: it is a str; expected a whole number"):
        tilewright.scale_columns(torch.zeros(5, 3), alignment="128")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["alignment", "block"])
@pytest.mark.parametrize("number", [2**31, 2**32, 2**32 + 128])
def test_numbers_that_no_int_of_32_bits_holds_are_refused(host: Context, name: str, number: int) -> None:
    with pytest.raises(ArgumentError, match="at most 1073741824 is possible") as error:
        tilewright.scale_columns(
            torch.ones(8, 9), GROUPS, layout="packed", grouping="k_ends", **{name: number}
        )
    assert error.value.argument == name
