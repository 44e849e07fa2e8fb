"""Operands, a peer and the check with which `mixed_fp8_grouped_gemm` is measured, on random groups."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import weight_layout
from tilewright.families.mixed_fp8_gemm.measuring import LARGEST_SCALE
from tilewright.families.mixed_fp8_gemm.reference import weight_of
from tilewright.families.mixed_fp8_grouped_gemm.op import packed_fp8_grouped_gemm
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_grouped_gemm import measuring as grouped
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.measuring import Peer


def decoded_group(weight: torch.Tensor, scale: torch.Tensor, group: int, problem: Problem) -> torch.Tensor:
    """W [n, k] of a group, in float64."""
    return weight_of(weight_layout.Packed(weight[group], scale[group]), problem.of_group)


class Operands(grouped.Operands):
    """A call of `mixed_fp8_grouped_gemm`."""

    def weight_of_group(self, group: int) -> torch.Tensor:
        return decoded_group(self.weight, self.scale, group, self.problem)

    def row_factors(self, rows: torch.Tensor) -> torch.Tensor | None:
        return None if self.a_scale is None else self.a_scale.reshape(-1)[rows, None].double()


def random_weights(problem: Problem, generator: torch.Generator) -> weight_layout.Packed:
    """A stack of packed weights of random codes."""
    return grouped.stack_of_random(problem.groups, problem.of_group.dense, generator)


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, dtype = generator.device, dtype_of(problem.d)
    packed = random_weights(problem, generator)
    batch = (problem.groups,) if problem.own_rows else ()
    a = torch.randn((*batch, problem.m, problem.k), generator=generator, device=device)
    a_scale, bias = None, None
    if problem.a_scale:
        a_scale = torch.rand(problem.scales_shape, generator=generator, device=device) + 0.5
    if problem.bias:
        bias = torch.randn((problem.groups, problem.n), generator=generator, device=device).to(dtype)
    arguments: dict[str, Any] = {
        "a": a.to(torch.float8_e4m3fn), "weight": packed.weight, "scale": packed.scale, "n": problem.n,
        "weight_format": problem.weight_format, "out_dtype": dtype, "a_scale": a_scale, "bias": bias,
        "row_alignment": problem.row_alignment, "expected_m": problem.expected_m,
        "fast_accum": problem.fast_accum, "largest_scale": LARGEST_SCALE,
    }  # fmt: skip
    return Operands(
        problem, packed_fp8_grouped_gemm, **arguments, **grouped.random_groups(problem, generator)
    )


def peer(problem: Problem) -> Peer | None:
    """torch's product of activations and weights of 16 bits; None as in `mixed_grouped_gemm`, and with
    factors of rows."""
    follow = problem.grouping == "ends" and problem.row_alignment == 1
    if problem.bias or problem.a_scale or problem.d != "bf16" or not follow:
        return None

    def call(x: Operands) -> None:
        if not hasattr(x, "wide"):
            groups = range(problem.groups)
            x.wide_a = x.a.bfloat16()
            x.wide = torch.stack([x.weight_of_group(group).bfloat16() for group in groups]).mT
        torch._grouped_mm(x.wide_a, x.wide, x.group_ends)

    return "torch._grouped_mm", call
