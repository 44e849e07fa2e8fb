"""Operands of the tests of `mqa_logits`, and the check of their logits."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

import tilewright
from tilewright.declarations.table import KernelRecord
from tilewright.families.mqa_logits.measuring import TOLERANCES, pages_of, reference
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.reference.comparison import difference

POISON = 7.5
INF = float("inf")
ELEMENT_ERROR = 0.05  # of one logit, of the root mean square of all


def made(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


def elements(config: Any, *shape: int, seed: int) -> torch.Tensor:
    """FP8, or any bytes that hold two FP4 each."""
    if config["q"] == "e4m3":
        return made(*shape, seed=seed, dtype=torch.float8_e4m3fn)
    generator = torch.Generator("cuda").manual_seed(seed)
    half = (*shape[:-1], shape[-1] // 2)
    return torch.randint(256, half, generator=generator, device="cuda", dtype=torch.uint8)


def words(exponents: torch.Tensor) -> torch.Tensor:
    """Four exponents of UE8M0 to an int32."""
    return exponents.to(torch.uint8).contiguous().view(torch.int32).squeeze(-1)


def exponents(*shape: int, seed: int) -> torch.Tensor:
    """Words of scales from 2^-8 to 2."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return words(torch.randint(119, 129, (*shape, 4), generator=generator, device="cuda"))


def key_scales(config: Any, keys: int, seed: int) -> torch.Tensor:
    return made(keys, seed=seed).abs() + 0.1 if config["q"] == "e4m3" else exponents(keys, seed=seed)


def query_scales(config: Any, queries: int, seed: int) -> torch.Tensor | None:
    return None if config["q"] == "e4m3" else exponents(queries, config["heads"], seed=seed)


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


class Ragged(NamedTuple):
    """Operands of ragged keys, and which each query looks at."""

    q: torch.Tensor
    kv: torch.Tensor
    kv_scale: torch.Tensor
    weights: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    q_scale: torch.Tensor | None

    @classmethod
    def random(cls, config: Any, ranges: list[tuple[int, int]], keys: int) -> Ragged:
        queries, heads, head_dim = len(ranges), config["heads"], config["head_dim"]
        return cls(
            elements(config, queries, heads, head_dim, seed=1),
            elements(config, keys, head_dim, seed=2),
            key_scales(config, keys, seed=3),
            made(queries, heads, seed=4),
            ints([start for start, _ in ranges]),
            ints([end for _, end in ranges]),
            query_scales(config, queries, seed=5),
        )

    def logits(self) -> torch.Tensor:
        return reference(self.q, self.kv, self.kv_scale, self.weights, self.q_scale)

    def call(self, **options: Any) -> torch.Tensor:
        return tilewright.mqa_logits(*self[:-1], q_scale=self.q_scale, **options)


def check(found: torch.Tensor, logits: torch.Tensor, looked_at: torch.Tensor, rest: float, d: str) -> None:
    """`rest` stands where nobody looks, logits elsewhere."""
    assert bool((found[~looked_at] == rest).all())
    if not bool(looked_at.any()):
        return
    some, expected = found[looked_at].double(), logits[looked_at]
    assert difference(some, expected) < TOLERANCES[d]
    # And each logit: the difference does not see a wrong one among many, which is off by about the root mean
    # square of all.
    excess = (some - expected).abs() - expected.abs() * (2.0**-8 if d == "bf16" else 2.0**-10)
    worst = float((excess / expected.square().mean().sqrt()).max())
    assert not worst > ELEMENT_ERROR, f"a logit is off by {worst:.2g} of the root mean square"


def looked_at(ranges: list[tuple[int, int]], keys: int) -> torch.Tensor:
    columns = torch.arange(keys, device="cuda")
    return torch.stack([(columns >= start) & (columns < end) for start, end in ranges])


class Paged(NamedTuple):
    """Operands of pages: `per_sequence` queries of each, which look at the lengths."""

    q: torch.Tensor
    kv: torch.Tensor  # [sequences, keys, head_dim]
    kv_scale: torch.Tensor
    weights: torch.Tensor
    cache: torch.Tensor
    table: torch.Tensor
    q_scale: torch.Tensor | None

    @classmethod
    def random(cls, config: Any, sequences: int, per_sequence: int, keys: int, page: int) -> Paged:
        queries, heads, head_dim = sequences * per_sequence, config["heads"], config["head_dim"]
        kv = elements(config, sequences * keys, head_dim, seed=2)
        scale = key_scales(config, sequences * keys, seed=3)
        cache, table = pages_of(kv, scale, sequences, page)
        return cls(
            elements(config, queries, heads, head_dim, seed=1),
            kv.view(sequences, keys, -1),
            scale.view(sequences, keys),
            made(queries, heads, seed=4),
            cache,
            table,
            query_scales(config, queries, seed=5),
        )

    def logits(self) -> torch.Tensor:
        rows = torch.arange(len(self.q)).div(len(self.q) // len(self.kv), rounding_mode="floor").tolist()
        each = [slice(i, i + 1) for i in range(len(self.q))]
        return torch.cat(
            [
                reference(
                    self.q[one],
                    self.kv[row],
                    self.kv_scale[row],
                    self.weights[one],
                    None if self.q_scale is None else self.q_scale[one],
                )
                for one, row in zip(each, rows, strict=True)
            ]
        )

    def check(
        self, kernel: KernelRecord, lengths: list[int], ends: list[int], *, blocks: int, **options: Any
    ) -> None:
        keys, d = self.kv.shape[1], kernel.config["d"]
        per_sequence = 1 if "indices" in options else len(lengths) // len(self.table)
        schedule = tilewright.paged_mqa_schedule(
            ints(lengths), blocks=blocks, next_n=per_sequence, indices=options.get("indices")
        )
        for clean in (False, True):
            out = torch.full((len(self.q), keys), POISON, dtype=dtype_of(d), device="cuda")
            tilewright.paged_mqa_logits(
                self.q, self.cache, self.weights, ints(lengths), self.table, schedule, keys=keys,
                q_scale=self.q_scale, out=out, clean=clean, tactic=kernel.name, **options,
            )  # fmt: skip
            ranges = [(0, end) for end in ends]
            check(out, self.logits(), looked_at(ranges, keys), -INF if clean else POISON, d)
