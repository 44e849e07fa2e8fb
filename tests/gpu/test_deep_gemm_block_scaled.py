"""`tilewright.compat.deep_gemm` by block-scaled kernels on a GPU: FP4, packed scales, scales of 32 of k."""

from __future__ import annotations

import pytest
import torch

import tilewright
from tilewright import blockwise_scales, reference
from tilewright.compat import deep_gemm
from tilewright.errors import NotBuiltError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

SHAPES = [(1, 576, 7168), (20, 2112, 640), (128, 4096, 2048), (1000, 7168, 2048)]


def exponents(*shape: int) -> torch.Tensor:
    return torch.randint(-6, 7, shape, device="cuda").float().exp2()


def operand(rows: int, k: int, block: tuple[int, int], *, fp4: bool) -> tuple[torch.Tensor, ...]:
    """Data, scales, and what they stand for."""
    if fp4:
        codes = torch.randint(256, (rows, k // 2), device="cuda", dtype=torch.uint8)
        values = reference.decode_e2m1(torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)).double()
        data = codes.view(torch.int8)
    else:
        data = torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn)
        values = data.double()
    down, across = block
    scales = exponents(-(-rows // down), -(-k // across))
    wide = scales.repeat_interleave(down, 0)[:rows].repeat_interleave(across, 1)[:, :k]
    return data, scales, values * wide


def packed(scales: torch.Tensor) -> torch.Tensor:
    return blockwise_scales.pack((scales.view(torch.int32) >> 23).to(torch.uint8))


def check(d: torch.Tensor, expected: torch.Tensor) -> None:
    assert deep_gemm.testing.calc_diff(d, expected) < 1e-5
    assert abs(float(d.double().norm() / expected.norm()) - 1) < 1e-3


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("across", [32, 128])
@pytest.mark.parametrize("fp4", [(False, False), (True, True), (False, True), (True, False)])
@pytest.mark.parametrize("shape", SHAPES)
def test_products(shape: tuple[int, int, int], fp4: tuple[bool, bool], across: int, words: bool) -> None:
    torch.manual_seed(0)
    m, n, k = shape
    x, of_x, left = operand(m, k, (1, across), fp4=fp4[0])
    y, of_y, right = operand(n, k, (1, 32), fp4=fp4[1])
    d = torch.full((m, n), torch.nan, device="cuda", dtype=torch.bfloat16)
    pairs = ((x, packed(of_x)), (y, packed(of_y))) if words else ((x, of_x), (y, of_y))
    try:
        deep_gemm.fp8_fp4_gemm_nt(*pairs, d, recipe_a=(1, across), recipe_b=(1, 32))
    except NotBuiltError as error:
        pytest.skip(error.message)
    check(d, left @ right.mT)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_packed_scales_add_to_c(layout: str) -> None:
    """As DeepGEMM passes them on Blackwell: a word of four exponents for 512 of k."""
    torch.manual_seed(0)
    m, n, k = 200, 576, 1536
    x, of_x, left = operand(m, k, (1, 128), fp4=False)
    y, of_y, right = operand(n, k, (1, 128), fp4=False)
    a, b = (x, packed(of_x)), (y, packed(of_y))
    turned = [tuple(part.mT for part in pair) for pair in (a, b)]
    given = a if layout[0] == "n" else turned[0], b if layout[1] == "t" else turned[1]
    d = torch.randn(m, n, device="cuda")
    expected = left @ right.mT + d.double()
    try:
        getattr(deep_gemm, f"fp8_gemm_{layout}")(*given, d, d)
    except NotBuiltError as error:
        pytest.skip(error.message)
    check(d, expected)


def test_kept_scales_and_graphs_follow_writes() -> None:
    """A graph converts what the scales hold when it runs; calls outside of it, too, after a write."""
    torch.manual_seed(0)
    x, of_x, left = operand(33, 1024, (1, 32), fp4=False)
    y, of_y, right = operand(576, 1024, (1, 32), fp4=True)
    d = torch.empty(33, 576, device="cuda", dtype=torch.bfloat16)

    def call() -> None:
        deep_gemm.fp8_fp4_gemm_nt((x, of_x), (y, of_y), d, recipe=(1, 1, 32))

    try:
        call()
    except NotBuiltError as error:
        pytest.skip(error.message)
    check(d, left @ right.mT)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for factor in (2.0, 0.25):
        of_y.mul_(factor)
        right = right * factor
        d.fill_(torch.nan)
        graph.replay()
        check(d, left @ right.mT)
        d.fill_(torch.nan)
        call()
        check(d, left @ right.mT)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        d.fill_(torch.nan)
        call()
    torch.cuda.current_stream().wait_stream(side)
    check(d, left @ right.mT)
    deep_gemm.forget_scales()


def test_scales_that_are_no_powers_of_two() -> None:
    torch.manual_seed(0)
    x, of_x, _ = operand(33, 1024, (1, 32), fp4=False)
    y, of_y, _ = operand(576, 1024, (1, 32), fp4=False)
    d = torch.empty(33, 576, device="cuda", dtype=torch.bfloat16)
    of_x[7, 3] = 0.75
    try:
        deep_gemm.fp8_gemm_nt((x, of_x), (y, of_y), d, recipe=(1, 1, 32))
    except NotBuiltError as error:
        pytest.skip(error.message)
    wrong = d.isnan()
    assert wrong[7].all()
    assert wrong.sum() == 576
    with pytest.raises(tilewright.errors.ArgumentError, match="not positive powers of two"):
        deep_gemm.fp8_gemm_nt((x, of_x), (y, of_y * 3), d, recipe=(1, 1, 32))
