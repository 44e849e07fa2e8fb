"""MQA logits on a GPU by our kernels and by DeepGEMM's: the same calls of both modules, in one run.

    python benchmarks/mqa_logits.py [ragged] [paged] [--first N] --output results/mqa_logits

`deep_gemm` is imported from the environment (2.6 or newer, built for this torch), where it can be; ours is
`tilewright.compat.deep_gemm`. Also, of pages, a copy on the device that moves as many bytes. All are CUDA
graphs of calls that take operands in turn, so that L2 is cold, medians of rounds in which the sides take
turns. Ragged queries look at the keys up to their own, the last one at all, and only these count as work;
of pages, each sequence's keys count as read once. Our results are compared with float64 first (some rows),
by DeepGEMM's measure of a difference. Writes OUTPUT.json and OUTPUT.md, after each problem. `--first`: so
many problems of each form, in the order of the list. `--warm`: DeepGEMM compiles its kernels, and nothing is
timed.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import in_turn
import machine
import torch
from in_turn import replayed

from tilewright import context, timing
from tilewright.compat import deep_gemm as ours
from tilewright.device import driver
from tilewright.ops.mqa_logits.family import FAMILY
from tilewright.ops.mqa_logits.measuring import pages_of, reference
from tilewright.ops.mqa_logits.problem import Problem
from tilewright.reference.comparison import difference

try:
    import deep_gemm
except ImportError:
    deep_gemm = None

ROUNDS = 9
CALLS = 8  # of a graph at least, so that its own launch does not count ...
MOST_SECONDS = 4e-3  # ... but of long ones
MOST_BYTES = 24 * 10**9  # of all results of a graph
TOLERANCE = {"f32": 5e-6, "bf16": 3e-5}
CHECKED = 24  # rows


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
        """As both modules take it; of FP4 with words of exponents."""
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
        given = (self.q, self.q_scale), (self.kv, self.scale), self.weights, self.starts, self.ends
        return module.fp8_fp4_mqa_logits(*given, clean_logits=self.case.clean, logits_dtype=self.case.dtype)

    def row(self, query: int) -> tuple[torch.Tensor, int]:
        """The logits of a query, of float64, and how many there are."""
        one = slice(query, query + 1)
        q_scale = None if self.q_scale is None else self.q_scale[one]
        logits = reference(self.q[one], self.kv, self.scale, self.weights[one], q_scale)
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
        made = [case.operand(random(rows, case.head_dim)) for rows in _parts(keys)]
        self.kv = torch.cat([data.view(torch.uint8) for data, _ in made]).view(made[0][0].dtype)
        words = [scale for _, scale in made if scale is not None]
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
        one = slice(query, query + 1)
        q_scale = None if self.q_scale is None else self.q_scale.flatten(0, 1)[one]
        q = self.q.flatten(0, 1)[one]
        logits = reference(q, self.kv[keys], self.scale[keys], self.weights[one], q_scale)
        return logits[0], int(self.lengths[sequence])


def check(one: Ragged | Paged, found: torch.Tensor) -> float:
    """The difference of some rows. Raises ValueError where it is too large."""
    x, y = [], []
    for query in range(0, len(found), max(1, len(found) // CHECKED)):
        wanted, end = one.row(query)
        x.append(found[query, :end])
        y.append(wanted[:end])
    result = difference(torch.cat(x), torch.cat(y))
    if not result <= TOLERANCE[one.case.d]:
        raise ValueError(f"{one.case}: difference {result:.2e}")
    return result


def peer_takes(case: Case) -> bool:
    """Whether DeepGEMM is there, and has such a kernel on sm_90."""
    paged = case.queries <= 2 and case.head_dim == 128
    fp8 = case.q == "e4m3"  # FP4 is Blackwell's there
    return deep_gemm is not None and fp8 and case.heads in {32, 64} and (case.form == "ragged" or paged)


def warm(cases: list[Case]) -> None:
    """Small problems that take the same kernels of DeepGEMM's."""
    generator = torch.Generator("cuda").manual_seed(1)
    for case in cases:
        if peer_takes(case):
            few = {"sequences": 3} if case.form == "paged" else {"queries": 100}
            small = replace(case, keys=500, **few)
            (Ragged if case.form == "ragged" else Paged)(small, generator).call(deep_gemm)
            torch.cuda.synchronize()
            print(f"warm: {case.text}", flush=True)


def measure(case: Case) -> dict[str, Any]:
    here = context.current()
    device = here.device(torch.cuda.current_device())
    generator = torch.Generator("cuda").manual_seed(1)
    make = Ragged if case.form == "ragged" else Paged
    first = make(case, generator)
    found = first.call(ours)
    wrong = check(first, found)
    rough = first.looked * case.heads * case.head_dim * 2 / 1e15 + first.bytes / 4e12
    sets = max(1, min(timing.rotations(first.bytes, device.l2_bytes), int(4e9 / first.bytes)))
    operands = [first, *(make(case, generator) for _ in range(sets - 1))]
    wanted = min(CALLS, max(1, int(MOST_SECONDS / rough)), max(1, MOST_BYTES // found.nbytes))
    operands *= -(-wanted // len(operands))
    del found
    modules = {"ours": ours} | ({"deep_gemm": deep_gemm} if peer_takes(case) else {})
    for module in modules.values():
        for one in operands:
            one.call(module)  # and makes its schedule
    torch.cuda.synchronize()
    sides = {
        name: timing.Replays([functools.partial(one.call, module) for one in operands])
        for name, module in modules.items()
    }
    if case.form == "paged":
        sides["copy"] = timing.Replays([in_turn.copy_of(one.bytes) for one in operands])
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
    return asdict(case) | {
        "looked": first.looked, "bytes": first.bytes, "difference": wrong, "calls": len(operands),
        "kernel": str(here.select(FAMILY, first.problem, device).tactic),
        "seconds": seconds,
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    seconds, case = row["seconds"], Case(**{name: row[name] for name in Case.__dataclass_fields__})
    took, work = seconds["ours"], 2 * row["looked"] * case.heads * case.head_dim

    def over(side: str) -> str:
        return f"{seconds[side] / took:.2f}" if side in seconds else ""

    clean = ", cleaned" * case.clean
    rates = f"{work / took * 1e-12:,.0f} | {row['bytes'] / took * 1e-12:.2f}"
    kernel = row["kernel"].replace("mqa_logits_sm90_", "")
    return (
        f"| {case.text}{clean} | {took * 1e6:.1f} | {rates} | {over('deep_gemm')} | {over('copy')} "
        f"| {row['difference']:.0e} | `{kernel}` |"
    )


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"# mqa_logits on {head['gpu']}"
    yield ""
    yield f"`{head['command']}`, driver {head['driver']}, torch {head['torch']}."
    yield "Ratios: the other's time over ours."
    yield ""
    yield "| form | queries | keys | heads | logits | us | TFLOP/s | TB/s | DeepGEMM | copy | difference | |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    yield from map(line, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("forms", nargs="*", default=["ragged", "paged"])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--first", type=int)
    parser.add_argument("--warm", action="store_true")
    given = parser.parse_args()
    cases = [case for form in given.forms for case in CASES[form][: given.first]]
    if given.warm:
        warm(cases)
        return
    head = {
        "gpu": torch.cuda.get_device_name(), "driver": driver(), "torch": torch.__version__,
        "command": f"python benchmarks/mqa_logits.py {' '.join(sys.argv[1:])}",
    }  # fmt: skip
    rows = []
    for case in cases:
        rows.append(measure(case))
        print(line(rows[-1]), flush=True)
        machine.record_both(given.output, head | {"rows": rows}, "\n".join(markdown(head, rows)) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
