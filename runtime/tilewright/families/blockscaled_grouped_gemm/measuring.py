"""Operands and the check with which block-scaled products of groups are measured, on random groups."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import reference, scale_factors
from tilewright.errors import WrongResultError
from tilewright.families.blockscaled_gemm.problem import BLOCK, SCALE_LAYOUT
from tilewright.families.blockscaled_grouped_gemm import op
from tilewright.families.blockscaled_grouped_gemm.problem import SCALE_ROWS, Problem
from tilewright.formats.dtypes import as_bytes, dtype_of
from tilewright.tools import measuring

_OPS = {"nvfp4": op.grouped_mm_nvfp4, "mxfp4": op.grouped_mm_mxfp4, "mxfp8": op.grouped_mm_mxfp8}


def op_of(a: str, b: str) -> Any:
    """The public op that multiplies matrices of these formats."""
    return _OPS[b] if a == b else op.grouped_mm_mxfp8_mxfp4


class Operands(measuring.Operands):
    """A call of one of the products."""

    def begins(self) -> list[tuple[int, int, int]]:
        """For each group its first row in A and D, the row after its last, and the row of A's scale factors
        with which its own begin; rows of all groups count on."""
        problem, listed = self.problem, range(self.problem.groups)
        if problem.own_rows:
            held = problem.scale_rows
            rows = self.rows_valid.tolist()
            return [(g * problem.m, g * problem.m + rows[g], g * held) for g in listed]
        if problem.grouping == "row_index":
            places = [(self.group_of_row == g).nonzero().flatten().tolist() for g in listed]
            return [(own[0], own[-1] + 1, own[0]) if own else (0, 0, 0) for own in places]
        unit, ends = problem.row_alignment, self.group_ends.tolist()
        starts = [0, *(-(-end // unit) * unit for end in ends[:-1])]
        begins = starts if self.scale_begins is None else self.scale_begins.tolist()
        return [
            (start, max(start, min(end, problem.m)), begin)
            for start, end, begin in zip(starts, ends, begins, strict=True)
        ]

    def check(self) -> float:
        """The error norm over all rows that count. Raises WrongResultError if an element, the norm or the
        angle of a group's is too far off."""
        problem = self.problem
        of_a, block = as_bytes(self.a_descale).reshape(-1), BLOCK[problem.a]
        plain = scale_factors.unswizzle(of_a, self._scale_rows(), problem.k, block, SCALE_LAYOUT)
        of_b = as_bytes(self.b_descale).reshape(problem.groups, -1)
        a, out = as_bytes(self.a).reshape(-1, self.a.shape[-1]), self.out.reshape(-1, problem.n)
        errors = sizes = 0.0
        for group, (start, end, scales) in enumerate(self.begins()):
            if start == end:
                continue
            own = scale_factors.swizzle(plain[scales : scales + end - start], SCALE_LAYOUT)
            call = (a[start:end], as_bytes(self.b)[group], own, of_b[group], problem.a)
            alpha = 1.0 if self.alpha is None else float(self.alpha[group])
            options: dict[str, Any] = {"format_b": problem.b, "alpha": alpha, "k": problem.k}
            exact, size = reference.product(*call, **options), reference.magnitude(*call, **options)
            actual = out[start:end]
            slack = reference.accumulation_slack(problem.k)
            compared = reference.compare(actual, exact, size, None, slack=slack)
            if not compared.passes(cosine=0.999):
                raise WrongResultError(f"{problem}, group {group}: {compared}")
            errors += float((actual.double() - exact).square().sum())
            sizes += float(exact.square().sum())
        return float((errors / sizes) ** 0.5) if sizes else 0.0

    def _scale_rows(self) -> int:
        problem = self.problem
        return int(problem.scale_rows * (problem.groups if problem.own_rows else 1))


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, groups = generator.device, problem.groups
    batch = (groups,) if problem.own_rows else ()
    layout = random_groups(problem, generator)

    def random(shape: tuple[int, ...], name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return reference.quantize(torch.randn(shape, generator=generator, device=device), name)

    a, a_scales = random((*batch, problem.m, problem.k), problem.a)
    b, b_scales = random((groups, problem.n, problem.k), problem.b)
    if problem.scale_begins:
        layout["scale_begins"], a_scales = with_begins(problem, a_scales, layout["group_ends"])
    arguments: dict[str, Any] = {
        "alpha": 0.5 + torch.rand(groups, generator=generator, device=device),
        "out_dtype": dtype_of(problem.d), "row_alignment": problem.row_alignment,
        "expected_m": problem.expected_m, "zero_padding": problem.zero_padding,
    }  # fmt: skip
    call = dict(zip(("a", "b", "a_descale", "b_descale"), (a, b.mT, a_scales, b_scales), strict=True))
    return Operands(problem, op_of(problem.a, problem.b), **call, **arguments, **layout)


def with_begins(
    problem: Problem, scales: torch.Tensor, ends: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale factors of one matrix, moved so that those of each group begin with an atom of their own, and
    where they begin."""
    plain = scale_factors.unswizzle(as_bytes(scales), problem.m, problem.k, BLOCK[problem.a], SCALE_LAYOUT)
    moved = plain.new_zeros((problem.scale_rows, plain.shape[-1]))
    unit, start, begin, begins = problem.row_alignment, 0, 0, []
    for end in ends.tolist():
        begins.append(begin)
        rows = max(0, end - start)
        moved[begin : begin + rows] = plain[start : start + rows]
        begin += -(-rows // SCALE_ROWS) * SCALE_ROWS
        start = -(-end // unit) * unit
    swizzled = scale_factors.swizzle(moved, SCALE_LAYOUT).view(scales.dtype)
    return torch.tensor(begins, dtype=torch.int32, device=scales.device), swizzled


def random_groups(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Groups with the expected number of rows, give or take 30 %."""
    device, groups = generator.device, problem.groups
    share = 0.7 + 0.6 * torch.rand(groups, generator=generator, device=device)
    if problem.own_rows:
        expected = problem.expected_m
        full = torch.full_like(share, problem.m)
        return {"rows_valid": (share * expected if expected else full).round().clamp(0, problem.m).int()}
    unit = problem.row_alignment if problem.grouping == "ends" else SCALE_ROWS
    starts = (share.cumsum(0) / share.sum() * problem.m / unit).round().int() * unit
    starts[-1] = -(-problem.m // unit) * unit  # some rows count, however few there are
    begins = torch.cat((starts.new_zeros(1), starts[:-1]))
    room = torch.minimum(starts, starts.new_tensor(problem.m)) - begins
    padding = torch.rand(groups, generator=generator, device=device) * room.clamp(max=unit)
    ends = begins + room - padding.int()
    if problem.grouping == "ends":
        return {"group_ends": ends}
    return {"group_of_row": reference.groups_of_rows(ends, problem.m, unit)}
