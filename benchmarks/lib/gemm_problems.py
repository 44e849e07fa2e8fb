"""Problems of `gemm` that benchmarks draw at random. Needs no torch."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Sequence

from tilewright.families.gemm.problem import FP8, Problem
from tilewright.formats.types import bytes_of

MOST_BYTES = 2**31  # of A and B
MOST_BATCH_BYTES = 2**29  # of all three matrices of a batch
OPERANDS = {"bf16": "bf16", "f16": "f16", "fp8": "e4m3", "fp8_exact": "e4m3"}
LAYOUTS = ("tn", "tt", "nn", "nt")
MN_MULTIPLE = 8  # of elements of 16 bits, which TMA wants rows to be multiples of


def described(dtype: str, m: int, n: int, k: int, *, layout: str = "tn", batch: int = 1) -> Problem:
    """The problem of a type, with its default output type. FP8 sums fast, unless the type is `fp8_exact`."""
    a = OPERANDS[dtype]
    d = "bf16" if a in FP8 else a
    return Problem(m, n, k, batch, a=a, b=a, d=d, layout=layout, fast_accum=dtype == "fp8")


def dtype_of(problem: Problem) -> str:
    """The key of OPERANDS for a problem's types."""
    return {"e4m3": "fp8" if problem.fast_accum else "fp8_exact"}.get(problem.a, problem.a)


def shapes(seed: int, size: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) of problems without end whose operands have elements of `size` bytes: m log-uniform from 1 to
    8192 and no power of two, n and k log-uniform from 512 to 32768 in multiples of 64."""
    draw = random.Random(seed)
    while True:
        m, n, k = log_uniform(draw, 1, 8192), 64 * log_uniform(draw, 8, 512), 64 * log_uniform(draw, 8, 512)
        if m & (m - 1) and (m + n) * k * size <= MOST_BYTES:
            yield m, n, k


def batched_shapes(seed: int, size: int, batch: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) of the matrices of a batch, without end: as `shapes`, with n and k from 64 to 8192."""
    draw = random.Random(f"{seed}, batch {batch}")
    while True:
        m, n, k = log_uniform(draw, 1, 8192), 64 * log_uniform(draw, 1, 128), 64 * log_uniform(draw, 1, 128)
        if m & (m - 1) and batch * ((m + n) * k * size + m * n * 2) <= MOST_BATCH_BYTES:
            yield m, n, k


def wide(dtype: str, seed: int) -> Iterator[Problem]:
    """Problems of a 16-bit type without end, each of one of the four layouts.

    m is log-uniform from 1 to 12,000, and a multiple of 8 where it is contiguous in A; n and k are
    log-uniform from 64 to 32,768 in multiples of 8.
    """
    draw, size = random.Random(f"{seed}, wide"), bytes_of(OPERANDS[dtype])
    while True:
        layout = draw.choice(LAYOUTS)
        m, n, k = log_uniform(draw, 1, 12000), 8 * log_uniform(draw, 8, 4096), 8 * log_uniform(draw, 8, 4096)
        if layout[0] == "n":
            m = -(-m // MN_MULTIPLE) * MN_MULTIPLE
        if ((m + n) * k + m * n) * size <= MOST_BYTES:
            yield described(dtype, m, n, k, layout=layout)


def log_uniform(draw: random.Random, low: int, high: int, step: int = 1) -> int:
    """A multiple of `step` from `low` to `high`, of which each power of two is as likely as the next."""
    return round(math.exp(draw.uniform(math.log(low), math.log(high))) / step) * step


def drawn(
    dtype: str, seed: int, layouts: Sequence[str] = ("tn",), batches: Sequence[int] = (1,)
) -> Iterator[Problem]:
    """Problems of these shapes, as `described`, each of one of the layouts and batches. Where m is contiguous
    in A it is a multiple of what TMA loads: the next beyond what was drawn."""
    size, choose = bytes_of(OPERANDS[dtype]), random.Random(f"{seed}, layouts and batches")
    of_batch = {
        batch: shapes(seed, size) if batch == 1 else batched_shapes(seed, size, batch) for batch in batches
    }
    while True:
        layout, batch = choose.choice(layouts), choose.choice(batches)
        m, n, k = next(of_batch[batch])
        if layout[0] == "n":
            m = -(-m // MN_MULTIPLE) * MN_MULTIPLE
        if m & (m - 1):
            yield described(dtype, m, n, k, layout=layout, batch=batch)


def add_kinds(parser: argparse.ArgumentParser) -> None:
    """The arguments `layout` and `batch`."""
    parser.add_argument(
        "--layout", choices=LAYOUTS, nargs="+", default=["tn"], help="each problem has one of them"
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="each problem has one of them")


def drawn_as(arguments: argparse.Namespace, dtype: str, seed: int) -> Iterator[Problem]:
    """`drawn`, of the layouts and batches that `add_kinds` has read. FP8 has one layout, and torch has no
    batches of it to compare with."""
    return drawn(dtype, seed, *(() if OPERANDS[dtype] in FP8 else (arguments.layout, arguments.batch)))
