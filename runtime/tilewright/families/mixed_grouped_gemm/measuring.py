"""Operands, a peer and the check with which `mixed_grouped_gemm` is measured, on random groups."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import weight_layout
from tilewright.declarations.groups import LAYOUTS
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_gemm import measuring as dense
from tilewright.families.mixed_gemm.problem import Problem as DenseProblem
from tilewright.families.mixed_gemm.reference import decoded
from tilewright.families.mixed_grouped_gemm.op import groups_of_rows, packed_grouped_gemm
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem, Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

_TOLERANCES = {"bf16": 4e-3, "f16": 1e-3}


def dense_problem(problem: Problem) -> DenseProblem:
    """The product of one group."""
    activation = problem.activation
    return DenseProblem(
        problem.m, problem.n, problem.k, problem.a, problem.d, problem.weight_format, activation=activation
    )


def decoded_group(weight: torch.Tensor, scale: torch.Tensor, group: int, problem: Problem) -> torch.Tensor:
    """W [n, k] of a group, as kernels multiply it."""
    return decoded(weight_layout.Packed(weight[group], scale[group]), dense_problem(problem))


class Operands(measuring.Operands):
    """A call of `mixed_grouped_gemm`."""

    @property
    def layout(self) -> dict[str, torch.Tensor]:
        """The tensor that says which rows belong to which group, by the argument's name."""
        return {name: vars(self)[name] for name in LAYOUTS if vars(self)[name] is not None}

    def groups(self) -> torch.Tensor:
        """The group of each row of D, as a matrix; -1 for a row without group."""
        return groups_of_rows(vars(self), self.problem).flatten()

    def weight_of_group(self, group: int) -> torch.Tensor:
        """W [n, k] of a group, as kernels multiply it."""
        return decoded_group(self.weight, self.scale, group, self.problem)

    def row_factors(self, rows: torch.Tensor) -> torch.Tensor | None:
        """The factors of some rows of A, [rows, 1]; None for 1."""
        return None

    def check(self) -> float:
        """The error norm over rows that count, spread evenly. Each group's weight is decoded by itself, so
        that a large stack needs little memory."""
        problem = self.problem
        group = self.groups()
        rows = (group >= 0).nonzero().flatten()
        rows = rows[measuring.spread(rows.numel())]
        a = self.a.reshape(-1, problem.k)[rows].double()
        out = self.out.reshape(-1, problem.d_columns)[rows].double()
        expected = torch.empty_like(out)
        for index in group[rows].unique().tolist():
            own = group[rows] == index
            products = a[own] @ self.weight_of_group(index).double().T
            if (factors := self.row_factors(rows[own])) is not None:
                products *= factors
            if self.bias is not None:
                products += self.bias[index].double()
            expected[own] = ACTIVATED[problem.activation](products)
        tolerance = _TOLERANCES[problem.d]
        return measuring.check_norms(problem, out, expected, tolerance, tolerance)


def random_weights(problem: Problem, generator: torch.Generator) -> weight_layout.Packed:
    """A stack of packed weights of random codes."""
    return stack_of_random(problem.groups, dense_problem(problem), generator)


def stack_of_random(groups: int, problem: DenseProblem, generator: torch.Generator) -> weight_layout.Packed:
    """A packed weight of random codes for each group's product."""
    stack = [dense.random_weight(problem, generator) for _ in range(groups)]
    return weight_layout.Packed(
        torch.stack([packed.weight for packed in stack]), torch.stack([packed.scale for packed in stack])
    )


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, dtype = generator.device, dtype_of(problem.a)
    packed = random_weights(problem, generator)
    batch = (problem.groups,) if problem.own_rows else ()
    a = torch.randn((*batch, problem.m, problem.k), generator=generator, device=device).to(dtype)
    bias = None
    if problem.bias:
        bias = torch.randn((problem.groups, problem.n), generator=generator, device=device).to(dtype)
    arguments: dict[str, Any] = {
        "a": a, "weight": packed.weight, "scale": packed.scale, "n": problem.n,
        "weight_format": problem.weight_format, "bias": bias, "row_alignment": problem.row_alignment,
        "expected_m": problem.expected_m, "activation": problem.activation,
    }  # fmt: skip
    return Operands(problem, packed_grouped_gemm, **arguments, **random_groups(problem, generator))


def random_groups(problem: GroupedProblem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Groups with the expected number of rows, give or take 30 %."""
    device, groups = generator.device, problem.groups
    share = 0.7 + 0.6 * torch.rand(groups, generator=generator, device=device)
    if problem.own_rows:
        if not problem.expected_m:
            return {"rows_valid": torch.full_like(share, problem.m).int()}
        return {"rows_valid": (share * problem.expected_m).round().clamp(1, problem.m).int()}
    unit = problem.row_alignment
    ends = (share.cumsum(0) / share.sum() * problem.rows / unit).round().int() * unit
    ends[-1] = problem.rows
    ends = ends.clamp(max=problem.m)
    if problem.grouping == "ends":
        return {"group_ends": ends}
    rows = torch.arange(problem.m, device=device, dtype=torch.int32)
    group = torch.searchsorted(ends, rows, right=True).int()
    return {"group_of_row": group.where(rows < problem.rows, -1)}


def peer(problem: Problem) -> Peer | None:
    """torch's product of the same activations and weights of 16 bits; None if there is a bias or an
    activation, or if groups do not follow one another."""
    follow = problem.grouping == "ends" and problem.row_alignment == 1
    if problem.bias or problem.gated or not follow or problem.a != "bf16":
        return None

    def call(x: Operands) -> None:
        if not hasattr(x, "wide"):
            groups = range(problem.groups)
            x.wide = torch.stack([decoded_group(x.weight, x.scale, group, problem) for group in groups]).mT
        torch._grouped_mm(x.a, x.wide, x.group_ends)

    return "torch._grouped_mm", call
