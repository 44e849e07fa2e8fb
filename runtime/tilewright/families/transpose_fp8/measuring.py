"""Operands and checks with which `transpose_fp8` is measured."""

from __future__ import annotations

import torch

from tilewright.errors import WrongResultError
from tilewright.families.transpose_fp8.op import transpose_fp8
from tilewright.families.transpose_fp8.problem import Problem
from tilewright.formats.dtypes import as_bytes, dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer


class Operands(measuring.Operands):
    """A call of `transpose_fp8` on any bytes."""

    error_text = "equal to the bit; {:.0f} differ"

    def check(self) -> float:
        """Raises WrongResultError if a byte differs from torch's result."""
        if not torch.equal(as_bytes(self.out), as_bytes(self.x).mT):
            raise WrongResultError(f"{self.problem}: bytes differ from torch's")
        return 0.0


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    batch = (problem.batch,) if problem.batch > 1 else ()
    shape = (*batch, problem.rows, problem.columns)
    x = torch.randint(256, shape, generator=generator, device=generator.device, dtype=torch.uint8)
    return Operands(problem, transpose_fp8, x=x.view(dtype_of(problem.type)))


def peer(problem: Problem) -> Peer:
    """A copy of as many bytes."""
    return "copy_", lambda x: as_bytes(x.out).view(-1).copy_(as_bytes(x.x).view(-1))
