"""Operands and checks with which `scale_columns` is measured."""

from __future__ import annotations

import torch

from tilewright import blockwise_scales
from tilewright.errors import WrongResultError
from tilewright.families.scale_columns.op import scale_columns
from tilewright.families.scale_columns.problem import Problem
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer


class Operands(measuring.Operands):
    """A call of `scale_columns` on powers of two."""

    error_text = "equal to the bit; {:.0f} differ"

    def check(self) -> float:
        """Raises WrongResultError if a bit differs from torch's result."""
        if self.problem.packed:
            exponents = (self.scales.view(torch.int32) >> 23).to(torch.uint8)
            expected = blockwise_scales.pack(exponents)
        else:
            expected = blockwise_scales.m_major(self.scales)
        if not torch.equal(self.out, blockwise_scales.with_padding(expected)):
            raise WrongResultError(f"{self.problem}: lines differ from torch's")
        return 0.0


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    batch = (problem.batch,) if problem.batch > 1 else ()
    shape = (*batch, problem.m, problem.columns)
    scales = torch.randint(-20, 20, shape, generator=generator, device=generator.device).float().exp2()
    return Operands(problem, scale_columns, scales=scales, layout=problem.layout)


def peer(problem: Problem) -> Peer | None:
    """A transposition with torch."""
    if problem.packed:
        return None
    return "copy_", lambda x: x.out[..., : problem.m].copy_(x.scales.mT)
