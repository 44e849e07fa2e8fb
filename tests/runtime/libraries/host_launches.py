"""A kernel of the host, its problem and its arguments."""

from __future__ import annotations

import torch

from tilewright.declarations.arguments import launchable, packed
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.library import Launcher, Library

PROBLEM = Problem(16, 24, 8)
WHOLE = Tactic("host_bf16_tn")
SPLIT = Tactic("host_bf16_tn_streamk", decomposition="split_k", splits=4)
ABSENT = (None,) * 5  # bias, scale_a, scale_b, scale_result, amax
NUMBERS = (1.0, 0.0, None)  # alpha, beta, workspace


def operands(m: int = 16, n: int = 24, k: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(m + n + k)
    a = torch.randn(m, k).bfloat16()
    b = torch.randn(n, k).bfloat16().t()
    return a, b, torch.full((m, n), float("nan"), dtype=torch.bfloat16)


def launcher(
    library: Library,
    tensors: dict[str, torch.Tensor],
    tactic: Tactic = WHOLE,
    problem: Problem = PROBLEM,
    **alignments: int,
) -> Launcher:
    """A launcher for operands that lie as these. It takes them, and then alpha, beta and a workspace."""
    lie = [tensors.get(name) for name in INTERFACE.names]
    made = launchable(
        INTERFACE, problem, packed(INTERFACE, problem, tactic, 132), tensors=lie, alignments=alignments
    )
    return library.launcher(tactic.kernel, made)


def plain(library: Library, tactic: Tactic = WHOLE) -> Launcher:
    a, b, d = operands()
    return launcher(library, {"a": a, "b": b, "out": d}, tactic)
