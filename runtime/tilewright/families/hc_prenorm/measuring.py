"""Operands, a peer and the check with which `hc_prenorm` is measured."""

from __future__ import annotations

import torch

from tilewright.errors import WrongResultError
from tilewright.families.hc_prenorm.interface import INTERFACE
from tilewright.families.hc_prenorm.op import hc_prenorm
from tilewright.families.hc_prenorm.problem import Problem
from tilewright.families.hc_prenorm.reference import reference
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

_TOLERANCE = 1e-4  # the largest error norm; DeepGEMM's tests allow 1e-8 by calc_diff, which is 1.4e-4


class Operands(measuring.Operands):
    """A call of `hc_prenorm`."""

    def check(self) -> float:
        """The larger of the error norms of D and of the squares, over rows spread evenly."""
        rows = measuring.spread(self.problem.m)
        expected = reference(self.a[rows], self.b, splits=self.splits, normalize=self.normalize)
        actual = (self.out[..., rows, :].double(), self.squares[..., rows].double())
        errors = [float((x - y).norm() / y.norm()) for x, y in zip(actual, expected, strict=True)]
        if not all(error <= _TOLERANCE for error in errors):  # a NaN fails
            raise WrongResultError(f"{self.problem}: error norms {errors}; {_TOLERANCE:.0e} is allowed")
        return max(errors)


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    matrices = measuring.random_matrices(INTERFACE, problem, generator)
    splits = problem.splits if problem.splits > 1 else None
    return Operands(problem, hc_prenorm, splits=splits, normalize=problem.normalize, **matrices)


def peer(problem: Problem) -> Peer | None:
    """torch's ops, which read A twice; None if D is in splits, or normalised."""
    if problem.splits > 1 or problem.normalize:
        return None
    torch.backends.cuda.matmul.allow_tf32 = True

    def call(x: Operands) -> None:
        wide = x.a.float()
        torch.mm(wide, x.b.T, out=x.out)
        torch.sum(wide.square(), -1, out=x.squares)

    return "torch", call
