"""`grouped_gemm` kernels of sm_12x with packed scale factors on a Hopper GPU, the instruction in software.

software_kernels.py makes sources for sm_90a of their generated units. Operands are small numbers, whose sums
are exact: D is compared to the bit.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from software_kernels import fixture, software_rows

from tilewright import blockwise_scales
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm import measuring
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem

MODULE = "sm120_grouped_gemm"
KERNELS = [row["name"] for row in software_rows(MODULE)]
software = fixture(MODULE)
MARK = 77.0  # in D before a kernel writes to it
CASES: dict[str, dict[str, Any]] = {
    "one": {"m": 13, "n": 136, "k": 2064},
    "batch_c": {"m": 200, "n": 264, "k": 1296, "groups": 2, "c": True},
    "row_index": {"m": 300, "n": 136, "k": 784, "groups": 5, "grouping": "row_index", "row_alignment": 4},
    "ends": {"m": 700, "n": 264, "k": 528, "groups": 5, "grouping": "ends", "row_alignment": 64},
    "rows_valid": {"m": 140, "n": 136, "k": 656, "groups": 3, "grouping": "rows_valid", "expected_m": 60},
    "k_sizes": {"m": 72, "n": 264, "k": 1664, "groups": 4, "grouping": "k_sizes"},
    "k_sizes_c": {"m": 200, "n": 136, "k": 1024, "groups": 3, "grouping": "k_sizes", "c": True},
    "k_sizes_empty": {"m": 136, "n": 72, "k": 512, "groups": 9, "grouping": "k_sizes"},
}


def operands_of(problem: Problem) -> measuring.Operands:
    """FP4 as `measuring` has it, FP8 from -3 to 3, factors 1/2, 1 and 2; those of padding are NaN."""
    generator = torch.Generator("cuda").manual_seed(problem.m)
    operands = measuring.make(problem, generator)
    for operand in (operands.a, operands.b, *([operands.c] if problem.c else [])):
        if operand.dtype != torch.float4_e2m1fn_x2:
            numbers = torch.randint(-3, 4, operand.shape, generator=generator, device="cuda")
            operand.copy_(numbers.to(operand.dtype))

    def words(rows: torch.Size) -> torch.Tensor:
        codes = torch.randint(126, 129, (*rows, problem.k_blocks), generator=generator, device="cuda")
        return blockwise_scales.pack(codes.to(torch.uint8))

    operands.scale_a = words(operands.scale_a.shape[:-1])
    operands.scale_b = words(operands.scale_b.mT.shape[:-1]).mT
    if problem.grouping != "k_sizes":
        padding = (operands.groups() < 0).reshape(operands.a.shape[:-1])
        operands.a.view(torch.uint8)[padding] = 0x7F
        operands.scale_a.masked_fill_(padding[..., None], -1)
    operands.out.fill_(MARK)
    return operands


@pytest.mark.timeout(900)  # for the compiler
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("case", CASES)
def test_every_bit_of_d(software: Context, kernel: str, case: str) -> None:
    record: KernelRecord = software.registry.record(kernel)
    kind = {name: record.config[name] for name in ("a", "b", "d", "scales")}
    fields = dict(CASES[case])
    if "mxfp4" in (kind["a"], kind["b"]):
        fields["k"] = -(-fields["k"] // 32) * 32  # whole blocks
    problem = Problem(**fields, **kind)
    if reason := FAMILY.misfit(record, problem):
        pytest.skip(reason)
    operands = operands_of(problem)
    for _ in range(2):
        operands.call(Tactic(kernel))
    actual, expected = operands.compared(every=True)
    rounded = expected.to(operands.out.dtype).double()
    assert torch.equal(actual, rounded), (
        f"{int((actual != rounded).sum())} of {actual.numel()} elements are wrong"
    )
    if problem.grouping != "k_sizes":
        padding = (operands.groups() < 0).reshape(operands.out.shape[:-1])
        rest = operands.out[padding]
        assert ((rest == 0) | (rest == MARK)).all(), "padding leaks"
