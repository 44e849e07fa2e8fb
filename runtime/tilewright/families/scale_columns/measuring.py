"""Operands and checks with which `scale_columns` is measured."""

from __future__ import annotations

import torch

from tilewright import blockwise_scales, scale_factors
from tilewright.errors import WrongResultError
from tilewright.families.scale_columns.op import scale_columns
from tilewright.families.scale_columns.problem import ATOM_BLOCK, ATOM_ROWS, Problem
from tilewright.formats.dtypes import as_bytes
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer


class Operands(measuring.Operands):
    """A call of `scale_columns` on powers of two."""

    error_text = "equal to the bit; {:.0f} differ"

    def check(self) -> float:
        """Raises WrongResultError if a bit differs from torch's result."""
        if not torch.equal(as_bytes(self.out), as_bytes(self._expected())):
            raise WrongResultError(f"{self.problem}: lines differ from torch's")
        return 0.0

    def _expected(self) -> torch.Tensor:
        problem = self.problem
        if problem.layout == "m_major":
            return blockwise_scales.with_padding(blockwise_scales.m_major(self.scales))
        if problem.words:  # row-major words: the bytes of a row's columns follow one another
            exponents = self.scales.contiguous().view(torch.uint8)
        else:
            exponents = (self.scales.view(torch.int32) >> 23).to(torch.uint8)
        if problem.packed:
            return blockwise_scales.with_padding(blockwise_scales.pack(exponents))
        if problem.lines != problem.m:  # a row of scales for 128 of the matrix
            exponents = exponents.repeat_interleave(ATOM_ROWS, dim=-2)[..., : problem.lines, :]
        return scale_factors.swizzle(exponents.repeat_interleave(problem.block // ATOM_BLOCK, dim=-1))


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    batch = (problem.batch,) if problem.batch > 1 else ()
    shape = (*batch, problem.m, problem.columns)
    scales = torch.randint(-20, 20, shape, generator=generator, device=generator.device).float().exp2()
    if problem.words:
        scales = torch.randint(-(2**31), 2**31, shape, generator=generator, device=generator.device)
        scales = scales.to(torch.int32)
    options = {"block": problem.block, "rows": problem.rows or None, "k": problem.k or None}
    return Operands(problem, scale_columns, scales=scales, layout=problem.layout, **options)


def peer(problem: Problem) -> Peer | None:
    """A transposition with torch."""
    if problem.layout != "m_major":
        return None
    return "copy_", lambda x: x.out[..., : problem.m].copy_(x.scales.mT)
