"""Kernels that load a constant B before the previous kernel has ended: what they load early, and what not.

A BF16 product of a long k writes the bytes of A, or of B. It lets the next kernel begin at once, and has few
thread blocks, so that the next product begins long before the bytes are there.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from generated_kernels import fixture, registry

import tilewright
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm import measuring
from tilewright.families.grouped_gemm.problem import Problem

M, N, K = 64, 256, 8192
LONG = 1 << 15  # k of the product that writes bytes, which takes 0.2 ms or more
TRIES = 20
CLUSTERS = ("", "1x2", "2x1")  # a split of k runs code that loads nothing early

kernel = fixture(
    "grouped_gemm", "tilewright build sm90_grouped_gemm", lambda record: record.config["constant_b"]
)


def operands_of(kernel: KernelRecord, *, constant_b: bool = True) -> measuring.Operands:
    types = {name: kernel.config[name] for name in ("a", "b", "d", "scales", "layout")}
    problem = Problem(m=M, n=N, k=K, **types, constant_b=constant_b)
    return measuring.make(problem, torch.Generator("cuda").manual_seed(0))


def without_promise(kernel: KernelRecord) -> Tactic:
    """The same kernel without early loads."""
    name = kernel.name.removesuffix("_constantb")
    if not registry().is_built(registry().record(name)):
        pytest.skip(f"{name} is not built")
    return Tactic(name)


class Writer:
    """Writes 1.0 in BF16 to memory, by a product of few thread blocks that lets the next kernel begin at
    once. In FP8 these are 1.875 and -0 in turn."""

    def __init__(self, rows: int) -> None:
        kernels = [
            record
            for record in registry().kernels("gemm")
            if record.arch == "sm_90a"
            and record.config["mainloop"] == "lean"
            and (record.config["a"], record.config["d"], record.config["layout"]) == ("bf16", "bf16", "tn")
            and record.config["tile"][1] == 256
            and not record.config["swap_ab"]
            and record.config["activation"] != "silu_mul"  # it writes half of the columns
            and registry().is_built(record)
        ]
        if not kernels:
            pytest.skip("no lean BF16 kernel of 256 columns is built")
        self._tactic = Tactic(kernels[0].name)
        self._a = torch.ones(rows, LONG, dtype=torch.bfloat16, device="cuda")
        self._b = torch.full((K // 2, LONG), 1 / LONG, dtype=torch.bfloat16, device="cuda").mT
        self.memory = torch.zeros(rows, K // 2, dtype=torch.bfloat16, device="cuda")

    def matrix(self) -> torch.Tensor:
        """The memory in FP8, as a batch of one: [1, rows, K]."""
        return self.memory.view(torch.float8_e4m3fn)[None]

    def write(self) -> None:
        tilewright.gemm(self._a, self._b, out=self.memory, tactic=self._tactic)


def behind(writer: Writer, operands: measuring.Operands, tactic: Tactic) -> torch.Tensor:
    """The result of a product that is enqueued behind the writer, with zeros in its memory before."""
    writer.memory.zero_()
    torch.cuda.synchronize()
    writer.write()
    operands.call(tactic)
    torch.cuda.synchronize()
    return operands.out.clone()


def result_of(operands: measuring.Operands, tactic: Tactic, **changes: Any) -> torch.Tensor:
    """The result with these operands, which nothing writes meanwhile."""
    changed = operands.changed(**{name: tensor.clone() for name, tensor in changes.items()})
    torch.cuda.synchronize()
    changed.call(tactic)
    return changed.out.clone()


def test_activations_are_not_loaded_early(kernel: KernelRecord) -> None:
    writer, operands = Writer(M), operands_of(kernel)
    operands = operands.changed(a=writer.matrix())
    writer.write()
    expected = result_of(operands_of(kernel, constant_b=False), without_promise(kernel), a=writer.matrix())
    assert expected.any()
    for tactic in (Tactic(kernel.name, cluster=cluster) for cluster in CLUSTERS):
        for _ in range(TRIES):
            assert torch.equal(behind(writer, operands, tactic), expected), tactic


def test_activations_are_not_loaded_early_in_a_graph(kernel: KernelRecord) -> None:
    writer, operands = Writer(M), operands_of(kernel)
    operands = operands.changed(a=writer.matrix())
    writer.write()
    expected = result_of(operands_of(kernel, constant_b=False), without_promise(kernel), a=writer.matrix())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        writer.memory.zero_()
        writer.write()
        operands.call(Tactic(kernel.name))
    for _ in range(TRIES):
        operands.out.zero_()
        graph.replay()
        assert torch.equal(operands.out, expected)


def test_the_first_stages_of_weights_are_loaded_early(kernel: KernelRecord) -> None:
    """A broken promise shows it: the first stages of B are those from before, and all others are right."""
    writer = Writer(N)
    plain, operands = operands_of(kernel, constant_b=False), operands_of(kernel)
    operands = operands.changed(b=writer.matrix().mT)
    writer.write()
    new = writer.matrix().clone()
    ahead = kernel.facts["stages"] * kernel.config["tile"][2]
    assert ahead < K
    mixed = new.clone()
    mixed.view(torch.uint8)[..., :ahead] = 0
    results = [result_of(plain, without_promise(kernel), b=each.mT) for each in (mixed, new)]
    assert not torch.equal(*results)
    for cluster in CLUSTERS:
        tactic = Tactic(kernel.name, cluster=cluster)
        behind_writer = [behind(writer, operands, tactic) for _ in range(TRIES)]
        seen = [
            next((i for i, each in enumerate(results) if torch.equal(one, each)), -1) for one in behind_writer
        ]
        assert -1 not in seen, tactic
        assert 0 in seen, f"{tactic} loads nothing early"


def test_without_the_promise_nothing_is_loaded_early(kernel: KernelRecord) -> None:
    writer, operands = Writer(N), operands_of(kernel, constant_b=False)
    operands = operands.changed(b=writer.matrix().mT)
    writer.write()
    tactic = without_promise(kernel)
    expected = result_of(operands, tactic, b=writer.matrix().mT)
    for _ in range(TRIES):
        assert torch.equal(behind(writer, operands, tactic), expected)


def test_the_promise_is_what_chooses_the_kernel(kernel: KernelRecord) -> None:
    operands = operands_of(kernel, constant_b=False)
    with pytest.raises(tilewright.errors.TilewrightError, match="no caller says that B is constant"):
        operands.call(Tactic(kernel.name))
