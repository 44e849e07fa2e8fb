"""A tactic: a kernel and its run-time settings. Compiling makes kernels, tuning chooses tactics."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter

from tilewright.errors import ArgumentError, ArgumentTypeError

# Values of the enums in tilewright/tactic.h.
RASTERS = {"heuristic": 0, "along_m": 1, "along_n": 2}
DECOMPOSITIONS = {"heuristic": 0, "data_parallel": 1, "split_k": 2, "stream_k": 3}
REDUCTIONS = {"deterministic": 0, "nondeterministic": 1}
SWIZZLES = (1, 2, 4, 8)
MAX_SPLITS = 64
MAX_BLOCKS = 32  # the most thread blocks of an SM
MATRIX_SETTINGS = ("cluster", "fallback", "raster", "swizzle", "decomposition", "splits", "reduction")
# The most thread blocks of a cluster: 8 on any GPU of sm_90 and later, 16 on request, as kernels of sm_100
# do.
MAX_CLUSTER = 16

# Texts, not compiled patterns: the first lookup parses no tactic, and need not wait for compiling these.
_NUMBER = r"[0-9]{1,6}"
_CLUSTER = r"[1-9]\d?x[1-9]\d?"


@dataclass(frozen=True, slots=True)
class Tactic:
    """`str()` and `parse` are inverse: `gemm_sm90_...@raster=along_n,swizzle=4`."""

    kernel: str
    cluster: str = ""  # "4x2", thread blocks along the kernel's own m and n; "": the kernel's own cluster
    fallback: str = ""  # the cluster for the part of the GPU that `cluster` does not fill
    raster: str = "heuristic"
    swizzle: int = 1  # tiles along a side of the rasterised block
    decomposition: str = "heuristic"  # how a stream-K kernel divides tiles
    splits: int = 1
    reduction: str = "deterministic"
    blocks: int = 0  # persistent thread blocks of an SM; 0: one thread block for each piece of work

    def __lt__(self, other: Tactic) -> bool:
        """Orders by name, then by the settings in their order."""
        return _fields_of(self) < _fields_of(other)

    def __post_init__(self) -> None:
        if self.raster not in RASTERS:
            raise _unknown("raster", self.raster, RASTERS)
        if self.decomposition not in DECOMPOSITIONS:
            raise _unknown("decomposition", self.decomposition, DECOMPOSITIONS)
        if self.reduction not in REDUCTIONS:
            raise _unknown("reduction", self.reduction, REDUCTIONS)
        if self.swizzle not in SWIZZLES:
            raise _unknown("swizzle", self.swizzle, SWIZZLES)
        if not 1 <= self.splits <= MAX_SPLITS:
            raise ArgumentError("tactic", f"splits is {self.splits}; expected 1 to {MAX_SPLITS}")
        if not 0 <= self.blocks <= MAX_BLOCKS:
            raise ArgumentError("tactic", f"blocks is {self.blocks}; expected 0 to {MAX_BLOCKS}")
        if self.cluster:
            _check_cluster("cluster", self.cluster)
        if self.fallback:
            _check_cluster("fallback", self.fallback)

    @classmethod
    def parse(cls, text: str) -> Tactic:
        kernel, _, settings = text.partition("@")
        arguments: dict[str, str | int] = {}
        for setting in filter(None, settings.split(",")):
            name, _, value = setting.partition("=")
            if name not in _SETTINGS or not value:
                raise ArgumentError(
                    "tactic",
                    f"{setting!r} is not NAME=VALUE with a NAME of {', '.join(_SETTINGS)}",
                )
            if name in arguments:
                raise ArgumentError("tactic", f"{name} is given twice; give it once")
            if _SETTINGS[name] is int and not re.fullmatch(_NUMBER, value):
                raise ArgumentError("tactic", f"{name} is {value[:20]!r}; expected a number")
            arguments[name] = _SETTINGS[name](value)
        return cls(kernel, **arguments)  # type: ignore[arg-type]

    def __str__(self) -> str:
        settings = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"{self.kernel}@{','.join(settings)}" if settings else self.kernel


def _unknown(what: str, value: object, legal: Iterable[object]) -> ArgumentError:
    return ArgumentError("tactic", f"{what} is {value!r}; expected one of {', '.join(map(str, legal))}")


def _check_cluster(what: str, shape: str) -> None:
    m, n = extents(shape) if re.fullmatch(_CLUSTER, shape) else (MAX_CLUSTER, 2)
    if m * n > MAX_CLUSTER:
        raise ArgumentError(
            "tactic", f"{what} is {shape!r}; expected MxN such as 4x2, at most {MAX_CLUSTER} thread blocks"
        )


_fields_of = attrgetter(*(field.name for field in fields(Tactic)))
_SETTINGS: dict[str, type] = {
    field.name: type(field.default) for field in fields(Tactic) if field.default is not MISSING
}


def extents(cluster: str) -> tuple[int, int]:
    """The two numbers of "4x2"; two zeros, which mean the kernel's own cluster, for ""."""
    if not cluster:
        return 0, 0
    m, _, n = cluster.partition("x")
    return int(m), int(n)


def parsed(tactic: Tactic | str | None) -> Tactic | None:
    """The tactic of an op's argument. Raises ArgumentTypeError if it is neither a Tactic nor a text."""
    if tactic is None or isinstance(tactic, Tactic):
        return tactic
    if not isinstance(tactic, str):
        raise ArgumentTypeError("tactic", f"expected a Tactic or its name, got {type(tactic).__name__}")
    return Tactic.parse(tactic)


def misfit_settings(tactic: Tactic, supported: Collection[str]) -> str | None:
    """Why a family that supports only the `supported` settings does not take the tactic; None if it does."""
    for field in fields(tactic)[1:]:
        if field.name not in supported and getattr(tactic, field.name) != field.default:
            return f"its family does not support {field.name}"
    return None


@functools.lru_cache(maxsize=4096)
def plain(kernel: str) -> Tactic:
    """The kernel's tactic with default settings."""
    return Tactic(kernel)


@functools.lru_cache(maxsize=4096)
def in_parts(kernel: str, splits: tuple[int, ...], most: int) -> tuple[Tactic, ...]:
    """The kernel's tactics with k, or the keys, split into each of these numbers of ranges, `most` at
    most."""
    return tuple(Tactic(kernel, splits=parts) for parts in splits if parts <= most)


def rearranged(tactic: Tactic) -> Iterator[Tactic]:
    """The tactic with every raster order and swizzle. A first selection leaves these to CUTLASS's heuristic;
    tuning tries them."""
    for raster in RASTERS:
        for swizzle in SWIZZLES:
            yield replace(tactic, raster=raster, swizzle=swizzle)


def distinct_orders(tactic: Tactic) -> Iterator[Tactic]:
    """`rearranged` for kernels whose heuristic chooses the swizzle, too: the heuristic is one tactic."""
    return (order for order in rearranged(tactic) if order.raster != "heuristic" or order.swizzle == 1)
