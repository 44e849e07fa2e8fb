"""What would be compared: the groups' kernels, and the problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.benchmarking.groups import Standing
from tilewright.device import DeviceProperties
from tilewright.ops.common.family import Family
from tilewright.table import KernelRecord


def text(
    family: Family[Any],
    problems: Sequence[Any],
    standings: tuple[Standing, Standing],
    device: DeviceProperties | None,
) -> Iterator[str]:
    """Lines for people; `device` None where no GPU is known."""
    for standing in standings:
        yield from _group(standing, family, problems[0], device)
    both = {record.name for record in standings[0].group.records}
    both &= {record.name for record in standings[1].group.records}
    if both:
        yield f"In both groups: {len(both)} kernels"
    yield "Problems, and how many tactics of each group fit (built or not):"
    for problem in problems:
        counts = [f"{one.group.label} {_tactics(family, one.of_kind, problem)}" for one in standings]
        yield f"  {problem}: {', '.join(counts)}"


def _group(
    standing: Standing, family: Family[Any], problem: Any, device: DeviceProperties | None
) -> Iterator[str]:
    where = "on some GPU (there is none here)" if device is None else f"on {device.name}"
    total = len(standing.group.records)
    yield (
        f"{standing.group}: {total} {family.name} kernels; {len(standing.runnable)} run {where}, of which "
        f"{len(standing.of_kind)} compute such problems, of which {len(standing.built)} are built"
    )
    missing = {record.name for record in standing.missing}
    for record in standing.of_kind:
        yield f"  {record.name}: {'not built' if record.name in missing else 'built'}"
    runnable = {record.name for record in standing.runnable}
    elsewhere = Counter(record.arch for record in standing.group.records if record.name not in runnable)
    for arch, count in elsewhere.items():
        yield f"  {count} for {arch}, which does not run there"
    kinds = Counter(family.misfit_kind(record, problem.kind) for record in standing.runnable)
    for reason, count in kinds.items():
        if reason is not None:
            yield f"  {count} compute something else: {reason}"


def _tactics(family: Family[Any], records: Sequence[KernelRecord], problem: Any) -> int:
    return sum(len(family.candidates(record, problem)) for record in family.fitting(records, problem))
