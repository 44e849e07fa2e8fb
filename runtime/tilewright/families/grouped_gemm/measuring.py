"""Operands, peers and checks with which the products are measured, on random data and groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from tilewright import blockwise_scales, reference
from tilewright.families.grouped_gemm.interface import INTERFACE
from tilewright.families.grouped_gemm.op import (
    grouped_gemm_contiguous,
    grouped_gemm_k,
    grouped_gemm_masked,
    scaled_gemm,
)
from tilewright.families.grouped_gemm.problem import PACKED_SCALES, Problem, part_multiple
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

# The largest error norm, by D's type: D is rounded, and FP8's sums of 128 of k lose bits in the tensor core.
_TOLERANCES = {"bf16": 4e-3, "f32": 2e-3}
_UE8M0_BIAS = 127  # of the exponent that a UE8M0 factor holds
_RATIO_TOLERANCE = 2e-3  # the largest error of the norms' ratio, which shows a missing factor
_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "none": scaled_gemm,
    "k_sizes": grouped_gemm_k,
    "rows_valid": grouped_gemm_masked,
    **dict.fromkeys(("row_index", "ends"), grouped_gemm_contiguous),
}


class Operands(measuring.Operands):
    """A call of one of the products, with random groups."""

    @property
    def layout(self) -> dict[str, torch.Tensor]:
        """The tensors that say which rows belong to which group, by the argument's name."""
        names = ("group_of_row", "group_ends", "rows_valid", "group_k")
        return {name: vars(self)[name] for name in names if vars(self).get(name) is not None}

    def groups(self) -> torch.Tensor:
        """The group of each row of D, as a matrix; -1 for a row without group."""
        problem = self.problem
        if problem.grouping == "row_index":
            group_of_row: torch.Tensor = self.group_of_row
            return group_of_row
        if problem.grouping == "ends":
            return reference.groups_of_rows(self.group_ends, problem.m, problem.row_alignment)
        rows = torch.arange(problem.m, device=self.a.device).expand(problem.groups, -1)
        group = torch.arange(problem.groups, device=self.a.device)[:, None].expand_as(rows)
        if problem.grouping == "rows_valid":
            group = group.where(rows < self.rows_valid[:, None], -1)
        return group.flatten()

    def check(self) -> float:
        """The error norm over rows that count, spread evenly. Raises WrongResultError if it, or the ratio of
        the norms, is too far off."""
        tolerance = _TOLERANCES[self.problem.d]
        return measuring.check_norms(self.problem, *self.compared(every=False), tolerance, _RATIO_TOLERANCE)

    def compared(self, *, every: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of D that count, every one or some, and their expected values, in float64."""
        problem = self.problem
        if problem.grouping == "k_sizes":
            return self.out.double(), self._product_of_parts()
        group = self.groups()
        rows = (group >= 0).nonzero().flatten()
        rows = rows if every else rows[measuring.spread(rows.numel())]
        a = self.a.reshape(-1, self.a.shape[-1])
        a = a.view(torch.uint8)[rows].view(a.dtype)  # torch indexes no FP4
        left, right = elements(a), elements(self.b.mT).mT
        right = right.reshape(-1, *right.shape[-2:])
        if self.scale_a is not None:
            scales = factors_of(self.scale_a, problem).reshape(-1, problem.k_blocks)[rows]
            left *= scales.double().repeat_interleave(problem.scale_block, -1)[:, : problem.k]
            of_b = factors_of(self.scale_b.mT, problem).mT
            right *= spread(of_b.reshape(-1, *of_b.shape[-2:]), problem).double()
        expected = reference.grouped_product(left, right, group[rows])
        if self.c is not None:
            expected += self.c.reshape(-1, problem.n)[rows].double()
        return self.out.reshape(-1, problem.n)[rows].double(), expected

    def _product_of_parts(self) -> torch.Tensor:
        """The product of each group's range of k: float64 [groups, m, n]."""
        problem = self.problem
        sizes, block = self.group_k.tolist(), problem.scale_block

        def ranges(operand: torch.Tensor, rows: int, scales: torch.Tensor) -> Iterator[torch.Tensor]:
            """The matrices [rows, k of the group] of an FP8 operand, scaled."""
            start = 0
            for k in sizes:
                part = operand.flatten()[start * rows : (start + k) * rows].view(rows, k).double()
                factors = scales[:, start // block : (start + k) // block].double()
                yield part * factors.repeat_interleave(block, -1)
                start += k

        if self.scale_a is None:
            pairs = zip(self.a.double().mT.split(sizes), self.b.double().split(sizes), strict=True)
            products = torch.stack([a.mT @ b for a, b in pairs])
        else:
            a = ranges(self.a, problem.m, factors_of(self.scale_a, problem))
            b = ranges(self.b.mT, problem.n, factors_of(self.scale_b.mT, problem))
            products = torch.stack([x @ y.mT for x, y in zip(a, b, strict=True)])
        return products if self.c is None else products + self.c.double()


def elements(operand: torch.Tensor) -> torch.Tensor:
    """The elements [..., rows, k] of an operand without its scales, in float64."""
    if operand.dtype != torch.float4_e2m1fn_x2:
        return operand.double()
    return reference.decode_e2m1(reference.unpack_e2m1(operand))


def factors_of(scales: torch.Tensor, problem: Problem) -> torch.Tensor:
    """The scale factors [..., rows, k blocks] of float32 ones, or of words."""
    if problem.scales not in PACKED_SCALES:
        return scales
    codes = blockwise_scales.unpack(scales, problem.k_blocks).view(torch.uint8).int()
    return torch.ldexp(torch.ones_like(codes, dtype=torch.float32), codes - _UE8M0_BIAS)


def spread(scale_b: torch.Tensor, problem: Problem) -> torch.Tensor:
    """B's scale factors [groups, k/128, n or n/128] as a factor of each element of [groups, k, n]."""
    factors = scale_b.repeat_interleave(problem.scale_block, -2)[..., : problem.k, :]
    return (
        factors
        if problem.scales != "128x128"
        else factors.repeat_interleave(problem.scale_block, -1)[..., : problem.n]
    )


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, by_k = generator.device, problem.grouping == "k_sizes"
    groups = (problem.groups,)
    batch_a, batch_b = groups if problem.own_rows else (), () if by_k else groups

    def factors(*shape: int) -> torch.Tensor:
        return 0.5 + torch.rand(shape, generator=generator, device=device)

    def packed_columns(*shape: int) -> torch.Tensor:
        codes = torch.randint(-4, 4, shape, generator=generator, device=device) + _UE8M0_BIAS
        return blockwise_scales.pack(codes.to(torch.uint8))

    def columns(*shape: int) -> torch.Tensor:
        scales = blockwise_scales.allocate(shape, dtype=torch.float32, device=device)
        return scales.copy_(factors(*shape))

    arguments: dict[str, Any] = {}
    for name in ("a", "b", "c") if problem.c else ("a", "b"):
        operand = replace(INTERFACE.matrices[name], single=False)  # a batch of one has a dimension, too
        arguments[name] = measuring.random_matrix(operand, problem, generator)
    if problem.scales in PACKED_SCALES:
        arguments["scale_a"] = packed_columns(*batch_a, problem.m, problem.k_blocks)
        arguments["scale_b"] = packed_columns(*batch_b, problem.n, problem.k_blocks).mT
        arguments["scale_block"] = problem.scale_block
    elif problem.scales != "none":
        arguments["scale_a"] = columns(*batch_a, problem.m, problem.k_blocks)
        shape = (*batch_b, problem.scale_columns, problem.k_blocks)
        arguments["scale_b"] = (columns if problem.scales == "1x128" else factors)(*shape).mT
    op = _OPS[problem.grouping]
    options = {
        "out_dtype": dtype_of(problem.d), "row_alignment": problem.row_alignment,
        "zero_padding": problem.zero_padding, "constant_b": problem.constant_b,
        "expected_m": problem.expected_m,
    }  # fmt: skip
    taken = inspect.signature(op).parameters
    arguments |= {name: option for name, option in options.items() if name in taken}
    return Operands(problem, op, **arguments, **_layout(problem, generator))


def redraw_rows(operands: Operands, generator: torch.Generator) -> None:
    """Draws the rows of a masked product's groups anew, as `make` does: selection knows only how many are
    expected, so a tactic's time is the mean over several draws."""
    operands.rows_valid.copy_(_valid_rows(operands.problem, _shares(operands.problem, generator)))


def _shares(problem: Problem, generator: torch.Generator) -> torch.Tensor:
    """The rows of each group, as shares of the expected number."""
    return 0.7 + 0.6 * torch.rand(problem.groups, generator=generator, device=generator.device)


def _valid_rows(problem: Problem, shares: torch.Tensor) -> torch.Tensor:
    """The rows that count of each group; all that are allotted if no number is expected."""
    if not problem.expected_m:
        return torch.full_like(shares, problem.m).int()
    return (shares * problem.expected_m).round().clamp(1, problem.m).int()


def _layout(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Groups with the expected number of rows, give or take 30 %."""
    device, share = generator.device, _shares(problem, generator)
    if problem.grouping == "none":
        return {}
    if problem.grouping == "k_sizes":
        unit = part_multiple(problem.a)
        whole = (share.cumsum(0) / share.sum() * problem.k / unit).round() * unit
        return {"group_k": whole.diff(prepend=whole.new_zeros(1)).int()}
    if problem.grouping == "rows_valid":
        return {"rows_valid": _valid_rows(problem, share)}
    alignment = problem.row_alignment
    starts = (share.cumsum(0) / share.sum() * problem.m / alignment).round().int() * alignment
    starts[-1] = -(-problem.m // alignment) * alignment  # some rows count, however few there are
    begins = torch.cat((starts.new_zeros(1), starts[:-1]))
    room = torch.minimum(starts, starts.new_tensor(problem.m)) - begins
    padding = torch.rand(problem.groups, generator=generator, device=device) * room.clamp(max=alignment)
    ends = begins + room - padding.int()
    if problem.grouping == "ends":
        return {"group_ends": ends}
    return {"group_of_row": reference.groups_of_rows(ends, problem.m, alignment)}


def peer(problem: Problem) -> Peer | None:
    """torch's product with the same scale factors or groups; None if torch has none."""
    if problem.c or problem.d != "bf16" or problem.scales in ("1x128", *PACKED_SCALES):
        return None
    if problem.grouping == "none" and problem.groups == 1 and problem.scales == "128x128":
        return "torch._scaled_mm", _scaled_mm
    if problem.grouping == "ends" and problem.a == "bf16" and problem.row_alignment == 1:
        return "torch._grouped_mm", lambda x: torch._grouped_mm(x.a, x.b, x.group_ends)
    return None


def _scaled_mm(x: Operands) -> torch.Tensor:
    return torch._scaled_mm(
        x.a[0],
        x.b[0],
        scale_a=x.scale_a[0],
        scale_b=x.scale_b[0],
        out_dtype=torch.bfloat16,
        use_fast_accum=False,  # for blocks of 128x128 torch has nothing else
    )
