"""Every generated `blockscaled_gemm` kernel that this GPU runs, against exact float64 products."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import blockscaled_reference as reference
import pytest
import torch
from generated_kernels import fixture, names, registry
from late_writes import check_waits

from tilewright import reference as exact_reference
from tilewright import scale_factors
from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.mainloops import HOPPER, is_hopper
from tilewright.families.blockscaled_gemm.problem import (
    ACTIVATIONS,
    BLOCK,
    QUANTIZED_OUTPUTS,
    Problem,
    c_type,
)

ODD = [
    (1, 128, 512), (31, 256, 256), (127, 129, 160), (1000, 1000, 992), (4097, 264, 96), (5, 7, 32),
    (33, 65, 736), (9, 8, 640), (63, 200, 1024),
]  # fmt: skip
LARGE = [(128, 4096, 7168), (256, 6144, 4096), (2048, 2064, 1056)]
SPLIT = [(31, 256, 96), (1, 128, 512), (100, 520, 4128), (64, 1024, 16384)]
ALPHA, BETA = -0.8125, -0.625


kernel = fixture("blockscaled_gemm")


def test_every_kernel_is_built() -> None:
    records = [registry().record(name) for name in names("blockscaled_gemm")]
    missing = [one.name for one in records if not registry().is_built(one) and registry().buildable(one)]
    assert not missing, (
        f"{len(missing)} kernels are not built, {missing[0]} is the first: run `tilewright build`"
    )


def problem_of(record: KernelRecord, shape: tuple[int, int, int], batch: int = 1) -> Problem:
    config = record.config
    bias = bool(config.get("bias"))
    activation = "gelu" if config.get("activation") == "given" else "none"
    return Problem(
        *shape, batch, config["a"], config["b"], config["d"], config["c"] == "same", bias, activation
    )


def taken(record: KernelRecord, among: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The shapes that the kernel takes as they are."""
    return [shape for shape in among if FAMILY.misfit(record, problem_of(record, shape)) is None]


def operands_of(record: KernelRecord, shape: tuple[int, int, int], batch: int = 0) -> reference.Operands:
    return reference.operands(record.config["a"], record.config["b"], shape, batch)


def tactics_of(record: KernelRecord, shape: tuple[int, int, int]) -> list[Tactic]:
    """All that cut k, or run in clusters, in all the ways that the kernel knows."""
    if is_hopper(record):
        return [Tactic(record.name, splits=splits) for splits in HOPPER.SPLITS]
    return list(FAMILY.candidates(record, problem_of(record, shape), H200))


def in_poison(operands: reference.Operands) -> dict[str, torch.Tensor]:
    """A and B within poison."""
    return {"a": reference.embed(operands.a), "b": reference.embed(operands.b.mT).mT}


def check(
    record: KernelRecord,
    shape: tuple[int, int, int],
    *,
    batch: int = 0,
    full: bool = False,
    tactic: Tactic | None = None,
) -> None:
    """Compares D, whose memory and borders are poison; `full` uses alpha, and C, a bias and an activation
    where the kernel has them."""
    config, (m, n, k) = record.config, shape
    tactic = tactic or Tactic(record.name)
    what = f"{tactic} {shape} batch {batch} {'with all it can do' if full else 'plain'}"
    operands = operands_of(record, shape, batch)
    lead = (batch,) if batch else ()
    options: dict[str, Any] = {"tactic": tactic, **in_poison(operands)}
    expected: dict[str, Any] = {}
    if full:
        options["alpha"] = torch.full((1,), ALPHA, device="cuda")
        expected["alpha"] = ALPHA
        if config["c"] == "same":
            dtype = reference.BYTES_OF_DTYPE[problem_of(record, shape).type_of_c]
            c = torch.randn((*lead, m, n), device="cuda").to(dtype)
            options |= {"c": reference.embed(c, reference.POISON), "beta": BETA}
            expected |= {"c": c, "beta": BETA}
        if config.get("bias"):
            dtype = reference.BYTES_OF_DTYPE[c_type(config["d"])]
            added: dict[str, Any] = {"bias": torch.randn(n, device="cuda").to(dtype)}
            if config.get("activation") == "given":
                added["activation"] = ACTIVATIONS[1 + m % 3]
            options |= added
            expected |= added
    exact, magnitude = operands.wanted(**expected)
    if config["d"] in QUANTIZED_OUTPUTS:
        check_quantized(operands, config["d"], exact, magnitude, options, what)
        return
    out = reference.Output((*lead, m, n), config["d"])
    operands.multiply(out_dtype=out.view.dtype, out=out.view, **options)
    reference.compare(out.view, exact, magnitude, k, what)
    out.check_borders()


def check_quantized(  # noqa: PLR0917 (a part of `check`)
    operands: reference.Operands,
    d: str,
    exact: torch.Tensor,
    magnitude: torch.Tensor,
    options: dict[str, Any],
    what: str,
) -> None:
    """Compares a D whose scale factors the kernel makes."""
    scale = float(exact_reference.nvfp4_global_scale(exact.float())) if d == "nvfp4" else 1.0
    m, n = exact.shape[-2:]
    padded = scale_factors.padded_shape(m, n, BLOCK[d])
    out = reference.Output(tuple(exact.shape), d)
    descale = torch.full(padded, reference.POISON, dtype=torch.uint8, device="cuda")
    dtype = torch.float4_e2m1fn_x2 if d == "nvfp4" else out.view.dtype
    if d == "nvfp4":
        options["out_global_scale"] = torch.full((1,), scale, device="cuda")
    operands.multiply(out_dtype=dtype, out=out.view, out_descale=descale, **options)
    actual = exact_reference.dequantize(out.view, descale, d, global_scale=scale if d == "nvfp4" else None)
    reference.compare(actual, exact, magnitude, operands.k, what, d=d, global_scale=scale)
    out.check_borders()
    plain = scale_factors.unswizzle(descale, m, n, BLOCK[d])
    assert torch.equal(scale_factors.swizzle(plain), descale), f"{what}: the scales' padding is not zero"


def test_odd_shapes(kernel: KernelRecord) -> None:
    shapes = taken(kernel, ODD)
    assert shapes
    for shape in shapes:
        check(kernel, shape)
        check(kernel, shape, full=True)


def test_large_shapes(kernel: KernelRecord) -> None:
    for shape in taken(kernel, LARGE):
        check(kernel, shape)
        check(kernel, shape, full=True)


def test_batches(kernel: KernelRecord) -> None:
    shape = (144, 272, 384)
    if (reason := FAMILY.misfit(kernel, problem_of(kernel, shape, 3))) is not None:
        pytest.skip(reason)
    for tactic in tactics_of(kernel, shape):
        check(kernel, shape, batch=3, tactic=tactic)
        check(kernel, shape, batch=3, full=True, tactic=tactic)


def test_every_split_and_cluster(kernel: KernelRecord) -> None:
    for shape in taken(kernel, SPLIT):
        for tactic in tactics_of(kernel, shape):
            check(kernel, shape, tactic=tactic, full=shape == SPLIT[2])


def test_rasters_and_swizzles(kernel: KernelRecord) -> None:
    shape = (1040, 2064, 640)
    for tactic in tactics_of(kernel, shape)[:2]:
        for raster in ("along_m", "along_n"):
            for swizzle in (1,) if is_hopper(kernel) else (1, 2, 8):
                check(kernel, shape, tactic=replace(tactic, raster=raster, swizzle=swizzle))


def test_repeats_to_the_bit(kernel: KernelRecord) -> None:
    """Also where k is cut: sums meet in a fixed order."""
    if kernel.config["d"] in QUANTIZED_OUTPUTS:
        pytest.skip("its D is bytes, which the comparison of other tests sees exactly enough")
    shape = (100, 520, 4224)
    operands = operands_of(kernel, shape)
    dtype = reference.BYTES_OF_DTYPE[kernel.config["d"]]
    for tactic in tactics_of(kernel, shape):
        first = operands.multiply(out_dtype=dtype, tactic=tactic)
        for _ in range(5):
            again = operands.multiply(out_dtype=dtype, tactic=tactic)
            assert reference.same_bits(again, first), str(tactic)


def test_c_is_added_in_place_and_not_read_without_beta(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["c"] != "same" or c_type(config["d"]) != config["d"]:
        pytest.skip("the kernel adds no C, or not in place")
    dtype = reference.BYTES_OF_DTYPE[config["d"]]
    m, n, k = shape = (63, 200, 1024)
    operands = operands_of(kernel, shape)
    for tactic in tactics_of(kernel, shape):
        out = torch.randn(m, n, device="cuda").to(dtype)
        exact, magnitude = operands.wanted(1.0, out.clone(), BETA)
        operands.multiply(out_dtype=dtype, out=out, c=out, beta=BETA, tactic=tactic)
        reference.compare(out, exact, magnitude, k, f"{tactic} in place")
        out.fill_(float("nan"))
        operands.multiply(out_dtype=dtype, out=out, c=out, beta=0.0, tactic=tactic)
        reference.compare(out, operands.exact, operands.magnitude, k, f"{tactic} beta 0")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_with_and_without_a_bias(kernel: KernelRecord, activation: str) -> None:
    """Large biases of both signs, so that each column shows which it got. They begin where no vector load
    may."""
    config = kernel.config
    if not config.get("bias"):
        pytest.skip("the kernel adds no bias")
    dtype, type_of_bias = (reference.BYTES_OF_DTYPE[name] for name in (config["d"], c_type(config["d"])))
    for shape in taken(kernel, [(33, 200, 1024), (7, 64, 96), (130, 136, 256)]):
        m, n, k = shape
        operands = operands_of(kernel, shape)
        spread = operands.exact.std()
        bias = (spread * torch.randn(n + 1, device="cuda", dtype=torch.float64)).to(type_of_bias)[1:]
        for tactic in tactics_of(kernel, shape):
            for given in ({"bias": bias, "activation": activation}, {"activation": activation}):
                exact, magnitude = operands.wanted(alpha=1.0, **given)
                out = reference.Output((m, n), config["d"])
                operands.multiply(out_dtype=dtype, out=out.view, tactic=tactic, **given)
                reference.compare(out.view, exact, magnitude, k, f"{tactic} {shape} {sorted(given)}")
                out.check_borders()


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    """Programmatic launch starts it early: nothing is read, or written, ahead of its time."""
    config = kernel.config
    if config["d"] in QUANTIZED_OUTPUTS:
        pytest.skip("other kernels of its kind have a D that can be compared")
    m, n, k = shape = (63, 520, 1024)
    operands = operands_of(kernel, shape)
    given = {
        **in_poison(operands),
        "a_descale": operands.a_scales.clone(),
        "b_descale": operands.b_scales.clone(),
        "alpha": torch.full((1,), ALPHA, device="cuda"),
    }
    expected: dict[str, Any] = {"alpha": ALPHA}
    beta = 0.0
    if config["c"] == "same":
        c = torch.randn((m, n), device="cuda").to(reference.BYTES_OF_DTYPE[c_type(config["d"])])
        given["c"], beta = reference.embed(c, reference.POISON), BETA
        expected |= {"c": c, "beta": BETA}
    if config.get("bias"):
        given["bias"] = torch.randn(n, device="cuda").to(reference.BYTES_OF_DTYPE[c_type(config["d"])])
        expected["bias"] = given["bias"].clone()
    out = reference.Output((m, n), config["d"])
    exact, magnitude = operands.wanted(**expected)
    for tactic in tactics_of(kernel, shape):
        options = {"out_dtype": out.view.dtype, "out": out.view, "tactic": tactic, "beta": beta}

        def run(options: dict[str, Any] = options) -> None:
            operands.multiply(**given, **options)

        def check_out(when: str, tactic: Tactic = tactic) -> None:
            reference.compare(out.view, exact, magnitude, k, f"{tactic} {when}")
            out.check_borders()

        out.poison()
        check_waits(given, {"d": out.view}, run, check_out)


def test_alpha_is_read_from_the_device(kernel: KernelRecord) -> None:
    config = kernel.config
    if config["d"] in QUANTIZED_OUTPUTS:
        pytest.skip("other tests have an alpha of a quantised D")
    dtype = reference.BYTES_OF_DTYPE[config["d"]]
    shape = (31, 256, 256)
    operands = operands_of(kernel, shape)
    alpha = torch.ones((), device="cuda")
    options: dict[str, Any] = {"out_dtype": dtype, "tactic": kernel.name}
    plain = operands.multiply(**options)
    assert reference.same_bits(operands.multiply(alpha, **options), plain)
    for value in (0.0, -1.0, 2.0**-7, 3.14159):
        alpha.fill_(value)
        exact, magnitude = operands.wanted(float(alpha))
        reference.compare(operands.multiply(alpha, **options), exact, magnitude, shape[2], f"alpha {value}")


@pytest.mark.parametrize("byte", [0x7F, 0xFF])
def test_scales_that_pad_k_count_for_nothing(kernel: KernelRecord, byte: int) -> None:
    """The last k tile is partial: NaN in E4M3 or UE8M0 lies behind the last block, in any split."""
    if not is_hopper(kernel):
        pytest.skip("tensor cores read what pads the layout")
    config = kernel.config
    block, dtype = BLOCK[config["a"]], reference.BYTES_OF_DTYPE[config["d"]]
    for shape in ((33, 200, 32), (65, 520, 96), (9, 136, 352), (40, 264, 4128)):
        m, n, k = shape
        operands = operands_of(kernel, shape)
        scales = {
            "a_descale": reference.fill_padding(operands.a_scales, (m, k), block, "columns", byte),
            "b_descale": reference.fill_padding(operands.b_scales, (n, k), block, "columns", byte),
        }
        for tactic in tactics_of(kernel, shape):
            plain = operands.multiply(out_dtype=dtype, tactic=tactic)
            actual = operands.multiply(out_dtype=dtype, tactic=tactic, **scales)
            assert reference.same_bits(actual, plain), f"{tactic} {shape}"


def test_nan_scales_stay_in_their_rows(kernel: KernelRecord) -> None:
    """A NaN scale makes its row of A, or column of B, NaN in D, and nothing else."""
    config = kernel.config
    if config["d"] in QUANTIZED_OUTPUTS:
        pytest.skip("blocks of a quantised D mix columns")
    shape = m, n, k = (33, 136, 640)
    operands = operands_of(kernel, shape)
    block, dtype = BLOCK[config["a"]], reference.BYTES_OF_DTYPE[config["d"]]
    nan = 0x7F if config["a"] == "nvfp4" else 0xFF
    scales = [operands.a_scales.clone(), operands.b_scales.clone()]
    for tensor, row, column in ((scales[0], 17, 3), (scales[1], 131, k // block - 1)):
        at = scale_factors.index(row, column, k, block)
        reference.as_bytes(tensor).view(-1)[at] = nan
    exact, magnitude = operands.exact.clone(), operands.magnitude.clone()
    exact[17], exact[:, 131] = torch.nan, torch.nan
    for tactic in tactics_of(kernel, shape):
        actual = operands.multiply(a_descale=scales[0], b_descale=scales[1], out_dtype=dtype, tactic=tactic)
        assert int(actual.isnan().sum()) == m + n - 1, str(tactic)
        reference.compare(actual, exact, magnitude, k, str(tactic))
