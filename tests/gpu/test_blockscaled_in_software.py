"""`blockscaled_gemm` kernels of mma.sync for sm_12x on a Hopper GPU, the instruction in software.

software_kernels.py makes sources for sm_90a of their generated units. Operands are small numbers, whose sums
are exact: D is compared to the bit.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from software_kernels import fixture, software_rows

from tilewright import reference
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm import measuring
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import FP8_OUTPUTS, Problem
from tilewright.families.gemm.op import ACTIVATED
from tilewright.formats.types import bits

MODULE = "sm120_blockscaled_gemm_lean"
KERNELS = [row["name"] for row in software_rows(MODULE)]
software = fixture(MODULE)
MARK = 77.0  # in D before a kernel writes to it
ALPHA = 0.5
SCALES = {"nvfp4": (0x30, 0x38, 0x40), "mx": (126, 127, 128)}  # 1/2, 1 and 2, in UE4M3 and UE8M0
SPLIT = {"decomposition": "split_k", "splits": 3}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # a problem, and a tactic's arguments
    "few_rows": ({"m": 7, "n": 520, "k": 2176}, {}),
    "batch": ({"m": 200, "n": 264, "k": 1152, "batch": 2}, {}),
    "c": ({"m": 301, "n": 136, "k": 640, "c": True}, {"raster": "along_n", "swizzle": 4}),
    "split": ({"m": 45, "n": 264, "k": 2176}, SPLIT),
    "bias": ({"m": 131, "n": 267, "k": 1152, "c": True, "bias": True}, {}),
    "bias_split": ({"m": 45, "n": 264, "k": 2176, "bias": True}, SPLIT),
    "relu": ({"m": 45, "n": 264, "k": 1152, "bias": True, "activation": "relu"}, {}),
}


def operands_of(problem: Problem) -> measuring.Operands:
    """FP4 of any code, FP8 from -3 to 3, factors 1/2, 1 and 2."""
    generator = torch.Generator("cuda").manual_seed(problem.m)
    operands = measuring.make(problem, generator)

    def random(like: torch.Tensor, least: int, most: int) -> torch.Tensor:
        return torch.randint(least, most, like.shape, generator=generator, device="cuda")

    for data, scales, name in (
        (operands.a, operands.a_descale, problem.a),
        (operands.b, operands.b_descale, problem.b),
    ):
        if bits(name) == 4:
            data.view(torch.uint8).copy_(random(data, 0, 256))
        else:
            data.copy_(random(data, -3, 4).to(data.dtype))
        codes = torch.tensor(SCALES.get(name, SCALES["mx"]), dtype=torch.uint8, device="cuda")
        scales.view(torch.uint8).copy_(codes[random(scales, 0, 3)])
    if problem.c:
        operands.c.copy_(random(operands.c, -3, 4))
    if problem.bias:
        operands.bias.copy_(random(operands.bias, -9, 10))
    operands.alpha.fill_(ALPHA)
    operands.out.fill_(MARK)
    return operands


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("case", CASES)
def test_every_bit_of_d(software: Context, kernel: str, case: str) -> None:
    record = software.registry.record(kernel)
    fields, arguments = CASES[case]
    kind = {name: record.config[name] for name in ("a", "b", "d")}
    problem, tactic = Problem(**fields, **kind), Tactic(kernel, **arguments)
    if reason := FAMILY.misfit(record, problem) or FAMILY.misfit_arguments(tactic, record):
        pytest.skip(reason)
    operands = operands_of(problem)
    for _ in range(2):
        operands.call(tactic)
    call = (operands.a, operands.b, operands.a_descale, operands.b_descale, problem.a)
    exact = reference.product(*call, format_b=problem.b, alpha=ALPHA, c=operands.c)
    if problem.bias:
        exact = exact + operands.bias.double()
    exact = ACTIVATED[problem.activation](exact)
    if problem.d in FP8_OUTPUTS:
        most = torch.finfo(operands.out.dtype).max
        exact = exact.clamp(-most, most)
    expected = exact.float().to(operands.out.dtype)  # float32 holds it exactly
    wrong = int((operands.out.double() != expected.double()).sum())
    assert wrong == 0, f"{wrong} of {expected.numel()} elements are wrong"
