"""The calls that mqa_logits.py times, and their operands."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.compat import deep_gemm as ours
from tilewright.families.mqa_logits.measuring import pages_of, reference
from tilewright.families.mqa_logits.problem import Problem


@dataclass(frozen=True)
class Case:
    """A call. `keys`: of ragged ones; of pages of each sequence on average, from 0.7 to 1.3 times as many."""

    form: str
    queries: int  # of pages: of each sequence
    keys: int
    heads: int = 64
    head_dim: int = 128
    d: str = "f32"
    clean: bool = False
    sequences: int = 1
    q: str = "e4m3"

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.d == "f32" else torch.bfloat16

    @property
    def text(self) -> str:
        batch = f"{self.sequences} x " * (self.form == "paged")
        heads = f"{self.heads}x{self.head_dim}{' FP4' * (self.q == 'mxfp4')}"
        return f"{self.form} | {batch}{self.queries} | {self.keys} | {heads} | {self.d}"

    def operand(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Values as both modules read them: FP8, or FP4 with words of exponents."""
        if self.q == "e4m3":
            return values.to(torch.float8_e4m3fn), None
        data, words = ours.utils.per_token_cast_to_fp4(values.flatten(0, -2), True, 32, True)
        return data.view(torch.uint8).unflatten(0, values.shape[:-1]), words.view(values.shape[:-1])

    @property
    def key_bytes(self) -> int:
        return self.head_dim // (1 if self.q == "e4m3" else 2) + 4


RAGGED = [
    Case("ragged", 2048, 4096), Case("ragged", 4096, 32768), Case("ragged", 2048, 8192),
    Case("ragged", 8192, 65536), Case("ragged", 1000, 5000), Case("ragged", 128, 65536),
    Case("ragged", 4096, 32768, d="bf16"), Case("ragged", 4096, 32768, clean=True),
    Case("ragged", 4096, 32768, heads=32), Case("ragged", 4096, 32768, head_dim=64),
    Case("ragged", 4096, 32768, heads=32, head_dim=64), Case("ragged", 4096, 32768, head_dim=32),
    Case("ragged", 4096, 32768, heads=32, head_dim=32), Case("ragged", 4096, 32768, heads=16),
    Case("ragged", 2048, 4096, q="mxfp4"), Case("ragged", 4096, 32768, q="mxfp4"),
    Case("ragged", 4096, 32768, heads=32, q="mxfp4"), Case("ragged", 4096, 32768, head_dim=64, q="mxfp4"),
]  # fmt: skip
PAGED = [
    Case("paged", next_n, keys, heads=heads, sequences=sequences)
    for sequences, keys in ((256, 8192), (32, 65536), (32, 8192), (1, 65536))
    for heads in (64, 32)
    for next_n in (1, 2)
] + [
    Case("paged", 1, 8192, sequences=256, d="bf16"), Case("paged", 4, 8192, sequences=256),
    Case("paged", 6, 8192, sequences=256), Case("paged", 1, 8192, heads=16, sequences=256),
    Case("paged", 1, 8192, head_dim=64, sequences=256), Case("paged", 1, 8192, head_dim=32, sequences=256),
    Case("paged", 1, 8192, sequences=256, q="mxfp4"), Case("paged", 2, 8192, sequences=256, q="mxfp4"),
    Case("paged", 1, 65536, sequences=32, q="mxfp4"), Case("paged", 1, 8192, 32, sequences=256, q="mxfp4"),
]  # fmt: skip
CASES = {"ragged": RAGGED, "paged": PAGED}


def _parts(keys: int) -> Iterator[int]:
    """A million at a time, so that what is cast is small."""
    for first in range(0, keys, 1 << 20):
        yield min(1 << 20, keys - first)


class Ragged:
    """Operands of a case, and what both modules are called with."""

    def __init__(self, case: Case, generator: torch.Generator) -> None:
        self.case = case
        random = functools.partial(torch.randn, generator=generator, device="cuda")
        self.q, self.q_scale = case.operand(random(case.queries, case.heads, case.head_dim))
        self.kv, scale = case.operand(random(case.keys, case.head_dim))
        self.scale = random(case.keys).abs() + 0.1 if scale is None else scale
        self.weights = random(case.queries, case.heads)
        self.starts = torch.zeros(case.queries, dtype=torch.int32, device="cuda")
        last = torch.arange(case.queries, dtype=torch.int32, device="cuda")
        self.ends = last + (case.keys - case.queries + 1)
        self.looked = int(self.ends.sum())  # pairs of a query with a key
        read = self.q.nbytes + 4 * self.weights.numel() + case.keys * case.key_bytes
        self.bytes = read + self.looked * case.dtype.itemsize
        self.problem = Problem(
            case.queries, case.keys, case.heads, case.head_dim, q=case.q, d=case.d, clean=case.clean
        )

    def call(self, module: Any) -> torch.Tensor:
        operands = (self.q, self.q_scale), (self.kv, self.scale), self.weights, self.starts, self.ends
        return module.fp8_fp4_mqa_logits(
            *operands, clean_logits=self.case.clean, logits_dtype=self.case.dtype
        )

    def row(self, query: int) -> tuple[torch.Tensor, int]:
        """The logits of a query, of float64, and how many there are."""
        rows = slice(query, query + 1)
        q_scale = None if self.q_scale is None else self.q_scale[rows]
        logits = reference(self.q[rows], self.kv, self.scale, self.weights[rows], q_scale)
        return logits[0], int(self.ends[query])


class Paged:
    """The same of pages."""

    def __init__(self, case: Case, generator: torch.Generator) -> None:
        self.case = case
        random = functools.partial(torch.randn, generator=generator, device="cuda")
        low, high = int(0.7 * case.keys), int(1.3 * case.keys)
        some = torch.randint(low, high, (case.sequences,), generator=generator, device="cuda")
        self.lengths = some.to(torch.int32)
        self.width = -(-int(self.lengths.max()) // 64) * 64
        self.q, self.q_scale = case.operand(random(case.sequences, case.queries, case.heads, case.head_dim))
        keys = case.sequences * self.width
        blocks = [case.operand(random(rows, case.head_dim)) for rows in _parts(keys)]
        self.kv = torch.cat([data.view(torch.uint8) for data, _ in blocks]).view(blocks[0][0].dtype)
        words = [scale for _, scale in blocks if scale is not None]
        self.scale = torch.cat(words) if words else random(keys).abs() + 0.1
        self.weights = random(case.sequences * case.queries, case.heads)
        cache, self.table = pages_of(self.kv, self.scale, case.sequences, 64, generator)
        self.cache = cache.view(-1, 64, 1, case.key_bytes)
        self.context = self.lengths[:, None].expand(-1, case.queries).contiguous()
        total = int(self.lengths.sum())
        self.looked = total * case.queries
        read = self.q.nbytes + 4 * self.weights.numel() + total * case.key_bytes
        self.bytes = read + self.looked * case.dtype.itemsize
        queries = case.sequences * case.queries
        self.problem = Problem(
            queries, self.width, case.heads, case.head_dim, form="paged", q=case.q, d=case.d,
            next_n=case.queries, cache_pages=len(cache), table_pages=self.table.shape[1],
        )  # fmt: skip

    def call(self, module: Any) -> torch.Tensor:
        schedule = self.schedule(module)
        return module.fp8_fp4_paged_mqa_logits(
            (self.q, self.q_scale), self.cache, self.weights, self.context, self.table, schedule, self.width,
            clean_logits=False, logits_dtype=self.case.dtype,
        )  # fmt: skip

    @functools.cache  # noqa: B019 (lives as long as the operands)
    def schedule(self, module: Any) -> torch.Tensor:
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        return module.get_paged_mqa_logits_metadata(self.context, 64, sms)

    def row(self, query: int) -> tuple[torch.Tensor, int]:
        sequence = query // self.case.queries
        keys = slice(sequence * self.width, (sequence + 1) * self.width)
        rows = slice(query, query + 1)
        q_scale = None if self.q_scale is None else self.q_scale.flatten(0, 1)[rows]
        q = self.q.flatten(0, 1)[rows]
        logits = reference(q, self.kv[keys], self.scale[keys], self.weights[rows], q_scale)
        return logits[0], int(self.lengths[sequence])
