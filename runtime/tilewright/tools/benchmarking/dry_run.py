"""The dry run of a comparison: the problems and the groups' kernels that it would measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.selection.family import Family
from tilewright.tools.benchmarking.groups import Standing


def text(
    family: Family[Any],
    problems: Sequence[Any],
    standings: tuple[Standing, Standing],
    device: DeviceProperties | None,
) -> Iterator[str]:
    """Lines for people. `device` is None if no GPU is known; tactics are then those for an H200."""
    kind, words = kind_and_names(family, problems)
    yield f"{kind}: problems, and how many tactics of each group fit (built or not):"
    for word, problem in zip(words, problems, strict=True):
        counts = [
            f"{standing.group.label} {_tactics(family, standing.of_kind, problem, device or H200)}"
            for standing in standings
        ]
        yield f"  {word}: {', '.join(counts)}"
    for standing in standings:
        yield from _group(standing, family, problems[0], device)
    both = {record.name for record in standings[0].group.records}
    both &= {record.name for record in standings[1].group.records}
    if both:
        yield f"In both groups: {len(both)} kernels"


def kind_and_names(family: Family[Any], problems: Sequence[Any]) -> tuple[str, list[str]]:
    """The common text of all problems, and the texts that tell them apart: for problems of one kind, their
    extents."""
    kinds = {problem.kind_text for problem in problems}
    if len(kinds) > 1:
        return family.name, [str(problem) for problem in problems]
    return kinds.pop(), [problem.extents_text for problem in problems]


def _group(
    standing: Standing, family: Family[Any], problem: Any, device: DeviceProperties | None
) -> Iterator[str]:
    where = "some GPU (there is none here)" if device is None else device.name
    yield (
        f"{standing.group}: {family.name} kernels: {len(standing.group.records)}, that run on {where}: "
        f"{len(standing.runnable)}, that compute such problems: {len(standing.of_kind)}, "
        f"built: {len(standing.built)}"
    )
    missing = {record.name for record in standing.missing}
    for record in standing.of_kind:
        yield f"  {record.name}: {'not built' if record.name in missing else 'built'}"
    runnable = {record.name for record in standing.runnable}
    elsewhere = Counter(record.arch for record in standing.group.records if record.name not in runnable)
    if elsewhere:
        yield f"  do not run there: {_counts(elsewhere)}"
    reasons = (family.misfit_kind(record, problem.kind) for record in standing.runnable)
    excluded = Counter(reason for reason in reasons if reason is not None)
    if excluded:
        yield f"  compute something else: {_counts(excluded)}"


def _counts(counts: Counter[str]) -> str:
    """The commonest first."""
    return "; ".join(f"{count} ({what})" for what, count in counts.most_common())


def _tactics(
    family: Family[Any], records: Sequence[KernelRecord], problem: Any, device: DeviceProperties
) -> int:
    return sum(len(family.candidates(record, problem, device)) for record in family.fitting(records, problem))
