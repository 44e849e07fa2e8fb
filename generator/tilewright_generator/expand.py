"""Multiplies a spec's groups out into kernels, and accounts for every combination that becomes none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

from tilewright_generator.errors import Problems
from tilewright_generator.rules import Verdict, verdicts
from tilewright_generator.spec import Exclude, Group, Spec
from tilewright_generator.words import counted


class Kernel(NamedTuple):
    """A configuration that becomes a source, and the group that names it."""

    name: str
    config: Any
    group: Group


class Excluded(NamedTuple):
    """A combination that the spec leaves out."""

    config: Any
    exclude: Exclude
    group: Group


class Rejected(NamedTuple):
    """A combination of a product that a rule rejects: the first rule that does."""

    config: Any
    verdict: Verdict
    group: Group


@dataclass(frozen=True, slots=True)
class Expansion:
    """All that a spec's groups multiply out to, in the spec's order."""

    spec: Spec
    kernels: tuple[Kernel, ...]
    excluded: tuple[Excluded, ...]
    rejected: tuple[Rejected, ...]

    def rejections(self) -> dict[str, int]:
        """How many combinations each rule rejected, the most first."""
        counts: dict[str, int] = {}
        for rejected in self.rejected:
            counts[rejected.verdict.rule] = counts.get(rejected.verdict.rule, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def expand(spec: Spec, problems: Problems) -> Expansion:
    """Multiply every group out. Illegal explicit groups, empty groups and stale excludes are faults."""
    kernels: list[Kernel] = []
    excluded: list[Excluded] = []
    rejected: list[Rejected] = []
    for group in spec.groups:
        made, lost, left_out = len(kernels), len(rejected), len(excluded)
        for config, exclude in _candidates(spec, group):
            if exclude is not None:
                excluded.append(Excluded(config, exclude, group))
            elif against := verdicts(spec.family, config, first=True):
                rejected.append(Rejected(config, against[0], group))
            else:
                kernels.append(Kernel(spec.family.kernel_name(config), config, group))
        if made == len(kernels):
            _nothing_left(spec, group, rejected[lost:], problems)
        _stale(group, excluded[left_out:], problems)
    return Expansion(spec, tuple(kernels), tuple(excluded), tuple(rejected))


def size(group: Group) -> int:
    """How many combinations the group names."""
    return prod(map(len, group.choices.values()))


def _candidates(spec: Spec, group: Group) -> Iterator[tuple[Any, Exclude | None]]:
    fields = list(group.choices)
    tests = [
        (exclude, [(fields.index(name), values) for name, values in exclude.where.items()])
        for exclude in group.excludes
    ]
    config_type = spec.family.config
    for values in product(*([choice.value for choice in choices] for choices in group.choices.values())):
        excluded = next((e for e, where in tests if all(values[i] in wanted for i, wanted in where)), None)
        yield config_type(*values), excluded


def _nothing_left(spec: Spec, group: Group, rejected: list[Rejected], problems: Problems) -> None:
    if size(group) == 1 and rejected:  # an explicit configuration: say all that is wrong with it
        for verdict in verdicts(spec.family, rejected[0].config):
            problems.add(group.position, f"this configuration is not legal: {verdict}")
        return
    counts: dict[str, int] = {}
    for each in rejected:
        counts[each.verdict.rule] = counts.get(each.verdict.rule, 0) + 1
    by_rule = ", ".join(f"{rule} rejects {count}" for rule, count in counts.items())
    excluded = size(group) - len(rejected)
    parts = [by_rule] if by_rule else []
    parts += [f"its excludes take {excluded}"] if excluded else []
    example = f"; for example {rejected[0].verdict.reason}" if rejected else ""
    problems.add(
        group.position,
        f"nothing is left of this group's {counted(size(group), 'combination')}: {', '.join(parts)}{example}",
    )


def _stale(group: Group, excluded: list[Excluded], problems: Problems) -> None:
    used = {id(each.exclude) for each in excluded}
    for exclude in group.excludes:
        if id(exclude) not in used:
            problems.add(
                exclude.position, "exclude: it matches nothing that is not excluded before; remove it"
            )
