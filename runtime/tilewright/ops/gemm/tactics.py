"""A tactic: a kernel, and what it takes at run time. Compiling makes kernels, tuning chooses tactics."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from tilewright.errors import ArgumentError
from tilewright.ops.gemm.problem import Problem
from tilewright.table import KernelRecord

# Values of the enums in tilewright/gemm/args.h.
RASTERS = {"heuristic": 0, "along_m": 1, "along_n": 2}
DECOMPOSITIONS = {"heuristic": 0, "data_parallel": 1, "split_k": 2, "stream_k": 3}
REDUCTIONS = {"deterministic": 0, "nondeterministic": 1}
SWIZZLES = (1, 2, 4, 8)
MAX_SPLITS = 64
# DLPack's type code and bits (dlpack.h); tf32 kernels read f32 tensors.
_DLPACK = {
    "bf16": (4, 16), "f16": (2, 16), "f32": (2, 32), "tf32": (2, 32),
    "e4m3": (10, 8), "e5m2": (12, 8), "s8": (0, 8), "s32": (0, 32),
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Tactic:
    """`str()` and `parse` are inverse: `gemm_sm90_...@raster=along_n,swizzle=4`."""

    kernel: str
    raster: str = "heuristic"
    swizzle: int = 1  # tiles to a side of the rasterised block
    decomposition: str = "heuristic"  # of a stream-K kernel
    splits: int = 1
    reduction: str = "deterministic"

    def __post_init__(self) -> None:
        for what, value, known in (
            ("raster", self.raster, RASTERS),
            ("decomposition", self.decomposition, DECOMPOSITIONS),
            ("reduction", self.reduction, REDUCTIONS),
            ("swizzle", self.swizzle, SWIZZLES),
        ):
            if value not in known:
                raise ArgumentError(
                    "tactic", f"{what} is {value!r}; one of {', '.join(map(str, known))} is wanted"
                )
        if not 1 <= self.splits <= MAX_SPLITS:
            raise ArgumentError("tactic", f"splits is {self.splits}; 1 to {MAX_SPLITS} is wanted")

    @classmethod
    def parse(cls, text: str) -> Tactic:
        kernel, _, settings = text.partition("@")
        tactic = cls(kernel)
        for setting in filter(None, settings.split(",")):
            name, _, value = setting.partition("=")
            if name not in _SETTINGS or not value:
                raise ArgumentError(
                    "tactic",
                    f"{setting!r} is not NAME=VALUE with a NAME of {', '.join(_SETTINGS)}",
                )
            if _SETTINGS[name] is int and not value.isdecimal():
                raise ArgumentError("tactic", f"{name} is {value!r}; a number is wanted")
            tactic = replace(tactic, **{name: _SETTINGS[name](value)})
        return tactic

    def __str__(self) -> str:
        settings = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"{self.kernel}@{','.join(settings)}" if settings else self.kernel

    def options(self, problem: Problem, sm_count: int) -> tuple[int, ...]:
        """The numbers that the binding takes (tilewright/gemm/binding.hpp)."""
        return (
            int(problem.a_k_major),
            int(problem.b_k_major),
            RASTERS[self.raster],
            self.swizzle,
            DECOMPOSITIONS[self.decomposition],
            self.splits,
            REDUCTIONS[self.reduction],
            sm_count,
            *(
                code * 256 + bits
                for code, bits in (_DLPACK[problem.a], _DLPACK[problem.b], _DLPACK[problem.d])
            ),
        )


_SETTINGS: dict[str, type] = {
    "raster": str,
    "swizzle": int,
    "decomposition": str,
    "splits": int,
    "reduction": str,
}


def candidates(record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
    """The tactics of a kernel that a first selection weighs: deterministic ones, a few splits.

    Raster and swizzle are left to CUTLASS's heuristic here; tuning varies them (`variants`).
    """
    splitting = record.config["scheduler"] == "stream_k"
    k_tiles = -(-problem.k // record.config["tile"][2])
    return _candidates(record.name, min(k_tiles, _SPLITS[-1]) if splitting else 0)


_SPLITS = (2, 3, 4, 6, 8, 12, 16)


@functools.lru_cache(maxsize=4096)
def _candidates(kernel: str, most_splits: int) -> tuple[Tactic, ...]:
    """`most_splits` is 0 where the kernel does not split k."""
    if most_splits == 0:
        return (Tactic(kernel),)
    whole = [Tactic(kernel, decomposition=how) for how in ("data_parallel", "stream_k")]
    split = [Tactic(kernel, decomposition="split_k", splits=n) for n in _SPLITS if n <= most_splits]
    return (*whole, *split)


def rearranged(tactic: Tactic) -> Iterator[Tactic]:
    """The tactic with every raster order and swizzle."""
    for raster in RASTERS:
        for swizzle in SWIZZLES:
            yield replace(tactic, raster=raster, swizzle=swizzle)


def variants(record: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    """Every tactic of a kernel that tuning may try."""
    for base in candidates(record, problem):
        yield from rearranged(base)
