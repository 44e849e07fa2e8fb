"""Operands, peers and checks with which `hc_prenorm` is measured: on random data, correct first."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.hc_prenorm.op import hc_prenorm
from tilewright.ops.hc_prenorm.problem import Problem
from tilewright.ops.hc_prenorm.reference import reference

ERROR = "error norm {:.2e} against float64"  # what `check` answers

_TOLERANCE = 1e-4  # of an error norm; DeepGEMM's 1e-8 of calc_diff is its square, halved: 1.4e-4
_REFERENCE_ROWS = 512  # of D that are checked, spread over it


@dataclass
class Operands:
    """One set of random operands, and what is written."""

    problem: Problem
    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor
    squares: torch.Tensor

    def poison(self) -> None:
        measuring.poison(self.out)
        measuring.poison(self.squares)

    def call(self, tactic: Tactic | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        return hc_prenorm(
            self.a, self.b, splits=_splits(self.problem), normalize=self.problem.normalize,
            out=self.out, squares=self.squares, tactic=tactic,
        )  # fmt: skip

    def check(self) -> float:
        """The larger error norm of D's and the squares', over rows spread evenly. Raises WrongResultError
        where it is too large."""
        step = max(1, self.problem.m // _REFERENCE_ROWS)
        splits, normalize = _splits(self.problem), self.problem.normalize
        wanted = reference(self.a[::step], self.b, splits=splits, normalize=normalize)
        found = (self.out[..., ::step, :].double(), self.squares[..., ::step].double())
        errors = [float((x - y).norm() / y.norm()) for x, y in zip(found, wanted, strict=True)]
        if not all(error <= _TOLERANCE for error in errors):  # a NaN fails
            raise WrongResultError(f"{self.problem}: error norms {errors}; {_TOLERANCE:.0e} is allowed")
        return max(errors)


def _splits(problem: Problem) -> int | None:
    return problem.splits if problem.splits > 1 else None


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    generator = torch.Generator("cuda").manual_seed(seed)
    a = torch.randn((problem.m, problem.k), generator=generator, device="cuda").bfloat16()
    b = torch.randn((problem.n, problem.k), generator=generator, device="cuda")
    shape = (problem.splits, problem.m) if problem.splits > 1 else (problem.m,)

    def room(*shape: int) -> torch.Tensor:
        return torch.empty(shape, device="cuda")

    return [
        Operands(problem, a.clone(), b.clone(), room(*shape, problem.n), room(*shape))
        for _ in range(measuring.sets(problem, device))
    ]


def peer(problem: Problem) -> Peer[Operands] | None:
    """torch's ops, which read a more than once; None where D is in splits, or normalised."""
    if problem.splits > 1 or problem.normalize:
        return None
    torch.backends.cuda.matmul.allow_tf32 = True

    def call(x: Operands) -> None:
        wide = x.a.float()
        torch.mm(wide, x.b.T, out=x.out)
        torch.sum(wide.square(), -1, out=x.squares)

    return "torch", call
