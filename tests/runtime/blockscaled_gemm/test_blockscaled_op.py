"""The block-scaled ops end to end, with kernels that run on the host in place of a GPU's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from blockscaled_op_calls import CALL, EXACT, A, B, scales, used
from blockscaled_operands import close, operand, product

import tilewright
from tilewright import reference, scale_factors
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError, NoKernelError, NotBuiltError, WrongResultError
from tilewright.families.blockscaled_gemm import measuring
from tilewright.families.blockscaled_gemm.problem import ACTIVATIONS, Problem
from tilewright.families.gemm.op import ACTIVATED
from tilewright.formats.dtypes import as_bytes

PAIRS = [
    ("nvfp4", "nvfp4", "mm_nvfp4"),
    ("mxfp4", "mxfp4", "mm_mxfp4"),
    ("mxfp8", "mxfp8", "mm_mxfp8"),
    ("mxfp8_e5m2", "mxfp8", "mm_mxfp8"),
    ("mxfp8", "mxfp4", "mm_mxfp8_mxfp4"),
    ("mxfp4", "mxfp8", "mm_mxfp8_mxfp4"),
]


# m, n, k: scales with and without padding; extents that kernels take and that they do not.
SHAPES = [(1, 8, 128), (130, 136, 256), (31, 40, 96), (5, 7, 34), (3, 9, 2), (128, 128, 384)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("a", "b", "op"), PAIRS)
def test_every_pair_and_shape(
    blackwell: Context, shape: tuple[int, int, int], a: str, b: str, op: str
) -> None:
    call, exact = product(*shape, a, b)
    alpha = torch.tensor([0.75])
    d = getattr(tilewright, op)(*call, alpha)
    assert d.shape == shape[:2]
    assert d.dtype == torch.bfloat16
    assert d.is_contiguous()
    close(d, 0.75 * exact)


@pytest.mark.parametrize("own_types", [False, True])
def test_bytes_of_any_type(blackwell: Context, own_types: bool) -> None:
    """FP4 as uint8 or as torch's own type; scales as their type or uint8, in 2-D, flat or in tiles."""
    call, exact = product(40, 48, 128)
    a, b, a_scales, b_scales = call
    if own_types:
        a, b = a.view(torch.float4_e2m1fn_x2), b.mT.view(torch.float4_e2m1fn_x2).mT
    else:
        a_scales, b_scales = (
            a_scales.view(torch.uint8).flatten(),
            b_scales.view(torch.uint8).view(1, 2, 32, 4, 4),
        )
    close(tilewright.mm_nvfp4(a, b, a_scales, b_scales), exact)


@pytest.mark.parametrize("remembered", [False, True])
def test_fp4_beside_the_result(blackwell: Context, remembered: bool) -> None:
    """An element of torch's type is one byte, in which two elements of FP4 lie."""
    (a, *others), exact = product(16, 24, 64)
    room = torch.zeros(a.numel() + exact.numel() * 2, dtype=torch.uint8)
    beside = room[: a.numel()].view(a.shape)
    beside.copy_(a)
    out = room[a.numel() :].view(torch.bfloat16).view(16, 24)
    for _ in range(1 + remembered):
        out.fill_(float("nan"))
        tilewright.mm_nvfp4(beside.view(torch.float4_e2m1fn_x2), *others, out=out)
        close(out, exact)


def test_alpha_is_read_from_the_device(blackwell: Context) -> None:
    call, exact = product(16, 24, 64)
    close(tilewright.mm_nvfp4(*call), exact)
    for alpha in (torch.tensor(-2.0), torch.tensor([[0.5]])):
        close(tilewright.mm_nvfp4(*call, alpha), float(alpha) * exact)


@pytest.mark.parametrize("n", [24, 20])
def test_a_given_out_is_written_and_returned(blackwell: Context, n: int) -> None:
    call, exact = product(16, n, 64)
    out = torch.full((16, n), float("nan"))
    assert tilewright.mm_nvfp4(*call, out_dtype=torch.float32, out=out) is out
    close(out, exact)
    wide = torch.full((16, 64), float("nan"), dtype=torch.bfloat16)
    tilewright.mm_nvfp4(*call, out=wide[:, 8 : 8 + n])
    close(wide[:, 8 : 8 + n], exact)
    assert wide[:, :8].isnan().all()
    assert wide[:, 8 + n :].isnan().all()


@pytest.mark.parametrize("n", [24, 20])
def test_beta_and_c(blackwell: Context, n: int) -> None:
    call, exact = product(16, n, 64)
    c = torch.randn(16, n).bfloat16()
    close(tilewright.mm_nvfp4(*call, c=c, beta=-1.5), exact - 1.5 * c.double())
    out = c.clone()
    tilewright.mm_nvfp4(*call, c=out, out=out, beta=1)
    close(out, exact + c.double())
    close(tilewright.mm_nvfp4(*call, c=torch.full_like(c, float("nan")), beta=0), exact)


@pytest.mark.parametrize("n", [24, 22])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("k", [64, 0])
def test_bias_and_activation(blackwell: Context, n: int, activation: str, with_bias: bool, k: int) -> None:
    """Also where n is padded in copies, and where there is nothing to multiply."""
    call, exact = product(16, n, k)
    options: dict[str, Any] = {"out_dtype": torch.float32, "activation": activation}
    c = torch.randn(16, n)
    bias = torch.randn(n) if with_bias else None
    expected = exact + 0.5 * c.double() + (0 if bias is None else bias.double())
    for _ in range(2):
        actual = tilewright.mm_nvfp4(*call, c=c, beta=0.5, bias=bias, **options)
        torch.testing.assert_close(actual, ACTIVATED[activation](expected).float())


@pytest.mark.parametrize("k", [64, 34])
@pytest.mark.parametrize("shared", ["none", "a", "b", "one", "expanded"])
def test_every_matrix_of_a_batch_is_multiplied(blackwell: Context, k: int, shared: str) -> None:
    batch = (3,)
    a, a_scales = operand(20, k, batch=() if shared == "a" else batch)
    b, b_scales = operand(40, k, batch={"b": (), "one": (1,)}.get(shared, batch), seed=1)
    if shared == "expanded":
        b, b_scales = b[:1].expand(b.shape), as_bytes(b_scales)[:1].repeat(3, 1, 1).view(b_scales.dtype)
    d = tilewright.mm_nvfp4(a, b.mT, a_scales, b_scales)
    left = reference.dequantize(a, a_scales, "nvfp4")
    right = reference.dequantize(b, b_scales, "nvfp4")
    close(d, torch.matmul(left, right.mT))


@pytest.mark.parametrize("shape", [(5, 32, 64), (130, 96, 64), (40, 80, 64), (7, 46, 64)])
@pytest.mark.parametrize("given", [False, True])
def test_an_nvfp4_result_is_quantised_as_the_reference_does(
    blackwell: Context, shape: tuple[int, int, int], given: bool
) -> None:
    call, exact = product(*shape)
    m, n, _ = shape
    scale = reference.nvfp4_global_scale(exact.float())
    expected, wanted_scales = reference.quantize(exact.float(), "nvfp4", scale)
    rows, columns = scale_factors.padded_shape(m, n, 16)
    options: dict[str, Any] = {}
    if given:
        options["out"] = torch.full((m, n // 2), 0xAA, dtype=torch.uint8)
        options["out_descale"] = torch.full((rows * columns,), 0xAA, dtype=torch.uint8)
    d, scales = tilewright.mm_nvfp4(
        *call, out_dtype=torch.float4_e2m1fn_x2, out_global_scale=scale.reshape(1), **options
    )
    assert d.dtype == (torch.uint8 if given else torch.float4_e2m1fn_x2)
    assert d.shape == expected.shape
    # Padding and all: what is no scale of an element is 0.
    assert torch.equal(scales.view(torch.uint8).view(rows, columns), wanted_scales.view(torch.uint8))
    if not given:
        assert (scales.dtype, scales.shape) == (torch.float8_e4m3fn, (rows, columns))
    actual = reference.dequantize(
        d.view(torch.uint8), scales.reshape(rows, columns), "nvfp4", global_scale=scale
    )
    torch.testing.assert_close(
        actual, reference.dequantize(expected, wanted_scales, "nvfp4", global_scale=scale)
    )


@pytest.mark.parametrize("shape", [(5, 32, 64), (130, 80, 64), (4, 7, 64)])
def test_an_mxfp8_result_has_the_references_scales(blackwell: Context, shape: tuple[int, int, int]) -> None:
    call, exact = product(*shape, "mxfp8", "mxfp8")
    expected, wanted_scales = reference.quantize(exact.float(), "mxfp8")
    d, scales = tilewright.mm_mxfp8(*call, out_dtype=torch.float8_e4m3fn)
    assert (d.dtype, scales.dtype) == (torch.float8_e4m3fn, torch.float8_e8m0fnu)
    assert torch.equal(scales.view(torch.uint8), wanted_scales.view(torch.uint8))
    torch.testing.assert_close(d.float(), expected.float(), rtol=0.13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("shape", [(5, 32, 64), (4, 7, 64), (3, 16, 0)])
def test_an_fp8_result_without_scales_saturates(
    blackwell: Context, shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    """Also of a batch, and where D is a copy's part or nothing is multiplied."""
    call, exact = product(*shape, "mxfp8", "mxfp8", batch=(2,))
    alpha, most = torch.tensor([torch.finfo(dtype).max / 8]), torch.finfo(dtype).max
    options: dict[str, Any] = {"out_dtype": dtype, "out_scaled": False}
    expected = (float(alpha) * exact).clamp(-most, most)
    assert shape[2] == 0 or (expected.abs() == most).any()
    for _ in range(2):
        d = tilewright.mm_mxfp8(*call, alpha, **options)
        assert d.dtype == dtype
        torch.testing.assert_close(d.double(), expected, rtol=torch.finfo(dtype).eps / 2, atol=1e-2)
    if dtype == torch.float8_e5m2:  # which never has scale factors
        assert torch.equal(
            d.view(torch.uint8), tilewright.mm_mxfp8(*call, alpha, out_dtype=dtype).view(torch.uint8)
        )
    else:
        c = torch.full((2, *shape[:2]), 2.0 * most, dtype=torch.bfloat16)
        assert (tilewright.mm_mxfp8(*call, c=c, beta=1.0, **options).double() == most).all()


def test_scale_factors_of_a_result_that_has_none_are_refused(blackwell: Context) -> None:
    call, _ = product(8, 32, 64, "mxfp8", "mxfp8")
    with pytest.raises(ArgumentError, match=r"out_global_scale: expected an out_dtype of .* and out_scaled"):
        tilewright.mm_mxfp8(
            *call, out_dtype=torch.float8_e4m3fn, out_scaled=False, out_global_scale=torch.ones(1)
        )
    with pytest.raises(ArgumentTypeError, match=r"out_dtype: it is torch\.float4_e2m1fn_x2"):
        tilewright.mm_mxfp8(*call, out_dtype=torch.float4_e2m1fn_x2, out_scaled=False)


def test_a_batch_is_not_quantised(blackwell: Context) -> None:
    call, _ = product(8, 32, 64, "mxfp8", "mxfp8", batch=(2,))
    with pytest.raises(NoKernelError, match="quantises one matrix, not a batch of 2"):
        tilewright.mm_mxfp8(*call, out_dtype=torch.float8_e4m3fn)


@pytest.mark.parametrize(("m", "n", "batch"), [(0, 8, ()), (8, 0, ()), (8, 8, (0,)), (0, 0, ())])
def test_results_without_elements_are_returned_empty(
    blackwell: Context, m: int, n: int, batch: tuple[int, ...]
) -> None:
    call, _ = product(m, n, 64, batch=batch)
    assert tilewright.mm_nvfp4(*call).shape == (*batch, m, n)
    options = {"out_dtype": torch.float4_e2m1fn_x2, "out_global_scale": torch.ones(1)}
    d, scales = tilewright.mm_nvfp4(*call, **options)
    assert d.shape == (*batch, m, n // 2)
    assert scales.numel() == 0 or batch == (0,)


def test_without_k_the_result_is_beta_c(blackwell: Context) -> None:
    call, _ = product(8, 16, 0)
    assert tilewright.mm_nvfp4(*call).eq(0).all()
    c = torch.randn(8, 16).bfloat16()
    close(tilewright.mm_nvfp4(*call, c=c, beta=2.0), 2 * c.double())
    d, scales = tilewright.mm_nvfp4(
        *call, out_dtype=torch.float4_e2m1fn_x2, out_global_scale=torch.ones(1),
        out=torch.full((8, 8), 0xAA, dtype=torch.uint8),
    )  # fmt: skip
    assert not d.any()
    assert not scales.view(torch.uint8).any()


def test_a_demanded_tactic_runs(blackwell: Context) -> None:
    for tactic in (
        "host_nvfp4@cluster=1x4,fallback=1x1,raster=along_n,swizzle=2",
        "host_nvfp4_2sm@cluster=4x2,fallback=2x1",
        "host_nvfp4_streamk@decomposition=split_k,splits=4",
    ):
        blackwell.plans.clear()
        close(tilewright.mm_nvfp4(*CALL, tactic=tactic), EXACT)
        assert used(blackwell) == {tactic.partition("@")[0]}
        call, exact = product(5, 7, 34)
        close(tilewright.mm_nvfp4(*call, tactic=tactic), exact)
    with pytest.raises(NotBuiltError, match="host_nvfp4_absent"):
        tilewright.mm_nvfp4(*CALL, out_dtype=torch.float16)
    reasons = r"16x32x64 mxfp4 x mxfp4 -> f16:\n.*its d is bf16, not f16\n.*its a is nvfp4"
    with pytest.raises(NoKernelError, match=reasons):
        tilewright.mm_mxfp4(A, B, scales(128, 4, dtype=torch.float8_e8m0fnu),
                            scales(128, 4, dtype=torch.float8_e8m0fnu), out_dtype=torch.float16)  # fmt: skip


def test_plans_are_remembered(blackwell: Context) -> None:
    for _ in range(3):
        tilewright.mm_nvfp4(*CALL)
        tilewright.mm_nvfp4(*CALL, torch.tensor(2.0))
    assert [key[0] for key in blackwell.plans] == ["mm_nvfp4"] * 2


@pytest.mark.parametrize(
    ("a", "b", "d"),
    [
        ("nvfp4", "nvfp4", "bf16"),
        ("mxfp4", "mxfp8", "bf16"),
        ("nvfp4", "nvfp4", "nvfp4"),
        ("mxfp8", "mxfp8", "mxfp8"),
    ],
)
def test_a_measurement_sees_what_is_wrong(blackwell: Context, a: str, b: str, d: str) -> None:
    problem = Problem(300, 64, 256, a=a, b=b, d=d)
    call, exact = product(300, 64, 256, a, b)
    scale = reference.nvfp4_global_scale(0.5 * exact.float()).reshape(1) if d == "nvfp4" else None
    right = measuring.operands(problem, *call, alpha=torch.tensor([0.5]), out_global_scale=scale)
    right.poison()
    right.call()
    first = right.check()
    right.poison()
    with pytest.raises(WrongResultError):
        right.check()
    right.call()
    assert right.check() == first < (0.2 if d == "nvfp4" else 0.05)
    left, _, left_scales, weight_scales = call
    for wrong in (
        {"alpha": torch.tensor([0.51])},
        {"a": left.roll(1, 0)},
        {"a_descale": as_bytes(left_scales).roll(1, 0).view(left_scales.dtype)},
        {"b_descale": as_bytes(weight_scales).flip(1).view(weight_scales.dtype)},
    ):
        right.changed(**wrong).call()  # what a kernel would have written that took another operand
        with pytest.raises(WrongResultError, match="norm ratio"):
            right.check()
