"""Operands and checks with which the MQA ops are measured, on random data."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tilewright import context
from tilewright.errors import WrongResultError
from tilewright.families.mqa_logits.interface import INTERFACE
from tilewright.families.mqa_logits.op import mqa_logits, paged_mqa_logits, paged_mqa_schedule
from tilewright.families.mqa_logits.problem import Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.reference.codes import decode_mx_words
from tilewright.tools.reference.comparison import difference

TOLERANCES = {"f32": 5e-6, "bf16": 3e-5}  # the largest difference; DeepGEMM's own tests allow the same


def reference(q: Tensor, kv: Tensor, kv_scale: Tensor, weights: Tensor, q_scale: Any = None) -> Tensor:
    """The logits of every key: float64 [queries, keys]."""
    if q_scale is not None:
        q, kv, kv_scale = decode_mx_words(q, q_scale), decode_mx_words(kv, kv_scale), torch.tensor(1.0)
    products = torch.einsum("qhd,kd->qhk", q.double(), kv.double())
    return torch.einsum("qhk,qh->qk", products.relu(), weights.double()) * kv_scale.double()


class Operands(measuring.Operands):
    """A call of `mqa_logits` or `paged_mqa_logits`.

    A ragged query looks at the keys up to its own, so that the last query looks at all keys. A paged query
    looks at all keys of its sequence, which `kv` and `kv_scale` also hold in order.
    """

    error_text = "difference {:.2e} from float64"

    def row(self, query: int) -> Tensor:
        """The logits of the keys that a query looks at, in float64."""
        paged, queries = self.problem.form == "paged", slice(query, query + 1)
        first = query // self.problem.next_n * self.problem.keys if paged else 0
        keys = slice(first, first + int((self.lengths if paged else self.ends)[query]))
        scale = None if self.q_scale is None else self.q_scale[queries]
        return reference(self.q[queries], self.kv[keys], self.kv_scale[keys], self.weights[queries], scale)[0]

    def check(self) -> float:
        """The difference from float64, over rows spread evenly. Raises WrongResultError if it is too large,
        or if a row is written beyond its query's keys."""
        problem, actual, expected = self.problem, [], []
        untouched = torch.isneginf if problem.clean else torch.isnan
        for query in range(problem.queries)[measuring.spread(problem.queries, 64)]:
            expected.append(self.row(query))
            actual.append(self.out[query, : len(expected[-1])])
            if not bool(untouched(self.out[query, len(expected[-1]) :]).all()):
                raise WrongResultError(f"{problem}: row {query} is written beyond its keys")
        error = difference(torch.cat(actual), torch.cat(expected))
        if not error <= TOLERANCES[problem.d]:  # a NaN fails
            raise WrongResultError(f"{problem}: difference {error:.2e}")
        return error


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, paged, queries = generator.device, problem.form == "paged", problem.queries
    ragged = replace(problem, form="ragged", keys=problem.keys * (problem.sequences if paged else 1))

    def exponents(*shape: int) -> Tensor:  # of 2^-3 to 2^1, four to a word
        codes = torch.randint(124, 129, (*shape, 4), generator=generator, device=device, dtype=torch.uint8)
        return codes.view(torch.int32).squeeze(-1)

    operands: dict[str, Any] = {
        name: measuring.random_matrix(INTERFACE.matrices[name], ragged, generator)
        for name in ("q", "kv", "weights")
    }
    if problem.q == "e4m3":
        operands["kv_scale"] = torch.randn(ragged.keys, generator=generator, device=device).abs() + 0.1
    else:
        operands |= {"q_scale": exponents(queries, problem.heads), "kv_scale": exponents(ragged.keys)}
    operands |= {"out_dtype": dtype_of(problem.d), "clean": problem.clean}
    starts, order = torch.zeros(2, queries, dtype=torch.int32, device=device)
    if not paged:
        ends = (order + 1).cumsum(0).add(problem.keys - queries).clamp(min=1).int()
        return Operands(problem, mqa_logits, starts=starts, ends=ends, **operands)
    lengths = order + problem.keys
    cache, table = pages_of(operands["kv"], operands["kv_scale"], problem.sequences, problem.page, generator)
    blocks = context.current().device(device.index or 0).sm_count
    schedule = paged_mqa_schedule(lengths, blocks=blocks, next_n=problem.next_n)
    operands |= {"kv_cache": cache, "block_table": table, "schedule": schedule, "lengths": lengths}
    return Operands(problem, paged_mqa_logits, keys=problem.keys, **operands)


def pages_of(
    kv: Tensor, kv_scale: Tensor, sequences: int, page: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """A cache of the keys of equally long sequences, its pages in random order, and its block table."""
    missing = -(len(kv) // sequences) % page

    def paged(tensor: Tensor) -> Tensor:
        rows = tensor.view(torch.uint8).view(sequences, len(kv) // sequences, -1)
        return torch.nn.functional.pad(rows, (0, 0, 0, missing)).view(-1, page * rows.shape[-1])

    pages = torch.cat([paged(kv), paged(kv_scale)], dim=1)
    order = torch.randperm(len(pages), generator=generator, device=kv.device)
    return pages[order.argsort()], order.view(sequences, -1).to(torch.int32)
