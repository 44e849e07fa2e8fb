"""`tilewright.scale_columns` without a GPU: shapes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilewright
import tilewright.torch_ops
from tilewright import blockwise_scales, scale_factors
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
        ((130, 9), {"layout": "128x4"}, (256, 36)),
        ((130, 9), {"layout": "128x4", "block": 32}, (256, 12)),
        ((130, 9), {"layout": "128x4", "k": 1100}, (256, 36)),
        ((2, 3, 2), {"layout": "128x4", "rows": 300}, (2, 384, 8)),
        ((0, 9), {"layout": "128x4"}, (0, 36)),
    ],
)
def test_shape_and_type_of_the_result(
    host: Context, shape: tuple[int, ...], options: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    scales = torch.empty(shape, device="meta")
    arguments = {
        name: each.to("meta") if isinstance(each, torch.Tensor) else each for name, each in options.items()
    }
    made = torch.ops.tilewright.scale_columns(scales, **arguments)
    assert tuple(made.shape) == wanted
    types = {"packed": torch.int32, "128x4": torch.float8_e8m0fnu}
    assert made.dtype == types.get(options.get("layout", "m_major"), torch.float32)
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
        ({"layout": "8x4"}, "layout", "expected one of m_major, packed, 128x4"),
        ({"scales": torch.zeros(5, 3, dtype=torch.int32)}, "scales", "expected float32"),
        ({"scales": torch.zeros(5, 3, dtype=torch.int64), "layout": "128x4"}, "scales", "expected float32"),
        ({"rows": 5}, "rows", "only supported for layout 128x4"),
        ({"k": 384}, "k", "only supported for layout 128x4"),
        ({"layout": "128x4", "block": 64}, "block", "it is 64; expected 32 or 128"),
        ({"layout": "128x4", "rows": 6}, "scales", "it has 5 rows; expected 6, or 1 for 128 each"),
        ({"layout": "128x4", "k": 256}, "scales", "3 columns for 128 of k each; k of 256 has 2"),
        ({"layout": "128x4", "groups": GROUPS, "grouping": "row_ends"}, "grouping", "expected none"),
        ({"layout": "128x4", "out": torch.zeros(128, 12)}, "out", "expected float8_e8m0fnu, uint8"),
        ({"layout": "128x4", "out": torch.zeros(128, 8, dtype=torch.uint8)}, "out", r"expected \[128, 12\]"),
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
    arguments = {"scales": torch.zeros(5, 3), **options}
    with pytest.raises(ArgumentError, match=reason) as error:
        tilewright.scale_columns(**arguments)
    assert error.value.argument == argument


def test_numbers_are_no_texts(host: Context) -> None:
    with pytest.raises(ArgumentTypeError, match="alignment: it is a str; expected a whole number"):
        tilewright.scale_columns(torch.zeros(5, 3), alignment="128")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["alignment", "block"])
@pytest.mark.parametrize("number", [2**31, 2**32, 2**32 + 128])
def test_numbers_that_no_int_of_32_bits_holds_are_refused(host: Context, name: str, number: int) -> None:
    with pytest.raises(ArgumentError, match="expected at most 1073741824") as error:
        tilewright.scale_columns(
            torch.ones(8, 9), GROUPS, layout="packed", grouping="k_ends", **{name: number}
        )
    assert error.value.argument == name


def exponents(*shape: int) -> torch.Tensor:
    return torch.randint(1, 255, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def as_floats(codes: torch.Tensor) -> torch.Tensor:
    return (codes.int() << 23).view(torch.float32)


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("row_major", [False, True])
def test_bytes_of_block_scaled_products(
    scale_columns_host: Context, block: int, batch: tuple[int, ...], row_major: bool
) -> None:
    """Floats, words of four and a scale for 128 rows yield what `scale_factors` makes of the bytes."""
    rows, k = 300, 1152
    codes = exponents(*batch, rows, k // block)
    expected = scale_factors.swizzle(codes.repeat_interleave(block // 32, dim=-1))
    scales = as_floats(codes)
    operand = scales if row_major else scales.mT.contiguous().mT
    made = tilewright.scale_columns(operand, layout="128x4", block=block)
    assert made.dtype == torch.float8_e8m0fnu
    assert torch.equal(made.view(torch.uint8), expected)

    packed = blockwise_scales.pack(codes)
    words = packed.contiguous() if row_major else packed
    made = tilewright.scale_columns(words, layout="128x4", block=block, k=k)
    assert torch.equal(made.view(torch.uint8), expected)

    squares = exponents(*batch, 3, k // block)
    wide = squares.repeat_interleave(128, dim=-2)[..., :rows, :].repeat_interleave(block // 32, dim=-1)
    operand = as_floats(squares) if row_major else as_floats(squares).mT.contiguous().mT
    made = tilewright.scale_columns(operand, layout="128x4", block=block, rows=rows)
    assert torch.equal(made.view(torch.uint8), scale_factors.swizzle(wide))


def test_what_is_no_power_of_two_becomes_nan(scale_columns_host: Context) -> None:
    values = [1.0, 3.0, -1.0, 0.0, float("inf"), float("nan"), 2.0**-126, 2.0**127]
    made = tilewright.scale_columns(torch.tensor([values]), layout="128x4", block=32)
    read = scale_factors.unswizzle(made.view(torch.uint8), 1, 32 * len(values), 32)
    assert read.tolist() == [[127, 255, 255, 0, 255, 255, 1, 254]]


def test_a_result_at_any_address_is_written(scale_columns_host: Context) -> None:
    """A thread stores 16 bytes: what begins elsewhere is copied."""
    scales = as_floats(exponents(130, 9))
    expected = tilewright.scale_columns(scales, layout="128x4")
    for offset in (0, 4, 16):
        memory = torch.full((expected.numel() + 64,), 7, dtype=torch.uint8)
        start = -memory.data_ptr() % 16 + offset
        out = memory[start : start + expected.numel()].view(expected.shape)
        assert tilewright.scale_columns(scales, layout="128x4", out=out) is out
        assert torch.equal(out, expected.view(torch.uint8))
        assert (memory[:start] == 7).all()
        assert (memory[start + expected.numel() :] == 7).all()
