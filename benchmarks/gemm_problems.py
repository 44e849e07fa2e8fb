"""Problems of `gemm` that benchmarks draw at random. Needs no torch."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from tilewright.ops.gemm.problem import FP8, Problem
from tilewright.types import bytes_of

MOST_BYTES = 2**31  # of A and B
OPERANDS = {"bf16": "bf16", "f16": "f16", "fp8": "e4m3"}


def described(dtype: str, m: int, n: int, k: int, *, exact: bool = False) -> Problem:
    """With the default output type; FP8 with fast accumulation unless it is to be exact."""
    a = OPERANDS[dtype]
    fast = a in FP8 and not exact
    return Problem(m, n, k, a=a, b=a, d="bf16" if a in FP8 else a, fast_accum=fast)


def shapes(seed: int, size: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) of problems without end whose operands have elements of `size` bytes: m log-uniform from 1 to
    8192 and no power of two, n and k log-uniform from 512 to 32768 in multiples of 64."""
    draw = random.Random(seed)

    def extent(low: int, high: int) -> int:
        return round(math.exp(draw.uniform(math.log(low), math.log(high))))

    while True:
        m, n, k = extent(1, 8192), 64 * extent(8, 512), 64 * extent(8, 512)
        if m & (m - 1) and (m + n) * k * size <= MOST_BYTES:
            yield m, n, k


def drawn(dtype: str, seed: int, *, exact: bool = False) -> Iterator[Problem]:
    """Problems of these shapes, as `described`."""
    for m, n, k in shapes(seed, bytes_of(OPERANDS[dtype])):
        yield described(dtype, m, n, k, exact=exact)
