"""Operands and checks with which `scale_columns` is measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright import blockwise_scales
from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.scale_columns.op import scale_columns
from tilewright.ops.scale_columns.problem import Problem

ERROR = "equal to the bit; {:.0f} differ"  # what `check` answers


@dataclass
class Operands:
    """Scales, powers of two all, and what they become."""

    problem: Problem
    scales: torch.Tensor
    out: torch.Tensor

    def poison(self) -> None:
        measuring.poison(self.out)

    def call(self, tactic: Tactic | None = None) -> torch.Tensor:
        return scale_columns(self.scales, layout=self.problem.layout, out=self.out, tactic=tactic)

    def check(self) -> float:
        """Raises WrongResultError where a bit differs from what torch makes."""
        exponents = (self.scales.view(torch.int32) >> 23).to(torch.uint8)
        wanted = (blockwise_scales.pack if self.problem.packed else blockwise_scales.m_major)(
            exponents if self.problem.packed else self.scales
        )
        if not torch.equal(self.out, blockwise_scales.with_padding(wanted)):
            raise WrongResultError(f"{self.problem}: lines differ from what torch makes")
        return 0.0


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    generator = torch.Generator("cuda").manual_seed(seed)
    batch = (problem.batch,) if problem.batch > 1 else ()
    shape = (*batch, problem.m, problem.columns)
    scales = torch.randint(-20, 20, shape, generator=generator, device="cuda").float().exp2()
    dtype = torch.int32 if problem.packed else torch.float32
    lines = (*batch, problem.lines, problem.leading)
    first = Operands(problem, scales, torch.empty(lines, dtype=dtype, device="cuda"))
    return measuring.copies(first, measuring.sets(problem, device))


def peer(problem: Problem) -> Peer[Operands] | None:
    """A transposition by torch."""
    if problem.packed:
        return None
    return "copy_", lambda x: x.out[..., : problem.m].copy_(x.scales.mT)
