"""Operands, peers and checks with which the products are measured: on random data and groups, correct
first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tilewright import blockwise_scales, reference
from tilewright.device import DeviceProperties
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.grouped_gemm.op import (
    grouped_gemm_contiguous,
    grouped_gemm_k,
    grouped_gemm_masked,
    scaled_gemm,
)
from tilewright.ops.grouped_gemm.problem import BLOCK, Problem, part_multiple

ERROR = "error norm {:.2e} against float64"  # what `check` answers

# What an error norm may be: D's rounding; FP8's sums of 128 of k lose bits in the tensor core.
_TOLERANCES = {"bf16": 4e-3, "f32": 2e-3}
_RATIO_TOLERANCE = 2e-3  # of the norms' ratio, so that a factor that is missed shows
_REFERENCE_ROWS = 512  # of D that are checked, spread over it


@dataclass
class Operands:
    """One set of random operands, and D. `layout` holds what says the groups, by its argument's name."""

    problem: Problem
    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor
    layout: dict[str, torch.Tensor]
    scale_a: torch.Tensor | None = None
    scale_b: torch.Tensor | None = None
    c: torch.Tensor | None = None

    def poison(self) -> None:
        measuring.poison(self.out)

    def call(self, tactic: Tactic | None = None) -> torch.Tensor:
        """D of ours."""
        problem = self.problem
        more: dict[str, Any] = {"out": self.out, "c": self.c, "tactic": tactic}
        if problem.grouping == "none":
            assert self.scale_a is not None
            assert self.scale_b is not None
            return scaled_gemm(self.a, self.b, self.scale_a, self.scale_b, **more)
        if problem.grouping == "k_sizes":
            return grouped_gemm_k(self.a, self.b, self.layout["group_k"], self.scale_a, self.scale_b, **more)
        more["zero_padding"] = problem.zero_padding
        if problem.grouping == "rows_valid":
            counts = self.layout["rows_valid"]
            return grouped_gemm_masked(
                self.a, self.b, counts, self.scale_a, self.scale_b, expected_m=problem.expected_m, **more
            )
        return grouped_gemm_contiguous(
            self.a,
            self.b,
            self.scale_a,
            self.scale_b,
            row_alignment=problem.row_alignment,
            **self.layout,
            **more,
        )

    def groups(self) -> torch.Tensor:
        """The group of each row of D, as a matrix; -1 where it is of none."""
        problem = self.problem
        if problem.grouping == "row_index":
            return self.layout["group_of_row"]
        if problem.grouping == "ends":
            ends = self.layout["group_ends"]
            return reference.groups_of_rows(ends, problem.m, problem.row_alignment)
        rows = torch.arange(problem.m, device=self.a.device).expand(problem.groups, -1)
        group = torch.arange(problem.groups, device=self.a.device)[:, None].expand_as(rows)
        if problem.grouping == "rows_valid":
            group = group.where(rows < self.layout["rows_valid"][:, None], -1)
        return group.flatten()

    def check(self) -> float:
        """The error norm of D against float64, over rows that count, spread evenly.

        Raises WrongResultError where the norm of the error, or the ratio of the norms, is too far off.
        """
        problem = self.problem
        if problem.grouping == "k_sizes":
            return self._judge(self.out.double(), self._product_of_parts())
        group = self.groups()
        rows = (group >= 0).nonzero().flatten()
        rows = rows[:: max(1, rows.numel() // _REFERENCE_ROWS)]
        a, b = self.a.reshape(-1, problem.k), self.b.reshape(-1, *self.b.shape[-2:])
        left, right = a[rows].double(), b.double()
        if self.scale_a is not None and self.scale_b is not None:
            scales = self.scale_a.reshape(-1, problem.k_blocks)[rows]
            left *= scales.double().repeat_interleave(BLOCK, -1)[:, : problem.k]
            right *= spread(self.scale_b.reshape(-1, *self.scale_b.shape[-2:]), problem).double()
        wanted = reference.grouped_product(left, right, group[rows])
        if self.c is not None:
            wanted += self.c.reshape(-1, problem.n)[rows].double()
        found = self.out.reshape(-1, problem.n)[rows].double()
        return self._judge(found, wanted)

    def _product_of_parts(self) -> torch.Tensor:
        """float64 [groups, m, n]."""
        problem = self.problem
        sizes = self.layout["group_k"].tolist()
        if self.scale_a is None or self.scale_b is None:
            pairs = zip(self.a.mT.split(sizes), self.b.split(sizes), strict=True)
            made = torch.stack([x.double().mT @ y.double() for x, y in pairs])
            return made if self.c is None else made + self.c.double()
        a, b = self.a.flatten(), self.b.mT.flatten()
        found, start = [], 0
        for k in sizes:
            sides = []
            for flat, rows, scales in ((a, problem.m, self.scale_a), (b, problem.n, self.scale_b.mT)):
                part = flat[start * rows : (start + k) * rows].view(rows, k).double()
                of_part = scales[:, start // BLOCK : (start + k) // BLOCK]
                sides.append(part * of_part.double().repeat_interleave(BLOCK, -1))
            found.append(sides[0] @ sides[1].mT)
            start += k
        made = torch.stack(found)
        return made if self.c is None else made + self.c.double()

    def _judge(self, found: torch.Tensor, wanted: torch.Tensor) -> float:
        tolerance = _TOLERANCES[self.problem.d]
        return measuring.check_norms(self.problem, found, wanted, tolerance, _RATIO_TOLERANCE)


def spread(scale_b: torch.Tensor, problem: Problem) -> torch.Tensor:
    """B's scale factors [groups, k/128, n or n/128] as a factor of each element of [groups, k, n]."""
    each = scale_b.repeat_interleave(BLOCK, -2)[..., : problem.k, :]
    return each if problem.scales == "1x128" else each.repeat_interleave(BLOCK, -1)[..., : problem.n]


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    first = make(problem, torch.Generator("cuda").manual_seed(seed))
    return measuring.copies(first, measuring.sets(problem, device))


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, by_k = generator.device, problem.grouping == "k_sizes"
    groups = (problem.groups,)
    of_a, of_b = groups if problem.own_rows else (), () if by_k else groups
    of_d = groups if by_k else of_a

    def normal(*shape: int, dtype: str) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device).to(dtype_of(dtype))

    def matrices(*shape: int, dtype: str, k_major: bool) -> torch.Tensor:
        """[..., rows, k]."""
        *batch, rows, k = shape
        return normal(*shape, dtype=dtype) if k_major else normal(*batch, k, rows, dtype=dtype).mT

    def columns(*shape: int) -> torch.Tensor:
        made = blockwise_scales.allocate(shape, dtype=torch.float32, device=device)
        return made.copy_(0.5 + torch.rand(shape, generator=generator, device=device))

    made = Operands(
        problem,
        matrices(*of_a, problem.m, problem.k, dtype=problem.a, k_major=problem.layout[0] == "t"),
        matrices(*of_b, problem.n, problem.k, dtype=problem.b, k_major=problem.layout[1] == "n").mT,
        torch.empty((*of_d, problem.m, problem.n), dtype=dtype_of(problem.d), device=device),
        _layout(problem, generator),
    )
    if problem.scales != "none":
        made.scale_a = columns(*of_a, problem.m, problem.k_blocks)
        if problem.scales == "1x128":
            made.scale_b = columns(*of_b, problem.n, problem.k_blocks).mT
        else:
            shape = (*of_b, problem.scale_columns, problem.k_blocks)
            made.scale_b = (0.5 + torch.rand(shape, generator=generator, device=device)).mT
    if problem.c:
        made.c = normal(*of_d, problem.m, problem.n, dtype=problem.d)
    return made


def _layout(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Groups with the expected number of rows, but for 30 % more or less."""
    device, groups = generator.device, problem.groups
    share = 0.7 + 0.6 * torch.rand(groups, generator=generator, device=device)
    if problem.grouping == "none":
        return {}
    if problem.grouping == "k_sizes":
        unit = part_multiple(problem.a)
        whole = (share.cumsum(0) / share.sum() * problem.k / unit).round() * unit
        return {"group_k": whole.diff(prepend=whole.new_zeros(1)).int()}
    if problem.grouping == "rows_valid":
        expected = problem.expected_m
        counts = (
            (share * expected).round().clamp(1, problem.m) if expected else torch.full_like(share, problem.m)
        )
        return {"rows_valid": counts.int()}
    alignment = problem.row_alignment
    starts = (share.cumsum(0) / share.sum() * problem.m / alignment).round().int() * alignment
    padding = (torch.rand(groups, generator=generator, device=device) * alignment).int()
    begins = torch.cat((starts.new_zeros(1), starts[:-1]))
    ends = torch.maximum(begins, torch.minimum(starts, starts.new_tensor(problem.m)) - padding)
    if problem.grouping == "ends":
        return {"group_ends": ends}
    return {"group_of_row": reference.groups_of_rows(ends, problem.m, alignment)}


def peer(problem: Problem) -> Peer[Operands] | None:
    """torch's product with the same scale factors, or of the same groups; None where it has none."""
    if problem.c or problem.d != "bf16" or problem.scales == "1x128":
        return None
    if problem.grouping == "none" and problem.groups == 1 and problem.scales == "128x128":
        return "torch._scaled_mm", _scaled_mm
    if problem.grouping == "ends" and problem.a == "bf16" and problem.row_alignment == 1:
        return "torch._grouped_mm", lambda x: torch._grouped_mm(x.a, x.b, x.layout["group_ends"])
    return None


def _scaled_mm(operands: Operands) -> torch.Tensor:
    x = operands
    assert x.scale_a is not None
    assert x.scale_b is not None
    return torch._scaled_mm(
        x.a[0],
        x.b[0],
        scale_a=x.scale_a[0],
        scale_b=x.scale_b[0],
        out_dtype=torch.bfloat16,
        use_fast_accum=False,  # torch has no other for blocks of 128x128
    )
