"""Problems that benchmarks draw at random, for every family of products, by a seed. Needs no torch."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from benchmarks.lib import gemm_problems
from benchmarks.lib.gemm_problems import log_uniform

from tilewright.families.gemm.problem import Problem as GemmProblem
from tilewright.families.grouped_gemm.problem import BLOCK
from tilewright.families.grouped_gemm.problem import Problem as GroupedProblem
from tilewright.families.reduced_gemm.problem import Problem as ReducedProblem

MOST_BYTES = 2**30  # of a problem's matrices
GROUPS = (2, 4, 8, 16, 32, 64)
ALIGNMENT = 128  # of the first rows of groups, as DeepGEMM requires on Hopper
LEAST_ALLOTTED = 256  # rows of a group of a masked product, of which some count
EQUATIONS = ("bhr,hdr->bhd", "bhd,hdr->bhr")  # those that DeepGEMM computes, too


@dataclass(frozen=True)
class Einsum:
    """A batched product of BF16 operands, as attention with latent projections has them."""

    equation: str
    b: int
    h: int
    r: int
    d: int

    def shape(self, term: str) -> tuple[int, ...]:
        """The extents of a term's letters."""
        return tuple(getattr(self, letter) for letter in term)

    @property
    def bytes(self) -> int:
        return 2 * (self.h * self.r * self.d + self.b * self.h * (self.r + self.d))

    def __str__(self) -> str:
        return f"{self.equation} b={self.b} h={self.h} r={self.r} d={self.d}"


Drawn: TypeAlias = GemmProblem | GroupedProblem | ReducedProblem | Einsum


def scaled(draw: random.Random) -> GroupedProblem:
    """One dense product with block scales: m from 1 to 8192, no power of two."""
    n, k = _columns(draw)
    return GroupedProblem(log_uniform(draw, 1, 8192), n, k)


def contiguous(draw: random.Random, a: str) -> GroupedProblem:
    """Groups of rows one after another, each with the same expected number of rows, from 16 to 4096."""
    n, k = _columns(draw)
    groups, rows = draw.choice(GROUPS), log_uniform(draw, 16, 4096)
    return GroupedProblem(
        groups * -(-rows // ALIGNMENT) * ALIGNMENT, n, k, groups, grouping="row_index", **_types(a)
    )


def masked(draw: random.Random, a: str) -> GroupedProblem:
    """Groups with allotted rows, of which the first 1 to 1024 are expected to count."""
    n, k = _columns(draw)
    rows = log_uniform(draw, 1, 1024)
    allotted = max(LEAST_ALLOTTED, 1 << (2 * rows - 1).bit_length())
    return GroupedProblem(
        allotted, n, k, draw.choice(GROUPS), grouping="rows_valid", expected_m=rows, **_types(a)
    )


def k_grouped(draw: random.Random, a: str) -> GroupedProblem:
    """Weight gradients: each group has a D, and `k` counts the k of all groups."""
    m, n = (64 * log_uniform(draw, 8, 128) for _ in range(2))
    groups = draw.choice(GROUPS[:5])
    k = groups * BLOCK * log_uniform(draw, 1, 64)
    types: dict[str, Any] = (
        {"scales": "1x128"} if a == "e4m3" else {"a": a, "b": a, "scales": "none", "layout": "nt"}
    )
    return GroupedProblem(m, n, k, groups, d="f32", c=True, grouping="k_sizes", **types)


def reduced(draw: random.Random) -> ReducedProblem:
    """A sum over a batch of products, added to an FP32 result."""
    m, n, k = (64 * log_uniform(draw, 1, 8) for _ in range(3))
    return ReducedProblem(m, n, k, log_uniform(draw, 16, 8192), d="f32", c=True)


def einsum(draw: random.Random) -> Einsum:
    r, d = (64 * log_uniform(draw, 1, 64) for _ in range(2))
    return Einsum(draw.choice(EQUATIONS), log_uniform(draw, 1, 8192), log_uniform(draw, 4, 128), r, d)


def _columns(draw: random.Random) -> tuple[int, int]:
    """n, a multiple of 64 from 512 to 16,384, and k, a multiple of 128 in the same range."""
    return 64 * log_uniform(draw, 8, 256), BLOCK * log_uniform(draw, 4, 128)


def _types(a: str) -> dict[str, Any]:
    return {"a": a, "b": a, "scales": "128x128" if a == "e4m3" else "none"}


def _allocated(problem: Drawn) -> int:
    """Bytes of a problem's matrices, including rows that do not count."""
    if isinstance(problem, GroupedProblem) and problem.grouping == "rows_valid":
        size = 1 if problem.a == "e4m3" else 2
        rows = problem.groups * problem.m
        return rows * (problem.k * size + problem.n * 2) + problem.groups * problem.n * problem.k * size
    return problem.bytes


def _has_round_rows(problem: Drawn) -> bool:
    """Whether a number of rows that a caller chooses freely is a power of two, which kernels like best."""
    if isinstance(problem, Einsum):
        rows = problem.b
    elif isinstance(problem, GroupedProblem) and problem.grouping in ("none", "rows_valid"):
        rows = problem.expected_m or problem.m
    else:  # measuring draws the rows, or the k, of each group at random
        return False
    return rows & (rows - 1) == 0


def _endless(name: str, make: Callable[[random.Random], Drawn], seed: int) -> Iterator[Drawn]:
    draw = random.Random(f"{seed}, {name}")
    while True:
        problem = make(draw)
        if _allocated(problem) <= MOST_BYTES and not _has_round_rows(problem):
            yield problem


_MAKERS: dict[str, Callable[[random.Random], Drawn]] = {
    **{
        f"{make.__name__}_{name}": functools.partial(make, a=a)
        for name, a in (("fp8", "e4m3"), ("bf16", "bf16"))
        for make in (contiguous, masked, k_grouped)
    },
    **{make.__name__: make for make in (scaled, reduced, einsum)},
}
# Each name's problems without end, by a seed. `_wide`: n and k are multiples of 8 from 64, in four layouts.
KINDS: dict[str, Callable[[int], Iterator[Drawn]]] = {
    **{dtype: functools.partial(gemm_problems.drawn, dtype) for dtype in ("bf16", "f16", "fp8")},
    **{f"{dtype}_wide": functools.partial(gemm_problems.wide, dtype) for dtype in ("bf16", "f16")},
    **{name: functools.partial(_endless, name, make) for name, make in _MAKERS.items()},
}
LISTED = ("bf16", "f16", "fp8", "scaled")


def listed(kind: str, shapes: Sequence[str]) -> list[Drawn]:
    """Dense problems of a kind with given extents, as `128x4096x4096`: m, n and k."""
    if kind not in LISTED:
        raise ValueError(f"{kind} has no list of shapes; expected one of {', '.join(LISTED)}")
    pattern = next(KINDS[kind](0))
    assert isinstance(pattern, (GemmProblem, GroupedProblem))
    extents = (map(int, shape.split("x")) for shape in shapes)
    return [replace(pattern, m=m, n=n, k=k) for m, n, k in extents]


def text_of(problem: Drawn) -> str:
    """A problem in a record: what it prints, with the rows that are expected to count."""
    expected = getattr(problem, "expected_m", 0)
    return f"{problem}, {expected} rows expected" if expected else str(problem)
