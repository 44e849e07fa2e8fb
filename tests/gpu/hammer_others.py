"""What the hammer runs of the other kernels: quantising, transposing, logits, norms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from hammer_case import SM_COUNT, Case

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.hc_prenorm.problem import Problem as Prenorm
from tilewright.families.mqa_logits.problem import Problem as Logits
from tilewright.families.quantize.family import FAMILY as QUANTIZE
from tilewright.families.quantize.problem import LAYOUTS
from tilewright.families.quantize.problem import Problem as Quantize
from tilewright.families.scale_columns.problem import ATOMS
from tilewright.families.scale_columns.problem import LAYOUTS as COLUMN_LAYOUTS
from tilewright.families.scale_columns.problem import Problem as Columns
from tilewright.families.transpose_fp8.problem import TYPES
from tilewright.families.transpose_fp8.problem import Problem as Transpose

_EMULATED = ("tcgen05", "block_scaled")  # on Hopper, in place of a tensor core's instruction: slow
_WIDE, _NARROW = 4096, 1024  # about, of a quantised row


def quantize_cases(record: KernelRecord) -> Iterator[Case]:
    """Each layout of the scales, with each grid that selection weighs and one thread block on each SM."""
    config = record.config
    multiple = lcm(record.facts["k_multiple"], 16)
    exact = config["arithmetic"] == "exact"
    kind = {name: config[name] for name in ("direction", "format", "x", "fusion")}
    kind["four_over_six"] = config.get("four_over_six", "none")
    for layout in LAYOUTS[config["format"]]:
        wide = Quantize(1031, _WIDE // multiple * multiple, **kind, layout=layout, exact=exact)
        high = replace(wide, m=3079, k=(_NARROW // multiple + 1) * multiple)
        yield Case(wide, Tactic(record.name, blocks=1))
        yield from (Case(high, tactic) for tactic in QUANTIZE.candidates(record, high, H200))


def scale_columns_cases(record: KernelRecord) -> Iterator[Case]:
    """Each layout that the kernel writes; for 128x4 also words and squares."""
    tactic = Tactic(record.name)
    if record.config["writes"] == ATOMS:
        for block, words in ((32, False), (32, True), (128, False), (128, True)):
            yield Case(Columns(20_477, 57, 1, ATOMS, block=block, words=words), tactic)
        yield Case(Columns(160, 57, 2, ATOMS, rows=20_477), tactic)
        return
    for layout in COLUMN_LAYOUTS:
        if layout == ATOMS:
            continue
        for m, columns, batch in ((20_477, 57, 1), (1_029, 129, 9)):
            yield Case(Columns(m, columns, batch, layout), Tactic(record.name))


def transpose_cases(record: KernelRecord) -> Iterator[Case]:
    for type in TYPES:
        for rows, columns, batch in ((2_064, 4_112, 1), (272, 1_040, 24)):
            yield Case(Transpose(rows, columns, batch, type), Tactic(record.name))


def logits_cases(record: KernelRecord) -> Iterator[Case]:
    """Logits of ranges, with and without parts of the keys; of pages; schedules."""
    config, name = record.config, record.name
    small = config["mma"] in _EMULATED
    kind = {field: config[field] for field in ("heads", "head_dim", "q", "d", "form")}
    if config["form"] == "ragged":
        queries, keys = (261, 333) if small else (1_031, 2_093)
        problem = Logits(queries, keys, **kind)
        for splits in (1, 3):
            yield Case(problem, Tactic(name, splits=splits))
        yield Case(replace(problem, clean=True), Tactic(name))
        return
    if config["form"] == "schedule":
        for queries, next_n in ((1_023, 1), (2_048, 2)):
            yield Case(Logits(queries, 0, **kind, next_n=next_n, blocks=SM_COUNT), Tactic(name))
        return
    sequences, keys = (5, 333) if small else (67, 2_093)
    for next_n, page in ((config["queries"], 64), (max(1, config["queries"] - 1), 32)):
        problem = Logits(sequences * next_n, keys, **kind, next_n=next_n, page=page)
        yield Case(problem, Tactic(name))


def prenorm_cases(record: KernelRecord) -> Iterator[Case]:
    rows, columns, stage = record.config["tile"]
    m = 3 * SM_COUNT * rows + rows // 2 + 1
    for k, splits, normalize in ((stage, 1, False), (3 * stage + 8, 3, False), (2 * stage, 1, True)):
        yield Case(Prenorm(m, columns, k, splits, normalize), Tactic(record.name))
