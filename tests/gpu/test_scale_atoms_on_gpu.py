"""`tilewright.scale_columns` into the 128x4 layout on a GPU, bit for bit against torch's `scale_factors`."""

from __future__ import annotations

import generated_kernels
import pytest
import torch

import tilewright
from tilewright import blockwise_scales, scale_factors

kernel = generated_kernels.fixture("scale_columns", only=lambda record: record.config["writes"] == "128x4")
# There is one such kernel for a GPU, and so every test is of it.
pytestmark = [pytest.mark.marks_kernels, pytest.mark.usefixtures("kernel")]

# Rows and k: one of each, whole and partial atoms, several thread blocks down and across.
SHAPES = [(1, 128), (5, 384), (128, 7168), (300, 2048 + 128), (4097, 7168), (576, 32768)]


def converted(scales: torch.Tensor, **options: object) -> torch.Tensor:
    """The bytes that the op writes onto others."""
    made = tilewright.scale_columns(scales, layout="128x4", **options)  # type: ignore[arg-type]
    assert made.dtype == torch.float8_e8m0fnu
    out = torch.full(made.shape, 0x5A, dtype=torch.uint8, device="cuda")
    assert tilewright.scale_columns(scales, layout="128x4", out=out, **options) is out  # type: ignore[arg-type]
    assert torch.equal(made.view(torch.uint8), out)
    return out


def random(*shape: int) -> torch.Tensor:
    """UE8M0 bytes of floats that are normal numbers."""
    return torch.randint(1, 255, shape, device="cuda", dtype=torch.uint8)


def as_floats(codes: torch.Tensor) -> torch.Tensor:
    return (codes.int() << 23).view(torch.float32)


def lies(scales: torch.Tensor, row_major: bool) -> torch.Tensor:
    return scales if row_major else scales.mT.contiguous().mT


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows(shape: tuple[int, int], batch: tuple[int, ...], block: int, row_major: bool) -> None:
    """A scale for 32 or 128 of k of a row, as a float and in a word of four."""
    torch.manual_seed(0)
    rows, k = shape
    codes = random(*batch, rows, k // block)
    expected = scale_factors.swizzle(codes.repeat_interleave(block // 32, dim=-1))
    assert torch.equal(converted(lies(as_floats(codes), row_major), block=block), expected)
    words = blockwise_scales.pack(codes)
    words = words.contiguous() if row_major else words
    assert torch.equal(converted(words, block=block, k=k), expected)


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shape", SHAPES)
def test_squares(shape: tuple[int, int], batch: tuple[int, ...], row_major: bool) -> None:
    """A scale for 128x128."""
    torch.manual_seed(0)
    rows, k = shape
    codes = random(*batch, -(-rows // 128), k // 128)
    wide = codes.repeat_interleave(128, dim=-2)[..., :rows, :].repeat_interleave(4, dim=-1)
    given = lies(as_floats(codes), row_major)
    assert torch.equal(converted(given, rows=rows), scale_factors.swizzle(wide))


def test_k_that_ends_within_a_block() -> None:
    torch.manual_seed(0)
    codes = random(200, 33)  # of 32 of k each: 1,056
    assert torch.equal(converted(as_floats(codes), block=32), scale_factors.swizzle(codes))
    words = blockwise_scales.pack(codes)
    assert torch.equal(converted(words, block=32, k=1056), scale_factors.swizzle(codes))


def test_floats_that_are_no_powers_of_two_become_nan() -> None:
    """Every kind of float: UE8M0 has powers of two from 2^-127 to 2^127, and NaN."""
    bits = torch.randint(0, 2**32, (512, 64), device="cuda").to(torch.int32)
    for column, mask in ((0, 0x7F800000), (1, 0x007FFFFF), (2, -(2**31))):
        bits[:, column] &= mask
    bits[:, 3] = 0x00400000  # 2^-127
    scales = bits.view(torch.float32)
    mantissas, exponents = torch.frexp(scales.double())
    power = (scales > 0) & (mantissas == 0.5) & scales.isfinite() & (exponents >= -126)
    codes = torch.where(power, exponents + 126, 255).to(torch.uint8)
    codes[scales == 0] = 0
    codes[(scales == 0) & scales.signbit()] = 255
    assert torch.equal(converted(scales, block=32), scale_factors.swizzle(codes))


def test_a_view_with_gaps_and_a_result_at_any_address() -> None:
    torch.manual_seed(0)
    codes = random(2, 130, 9)
    expected = scale_factors.swizzle(codes)
    wide = torch.full((2, 200, 50), float("nan"), device="cuda")
    wide[:, 3:133, 5:14] = as_floats(codes)
    assert torch.equal(converted(wide[:, 3:133, 5:14], block=32), expected)
    turned = wide.mT.contiguous()[:, 5:14, 3:133].mT
    assert torch.equal(converted(turned, block=32), expected)
    memory = torch.full((expected.numel() + 64,), 7, dtype=torch.uint8, device="cuda")
    out = memory[4 : 4 + expected.numel()].view(expected.shape)
    tilewright.scale_columns(wide[:, 3:133, 5:14], layout="128x4", block=32, out=out)
    assert torch.equal(out, expected)
    assert (memory[:4] == 7).all()
    assert (memory[4 + expected.numel() :] == 7).all()


def test_a_graph_converts_what_the_scales_then_are() -> None:
    torch.manual_seed(0)
    scales = as_floats(random(300, 56))
    out = tilewright.scale_columns(scales, layout="128x4")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.scale_columns(scales, layout="128x4", out=out)
    for _ in range(3):
        codes = random(300, 56)
        scales.copy_(as_floats(codes))
        graph.replay()
        wide = codes.repeat_interleave(4, dim=-1)
        assert torch.equal(out.view(torch.uint8), scale_factors.swizzle(wide))


def test_what_quantising_makes_in_the_layout_is_the_same() -> None:
    """MXFP8's bytes, taken out of the 128x4 layout and put back."""
    torch.manual_seed(0)
    x = torch.randn(200, 1024, device="cuda", dtype=torch.bfloat16)
    try:
        _, stored = tilewright.quantize_mxfp8(x)
    except tilewright.errors.NotBuiltError as error:
        pytest.skip(error.message)
    codes = scale_factors.unswizzle(stored.view(torch.uint8), 200, 1024, 32)
    if (codes == 0).any():
        pytest.skip("a scale below the least normal float")
    assert torch.equal(converted(as_floats(codes), block=32).flatten(), stored.view(torch.uint8).flatten())
