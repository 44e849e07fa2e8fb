"""Operands, a peer and the check with which `reduced_gemm` is measured."""

from __future__ import annotations

import torch

from tilewright.families.reduced_gemm.interface import INTERFACE
from tilewright.families.reduced_gemm.op import reduced_gemm
from tilewright.families.reduced_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

_TOLERANCES = {"bf16": 4e-3, "f16": 2e-3, "f32": 1e-4}
_CHUNK = 2**24  # elements of an operand that are multiplied in float64 at once


class Operands(measuring.Operands):
    """A call of `reduced_gemm`, with a beta of 1 if there is a C."""

    def check(self) -> float:
        expected = torch.zeros(self.out.shape, dtype=torch.float64, device=self.out.device)
        if self.c is not None:
            expected += self.c
        step = max(1, _CHUNK // max(self.a[0].numel(), self.b[0].numel()))
        for a, b in zip(self.a.split(step), self.b.split(step), strict=True):
            expected += torch.einsum("bmk,bkn->mn", a.double(), b.double())
        tolerance = _TOLERANCES[self.problem.d]
        return measuring.check_norms(self.problem, self.out.double(), expected, tolerance, tolerance)


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    matrices = measuring.random_matrices(INTERFACE, problem, generator)
    options = {"beta": float(problem.c), "out_dtype": dtype_of(problem.d)}
    return Operands(problem, reduced_gemm, **matrices, **options)


def peer(problem: Problem) -> Peer | None:
    """torch's einsum, whose sums have the operands' type."""
    if problem.c:
        return None
    return "torch.einsum", lambda x: torch.einsum("bmk,bkn->mn", x.a, x.b)
