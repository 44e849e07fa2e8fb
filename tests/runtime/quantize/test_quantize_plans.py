"""Plans of `quantize`: tactics, kernels that are missing, and what a measurement compares."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch
from quantize_operands import as_bytes, data_of, equal_tensors

import tilewright
from tilewright import reference
from tilewright.context import Context
from tilewright.errors import ArgumentError, NoKernelError, WrongResultError
from tilewright.families.quantize import measuring
from tilewright.families.quantize.problem import Problem


def used(context: Context) -> set[str]:
    return {str(plan.tactic) for plan in context.plans.values() if hasattr(plan, "tactic")}


def test_a_demanded_tactic_runs_or_its_misfit_is_told(hopper: Context) -> None:
    x = data_of((130, 1024))
    expected = reference.quantize(x, "nvfp4")
    for tactic in ("host_to_nvfp4_bf16", "host_to_nvfp4_bf16_tma@blocks=2", "host_to_nvfp4_bf16@blocks=1"):
        hopper.plans.clear()
        assert equal_tensors(tilewright.quantize_nvfp4(x, tactic=tactic), expected)
        assert used(hopper) == {tactic}
    for tactic, reason in (
        ("host_to_nvfp4_bf16@raster=along_m", "does not support raster"),
        ("host_to_nvfp4_bf16_fast", "approximate, which the call does not allow"),
        ("host_to_mxfp4_bf16", "format is mxfp4"),
        ("host_bf16_tn", "is a gemm kernel"),
    ):
        with pytest.raises(ArgumentError, match=reason):
            tilewright.quantize_nvfp4(x, tactic=tactic)
    hopper.plans.clear()
    tilewright.quantize_nvfp4(x, fast=True)
    assert {tactic.partition("@")[0] for tactic in used(hopper)} == {"host_to_nvfp4_bf16_fast"}
    hopper.plans.clear()
    tilewright.quantize_mxfp4(x)
    assert len(used(hopper)) == 1


def test_plans_are_remembered(hopper: Context) -> None:
    x = data_of((130, 64))
    for scale in (1.0, 2.0, 3.0):
        tilewright.quantize_nvfp4(x, scale)
        tilewright.quantize_nvfp4(x)
    assert len(hopper.plans) == 2
    tilewright.quantize_nvfp4(x, layout="8x4")
    assert len(hopper.plans) == 3


def test_problems_that_no_kernel_computes(hopper: Context, caplog: pytest.LogCaptureFixture) -> None:
    x = data_of((8, 72))
    for tensor in (x, x.to("meta")):
        with pytest.raises(ArgumentError, match="x: k is 72; expected a multiple of 16"):
            tilewright.quantize_nvfp4(tensor)
    with pytest.raises(NoKernelError, match="its fusion is none, not silu_mul"):
        tilewright.quantize_mxfp4(data_of((8, 64)), activation="silu_mul")
    with pytest.raises(NoKernelError, match="quantize 8x64 f16 -> mxfp4"):
        tilewright.quantize_mxfp4(torch.zeros(8, 64).half())
    assert not caplog.records or all(event.levelno < logging.WARNING for event in caplog.records)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(300, 96, global_scale="tensor"),
        Problem(300, 96, 2, global_scale="row", layout="8x4"),
        Problem(300, 192, format="mxfp8", layout="linear"),
        Problem(300, 272, format="fp8_1x128", layout="m_major"),
        Problem(301, 272, format="fp8_1x128", layout="packed"),
        Problem(300, 272, format="fp8_128x1", layout="row_major"),
        Problem(300, 272, format="fp8_128x128", layout="row_major"),
        Problem(300, 272, 2, format="fp8_128x128", layout="packed"),
        Problem(300, 96, fusion="silu_mul"),
        Problem(300, 256, format="fp8_1x128", layout="m_major", fusion="silu_mul"),
        Problem(300, 96, exact=False),
    ],
    ids=str,
)
def test_a_measurement_sees_what_is_wrong(hopper: Context, problem: Problem) -> None:
    wide = (2 if problem.fusion == "silu_mul" else 1) * problem.k
    x = torch.randn(*([problem.groups] if problem.groups > 1 else []), problem.m, wide).bfloat16()
    count = {"none": 0, "tensor": 1, "row": problem.groups * problem.m}[problem.global_scale]
    scale = {"global_scale": torch.rand(count) * 400 + 1} if count else {}
    right = measuring.operands(problem, x=x, **scale)
    right.poison()
    with pytest.raises(WrongResultError, match="of the elements differ"):
        right.check()
    right.call()
    assert right.check() < (0.06 if problem.format not in ("nvfp4", "mxfp4") else 0.2)
    data, scales = right.out, right.out_scales
    right.out = as_bytes(data).roll(1, -1).view(data.dtype)
    with pytest.raises(WrongResultError, match="of the elements differ"):
        right.check()
    right.out, right.out_scales = data, torch.zeros_like(scales)
    with pytest.raises(WrongResultError, match="of the scales differ"):
        right.check()
    if problem.fusion == "none":
        back = measuring.operands(replace(problem, direction="dequantize"), data=data, scales=scales, **scale)
        back.call()
        assert back.check() < 2.0**-8
        back.poison()
        with pytest.raises(WrongResultError, match="is off by"):
            back.check()


@pytest.mark.parametrize("fusion", ["none", "silu_mul"])
def test_scales_of_fused_kernels_may_be_rounded_otherwise(hopper: Context, fusion: str) -> None:
    problem = Problem(300, 256, format="fp8_1x128", layout="row_major", fusion=fusion)
    x = torch.randn(problem.m, (2 if fusion == "silu_mul" else 1) * problem.k).bfloat16()
    operands = measuring.operands(problem, x=x)
    operands.call()
    scales = operands.out_scales
    operands.out_scales = scales * (1 + 2.0**-21)
    if fusion == "silu_mul":
        operands.check()
    else:
        with pytest.raises(WrongResultError, match="of the scales differ"):
            operands.check()
    for wrong in (scales * (1 + 2.0**-12), scales.new_full(scales.shape, float("nan"))):
        operands.out_scales = wrong
        with pytest.raises(WrongResultError, match="of the scales differ"):
            operands.check()
