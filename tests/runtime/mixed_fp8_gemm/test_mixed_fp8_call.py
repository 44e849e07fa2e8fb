"""`mixed_gemm` with FP8 activations: from packed weights to products, on kernels of the host."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
import torch
from mixed_fp8_bounds import rounding_bound

import tilewright
from tilewright import weight_formats
from tilewright.context import Context, use
from tilewright.errors import ArgumentError
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_fp8_gemm.reference import weight_of
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.weights import QuantizedWeight, pack_weight

E4M3 = torch.float8_e4m3fn


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def codes(n: int, k: int) -> torch.Tensor:
    return torch.randint(0, 16, (n, k), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def int4(n: int = 72, k: int = 160) -> QuantizedWeight:
    return QuantizedWeight(codes(n, k), numbers(n, -(-k // 128)).bfloat16(), 128, "int4")


def int4_with_zeros() -> QuantizedWeight:
    zeros = codes(16, 96)[:, :3].contiguous()
    return QuantizedWeight(codes(16, 96), numbers(16, 3).half(), 32, "int4", zeros)


def mxfp4() -> QuantizedWeight:
    scales = torch.randint(115, 130, (24, 2), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    return QuantizedWeight(codes(24, 64), scales.view(torch.float8_e8m0fnu), 32, "mxfp4")


def nvfp4() -> QuantizedWeight:
    return QuantizedWeight(codes(8, 32), numbers(8, 2).abs().to(E4M3), 16, "nvfp4", None, 0.5)


@pytest.mark.parametrize("make", [int4, int4_with_zeros, mxfp4])
def test_products_with_factors_bias_and_activation(fp8_host: Context, make: Any) -> None:
    weight = make()
    packed = pack_weight(weight)
    dtype = packed.dtype or torch.bfloat16
    a, a_scale = numbers(5, packed.k).to(E4M3), numbers(5, seed=3)
    bias = numbers(packed.n, seed=4).to(dtype)
    with use(fp8_host):
        d = tilewright.mixed_gemm(a, packed, a_scale=a_scale, alpha=-0.25, bias=bias, activation="relu")
    product = (a.double() @ weight.dequantize().t()) * a_scale[:, None].double()
    expected = torch.relu(-0.25 * product + bias.double())
    assert d.dtype == dtype
    assert bool((expected == 0).any())
    torch.testing.assert_close(d.double(), expected, rtol=2.0**-8, atol=2e-3)


def test_global_scale_and_no_scale_of_rows(fp8_host: Context) -> None:
    weight = replace(mxfp4(), global_scale=0.5)
    out = torch.empty(64, 24, dtype=torch.float16)
    with use(fp8_host):
        d = tilewright.mixed_gemm(torch.eye(64).to(E4M3), pack_weight(mxfp4()))
        halves = tilewright.mixed_gemm(torch.eye(64).to(E4M3), pack_weight(weight))
    assert torch.equal(d.double(), mxfp4().dequantize().t())
    assert torch.equal(halves.double(), d.double() / 2)
    with use(fp8_host), pytest.raises(tilewright.TilewrightError, match=r"mxfp4 -> f16|no kernel"):
        tilewright.mixed_gemm(torch.eye(64).to(E4M3), pack_weight(mxfp4()), out=out)  # the host has none


def test_sums_that_stay_in_the_tensor_core(fp8_host: Context) -> None:
    """The kernel is another one, and gets the largest scale that is no NaN."""
    weight = mxfp4()
    scales = weight.scales.view(torch.uint8).clone()
    scales[3, 1], scales[5, 0] = 255, 131
    packed = pack_weight(replace(weight, scales=scales.view(torch.float8_e8m0fnu)))
    assert packed.largest_scale == 16.0
    assert packed.to("cpu").largest_scale == 16.0
    assert pack_weight(int4()).largest_scale is None
    with use(fp8_host):
        d = tilewright.mixed_gemm(numbers(5, 64).to(E4M3), packed, fast_accum=True)
        expected = tilewright.mixed_gemm(numbers(5, 64).to(E4M3), packed)
        smaller = tilewright.mixed_gemm(
            numbers(5, 64).to(E4M3), replace(packed, largest_scale=2.0), fast_accum=True
        )
    torch.testing.assert_close(d, expected, rtol=0, atol=0, equal_nan=True)
    assert bool(d[:, 3].isnan().all())
    assert int(smaller.isnan().sum()) > int(d.isnan().sum())  # a row has a scale of 16
    call = (numbers(5, 64).to(E4M3), packed.weight, packed.scale)
    options: dict[str, Any] = {"n": 24, "weight_format": "mxfp4", "fast_accum": True}
    with use(fp8_host):
        fp8_host.plans.clear()
        plan = tilewright.plan(tilewright.packed_fp8_gemm, *call, **options, largest_scale=16.0)
        for _ in range(2):  # the plan of the first call serves the others, whatever the number
            for wrong in (3.0, 0.0, float("nan")):
                for product in (functools.partial(tilewright.packed_fp8_gemm, **options), plan):
                    with pytest.raises(ArgumentError, match=r"largest_scale: .*, expected a power of two"):
                        product(*call, largest_scale=wrong)
            actual = tilewright.packed_fp8_gemm(*call, **options, largest_scale=16.0)
            assert torch.equal(actual.nan_to_num(7.0), d.nan_to_num(7.0))
        (cached,) = fp8_host.plans.launchers.values()  # as that of a call whose numbers are not checked
        assert len(cached.launchers) == 1


def test_the_bound_grows_with_k_where_sums_stay_in_the_tensor_core() -> None:
    packed = random_weight(Problem(3, 8, 1024, weight_format="mxfp4").dense, torch.Generator().manual_seed(3))
    a = numbers(3, 1024).to(E4M3)
    promoted, fast = (
        rounding_bound(a, packed, Problem(3, 8, 1024, weight_format="mxfp4", fast_accum=fast))
        for fast in (False, True)
    )
    assert float(fast.mean()) > 1.5 * float(promoted.mean())
    assert bool((fast < 40 * promoted).all())


def test_it_is_compiled_as_one_graph(fp8_host: Context) -> None:
    packed = pack_weight(int4())
    a, scale = numbers(5, 160).to(E4M3), numbers(5, seed=3)
    compiled = torch.compile(
        lambda x, s: tilewright.mixed_gemm(x, packed, a_scale=s) + 1, backend="eager", fullgraph=True
    )
    with use(fp8_host):
        assert torch.equal(compiled(a, scale), tilewright.mixed_gemm(a, packed, a_scale=scale) + 1)


def test_the_bound_holds_where_the_tensor_core_cuts_off() -> None:
    """A model of it: of 32 products and a sum, bits below 2^-13 of the largest's power of two are cut off."""
    problem = Problem(3, 8, 256, weight_format="int4_g32")
    packed = random_weight(problem.dense, torch.Generator().manual_seed(3))
    spread = torch.exp2(torch.randint(-9, 9, (3, 256), generator=torch.Generator().manual_seed(4)).float())
    a = (spread * numbers(3, 256).sign()).to(E4M3)
    weight = weight_of(packed, problem)
    exact = a.double() @ weight.t()
    products = (a.double()[:, None] * weight).unflatten(-1, (8, 32))
    unit = torch.exp2(products.abs().amax(-1, keepdim=True).log2().floor() - 13)
    cut = ((products / unit).trunc() * unit).sum((-1, -2))
    error, bound = (cut - exact).abs(), rounding_bound(a, packed, problem)
    assert float(error.max()) > 0
    assert bool((error <= bound).all())
    assert bool((bound <= 40 * error.max()).all())  # it says something


def test_bytes_of_a_problem() -> None:
    """The packed weight of docs/packed_weights.md, A, D, and the scales of rows."""
    weight = 2 * 2 * (4096 + 128)
    assert Problem(6, 72, 160).bytes == weight + 6 * 160 + 6 * 72 * 2
    assert Problem(6, 72, 160, a_scale=True).bytes == weight + 6 * 160 + 6 * 72 * 2 + 24
    assert Problem(6, 72, 160, weight_format="mxfp4").bytes == 2 * 2 * (4096 + 256) + 6 * 160 + 6 * 72 * 2
    assert weight_formats.packed_shapes(72, 160, "int4", 128) == ((2, 8192), (2, 256))


@pytest.mark.parametrize(
    ("a", "make", "options", "message"),
    [
        (torch.ones(4, 160).bfloat16(), int4, {"a_scale": torch.ones(4)}, "a_scale: expected None with"),
        (torch.ones(4, 160).half(), int4, {}, "a: torch.float16, expected torch.bfloat16"),
        (torch.ones(4, 32).to(E4M3), int4, {}, "a: 32 columns, expected 160, the weight's k"),
        (torch.ones(4, 32).to(E4M3), nvfp4, {}, "weight_format: "),
        (
            torch.ones(4, 160).to(E4M3), int4, {"out": torch.empty(4, 72).half()},
            "out: torch.float16, expected torch.bfloat16: the type of the weight's scales",
        ),
        (
            torch.ones(4, 160).to(E4M3), int4, {"out_dtype": torch.float16},
            "out_dtype: torch.float16, expected torch.bfloat16: the type of the weight's scales",
        ),
        (
            torch.ones(4, 64).to(E4M3), mxfp4,
            {"out": torch.empty(4, 24).bfloat16(), "out_dtype": torch.float16},
            "out: ",
        ),
        ([[1.0]], int4, {}, "a: expected a Tensor, got list"),
        (torch.ones(4, 160).to(E4M3), int4, {"a_scale": torch.ones(3)}, "a_scale: "),
        (torch.ones(4, 160).to(E4M3), int4, {"fast_accum": True}, "fast_accum: expected False for int4_g128"),
        (torch.ones(4, 160).bfloat16(), int4, {"fast_accum": True}, "fast_accum: expected False with"),
        (torch.ones(4, 160).to(E4M3), int4, {"a_scale": torch.ones(4).half()}, "a_scale: "),
    ],
)  # fmt: skip
def test_what_it_refuses(
    fp8_host: Context, a: torch.Tensor, make: Any, options: dict[str, Any], message: str
) -> None:
    with use(fp8_host), pytest.raises(ArgumentError) as caught:
        tilewright.mixed_gemm(a, pack_weight(make()), **options)
    assert str(caught.value).startswith(message), caught.value
