"""Operands, a peer and checks with which `reduced_gemm` is measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.reduced_gemm.op import reduced_gemm
from tilewright.ops.reduced_gemm.problem import Problem

ERROR = "error norm {:.2e} against float64"  # what `check` answers
_TOLERANCES = {"bf16": 4e-3, "f16": 2e-3, "f32": 1e-4}
_CHUNK = 2**24  # elements of an operand that are multiplied in float64 together


@dataclass
class Operands:
    """One set of random operands, and D."""

    problem: Problem
    a: torch.Tensor
    b: torch.Tensor  # [batch, n, k]
    out: torch.Tensor
    c: torch.Tensor | None = None

    def poison(self) -> None:
        measuring.poison(self.out)

    def call(self, tactic: Tactic | None = None) -> torch.Tensor:
        beta = 0.0 if self.c is None else 1.0
        return reduced_gemm(self.a, self.b.mT, out=self.out, c=self.c, beta=beta, tactic=tactic)

    def check(self) -> float:
        """Raises WrongResultError where the norm of the error is too large."""
        wanted = torch.zeros(self.out.shape, dtype=torch.float64, device="cuda")
        if self.c is not None:
            wanted += self.c
        step = max(1, _CHUNK // max(self.a[0].numel(), self.b[0].numel()))
        for first in range(0, self.problem.batch, step):
            a, b = self.a[first : first + step].double(), self.b[first : first + step].double()
            wanted += torch.einsum("bmk,bnk->mn", a, b)
        error = float((self.out.double() - wanted).norm() / wanted.norm())
        if not error <= _TOLERANCES[self.problem.d]:
            allowed = _TOLERANCES[self.problem.d]
            raise WrongResultError(f"{self.problem}: error norm {error:.2e}; {allowed:.0e} is allowed")
        return error


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    generator = torch.Generator("cuda").manual_seed(seed)

    def random(*shape: int, dtype: str) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device="cuda").to(dtype_of(dtype))

    a = random(problem.batch, problem.m, problem.k, dtype=problem.a)
    b = random(problem.batch, problem.n, problem.k, dtype=problem.b)
    c = random(problem.m, problem.n, dtype=problem.d) if problem.c else None
    out = torch.empty(problem.m, problem.n, dtype=dtype_of(problem.d), device="cuda")
    return [
        Operands(problem, a.clone(), b.clone(), torch.empty_like(out), c)
        for _ in range(measuring.sets(problem, device))
    ]


def peer(problem: Problem) -> Peer[Operands] | None:
    """torch's einsum, whose sums have the operands' type."""
    if problem.c:
        return None
    return "torch.einsum", lambda x: torch.einsum("bmk,bnk->mn", x.a, x.b)
