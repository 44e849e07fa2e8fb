"""`tilewright.hc_prenorm` end to end, with kernels that run on the host in place of a GPU's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilewright
from tilewright.context import Context
from tilewright.errors import ArgumentError, NoKernelError
from tilewright.families.hc_prenorm.reference import reference, split_bounds, tf32

pytestmark = pytest.mark.usefixtures("prenorm")


def operands(m: int, n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn((m, k), generator=generator).bfloat16()
    return a, torch.randn((n, k), generator=generator)


def close(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    for tensor, expected_tensor in zip(actual, expected, strict=True):
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
        torch.testing.assert_close(tensor.double(), expected_tensor, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 8, 8), (13, 24, 1000), (137, 24, 448), (5, 128, 72)])
@pytest.mark.parametrize("options", [{}, {"splits": 1}, {"splits": 3}, {"splits": 16}, {"normalize": True}])
def test_every_form(shape: tuple[int, int, int], options: dict[str, Any]) -> None:
    a, b = operands(*shape)
    actual = tilewright.hc_prenorm(a, b, **options)
    parts = () if options.get("splits") is None else (options["splits"],)
    assert actual[0].shape == (*parts, shape[0], shape[1])
    assert actual[1].shape == (*parts, shape[0])
    close(actual, reference(a, b, **options))


def test_the_first_splits_take_one_more_block() -> None:
    """DeepGEMM's rule: a caller may give each part its own scale."""
    assert split_bounds(64 * 7, 3) == [0, 64 * 3, 64 * 5, 64 * 7]
    assert split_bounds(64 * 6 + 8, 3) == [0, 64 * 3, 64 * 5, 64 * 6 + 8]
    assert split_bounds(64, 3) == [0, 64, 64, 64]
    a = torch.ones(1, 64 * 7, dtype=torch.bfloat16)
    _, squares = tilewright.hc_prenorm(a, torch.ones(8, 64 * 7), splits=3)
    assert squares.flatten().tolist() == [192, 128, 128]


def test_b_is_rounded_to_tf32_and_a_is_exact() -> None:
    for value, nearest in ((1 + 2**-11, 1), (1 + 2**-11 + 2**-20, 1 + 2**-10), (-1 - 3 * 2**-11, -1 - 2**-9)):
        assert tf32(torch.tensor(value)) == nearest
    b = torch.full((8, 8), 1 + 3 * 2**-12)
    a = torch.full((1, 8), 1.0078125, dtype=torch.bfloat16)
    out, squares = tilewright.hc_prenorm(a, b)
    assert out[0, 0] == 8 * 1.0078125 * (1 + 2**-10)
    assert squares[0] == 8 * 1.0078125**2


def test_the_norm_is_of_the_row() -> None:
    a, b = operands(6, 24, 256)
    rows = a.double()
    normalized = rows / (rows.square().mean(-1, keepdim=True) + 0.5).sqrt()
    out, _ = tilewright.hc_prenorm(a, b, normalize=True, eps=0.5)
    expected = normalized @ tf32(b).double().T
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(reference(a, b, normalize=True, eps=0.5)[0], expected)


def test_results_are_written_where_they_are_wanted() -> None:
    a, b = operands(9, 24, 320)
    wide = torch.full((4, 9, 40), 7.0)
    squares = torch.empty(4, 9)
    actual = tilewright.hc_prenorm(a, b, splits=4, out=wide[..., :24], squares=squares)
    assert actual[0].data_ptr() == wide.data_ptr()
    assert actual[1] is squares
    assert (wide[..., 24:] == 7).all()
    expected = reference(a, b, splits=4)
    torch.testing.assert_close(wide[..., :24].double(), expected[0], rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(squares.double(), expected[1])
    again = tilewright.hc_prenorm(a, b, splits=4, out=actual[0])  # one brought, one made
    assert torch.equal(again[1], squares)


def test_rows_of_a_wider_tensor() -> None:
    wide_a, wide_b = operands(4, 8, 512)
    a, b = wide_a[:, 128:328], wide_b[:, 64:264]
    close(tilewright.hc_prenorm(a, b), reference(a, b))


def test_a_prepared_call() -> None:
    a, b = operands(5, 24, 192)
    plan = tilewright.plan(tilewright.hc_prenorm, a, b, normalize=True)
    out, squares = plan(a, b)
    close((out, squares), reference(a, b, normalize=True))
    close(plan(2 * a, b, out, squares), reference(2 * a, b, normalize=True))


def test_nothing_to_sum() -> None:
    out, squares = tilewright.hc_prenorm(torch.empty(3, 0, dtype=torch.bfloat16), torch.empty(8, 0), splits=2)
    assert out.shape == (2, 3, 8)
    assert not out.any()
    assert not squares.any()
    out, squares = tilewright.hc_prenorm(torch.empty(0, 64, dtype=torch.bfloat16), torch.empty(8, 64))
    assert (out.shape, squares.shape) == ((0, 8), (0,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"splits": 0}, "splits: it is 0; expected a whole number, 1 or more"),
        ({"splits": True}, "splits: it is a bool"),
        ({"splits": 2, "normalize": True}, "normalize: splits is 2: a norm needs the sum of all"),
        ({"b": torch.empty(0, 64)}, "b: expected 8 to 128 rows, got none"),
        ({"b": torch.empty(8, 128)}, "b: its shape is [8, 128], k of 128"),
        ({"b": torch.empty(8, 64).double()}, "b: its dtype is torch.float64; expected float32"),
        ({"a": torch.empty(2, 64)}, "a: its dtype is torch.float32; expected bfloat16"),
        ({"out": torch.empty(2, 8), "splits": 3}, "out: its shape is [2, 8]; expected [3, 2, 8]"),
        ({"squares": torch.empty(2, 1)}, "squares: its shape is [2, 1]; expected [2]"),
        ({"eps": "x"}, "eps: it is a str; expected a number"),
    ],
)
def test_wrong_arguments(change: dict[str, Any], message: str) -> None:
    given = {"a": torch.empty(2, 64, dtype=torch.bfloat16), "b": torch.empty(8, 64)} | change
    with pytest.raises(ArgumentError, match=re.escape(message)):
        tilewright.hc_prenorm(**given)


def test_what_no_kernel_takes() -> None:
    with pytest.raises(NoKernelError, match="n is 136; its tile has 128 columns"):
        tilewright.hc_prenorm(*operands(2, 136, 64))
    with pytest.raises(ArgumentError, match="b: n is 12; expected a multiple of 8; the tensor core takes 8"):
        tilewright.hc_prenorm(*operands(2, 12, 64))
    with pytest.raises(ArgumentError, match="a: k is 60; expected a multiple of 8; TMA reads rows that"):
        tilewright.hc_prenorm(*operands(2, 8, 60))


def test_kernels_of_just_enough_columns_come_first(prenorm: Context) -> None:
    for n, kernel in ((24, "host_prenorm_24"), (32, "host_prenorm_128")):
        chosen = _selected(prenorm, 4096, n, 7168)
        assert chosen.kernel == kernel


def test_tactics(prenorm: Context) -> None:
    a, b = operands(3, 24, 640)
    close(tilewright.hc_prenorm(a, b, tactic="host_prenorm_128"), reference(a, b))
    for setting in ("splits=2", "swizzle=2"):
        with pytest.raises(ArgumentError, match="its family does not support"):
            tilewright.hc_prenorm(a, b, tactic=f"host_prenorm_24@{setting}")


def _selected(context: Context, m: int, n: int, k: int) -> Any:
    from tilewright.families.hc_prenorm.family import FAMILY  # noqa: PLC0415
    from tilewright.families.hc_prenorm.problem import Problem  # noqa: PLC0415

    return context.select(FAMILY, Problem(m, n, k), context.device(0)).tactic
