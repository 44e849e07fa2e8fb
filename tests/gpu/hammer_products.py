"""What the hammer runs of kernels of matrix products: few stages of k, whole and partial tiles in turn."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from math import lcm
from typing import Any

from hammer_case import UNIT, Case, partial, result_tile, square, strip, tiles, whole

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.problem import Problem as Blockscaled
from tilewright.families.gemm.mainloops import MOST_ROWS, mainloop_of
from tilewright.families.gemm.problem import GATED, GIVEN
from tilewright.families.gemm.problem import Problem as Gemm
from tilewright.families.grouped_gemm.problem import Problem as Grouped
from tilewright.families.grouped_gemm.problem import part_multiple
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem as Fp8Experts
from tilewright.families.mixed_gemm.problem import SILU_MUL
from tilewright.families.mixed_grouped_gemm.problem import GroupedProblem
from tilewright.families.mixed_grouped_gemm.problem import Problem as Experts
from tilewright.families.reduced_gemm.problem import Problem as Reduced
from tilewright.formats.types import bits

_BY_THREADS = 1  # column more than D's whole 16 bytes: threads store it
_COLUMNS = 8192  # of the grouped products, at most
_RESULT_ROWS = 1500  # of the grouped products, about
_SEEN_ROWS, _SEEN_GROUPS = (257, 300, 129, 400), 48
"""Groups with which tiles of 256x128 and 256x96 had wrong bits on an H200 (2026-11-23) when a buffer of D was
overwritten before TMA had read it."""


def gemm_cases(record: KernelRecord) -> Iterator[Case]:
    ways = {
        "lean": _lean,
        "stream": _stream,
        "mma": _mma,
        "cutlass": _cutlass,
        "cute_dsl": _cute_dsl,
        "tcgen05": _cute_dsl,
    }
    yield from ways[mainloop_of(record)](record)


def _gemm(record: KernelRecord, extents: tuple[int, int], k: int, **options: Any) -> Gemm:
    config = record.config
    return Gemm(
        *extents, k, 1, config["a"], config["b"], config["d"], config["layout"],
        activation=config["activation"].replace(GIVEN, "relu"), fast_accum=config["fast_accum"], **options,
    )  # fmt: skip


def _lean(record: KernelRecord) -> Iterator[Case]:
    name, config = record.name, record.config
    (rows, columns), stage = result_tile(record), config["tile"][2]
    unit = 1 if config["layout"][0] == "t" else UNIT
    count = tiles(rows, columns, config["d"])
    added = {"c": config["c"] != "none", "bias": bool(config["bias"])}
    in_turn, wide = strip(rows, columns, count, unit), square(rows, columns, count, unit)
    small = square(rows, columns, 24, unit)
    yield Case(_gemm(record, in_turn, stage), Tactic(name))
    clusters = ("2x2", "2x1", "1x4")
    cluster = clusters[zlib.crc32(name.encode()) % len(clusters)]
    yield Case(_gemm(record, wide, 3 * stage), Tactic(name, cluster, raster="along_n", swizzle=2))
    if config["activation"] in GATED:  # whose columns come in pairs
        yield Case(_gemm(record, wide, 2 * stage, **added), Tactic(name, "1x2"))
    elif config["layout"][1] == "n":  # B has k contiguous, and D any columns
        m, n = wide
        yield Case(_gemm(record, (m, n + _BY_THREADS), 2 * stage, **added), Tactic(name, "1x2"))
    yield Case(_gemm(record, wide, 2 * stage, **added), Tactic(name, "4x1", raster="along_m"))
    yield Case(_gemm(record, small, 8 * stage), Tactic(name, splits=4))
    yield Case(_gemm(record, small, 8 * stage), Tactic(name, splits=3, decomposition="split_k"))
    if config.get("split_form"):  # parts of one stage or two, and tiles that are partial
        few = square(rows, columns, 7, unit)
        yield Case(_gemm(record, few, 16 * stage), Tactic(name, splits=16, decomposition="split_k"))
        split = Tactic(name, cluster, splits=7, decomposition="split_k")
        yield Case(_gemm(record, few, 10 * stage - 8), split)
        yield Case(_gemm(record, few, 10 * stage - 8), Tactic(name, cluster, splits=2))


def _mma(record: KernelRecord) -> Iterator[Case]:
    name, config = record.name, record.config
    (rows, columns), stage = result_tile(record), config["tile"][2]
    unit = 1 if config["layout"][0] == "t" else UNIT
    count = tiles(rows, columns, config["d"])
    added = {"c": True, "bias": True}
    m, n = wide = square(rows, columns, count, unit)
    yield Case(_gemm(record, strip(rows, columns, count, unit), stage), Tactic(name))
    yield Case(_gemm(record, wide, 3 * stage), Tactic(name, raster="along_n", swizzle=2))
    if config["layout"][1] == "n":  # B has k contiguous, and D any columns
        yield Case(_gemm(record, (m, n + _BY_THREADS), 2 * stage, **added), Tactic(name))
    yield Case(_gemm(record, wide, 2 * stage, **added), Tactic(name, raster="along_m"))
    small = square(rows, columns, 24, unit)
    yield Case(_gemm(record, small, 8 * stage), Tactic(name, splits=3, decomposition="split_k"))


def _stream(record: KernelRecord) -> Iterator[Case]:
    step = 16 * record.config["tile"][2]
    for m, n, k, splits in (
        (MOST_ROWS - 1, 24_001, step, 1),
        (MOST_ROWS, 4_097, 4 * step, 4),
        (1, 8_192, step, 2),
    ):
        for added in ({}, {"c": True, "bias": bool(record.config["bias"])}):
            yield Case(_gemm(record, (m, n), k, **added), Tactic(record.name, splits=splits))


def _cute_dsl(record: KernelRecord) -> Iterator[Case]:
    name, (rows, columns), stage = record.name, result_tile(record), record.config["tile"][2]
    count = tiles(rows, columns, record.config["d"])
    wide = square(rows, columns, count)
    yield Case(_gemm(record, strip(rows, columns, count), stage), Tactic(name))
    yield Case(_gemm(record, wide, 3 * stage), Tactic(name, raster="along_n", swizzle=2))
    yield Case(_gemm(record, wide, 2 * stage, c=True), Tactic(name, raster="along_m"))


def _cutlass(record: KernelRecord) -> Iterator[Case]:
    config = record.config
    (rows, columns), stage = result_tile(record), config["tile"][2]
    count = tiles(rows, columns, config["d"])
    added = {"c": config["c"] != "none", "bias": bool(config["bias"])}
    plain = {"bias": bool(config["bias"])}
    yield Case(_gemm(record, strip(rows, columns, count), stage, **plain), Tactic(record.name))
    yield Case(_gemm(record, square(rows, columns, count), 3 * stage, **added), Tactic(record.name))
    small = _gemm(record, square(rows, columns, 40), 12 * stage, **plain)
    for how, splits in (("stream_k", 1), ("split_k", 3)):
        yield Case(small, Tactic(record.name, decomposition=how, splits=splits))


def grouped_cases(record: KernelRecord) -> Iterator[Case]:
    config = record.config
    yield from _seen_failing(record)
    for grouping in ("ends", "row_index", "rows_valid"):
        yield from _rows_of_groups(record, grouping)
    yield from _parts_of_k(record)
    (rows, columns), stage = result_tile(record), config["tile"][2]
    count = tiles(rows, columns, config["d"])
    for extents, k, batch, tactic in (
        (strip(rows, columns, count // 2), stage, 2, Tactic(record.name)),
        (square(rows, columns, count), 3 * stage, 1, Tactic(record.name, "2x1", raster="along_n")),
        (square(rows, columns, 30), 8 * stage, 1, Tactic(record.name, splits=4)),
    ):
        if config["scales"] != "none":  # else it is gemm's
            yield Case(_grouped(record, *extents, k, batch, grouping="none"), tactic)


def _grouped(record: KernelRecord, m: int, n: int, k: int, groups: int, **options: Any) -> Grouped:
    config = record.config
    types = {name: config[name] for name in ("a", "b", "d", "scales", "layout", "constant_b")}
    return Grouped(m, n, k, groups, **types, **options)


def _ends(rows: tuple[int, ...], alignment: int) -> tuple[int, ...]:
    """Where groups of so many rows end, each of which begins at a multiple of the alignment."""
    found, start = [], 0
    for count in rows:
        found.append(start + count)
        start = -(-found[-1] // alignment) * alignment
    return tuple(found)


def _turns(rows: tuple[int, ...], groups: int) -> tuple[int, ...]:
    return tuple(rows[group % len(rows)] for group in range(groups))


def _alignment(record: KernelRecord) -> int:
    return 1 if record.config["scales"] == "none" else 4


def _seen_failing(record: KernelRecord) -> Iterator[Case]:
    """Much is stored for little that is multiplied: one stage of k, and two."""
    alignment, stage = _alignment(record), record.config["tile"][2]
    ends = _ends(_turns(_SEEN_ROWS, _SEEN_GROUPS), alignment)
    unit = lcm(result_tile(record)[1], 128)
    n = _COLUMNS // (bits(record.config["d"]) // 16) // unit * unit
    problem = _grouped(record, ends[-1], n, stage, _SEEN_GROUPS, grouping="ends", row_alignment=alignment)
    for k in (stage, 2 * stage):
        yield Case(replace(problem, k=k), Tactic(record.name), ends)


def _rows_of_groups(record: KernelRecord, grouping: str) -> Iterator[Case]:
    """Groups of a tile and a row, of a tile and a part, of half a tile, of a tile and a half, in turn."""
    (rows, columns), stage, alignment = result_tile(record), record.config["tile"][2], _alignment(record)
    in_turn = (rows + 1, rows + rows // 6 + 1, rows // 2 + 1, rows + rows // 2 + 16)
    groups = max(12, min(-(-_RESULT_ROWS * len(in_turn) // sum(in_turn)), 48))
    counts = _turns(in_turn, groups)
    total = sum(counts)
    across = max(1, min(tiles(rows, columns, record.config["d"]) * rows // total, _COLUMNS // columns))
    n = across * columns + partial(columns, UNIT)
    if grouping == "rows_valid":
        m, given, more = whole(max(in_turn), alignment), counts, {"expected_m": total // groups}
    else:
        given = _ends(counts, alignment)
        m, more = given[-1], {"row_alignment": alignment}
    problem = _grouped(record, m, n, stage, groups, grouping=grouping, **more)
    yield Case(problem, Tactic(record.name), given)
    yield Case(replace(problem, k=2 * stage), Tactic(record.name, "2x1", raster="along_n", swizzle=2), given)


def _parts_of_k(record: KernelRecord) -> Iterator[Case]:
    """Parts of one, three, no and two stages of k."""
    (rows, columns), stage = result_tile(record), part_multiple(record.config["a"])
    groups = 6
    sizes = _turns((stage, 3 * stage, 0, 2 * stage), groups)
    unit = 1 if record.config["layout"][0] == "t" else UNIT
    count = tiles(rows, columns, record.config["d"]) // groups
    for extents, tactic in (
        (strip(rows, columns, count, unit), Tactic(record.name)),
        (square(rows, columns, count, unit), Tactic(record.name, "1x2", raster="along_n")),
    ):
        yield Case(_grouped(record, *extents, sum(sizes), groups, grouping="k_sizes"), tactic, sizes)


def reduced_cases(record: KernelRecord) -> Iterator[Case]:
    (rows, columns), stage, type = result_tile(record), record.config["tile"][2], record.config["a"]
    for extents, k, batch, options, cluster in (
        (square(rows, columns, 40), stage, 9, {"d": type}, ""),
        (square(rows, columns, 140), 2 * stage + 8, 3, {"d": "f32", "c": True}, ""),
        (strip(rows, columns, 24), stage, 40, {"d": "f32"}, "2x1"),
    ):
        yield Case(Reduced(*extents, k, batch, type, type, **options), Tactic(record.name, cluster))


def blockscaled_cases(record: KernelRecord) -> Iterator[Case]:
    config = record.config
    (rows, columns), stage = result_tile(record), config["tile"][2]
    c = config["c"] == "same"
    count = min(tiles(rows, columns, config["d"]), 1500)
    for extents, k, splits in (
        (strip(rows, columns, count), stage, 1),
        (square(rows, columns, count), 3 * stage, 1),
        (square(rows, columns, 40), 8 * stage, 4),
    ):
        bias = bool(config.get("bias"))
        activation = "silu" if bias else "none"
        problem = Blockscaled(*extents, k, 1, config["a"], config["b"], config["d"], c, bias, activation)
        yield Case(problem, Tactic(record.name, splits=splits))


def experts_cases(record: KernelRecord) -> Iterator[Case]:
    """Groups of a tile and a row, of a part of a tile, of none, and of a tile and a half, in turn."""
    a, gated = record.config["a"], record.config["activation"] == SILU_MUL
    types = {"a": a, "d": a} | ({"activation": SILU_MUL} if gated else {})
    return _experts(record, Experts, types, {"bias": True})


def fp8_experts_cases(record: KernelRecord) -> Iterator[Case]:
    """The same for FP8 activations."""
    types = {name: record.config[name] for name in ("d", "fast_accum")}
    return _experts(record, Fp8Experts, types, {"bias": True, "a_scale": True})


def _experts(
    record: KernelRecord, kind: type[GroupedProblem], types: dict[str, Any], extras: dict[str, Any]
) -> Iterator[Case]:
    name, config = record.name, record.config
    columns, rows, stage = config["tile"]
    counts = _turns((rows + 1, rows // 2 + 1, 0, rows + rows // 2 + 3), 16)
    ends, total = _ends(counts, 1), sum(counts)
    n = min(60, _COLUMNS // columns) * columns + (48 if "activation" in types else 56)

    def problem(m: int, k: int, grouping: str, **options: Any) -> GroupedProblem:
        fields = types | {"weight_format": config["weight_format"], "grouping": grouping}
        return kind(m, n, k, len(counts), **fields, **options)

    yield Case(problem(total, max(stage, 128), "ends"), Tactic(name), ends)
    two, four = ("", "") if config.get("mainloop") == "stream" else ("2x1", "4x1")
    along = Tactic(name, two, raster="along_n", swizzle=2)
    yield Case(problem(total, 3 * stage + 32, "ends", **extras), along, ends)
    yield Case(problem(total, 2 * stage, "row_index"), Tactic(name), ends)
    yield Case(problem(max(counts) + 4, 4 * stage, "rows_valid"), Tactic(name, four), counts)
