"""Every generated kernel of `mqa_logits` on a GPU, against float64."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import pytest
import torch
from generated_kernels import fixture, registry

import tilewright
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.mqa_logits.measuring import TOLERANCES, difference, pages_of, reference
from tilewright.table import KernelRecord

pytestmark = pytest.mark.marks_kernels
kernel = fixture("mqa_logits", "tilewright build mqa_logits")
POISON = 7.5
INF = float("inf")


def made(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


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

    @classmethod
    def random(cls, config: Any, ranges: list[tuple[int, int]], keys: int) -> Ragged:
        queries, heads, head_dim = len(ranges), config["heads"], config["head_dim"]
        return cls(
            made(queries, heads, head_dim, seed=1, dtype=torch.float8_e4m3fn),
            made(keys, head_dim, seed=2, dtype=torch.float8_e4m3fn),
            made(keys, seed=3).abs() + 0.1,
            made(queries, heads, seed=4),
            ints([start for start, _ in ranges]),
            ints([end for _, end in ranges]),
        )

    def logits(self) -> torch.Tensor:
        return reference(self.q, self.kv, self.kv_scale, self.weights)


def check(found: torch.Tensor, logits: torch.Tensor, looked_at: torch.Tensor, rest: float, d: str) -> None:
    """`rest` stands where nobody looks, logits elsewhere."""
    assert bool((found[~looked_at] == rest).all())
    if bool(looked_at.any()):
        assert difference(found[looked_at], logits[looked_at]) < TOLERANCES[d]


def looked_at(ranges: list[tuple[int, int]], keys: int) -> torch.Tensor:
    columns = torch.arange(keys, device="cuda")
    return torch.stack([(columns >= start) & (columns < end) for start, end in ranges])


# Of 1001 keys: empty ranges, one key, all, ends within a tile and at its borders, neighbours far apart.
RANGES = [
    (0, 0), (500, 500), (70, 3), (1000, 1001), (0, 1), (0, 1001), (63, 64), (64, 128), (65, 700), (7, 999),
    (900, 1001), (0, 64), (1, 2), (333, 334), (128, 192), (990, 1001), (0, 5), (993, 994), (-5, 9),
    (950, 2000),
]  # fmt: skip


def form(kernel: KernelRecord, wanted: str) -> dict[str, Any]:
    config = kernel.config
    if config["form"] != wanted:
        pytest.skip(f"it is of the form {config['form']}")
    return dict(config)


@pytest.mark.parametrize("splits", [1, 3])
def test_ranges(kernel: KernelRecord, splits: int) -> None:
    config = form(kernel, "ragged")
    given = Ragged.random(config, RANGES, 1001)
    for clean in (False, True):
        out = torch.full((len(RANGES), 1001), POISON, dtype=dtype_of(config["d"]), device="cuda")
        tactic = f"{kernel.name}@splits={splits}"
        tilewright.mqa_logits(*given, out=out, clean=clean, tactic=tactic)
        check(out, given.logits(), looked_at(RANGES, 1001), -INF if clean else POISON, config["d"])


def test_compressed_rows(kernel: KernelRecord) -> None:
    config = form(kernel, "ragged")
    given, columns = Ragged.random(config, RANGES, 1001), 640
    logits, wanted = given.logits(), torch.zeros(len(RANGES), columns, device="cuda", dtype=torch.float64)
    shifted = []
    for row, (given_start, given_end) in enumerate(RANGES):
        start, end = max(given_start, 0), min(given_end, 1001)
        count = max(0, min(end - start, columns))
        wanted[row, :count] = logits[row, start : start + count]
        shifted.append((0, count))
    out = torch.full((len(RANGES), columns), POISON, dtype=dtype_of(config["d"]), device="cuda")
    tilewright.mqa_logits(*given, columns=columns, out=out, clean=True, tactic=kernel.name)
    check(out, wanted, looked_at(shifted, columns), -INF, config["d"])


@pytest.mark.parametrize("queries", [1, 3, 130])
@pytest.mark.parametrize("keys", [1, 65, 4096])
def test_sizes(kernel: KernelRecord, queries: int, keys: int) -> None:
    """One token, and ranges as under a causal mask; rows of a wider tensor."""
    config = form(kernel, "ragged")
    ranges = [(0, max(0, keys - queries + 1 + i)) for i in range(queries)]
    given = Ragged.random(config, ranges, keys)
    wide = torch.full((queries, keys + 24), POISON, dtype=dtype_of(config["d"]), device="cuda")
    tilewright.mqa_logits(*given, out=wide[:, 8 : keys + 8], clean=False, tactic=kernel.name)
    check(wide[:, 8 : keys + 8], given.logits(), looked_at(ranges, keys), POISON, config["d"])
    assert bool((wide[:, :8] == POISON).all())
    assert bool((wide[:, keys + 8 :] == POISON).all())


class Paged(NamedTuple):
    """Operands of pages: `per_sequence` queries of each, which look at the lengths."""

    q: torch.Tensor
    kv: torch.Tensor  # [sequences, keys, head_dim]
    kv_scale: torch.Tensor
    weights: torch.Tensor
    cache: torch.Tensor
    table: torch.Tensor

    @classmethod
    def random(cls, config: Any, sequences: int, per_sequence: int, keys: int, page: int) -> Paged:
        queries, heads, head_dim = sequences * per_sequence, config["heads"], config["head_dim"]
        kv = made(sequences * keys, head_dim, seed=2, dtype=torch.float8_e4m3fn)
        scale = made(sequences * keys, seed=3).abs() + 0.1
        cache, table = pages_of(kv, scale, sequences, page)
        return cls(
            made(queries, heads, head_dim, seed=1, dtype=torch.float8_e4m3fn),
            kv.view(sequences, keys, head_dim),
            scale.view(sequences, keys),
            made(queries, heads, seed=4),
            cache,
            table,
        )

    def logits(self) -> torch.Tensor:
        rows = torch.arange(len(self.q)).div(len(self.q) // len(self.kv), rounding_mode="floor").tolist()
        each = [slice(i, i + 1) for i in range(len(self.q))]
        return torch.cat(
            [
                reference(self.q[one], self.kv[row], self.kv_scale[row], self.weights[one])
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
                self.q, self.cache, self.weights, ints(lengths), self.table, schedule, keys=keys, out=out,
                clean=clean, tactic=kernel.name, **options,
            )  # fmt: skip
            ranges = [(0, end) for end in ends]
            check(out, self.logits(), looked_at(ranges, keys), -INF if clean else POISON, d)


@pytest.mark.parametrize("page", [32, 64])
@pytest.mark.parametrize("next_n", [1, 2, 3, 4, 5, 6])
def test_pages(kernel: KernelRecord, next_n: int, page: int) -> None:
    """Lengths of sequences, and of tokens, some of them 0; fewer thread blocks than SMs, and more."""
    given = Paged.random(form(kernel, "paged"), 5, next_n, 1000, page)
    last = [1000, 0, 1, 257, 999]
    ends = [max(0, length - next_n + 1 + i) for length in last for i in range(next_n)]
    given.check(kernel, last, ends, blocks=7)
    tokens = [(331 * i) % 1001 for i in range(5 * next_n)]
    given.check(kernel, tokens, tokens, blocks=200)


def test_shared_and_shuffled_pages(kernel: KernelRecord) -> None:
    """Two sequences that have the same pages, in another order; entries beyond a context lead nowhere."""
    given = Paged.random(form(kernel, "paged"), 2, 2, 640, 64)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(5)).cuda()
    kv, scale = given.kv.clone(), given.kv_scale.clone()
    kv.view(torch.uint8)[1] = kv.view(torch.uint8)[0].view(10, 64, -1)[order].view(640, -1)
    scale[1] = scale[0].view(10, 64)[order].view(-1)
    table = given.table.clone()
    table[1] = table[0][order]
    table[:, 6:] = 2**30
    shared = given._replace(kv=kv, kv_scale=scale, table=table)
    shared.check(kernel, [384, 200], [383, 384, 199, 200], blocks=132)


def test_batches_of_variable_length(kernel: KernelRecord) -> None:
    """Runs of one to nine tokens of a sequence: those of one have one row of the table."""
    config = form(kernel, "paged")
    runs = [1, 4, 9, 2, 5]
    given = Paged.random(config, len(runs), 1, 700, 64)
    rows = [row for row, run in enumerate(runs) for _ in range(run)]
    tokens = len(rows)
    one = given._replace(
        q=made(tokens, config["heads"], config["head_dim"], seed=6, dtype=torch.float8_e4m3fn),
        weights=made(tokens, config["heads"], seed=7),
        kv=given.kv.view(torch.uint8)[rows].view(torch.float8_e4m3fn),
        kv_scale=given.kv_scale[rows],
        table=given.table[rows],
    )
    lengths = [(97 * i) % 701 for i in range(tokens)]
    one.check(kernel, lengths, lengths, blocks=33, indices=ints(rows))


def test_schedules(kernel: KernelRecord) -> None:
    """Against what Python makes of the definition, beyond a thread block's threads, too."""
    form(kernel, "schedule")
    for sequences, next_n, blocks in ((1, 1, 1), (5, 3, 132), (1023, 1, 132), (2500, 2, 78)):
        lengths = torch.randint(0, 5000, (sequences, next_n), generator=torch.Generator().manual_seed(8))
        lengths[::3] = 0
        splits = [-(-max(row) // 256) for row in lengths.tolist()]
        ends = torch.tensor(splits).cumsum(0).tolist()
        wanted = []
        for block in range(blocks + 1):
            begins = block * ends[-1] // blocks
            sequence = next((i for i, end in enumerate(ends) if end > begins), sequences)
            before = ends[sequence - 1] if sequence else 0
            wanted.append([sequence, begins - before if sequence < sequences else 0])
        given = lengths.flatten().int().cuda()
        found = tilewright.paged_mqa_schedule(given, blocks=blocks, next_n=next_n, tactic=kernel.name)
        assert found.tolist() == wanted


def some(form: str) -> str:
    """A kernel of a form that is built, with 64 heads of 128."""
    for record in registry().kernels("mqa_logits"):
        config = record.config
        of = (config["form"], config["heads"], config["head_dim"], config["d"], record.arch)
        if of == (form, 64, 128, "f32", "sm_90a") and registry().is_built(record):
            return record.name
    pytest.skip(f"no {form} kernel is built: run `tilewright build mqa_logits`")


@pytest.mark.parametrize("form", ["ragged", "paged"])
def test_ten_thousand_runs_are_equal(form: str) -> None:
    name = some(form)
    config = registry().record(name).config
    if form == "ragged":
        ragged = Ragged.random(config, [(0, 40 * i) for i in range(96)], 4096)
        call = functools.partial(tilewright.mqa_logits, *ragged, tactic=name)
    else:
        given, lengths = Paged.random(config, 9, 2, 3000, 64), ints([2999, 3000, 0, 1, 700, 701] * 3)
        schedule = tilewright.paged_mqa_schedule(lengths, blocks=132, next_n=2)
        call = functools.partial(
            tilewright.paged_mqa_logits, given.q, given.cache, given.weights, lengths, given.table, schedule,
            keys=3000, clean=True, tactic=name,
        )  # fmt: skip
    first = call()
    differing = torch.zeros((), dtype=torch.int64, device="cuda")
    out = torch.empty_like(first)
    for _ in range(10_000):
        call(out=out)
        differing += (out != first).any()
    assert int(differing) == 0


def test_graphs_hold_both_ops() -> None:
    """A schedule made anew in each replay, of lengths that change."""
    name = some("paged")
    given = Paged.random(registry().record(name).config, 4, 1, 2000, 64)
    lengths, out = ints([2000, 5, 900, 0]), torch.empty(4, 2000, device="cuda")

    def both() -> None:
        schedule = tilewright.paged_mqa_schedule(lengths, blocks=132)
        tilewright.paged_mqa_logits(
            given.q, given.cache, given.weights, lengths, given.table, schedule, keys=2000, out=out,
            clean=True,
        )  # fmt: skip

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        both()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        both()
    for ends in ([2000, 5, 900, 0], [1, 2000, 64, 65]):
        lengths.copy_(ints(ends))
        graph.replay()
        check(out, given.logits(), looked_at([(0, end) for end in ends], 2000), -INF, "f32")
