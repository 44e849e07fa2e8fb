"""Operands and checks with which the MQA ops are measured: on random data, correct first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.mqa_logits.op import mqa_logits, paged_mqa_logits, paged_mqa_schedule
from tilewright.ops.mqa_logits.problem import Problem
from tilewright.reference import codes

ERROR = "difference {:.2e} from float64"  # what `check` answers

# Of DeepGEMM's measure of a difference, 1 - 2 sum(xy) / sum(x^2 + y^2): its own tests allow as much.
TOLERANCES = {"f32": 5e-6, "bf16": 3e-5}
_REFERENCE_ROWS = 64
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


@dataclass
class Operands:
    """One set of random operands, and logits. Ragged queries look at the keys up to their own, the last one
    at all; those of pages at all of their sequence's."""

    problem: Problem
    op: Callable[..., Tensor]  # with its operands
    row: Callable[[int], Tensor]  # of a query, float64: logits of the keys that it looks at
    out: Tensor

    def poison(self) -> None:
        measuring.poison(self.out)

    def call(self, tactic: Tactic | None = None) -> Tensor:
        return self.op(out=self.out, clean=self.problem.clean, tactic=tactic)

    def check(self) -> float:
        """The difference from float64, over rows spread evenly. Raises WrongResultError where it is too
        large, or something is written that is none of a query's keys."""
        problem, found, wanted = self.problem, [], []
        for query in range(0, problem.queries, max(1, problem.queries // _REFERENCE_ROWS)):
            wanted.append(self.row(query))
            looked_at, rest = self.out[query].tensor_split([len(wanted[-1])])
            found.append(looked_at)
            if not bool((torch.isneginf(rest) if problem.clean else torch.isnan(rest)).all()):
                raise WrongResultError(f"{problem}: row {query} is written beyond its keys")
        error = difference(torch.cat(found), torch.cat(wanted))
        if not error <= TOLERANCES[problem.d]:  # a NaN fails
            raise WrongResultError(f"{problem}: difference {error:.2e}")
        return error


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return [_make(problem, device, generator) for _ in range(measuring.sets(problem, device))]


def _make(problem: Problem, device: DeviceProperties, generator: torch.Generator) -> Operands:
    random = functools.partial(torch.randn, generator=generator, device="cuda")
    whole = functools.partial(torch.randint, generator=generator, device="cuda", dtype=torch.uint8)
    fp8, paged = problem.q == "e4m3", problem.form == "paged"

    def words(*shape: int) -> Tensor:
        """Exponents of 2^-3 to 2^1, four to a word."""
        return whole(124, 129, (*shape, 4)).view(torch.int32).squeeze(-1)

    def elements(*shape: int) -> Tensor:
        return random(shape).to(dtype_of("e4m3")) if fp8 else whole(256, (*shape[:-1], shape[-1] // 2))

    queries, keys = problem.queries, problem.keys
    sequences = problem.sequences if paged else 1
    q, kv = elements(queries, problem.heads, problem.head_dim), elements(sequences * keys, problem.head_dim)
    q_scale = None if fp8 else words(queries, problem.heads)
    kv_scale = random(sequences * keys).abs() + 0.1 if fp8 else words(sequences * keys)
    weights = random(queries, problem.heads)
    starts, order = torch.zeros(2, queries, dtype=torch.int32, device="cuda")
    ends = order + keys if paged else (order + 1).cumsum(0).add(keys - queries).clamp(min=1).int()

    def row(query: int) -> Tensor:
        one, first = slice(query, query + 1), query // problem.next_n * keys if paged else 0
        mine = slice(first, first + int(ends[query]))
        scale = None if q_scale is None else q_scale[one]
        return reference(q[one], kv[mine], kv_scale[mine], weights[one], scale)[0]

    if paged:
        cache, table = pages_of(kv, kv_scale, sequences, problem.page, generator)
        schedule = paged_mqa_schedule(ends, blocks=device.sm_count, next_n=problem.next_n)
        given = (q, cache, weights, ends, table, schedule)
        op = functools.partial(paged_mqa_logits, *given, keys=keys, q_scale=q_scale)
    else:
        op = functools.partial(mqa_logits, q, kv, kv_scale, weights, starts, ends, q_scale=q_scale)
    return Operands(problem, op, row, torch.empty(queries, keys, dtype=dtype_of(problem.d), device="cuda"))


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


def peer(problem: Problem) -> Peer[Operands] | None:
    """torch has no op for it."""
    return None
