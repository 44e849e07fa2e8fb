"""Every generated `mixed_fp8_gemm` kernel that this GPU runs, against float64 of the weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from generated_kernels import fixture, names, registry
from late_writes import check_waits
from mixed_fp8_bounds import elements_bound, rounding_bound

import tilewright
from tilewright import weight_layout
from tilewright.declarations.table import KernelRecord
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_fp8_gemm.measuring import LARGEST_SCALE
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_fp8_gemm.reference import weight_of
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.formats.dtypes import dtype_of

# n, k, and rows as (tiles, more): whole and partial tiles, one stage, one that is not whole, many.
SHAPES = [(8, 32, 0, 1), (72, 160, 1, -3), (320, 480, 2, 1), (1000, 2208, 0, 1), (1288, 4096, 1, 0)]
# n of many tiles, so that a thread block of a balanced kernel has parts of two tiles, and whole tiles behind
# them, and k with which many thread blocks have parts of one tile.
BALANCED_SHAPES = [
    (8, 32, 0, 1),
    (20008, 672, 0, 5),
    (40008, 416, 1, -3),
    (1000, 20000, 1, 0),
    (9000, 544, 2, 1),
]
TACTICS = ["", "@splits=2", "@splits=3", "@splits=8", "@cluster=2x1", "@cluster=4x1", "@cluster=2x1,splits=4"]
_ERRORS = {"bf16": 4e-3, "f16": 1e-3}  # of the norm: D is rounded, and so are the tensor core's sums

kernel = fixture("mixed_fp8_gemm", "tilewright build sm90_mixed_fp8_gemm")


def test_every_kernel_is_built() -> None:
    missing = [name for name in names("mixed_fp8_gemm") if not registry().is_built(registry().record(name))]
    assert not missing, f"{len(missing)} kernels are not built: run `tilewright build sm90_mixed_fp8_gemm`"


def problem_of(record: KernelRecord, m: int, n: int, k: int, **options: Any) -> Problem:
    config = record.config
    options["fast_accum"] = config["fast_accum"]
    return Problem(m, n, k, config["a"], config["d"], config["weight_format"], **options)


def operands(problem: Problem, seed: int = 0) -> dict[str, Any]:
    """Rows of a wider tensor, among NaN, and a random weight."""
    generator = torch.Generator("cuda").manual_seed(seed)
    wide = torch.full((problem.m + 2, problem.k + 32), float("nan"), device="cuda").to(torch.float8_e4m3fn)
    a = wide[1:-1, 16:-16]
    numbers = torch.randn(a.shape, generator=generator, device="cuda")
    a.copy_(numbers.to(torch.float8_e4m3fn))
    packed = random_weight(problem.dense, generator)
    call = {"a": a, "weight": packed.weight, "scale": packed.scale, "n": problem.n}
    call |= {"weight_format": problem.weight_format, "out_dtype": dtype_of(problem.d)}
    call |= {"fast_accum": problem.fast_accum, "largest_scale": LARGEST_SCALE}
    if problem.a_scale:
        call["a_scale"] = torch.randn(problem.m, generator=generator, device="cuda")
    if problem.bias:
        bias = torch.randn(problem.n, generator=generator, device="cuda")
        call["bias"] = bias.to(dtype_of(problem.d))
    return call


def expected(call: dict[str, Any], problem: Problem, alpha: float = 1.0) -> torch.Tensor:
    weight = weight_of(weight_layout.Packed(call["weight"], call["scale"]), problem)
    product = alpha * (call["a"].double() @ weight.T)
    if problem.a_scale:
        product *= call["a_scale"].double()[:, None]
    return ACTIVATED[problem.activation](product + call["bias"].double() if problem.bias else product)


def compare(actual: torch.Tensor, right: torch.Tensor, what: str, fast_accum: bool = False) -> None:
    """The norm of the error, and each element. Sums that stay in the tensor core lose more bits of an element
    the longer k is: at k of 4096 up to 2.1 % of the root mean square, with D's rounding, on an H200."""
    difference = actual.double() - right
    error = float(difference.norm() / right.norm())
    assert error < _ERRORS["bf16" if actual.dtype == torch.bfloat16 else "f16"], f"{what}: {error}"
    rms = float(right.square().mean().sqrt())
    excess = (
        difference.abs() - torch.finfo(actual.dtype).eps * right.abs() - (2e-2 if fast_accum else 4e-3) * rms
    )
    assert bool((excess <= 0).all()), (
        f"{what}: an element is off by {float(difference.abs().max())}, of {rms}"
    )


def balanced(record: KernelRecord) -> bool:
    """Whether the kernel has no activation, no splits of k, and a D that TMA stores."""
    return bool(record.config["balanced"])


def legal(record: KernelRecord, tactic: str, k: int) -> bool:
    """Whether the kernel has clusters and splits, and each range of k a stage."""
    if balanced(record):
        return tactic in ("", "@cluster=2x1")
    return int(tactic.partition("splits=")[2] or 1) <= -(-k // 128)


def with_splits(record: KernelRecord, splits: int) -> tuple[str, str]:
    """The plain tactic, and one that divides k; of a kernel that does so anyway, pairs of thread blocks."""
    return "", "@cluster=2x1" if balanced(record) else f"@splits={splits}"


@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_every_tactic(kernel: KernelRecord, index: int) -> None:
    n, k, tiles, more = (BALANCED_SHAPES if balanced(kernel) else SHAPES)[index]
    problem = problem_of(kernel, max(1, tiles * kernel.config["tile"][1] + more), n, k)
    call = operands(problem)
    right = expected(call, problem)
    for place, tactic in enumerate(tactic for tactic in TACTICS if legal(kernel, tactic, k)):
        room = 8 if place % 2 == 0 or balanced(kernel) else 3  # TMA stores D, or threads do
        wide = torch.full((problem.m + 2, n + room), float("nan"), device="cuda", dtype=call["out_dtype"])
        tilewright.packed_fp8_gemm(**call, out=wide[1:-1, :n], tactic=kernel.name + tactic)
        compare(wide[1:-1, :n], right, f"{kernel.name}{tactic} {problem}", problem.fast_accum)
        wide[1:-1, :n] = float("nan")
        assert bool(wide.isnan().all()), f"{kernel.name}{tactic} {problem}: wrote beyond D"


def test_a_balanced_kernel_refuses_what_it_cannot_store(kernel: KernelRecord) -> None:
    if not balanced(kernel):
        return
    call = operands(problem_of(kernel, 5, 72, 160))
    unaligned = torch.empty(5, 75, device="cuda", dtype=call["out_dtype"])[:, :72]
    with pytest.raises(tilewright.TilewrightError):
        tilewright.packed_fp8_gemm(**call, out=unaligned, tactic=kernel.name)
    with pytest.raises(tilewright.TilewrightError, match="no activation"):
        tilewright.packed_fp8_gemm(**call, activation="silu", tactic=kernel.name)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_scales_bias_alpha_and_activation(kernel: KernelRecord, activation: str) -> None:
    if balanced(kernel) and activation != "none":
        return
    rows = kernel.config["tile"][1] + 3
    problem = problem_of(kernel, rows, 328, 416, a_scale=True, bias=True, activation=activation)
    call = operands(problem, 1)
    for tactic in with_splits(kernel, 3):
        out = torch.full((problem.m, problem.n), float("nan"), device="cuda", dtype=call["out_dtype"])
        options = {"alpha": 0.37, "activation": activation, "tactic": kernel.name + tactic}
        tilewright.packed_fp8_gemm(**call, **options, out=out)
        right = expected(call, problem, 0.37)
        compare(out, right, f"{kernel.name}{tactic} {activation}", problem.fast_accum)


def unit_rows(k: int) -> torch.Tensor:
    return torch.eye(k, device="cuda").to(torch.float8_e4m3fn)


def test_every_code_and_scale(kernel: KernelRecord) -> None:
    """An identity reads the weights: to the bit, every code with every scale, also zeros and subnormals; NaN
    where a scale is NaN. Scales of a row of W are all finite or all not, because infinity times 0 is NaN."""
    format, group = FORMATS[kernel.config["weight_format"]]
    dtype, zeros = dtype_of(kernel.config["d"]), None
    if format == "mxfp4":
        n, k = 256, 32
        scales = torch.arange(256, device="cuda", dtype=torch.uint8)[:, None]
        if kernel.config["fast_accum"]:  # within 2^16 of the largest, or above it
            scales = scales.where(scales == 255, 200 - scales % 17)
    else:
        n, k = 4096, 16 * group
        scales = (torch.arange(2**16, device="cuda") - 2**15).to(torch.int16).view(dtype).view(n, 16)
        if format == "int4_zp":
            zeros = (torch.arange(n * 16, device="cuda") * 7 // 5 % 16).to(torch.uint8).view(n, 16)
    codes = (torch.arange(n * k, device="cuda") % 16).view(n, k).to(torch.uint8)
    packed = weight_layout.pack(codes, scales, zeros, format=format, group=group)
    problem = problem_of(kernel, k, n, k)
    right = weight_of(packed, problem).to(dtype)
    actual = tilewright.packed_fp8_gemm(
        unit_rows(k), packed.weight, packed.scale, n=n, weight_format=problem.weight_format, out_dtype=dtype,
        fast_accum=problem.fast_accum, largest_scale=2.0**73, tactic=kernel.name,
    ).T  # fmt: skip
    finite, missing = torch.isfinite(right).all(1), right.isnan().any(1)
    assert int(finite.sum()) > n // 2
    assert torch.equal(actual[finite], right[finite])
    above = ~torch.isfinite(actual[missing]) if problem.fast_accum else actual[missing].isnan()
    assert bool(above.all())


def test_scales_far_below_the_largest(kernel: KernelRecord) -> None:
    """With sums that stay in the tensor core, what is cut off is less than 2^-17 of the largest scale."""
    if not kernel.config["fast_accum"]:
        pytest.skip("elements are relative to the largest scale of a block of k")
    n, k = 256, 32
    codes = (torch.arange(n * k, device="cuda") * 5 % 16).view(n, k).to(torch.uint8)
    scales = torch.arange(256, device="cuda", dtype=torch.uint8).clamp(max=180)[:, None]
    packed = weight_layout.pack(codes, scales, None, format="mxfp4", group=32)
    right = weight_of(packed, problem_of(kernel, k, n, k))
    actual = tilewright.packed_fp8_gemm(
        unit_rows(k), packed.weight, packed.scale, n=n, weight_format="mxfp4", fast_accum=True,
        largest_scale=2.0**53, tactic=kernel.name,
    ).T.double()  # fmt: skip
    assert bool(((actual - right).abs() < 2.0 ** (180 - 127 - 17)).all())
    assert torch.equal(actual[164:], right[164:])


def test_every_activation(kernel: KernelRecord) -> None:
    """Each number of E4M3, subnormals and NaN too, by weights of 1, in each column of k."""
    format, group = FORMATS[kernel.config["weight_format"]]
    n, k, floating = 64, 256, format == "mxfp4"
    dtype = dtype_of(kernel.config["d"])
    one = {"mxfp4": 2, "int4": 9, "int4_zp": 5}[format]
    codes = torch.full((n, k), one, device="cuda", dtype=torch.uint8)
    shape = (n, k // group)
    scales = torch.full(shape, 127, device="cuda", dtype=torch.uint8)
    zeros = torch.full(shape, 4, device="cuda", dtype=torch.uint8) if format == "int4_zp" else None
    scales = scales if floating else torch.ones(shape, device="cuda", dtype=dtype)
    packed = weight_layout.pack(codes, scales, zeros, format=format, group=group)
    numbers = torch.arange(256, device="cuda", dtype=torch.uint8).view(torch.float8_e4m3fn)
    a = torch.zeros((256, k), device="cuda", dtype=torch.uint8)
    a[torch.arange(256), torch.arange(256) * 37 % k] = torch.arange(256, device="cuda", dtype=torch.uint8)
    d = tilewright.packed_fp8_gemm(
        a.view(torch.float8_e4m3fn), packed.weight, packed.scale, n=n, out_dtype=dtype,
        weight_format=kernel.config["weight_format"], fast_accum=kernel.config["fast_accum"],
        largest_scale=1.0, tactic=kernel.name,
    )  # fmt: skip
    right = numbers.to(dtype)[:, None].expand(-1, n)
    assert bool(((d == right) | (d.isnan() & right.isnan())).all())


@pytest.mark.parametrize("kind", ["random", "cancels", "spread", "small", "exponents"])
def test_error_bound(kernel: KernelRecord, kind: str) -> None:
    """What the tensor core cuts off stays within the bound that is stated."""
    m, n, k = 24, 64, 1024
    problem = problem_of(kernel, m, n, k)
    call = operands(problem, 5)
    a = call["a"].float()
    random = torch.Generator("cuda").manual_seed(6)
    if kind == "cancels":  # the second half of each step of 32 undoes the first one where codes are equal
        a = a.view(m, k // 32, 2, 16)
        a[:, :, 1] = -a[:, :, 0]
    elif kind == "spread":  # from 2^-9 to 2^8, so that most products are cut off
        a = torch.exp2(torch.randint(-9, 9, (m, k), generator=random, device="cuda").float()) * a.sign()
    elif kind == "small":  # one large product in each step of 32
        a = torch.full((m, k), 2.0**-6, device="cuda")
        a[:, 7::32] = 448.0
    elif kind == "exponents":  # scales of neighbours differ by as much as stays exact
        format, group = FORMATS[problem.weight_format]
        codes = torch.randint(16, (n, k), generator=random, device="cuda", dtype=torch.uint8)
        far = torch.randint(2, (n, k // group), generator=random, device="cuda", dtype=torch.uint8)
        zeros = 15 * far if format == "int4_zp" else None
        scales = 127 - 16 * far if format == "mxfp4" else torch.exp2(-14.0 * far).to(call["out_dtype"])
        weight = weight_layout.pack(codes, scales, zeros, format=format, group=group)
        call |= {"weight": weight.weight, "scale": weight.scale}
    call["a"] = a.view(m, k).to(torch.float8_e4m3fn)
    packed = weight_layout.Packed(call["weight"], call["scale"])
    actual = tilewright.packed_fp8_gemm(**call, tactic=kernel.name).double()
    right, bound = expected(call, problem), rounding_bound(call["a"], packed, problem)
    rounding = torch.finfo(call["out_dtype"]).eps * right.abs()
    excess = (actual - right).abs() - rounding - bound
    assert float(excess.max()) <= 0, f"{float(((actual - right).abs() / bound).max())} of the bound"


@pytest.mark.parametrize("kind", ["wild", "beyond"])
def test_error_bound_of_wild_scales(kernel: KernelRecord, kind: str) -> None:
    """The bound holds whatever the scales are: random ones over 40 binary orders, and, in each 128 of k, some
    that are just too small for exact elements. Activations are of 12 orders."""
    m, n, k = 24, 64, 1024
    problem, random = problem_of(kernel, m, n, k), torch.Generator("cuda").manual_seed(7)
    call, (format, group) = operands(problem, 5), FORMATS[problem.weight_format]
    shape = n, k // group
    if kind == "wild":
        exponents = torch.randint(-40, 1, shape, generator=random, device="cuda")
    else:
        exponents = -16 - torch.randint(1, 4, shape, generator=random, device="cuda")
        exponents[:, 1::4] = 0
    if format == "mxfp4":
        scales = (exponents + 127).to(torch.uint8)
    else:  # those of FP16 are normal
        scales = torch.exp2(exponents.float().clamp(min=-14)).to(call["out_dtype"])
    codes = torch.randint(16, (n, k), generator=random, device="cuda", dtype=torch.uint8)
    zeros = torch.full(shape, 5, device="cuda", dtype=torch.uint8) if format == "int4_zp" else None
    packed = weight_layout.pack(codes, scales, zeros, format=format, group=group)
    orders = torch.randint(-6, 6, (m, k), generator=random, device="cuda")
    a = (torch.exp2(orders.float()) * call["a"].float().sign()).to(torch.float8_e4m3fn)
    call |= {"a": a, "weight": packed.weight, "scale": packed.scale, "largest_scale": 1.0}
    actual = tilewright.packed_fp8_gemm(**call, tactic=kernel.name).double()
    right, bound = expected(call, problem), rounding_bound(a, packed, problem)
    if format == "mxfp4":
        bound += elements_bound(a, exponents, 0.0 if problem.fast_accum else None)
    excess = (actual - right).abs() - torch.finfo(call["out_dtype"]).eps * right.abs() - bound
    assert float(excess.max()) <= 0, f"{float(((actual - right).abs() / bound).max())} of the bound"


def test_equal_runs(kernel: KernelRecord) -> None:
    """The order of sums is fixed."""
    problem = problem_of(kernel, 2 * kernel.config["tile"][1] + 1, 1032, 2080, a_scale=True)
    call = operands(problem)
    for tactic in with_splits(kernel, 4):
        first = tilewright.packed_fp8_gemm(**call, tactic=kernel.name + tactic)
        out, differ = torch.empty_like(first), torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(300):
            tilewright.packed_fp8_gemm(**call, out=out, tactic=kernel.name + tactic)
            differ += (out != first).sum()
        assert int(differ) == 0, tactic


def test_rows_do_not_depend_on_other_rows(kernel: KernelRecord) -> None:
    """Bits of unsplit tactics: what batch-invariant mode rests on. It has no balanced kernels: their rows are
    right, and may have other bits."""
    problem = problem_of(kernel, 130, 264, 1056)
    call = operands(problem)
    whole = tilewright.packed_fp8_gemm(**call, tactic=kernel.name)
    for rows in (slice(0, 1), slice(3, 20), slice(64, 130)):
        part = tilewright.packed_fp8_gemm(**call | {"a": call["a"][rows]}, tactic=kernel.name)
        if balanced(kernel):
            right = expected(call, problem)[rows]
            compare(part, right, f"{kernel.name} {rows}", problem.fast_accum)
        else:
            assert torch.equal(part, whole[rows])


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    problem = problem_of(kernel, 17, 200, 544, a_scale=True, bias=True)
    call = operands(problem)
    right = expected(call, problem)
    for tactic in with_splits(kernel, 2):
        out = torch.full((problem.m, 208), float("nan"), device="cuda", dtype=call["out_dtype"])[:, :200]
        tensors = {name: call[name] for name in ("a", "weight", "scale", "a_scale", "bias")}

        def run(out: torch.Tensor = out, tactic: str = tactic) -> None:
            tilewright.packed_fp8_gemm(**call, out=out, tactic=kernel.name + tactic)

        check_waits(
            tensors, {"out": out}, run, lambda late, out=out: compare(out, right, f"{kernel.name} {late}")
        )
