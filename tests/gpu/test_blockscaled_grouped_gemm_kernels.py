"""Every generated `blockscaled_grouped_gemm` kernel that this GPU runs, against exact products."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from generated_kernels import fixture

from tilewright.context import current
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_grouped_gemm import measuring
from tilewright.families.blockscaled_grouped_gemm.family import FAMILY
from tilewright.families.blockscaled_grouped_gemm.problem import Problem

kernel = fixture("blockscaled_grouped_gemm", "tilewright build sm100_blockscaled_grouped_gemm")

PROBLEMS = [
    Problem(1400, 264, 640, 6),
    Problem(700, 136, 384, 7, scale_begins=True, row_alignment=1),
    Problem(1300, 520, 1152, 7, grouping="row_index"),
    Problem(140, 136, 4096, 5, grouping="rows_valid", expected_m=60),
    Problem(128, 8, 128, 1),
]


def operands(record: KernelRecord, problem: Problem, **options: bool) -> measuring.Operands:
    config = record.config
    own = replace(problem, a=config["a"], b=config["b"], d=config["d"], **options)
    return measuring.make(own, torch.Generator("cuda").manual_seed(problem.m))


@pytest.mark.parametrize(
    "problem", PROBLEMS, ids=lambda problem: f"{problem.grouping} {problem.extents_text}"
)
def test_every_cluster(kernel: KernelRecord, problem: Problem) -> None:
    x = operands(kernel, problem)
    for tactic in FAMILY.candidates(kernel, x.problem, current().device(0)):
        x.poison()
        x.call(tactic)
        x.check()


def test_padding_is_zeroed_where_the_call_asks(kernel: KernelRecord) -> None:
    x = operands(kernel, PROBLEMS[0], zero_padding=True)
    x.poison()
    x.call(Tactic(kernel.name))
    counts = torch.zeros(x.problem.m, dtype=torch.bool, device="cuda")
    for first, last, _ in x.begins():
        counts[first:last] = True
    assert not x.out[~counts].any()
    x.check()


def test_a_graph_is_replayed_with_other_groups(kernel: KernelRecord) -> None:
    x = operands(kernel, PROBLEMS[0])
    x.call(Tactic(kernel.name))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.call(Tactic(kernel.name))
    x.group_ends.copy_(torch.tensor([0, 128, 300, 384, 1000, 1400], dtype=torch.int32))
    x.poison()
    graph.replay()
    x.check()
