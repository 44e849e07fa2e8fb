"""Every generated kernel of `mqa_logits` on a GPU, against float64."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from generated_kernels import fixture, registry
from mqa_cases import (
    INF,
    POISON,
    Paged,
    Ragged,
    check,
    elements,
    ints,
    looked_at,
    made,
    query_scales,
    words,
)

import tilewright
from tilewright.compat.deep_gemm import utils
from tilewright.declarations.table import KernelRecord
from tilewright.families.mqa_logits.measuring import TOLERANCES, reference
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.reference.comparison import difference

pytestmark = pytest.mark.marks_kernels
kernel = fixture("mqa_logits", "tilewright build mqa_logits")


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
        given.call(out=out, clean=clean, tactic=tactic)
        check(out, given.logits(), looked_at(RANGES, 1001), -INF if clean else POISON, config["d"])


def test_compressed_rows(kernel: KernelRecord) -> None:
    config = form(kernel, "ragged")
    given, columns = Ragged.random(config, RANGES, 1001), 640
    logits, expected = given.logits(), torch.zeros(len(RANGES), columns, device="cuda", dtype=torch.float64)
    shifted = []
    for row, (given_start, given_end) in enumerate(RANGES):
        start, end = max(given_start, 0), min(given_end, 1001)
        count = max(0, min(end - start, columns))
        expected[row, :count] = logits[row, start : start + count]
        shifted.append((0, count))
    out = torch.full((len(RANGES), columns), POISON, dtype=dtype_of(config["d"]), device="cuda")
    given.call(columns=columns, out=out, clean=True, tactic=kernel.name)
    check(out, expected, looked_at(shifted, columns), -INF, config["d"])


@pytest.mark.parametrize("queries", [1, 3, 130])
@pytest.mark.parametrize("keys", [1, 65, 4096])
def test_sizes(kernel: KernelRecord, queries: int, keys: int) -> None:
    """One token, and ranges as under a causal mask; rows of a wider tensor."""
    config = form(kernel, "ragged")
    ranges = [(0, max(0, keys - queries + 1 + i)) for i in range(queries)]
    given = Ragged.random(config, ranges, keys)
    wide = torch.full((queries, keys + 24), POISON, dtype=dtype_of(config["d"]), device="cuda")
    given.call(out=wide[:, 8 : keys + 8], clean=False, tactic=kernel.name)
    check(wide[:, 8 : keys + 8], given.logits(), looked_at(ranges, keys), POISON, config["d"])
    assert bool((wide[:, :8] == POISON).all())
    assert bool((wide[:, keys + 8 :] == POISON).all())


def test_more_queries_than_thread_blocks(kernel: KernelRecord) -> None:
    """Every thread block has several blocks of queries, one after the other, and stores to memory that nobody
    touched before, which takes the longest. All of it thrice, with equal bits; some rows are compared."""
    config = form(kernel, "ragged")
    queries, keys, some = 2048, 4096, slice(0, None, 37)
    ranges = [(i % 61, keys - queries + 1 + i) for i in range(queries)]
    given = Ragged.random(config, ranges, keys)
    outs = []
    for _ in range(3):
        torch.cuda.empty_cache()
        outs.append(torch.empty(queries, keys + 64, dtype=dtype_of(config["d"]), device="cuda")[:, :keys])
        given.call(out=outs[-1], clean=True, tactic=kernel.name)
    assert bool((outs[0] == outs[1]).all())
    assert bool((outs[0] == outs[2]).all())
    few = given._replace(**{
        name: getattr(given, name)[some] for name in ("q", "weights", "starts", "ends", "q_scale")
        if getattr(given, name) is not None
    })  # fmt: skip
    check(outs[0][some], few.logits(), looked_at(ranges[some], keys), -INF, config["d"])


def of_fp4(kernel: KernelRecord) -> dict[str, Any]:
    if kernel.config["q"] == "e4m3":
        pytest.skip("it is of FP8")
    return form(kernel, "ragged")


def test_blocks_of_fp4_far_apart(kernel: KernelRecord) -> None:
    """Small blocks of a query meet large ones of keys: all count alike. Other bytes of words are not read."""
    config = of_fp4(kernel)
    blocks, step = config["head_dim"] // 32, 40 if config["head_dim"] == 128 else 120
    given = Ragged.random(config, [(0, 300)] * 5, 300)
    falling = torch.tensor([127 - step * i for i in range(blocks)] + [255] * (4 - blocks), device="cuda")
    rising = torch.cat((falling[:blocks].flip(0), falling[blocks:]))
    apart = given._replace(
        q_scale=words(falling.expand(5, config["heads"], 4)), kv_scale=words(rising.expand(300, 4))
    )
    every = looked_at([(0, 300)] * 5, 300)
    check(
        apart.call(out_dtype=dtype_of(config["d"]), tactic=kernel.name),
        apart.logits(),
        every,
        -INF,
        config["d"],
    )


def test_large_exponents_of_fp4(kernel: KernelRecord) -> None:
    config = of_fp4(kernel)
    if config["mma"] == "block_scaled" and kernel.arch == "sm_90a":
        pytest.skip("what stands for the instruction on sm_90a takes scales to 2")
    given = Ragged.random(config, [(0, 300)] * 5, 300)
    large = given._replace(
        q_scale=words(torch.full((5, config["heads"], 4), 170, device="cuda")),
        kv_scale=words(torch.full((300, 4), 180, device="cuda")),
    )
    every = looked_at([(0, 300)] * 5, 300)
    check(
        large.call(out_dtype=dtype_of(config["d"]), tactic=kernel.name),
        large.logits(),
        every,
        -INF,
        config["d"],
    )


def test_casts_to_fp4(kernel: KernelRecord) -> None:
    """DeepGEMM's thresholds: against what was cast, and against what is computed without a cast."""
    config = of_fp4(kernel)
    heads, head_dim = config["heads"], config["head_dim"]
    q, kv = made(70, heads, head_dim, seed=1), made(700, head_dim, seed=2)
    weights, ranges = made(70, heads, seed=3), (ints([0] * 70), ints([700] * 70))
    casts = [utils.per_token_cast_to_fp4(x.flatten(0, -2), True, 32, True) for x in (q, kv)]
    (q_data, q_words), (kv_data, kv_words) = casts
    actual = tilewright.mqa_logits(
        q_data.view(torch.uint8).view(70, heads, -1), kv_data.view(torch.uint8), kv_words.view(700), weights,
        *ranges, q_scale=q_words.view(70, heads), out_dtype=dtype_of(config["d"]), tactic=kernel.name,
    )  # fmt: skip
    cast = [utils.cast_back_from_fp4(*one, 32, True).double() for one in casts]
    ones = torch.ones(700, device="cuda")
    logits = reference(cast[0].view(70, heads, head_dim), cast[1], ones, weights)
    assert difference(actual, logits) < TOLERANCES[config["d"]]
    assert difference(actual, reference(q, kv, ones, weights)) < 2e-2


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


@pytest.mark.parametrize("blocks", [1, 3])
def test_more_pages_than_a_warp_holds(kernel: KernelRecord, blocks: int) -> None:
    """A thread block walks 157 pages of a sequence; a warp holds 32 entries of the table at a time."""
    given = Paged.random(form(kernel, "paged"), 2, 2, 5024, 32)
    given.check(kernel, [5000, 4321], [4999, 5000, 4320, 4321], blocks=blocks)


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
        q=elements(config, tokens, config["heads"], config["head_dim"], seed=6),
        q_scale=query_scales(config, tokens, seed=8),
        weights=made(tokens, config["heads"], seed=7),
        kv=given.kv.view(torch.uint8)[rows].view(given.kv.dtype),
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
        splits = [-(-max(row) // 64) for row in lengths.tolist()]
        ends = torch.tensor(splits).cumsum(0).tolist()
        expected = []
        for block in range(blocks + 1):
            begins = block * ends[-1] // blocks
            sequence = next((i for i, end in enumerate(ends) if end > begins), sequences)
            before = ends[sequence - 1] if sequence else 0
            expected.append([sequence, begins - before if sequence < sequences else 0])
        given = lengths.flatten().int().cuda()
        actual = tilewright.paged_mqa_schedule(given, blocks=blocks, next_n=next_n, tactic=kernel.name)
        assert actual.tolist() == expected


def some(form: str, q: str = "e4m3") -> str:
    """A kernel of a form that is built, with 64 heads of 128, by wgmma."""
    for record in registry().kernels("mqa_logits"):
        config = record.config
        fields = ("form", "heads", "head_dim", "q", "d", "mma")
        if [config[one] for one in fields] == [form, 64, 128, q, "f32", "wgmma"] and registry().is_built(
            record
        ):
            return record.name
    pytest.skip(f"no {form} kernel is built: run `tilewright build mqa_logits`")


@pytest.mark.parametrize("q", ["e4m3", "mxfp4"])
@pytest.mark.parametrize("form", ["ragged", "paged"])
def test_ten_thousand_runs_are_equal(form: str, q: str) -> None:
    name = some(form, q)
    config = registry().record(name).config
    if form == "ragged":
        call = functools.partial(
            Ragged.random(config, [(0, 40 * i) for i in range(96)], 4096).call, tactic=name
        )
    else:
        given, lengths = Paged.random(config, 9, 2, 3000, 64), ints([2999, 3000, 0, 1, 700, 701] * 3)
        schedule = tilewright.paged_mqa_schedule(lengths, blocks=132, next_n=2)
        call = functools.partial(
            tilewright.paged_mqa_logits, given.q, given.cache, given.weights, lengths, given.table, schedule,
            keys=3000, q_scale=given.q_scale, clean=True, tactic=name,
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
