"""Operands and checks with which the MQA ops are measured: on random data, correct first."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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


def reference(
    q: torch.Tensor,
    kv: torch.Tensor,
    kv_scale: torch.Tensor,
    weights: torch.Tensor,
    q_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """[queries, keys], float64: logits of every key."""
    if q_scale is not None:
        ones = torch.ones_like(kv_scale)
        return reference(decoded(q, q_scale), decoded(kv, kv_scale), ones, weights)
    products = torch.einsum("qhd,kd->qhk", q.double(), kv.double())
    return torch.einsum("qhk,qh->qk", products.relu(), weights.double()) * kv_scale.double()


def decoded(data: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """FP4 [..., n / 2] with int32 words of exponents [...], float64 [..., n]."""
    values = codes.decode_e2m1(codes.unpack_e2m1(data))
    exponents = words.unsqueeze(-1).contiguous().view(torch.uint8).double()
    scales = torch.exp2(exponents - 127).repeat_interleave(BLOCK, dim=-1)
    return values * scales[..., : values.shape[-1]]


def difference(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """1 - 2 sum(xy) / sum(x^2 + y^2), in float64."""
    x, y = found.double(), wanted.double()
    return 1 - 2 * float((x * y).sum()) / float((x * x + y * y).sum())


@dataclass
class Operands:
    """One set of random operands, and logits. Ragged queries look at the keys up to their own, the last one
    at all; those of pages at all of their sequence's."""

    problem: Problem
    q: torch.Tensor
    q_scale: torch.Tensor | None
    kv: torch.Tensor  # [keys of all sequences, head_dim]
    kv_scale: torch.Tensor
    weights: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    out: torch.Tensor
    paged: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None  # cache, block table, schedule

    def poison(self) -> None:
        measuring.poison(self.out)

    def call(self, tactic: Tactic | None = None) -> torch.Tensor:
        if self.paged is None:
            return mqa_logits(
                self.q, self.kv, self.kv_scale, self.weights, self.starts, self.ends, q_scale=self.q_scale,
                out=self.out, clean=self.problem.clean, tactic=tactic,
            )  # fmt: skip
        cache, table, schedule = self.paged
        return paged_mqa_logits(
            self.q, cache, self.weights, self.ends, table, schedule, keys=self.problem.keys,
            q_scale=self.q_scale, out=self.out, clean=self.problem.clean, tactic=tactic,
        )  # fmt: skip

    def check(self) -> float:
        """The difference from float64, over rows spread evenly. Raises WrongResultError where it is too
        large, or something is written that is none of a query's keys."""
        problem = self.problem
        x, y = [], []
        for row in range(0, problem.queries, max(1, problem.queries // _REFERENCE_ROWS)):
            first = row // problem.next_n * problem.keys if self.paged else 0
            keys = slice(first, first + problem.keys)
            one = slice(row, row + 1)
            q_scale = None if self.q_scale is None else self.q_scale[one]
            wanted = reference(self.q[one], self.kv[keys], self.kv_scale[keys], self.weights[one], q_scale)[0]
            end = int(self.ends[row])
            rest = self.out[row, end:]
            if not bool((torch.isneginf(rest) if problem.clean else torch.isnan(rest)).all()):
                raise WrongResultError(f"{problem}: row {row} is written beyond its {end} keys")
            x.append(self.out[row, :end])
            y.append(wanted[:end])
        found = difference(torch.cat(x), torch.cat(y))
        if not found <= TOLERANCES[problem.d]:  # a NaN fails
            raise WrongResultError(
                f"{problem}: difference {found:.2e}; {TOLERANCES[problem.d]:.0e} is allowed"
            )
        return found


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return [_make(problem, device, generator) for _ in range(measuring.sets(problem, device))]


def _make(problem: Problem, device: DeviceProperties, generator: torch.Generator) -> Operands:
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device="cuda")

    def words(*shape: int) -> torch.Tensor:
        """Exponents of 2^-3 to 2^1, four to a word."""
        exponents = torch.randint(
            124, 129, (*shape, 4), generator=generator, device="cuda", dtype=torch.uint8
        )
        return exponents.view(torch.int32).squeeze(-1)

    def elements(*shape: int) -> torch.Tensor:
        if problem.q == "e4m3":
            return random(*shape).to(dtype_of(problem.q))
        half = (*shape[:-1], shape[-1] // 2)
        return torch.randint(256, half, generator=generator, device="cuda", dtype=torch.uint8)

    queries, keys = problem.queries, problem.keys
    paged = problem.form == "paged"
    sequences = queries // problem.next_n if paged else 1
    q = elements(queries, problem.heads, problem.head_dim)
    kv = elements(sequences * keys, problem.head_dim)
    fp4 = problem.q != "e4m3"
    q_scale = words(queries, problem.heads) if fp4 else None
    scale = words(sequences * keys) if fp4 else random(sequences * keys).abs() + 0.1
    weights = random(queries, problem.heads)
    starts = torch.zeros(queries, dtype=torch.int32, device="cuda")
    if paged:
        ends = torch.full((queries,), keys, dtype=torch.int32, device="cuda")
    else:
        ends = torch.arange(1, queries + 1, dtype=torch.int32, device="cuda").add(keys - queries).clamp(min=1)
        ends = ends.to(torch.int32)
    out = torch.empty(queries, keys, dtype=dtype_of(problem.d), device="cuda")
    made = Operands(problem, q, q_scale, kv, scale, weights, starts, ends, out)
    if paged:
        cache, table = pages_of(kv, scale, sequences, problem.page, generator)
        made.paged = (cache, table, paged_mqa_schedule(ends, blocks=device.sm_count, next_n=problem.next_n))
    return made


def pages_of(
    kv: torch.Tensor,
    kv_scale: torch.Tensor,
    sequences: int,
    page: int,
    generator: torch.Generator | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
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
