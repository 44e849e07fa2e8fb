"""Operands and checks with which the MQA ops are measured: on random data, correct first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tilewright import context
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.mqa_logits.interface import INTERFACE
from tilewright.ops.mqa_logits.op import mqa_logits, paged_mqa_logits, paged_mqa_schedule
from tilewright.ops.mqa_logits.problem import Problem
from tilewright.reference import codes

# Of DeepGEMM's measure of a difference, 1 - 2 sum(xy) / sum(x^2 + y^2): its own tests allow as much.
TOLERANCES = {"f32": 5e-6, "bf16": 3e-5}
_CHECKED_ROWS = 64
BLOCK = 32  # elements of FP4 that share an exponent


def reference(q: Tensor, kv: Tensor, kv_scale: Tensor, weights: Tensor, q_scale: Any = None) -> Tensor:
    """[queries, keys], float64: logits of every key."""
    if q_scale is not None:
        q, kv, kv_scale = decoded(q, q_scale), decoded(kv, kv_scale), torch.ones_like(kv_scale)
    products = torch.einsum("qhd,kd->qhk", q.double(), kv.double())
    return torch.einsum("qhk,qh->qk", products.relu(), weights.double()) * kv_scale.double()


def decoded(data: Tensor, words: Tensor) -> Tensor:
    """FP4 [..., n / 2] with int32 words of exponents [...], float64 [..., n]."""
    values = codes.decode_e2m1(codes.unpack_e2m1(data))
    exponents = words.unsqueeze(-1).contiguous().view(torch.uint8).double()
    scales = torch.exp2(exponents - 127).repeat_interleave(BLOCK, dim=-1)
    return values * scales[..., : values.shape[-1]]


def difference(found: Tensor, wanted: Tensor) -> float:
    """1 - 2 sum(xy) / sum(x^2 + y^2), in float64."""
    x, y = found.double(), wanted.double()
    return 1 - 2 * float((x * y).sum()) / float((x * x + y * y).sum())


class Operands(measuring.Operands):
    """A call of `mqa_logits` or `paged_mqa_logits`. Ragged queries look at the keys up to their own, the last
    one at all; those of pages at all of their sequence's, which `kv` and `kv_scale` hold in order, too."""

    error_text = "difference {:.2e} from float64"

    def row(self, query: int) -> Tensor:
        """float64: logits of the keys that a query looks at."""
        paged, one = self.problem.form == "paged", slice(query, query + 1)
        first = query // self.problem.next_n * self.problem.keys if paged else 0
        mine = slice(first, first + int((self.lengths if paged else self.ends)[query]))
        scale = None if self.q_scale is None else self.q_scale[one]
        return reference(self.q[one], self.kv[mine], self.kv_scale[mine], self.weights[one], scale)[0]

    def check(self) -> float:
        """The difference from float64, over rows spread evenly; nothing but a query's keys is written."""
        problem, found, wanted = self.problem, [], []
        for query in range(problem.queries)[measuring.spread(problem.queries, _CHECKED_ROWS)]:
            wanted.append(self.row(query))
            looked_at, rest = self.out[query].tensor_split([len(wanted[-1])])
            found.append(looked_at)
            if not bool((torch.isneginf(rest) if problem.clean else torch.isnan(rest)).all()):
                raise WrongResultError(f"{problem}: row {query} is written beyond its keys")
        error = difference(torch.cat(found), torch.cat(wanted))
        if not error <= TOLERANCES[problem.d]:  # a NaN fails
            raise WrongResultError(f"{problem}: difference {error:.2e}")
        return error


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, paged = generator.device, problem.form == "paged"
    queries, keys = problem.queries, problem.keys
    sequences = problem.sequences if paged else 1
    all_keys = replace(problem, form="ragged", keys=sequences * keys)

    def matrix(name: str) -> Tensor:
        return measuring.random_matrix(INTERFACE.matrices[name], all_keys, generator)

    def words(*shape: int) -> Tensor:
        """Exponents of 2^-3 to 2^1, four to a word."""
        bytes_ = torch.randint(124, 129, (*shape, 4), generator=generator, device=device, dtype=torch.uint8)
        return bytes_.view(torch.int32).squeeze(-1)

    given: dict[str, Any] = {name: matrix(name) for name in ("q", "kv", "weights")}
    if problem.q == "e4m3":
        scales = torch.randn(all_keys.keys, generator=generator, device=device)
        given["kv_scale"] = scales.abs() + 0.1
    else:
        given |= {"q_scale": words(queries, problem.heads), "kv_scale": words(all_keys.keys)}
    given |= {"out_dtype": dtype_of(problem.d), "clean": problem.clean}
    starts, order = torch.zeros(2, queries, dtype=torch.int32, device=device)
    if not paged:
        ends = (order + 1).cumsum(0).add(keys - queries).clamp(min=1).int()
        return Operands(problem, mqa_logits, starts=starts, ends=ends, **given)
    lengths = order + keys
    cache, table = pages_of(given["kv"], given["kv_scale"], sequences, problem.page, generator)
    blocks = context.current().device(device.index or 0).sm_count
    schedule = paged_mqa_schedule(lengths, blocks=blocks, next_n=problem.next_n)
    given |= {"kv_cache": cache, "block_table": table, "schedule": schedule, "lengths": lengths}
    return Operands(problem, paged_mqa_logits, keys=keys, **given)


def pages_of(
    kv: Tensor, kv_scale: Tensor, sequences: int, page: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """A cache of the keys of equally long sequences, its pages in random order, and its block table."""
    keys, row = len(kv) // sequences, kv.shape[1]  # bytes
    each = -(-keys // page)
    order = torch.randperm(sequences * each, generator=generator, device=kv.device)
    lines = torch.zeros(sequences, each * page, row, dtype=torch.uint8, device=kv.device)
    lines[:, :keys] = kv.view(torch.uint8).view(sequences, keys, row)
    scales = torch.zeros(sequences, each * page, dtype=kv_scale.dtype, device=kv.device)
    scales[:, :keys] = kv_scale.view(sequences, keys)
    cache = torch.empty(sequences * each, page * (row + 4), dtype=torch.uint8, device=kv.device)
    cache[order, : page * row] = lines.view(sequences * each, -1)
    cache[order, page * row :] = scales.view(torch.uint8).view(sequences * each, -1)
    return cache, order.view(sequences, each).to(torch.int32)


def peer(problem: Problem) -> Peer | None:
    """torch has no op for it."""
    return None
