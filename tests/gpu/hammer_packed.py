"""What the hammer runs of kernels that multiply activations by one packed weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hammer_case import Case

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_fp8_gemm.problem import Problem as MixedFp8
from tilewright.families.mixed_gemm.problem import GATED_MULTIPLE, SILU_MUL
from tilewright.families.mixed_gemm.problem import Problem as Mixed


def mixed_cases(record: KernelRecord) -> Iterator[Case]:
    ways = {"wgmma": _mixed_wgmma, "stream": _mixed_stream, "balanced": _mixed_balanced}
    for case in ways[record.config["mainloop"]](record):
        yield _gated(case) if record.config["activation"] == SILU_MUL else case


def _gated(case: Case) -> Case:
    """The call with the activation of gated kernels."""
    n = -(-case.problem.n // GATED_MULTIPLE) * GATED_MULTIPLE
    return case._replace(problem=replace(case.problem, n=n, activation=SILU_MUL))


def _mixed_kind(config: Mapping[str, Any]) -> tuple[str, str, str]:
    """The types of A, of D, and of the weight."""
    a, d = config["a"], config["d"]
    return a, a if d == "same" else d, config["weight_format"]


def _mixed_stream(record: KernelRecord) -> Iterator[Case]:
    """Fewer units of k than warps, and so many that stages are used again; a partial unit; splits of k."""
    name, config = record.name, record.config
    (tile_m, rows, unit), kind = config["tile"], _mixed_kind(config)
    ring = record.facts["threads"] // 32 * record.facts["stages"] * unit  # of k, that a thread block holds
    yield Case(Mixed(rows, 96 * tile_m, unit, *kind), Tactic(name))
    yield Case(Mixed(rows, 96 * tile_m - 56, 2 * ring + unit + 32, *kind, bias=True), Tactic(name))
    yield Case(Mixed(rows, 33 * tile_m + 8, 3 * ring, *kind, activation="silu"), Tactic(name, splits=2))
    yield Case(Mixed(1, 24 * tile_m, 9 * unit, *kind), Tactic(name, splits=8))


def _mixed_wgmma(record: KernelRecord) -> Iterator[Case]:
    """Whole and partial tiles; D by TMA and by threads; clusters that share activations; splits of k."""
    name, config = record.name, record.config
    (tile_m, tile_n, stage), kind = config["tile"], _mixed_kind(config)
    high, wide = 3 * tile_n + tile_n // 2 + 1, 96 * tile_m
    yield Case(Mixed(tile_n, 2 * wide, max(stage, 128), *kind), Tactic(name))
    yield Case(
        Mixed(high, wide + 8, 3 * stage, *kind, bias=True), Tactic(name, "2x1", raster="along_n", swizzle=2)
    )
    yield Case(Mixed(high, wide - 56, 2 * stage + 32, *kind, activation="silu"), Tactic(name, "4x1"))
    yield Case(Mixed(tile_n, 24 * tile_m, 8 * stage, *kind), Tactic(name, splits=4))
    yield Case(Mixed(high, 12 * tile_m, 9 * stage, *kind), Tactic(name, "2x1", splits=3))


def _mixed_balanced(record: KernelRecord) -> Iterator[Case]:
    """Ranges of stages that are longer than a tile, and shorter, so that several thread blocks leave sums to
    one; partial tiles; pairs that share activations."""
    name, config = record.name, record.config
    (tile_m, tile_n, stage), kind = config["tile"], _mixed_kind(config)
    high, wide = 3 * tile_n + tile_n // 2 + 1, 96 * tile_m
    yield Case(Mixed(tile_n, 2 * wide, 7 * stage, *kind), Tactic(name))
    yield Case(Mixed(high, wide + 8, 3 * stage, *kind, bias=True), Tactic(name, "2x1", raster="along_n"))
    yield Case(Mixed(tile_n, 2 * wide - 56, 5 * stage + 32, *kind), Tactic(name, "2x1"))
    yield Case(Mixed(tile_n, 8 * tile_m + 8, 50 * stage, *kind), Tactic(name))
    yield Case(Mixed(tile_n - 1, 12 * tile_m, 21 * stage, *kind, bias=True), Tactic(name, "2x1"))


def mixed_fp8_cases(record: KernelRecord) -> Iterator[Case]:
    """The same for FP8 activations; fewer, equally many and more stages of k than the ring has."""
    name, config = record.name, record.config
    tile_m, tile_n, stage = config["tile"]
    kind = {name: config[name] for name in ("a", "d", "weight_format", "fast_accum")}
    high, wide, ring = 3 * tile_n + tile_n // 2 + 1, 96 * tile_m, record.facts["stages"] * stage
    if config["balanced"]:
        yield from _mixed_fp8_balanced(name, (high, tile_n), (wide, tile_m), stage, kind)
        return
    yield Case(MixedFp8(tile_n, 2 * wide, stage, **kind), Tactic(name))
    yield Case(
        MixedFp8(high, wide + 8, 3 * stage, **kind, a_scale=True, bias=True),
        Tactic(name, "2x1", raster="along_n", swizzle=2),
    )
    yield Case(MixedFp8(high, wide - 56, ring + 32, **kind, activation="silu"), Tactic(name, "4x1"))
    yield Case(MixedFp8(tile_n, 24 * tile_m, 2 * ring + stage, **kind), Tactic(name, splits=4))
    yield Case(MixedFp8(high, 12 * tile_m, 9 * stage, **kind), Tactic(name, "2x1", splits=3))


def _mixed_fp8_balanced(
    name: str, rows: tuple[int, int], columns: tuple[int, int], stage: int, kind: dict[str, Any]
) -> Iterator[Case]:
    """Ranges of stages that are longer than a tile, with whole tiles behind them and without, and shorter
    ones, so that several thread blocks leave sums to one; partial tiles; pairs that share activations."""
    (high, tile_n), (wide, tile_m) = rows, columns
    yield Case(MixedFp8(tile_n, 2 * wide, 7 * stage, **kind), Tactic(name))
    yield Case(
        MixedFp8(high, wide + 8, 3 * stage, **kind, a_scale=True, bias=True),
        Tactic(name, "2x1", raster="along_n"),
    )
    yield Case(MixedFp8(high, wide - 56, 5 * stage + 32, **kind, a_scale=True), Tactic(name))
    yield Case(MixedFp8(tile_n, 8 * tile_m + 8, 50 * stage, **kind), Tactic(name))
    yield Case(MixedFp8(tile_n - 1, 12 * tile_m, 21 * stage, **kind, bias=True), Tactic(name, "2x1"))
