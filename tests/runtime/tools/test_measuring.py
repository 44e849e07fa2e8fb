"""Operands with which ops are measured: made from the declaration, copied to lie elsewhere."""

from __future__ import annotations

import pytest
import torch

from tilewright import blockwise_scales
from tilewright.context import Context
from tilewright.contract.tensors import same
from tilewright.errors import WrongResultError
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.measuring import make
from tilewright.families.gemm.problem import Problem
from tilewright.tools import measuring


@pytest.mark.parametrize(
    "problem",
    [
        Problem(16, 24, 32, bias=True),
        Problem(16, 24, 32, layout="nt", batch=3),
        Problem(16, 24, 32, bias=True, c=True, activation="relu"),
        Problem(16, 32, 64, a="s8", b="s8", d="s32"),
    ],
    ids=str,
)
def test_operands_are_those_that_the_problem_says(host: Context, problem: Problem) -> None:
    operands = make(problem, torch.Generator().manual_seed(0))
    assert (operands.c is not None, operands.bias is not None) == (problem.c, problem.bias)
    assert (operands.a.stride(-1) == 1) == (problem.layout[0] == "t")
    assert (operands.b.stride(-2) == 1) == (problem.layout[1] == "n")
    assert measuring.checked(operands) < 4e-3
    operands.out.mul_(2)
    with pytest.raises(WrongResultError, match="norm ratio"):
        operands.check()


def test_matrices_of_a_batch() -> None:
    made = measuring.random_matrices(INTERFACE, Problem(4, 6, 8, batch=3), torch.Generator())
    assert {name: tuple(tensor.shape) for name, tensor in made.items()} == {"a": (3, 4, 8), "b": (3, 8, 6)}


def test_copies_lie_alike_elsewhere() -> None:
    scales = blockwise_scales.allocate((5, 3), dtype=torch.float32, device="cpu")
    blockwise_scales.with_padding(scales).fill_(2)
    for matrix in (
        torch.randn(4, 6).mT,
        torch.randn(4, 6)[:, 1:3],
        torch.arange(24, dtype=torch.uint8).view(4, 6).view(torch.float4_e2m1fn_x2),
        scales,
    ):
        copy = measuring.elsewhere(matrix)
        assert same(copy, matrix)
        assert copy.stride() == matrix.stride()
        assert copy.data_ptr() != matrix.data_ptr()
    assert bool((blockwise_scales.with_padding(measuring.elsewhere(scales)) == 2).all())


def test_sets_of_operands_share_single_numbers_alone(host: Context) -> None:
    first, *others = measuring.copies(
        make(Problem(4, 16, 32, a="e4m3", b="e4m3", c=True), torch.Generator()), 3
    )
    assert len(others) == 2
    for name in ("a", "b", "c", "out"):
        assert len({getattr(operands, name).data_ptr() for operands in (first, *others)}) == 3
    for operands in others:
        assert operands.scale_a is first.scale_a
        assert (operands.problem, operands.beta, operands.bias) == (first.problem, 1.0, None)
        assert measuring.checked(operands) < 4e-3


def test_what_a_call_writes_is_made_and_poisoned_with_its_padding(host: Context) -> None:
    made = make(Problem(4, 6, 8), torch.Generator())
    assert made.out.shape == (4, 6)
    made.poison()
    assert bool(made.out.isnan().all())
    with pytest.raises(WrongResultError):
        made.check()
