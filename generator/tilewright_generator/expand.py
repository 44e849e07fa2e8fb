"""Multiplies a spec's groups out into kernels, and accounts for every combination that becomes none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

from tilewright.base.spelling import text
from tilewright_generator.errors import Faults, Position
from tilewright_generator.limits import MOST_EXCLUDE_TESTS, MOST_KERNELS
from tilewright_generator.neighbours import Search, suggestion
from tilewright_generator.plurals import counted
from tilewright_generator.rules import Verdict, verdicts
from tilewright_generator.spec import MAX_COMBINATIONS, Exclude, Group, Spec


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
    """The whole expansion of a spec's groups, in the spec's order."""

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


def expand(spec: Spec, faults: Faults) -> Expansion:
    """Multiplies every group out.

    Faults: a group that is too large (it is not multiplied out), an illegal explicit configuration, a group
    without a legal configuration, a value that no kernel has, an exclude that excludes nothing.
    """
    kernels: list[Kernel] = []
    excluded: list[Excluded] = []
    rejected: list[Rejected] = []
    search = Search(spec.family)
    values = _Values(search)
    total = tests = 0
    for group in spec.groups:
        if size(group) > spec.max_combinations:
            _too_large(spec, group, faults)
            continue
        total += size(group)
        tests += size(group) * len(group.excludes)
        if total > MOST_KERNELS or tests > MOST_EXCLUDE_TESTS:
            faults.add(group.position, _too_many(total, tests))
            break
        made_count, lost, left_out = len(kernels), len(rejected), len(excluded)
        for config, exclude in _candidates(spec, group):
            if exclude is not None:
                excluded.append(Excluded(config, exclude, group))
            elif against := verdicts(spec.family, config, first=True):
                rejected.append(Rejected(config, against[0], group))
            else:
                kernels.append(Kernel(spec.family.kernel_name(config), config, group))
        if made_count == len(kernels):
            _nothing_left(spec, group, rejected[lost:], search, faults)
        else:
            values.note(group, kernels[made_count:], rejected[lost:])
        _stale(group, excluded[left_out:], faults)
    values.report(faults)
    return Expansion(spec, tuple(kernels), tuple(excluded), tuple(rejected))


def _too_many(combinations: int, tests: int) -> str:
    """The message about a spec whose groups exceed a limit together."""
    if combinations > MOST_KERNELS:
        return (
            f"with this group the spec multiplies out to {combinations:,} combinations, more than "
            f"{MOST_KERNELS:,}; split it into several specs"
        )
    return (
        f"with this group {tests:,} combinations and items of `exclude:` are to be compared, more than "
        f"{MOST_EXCLUDE_TESTS:,}; make the groups smaller, so that fewer excludes are about each"
    )


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
    for values in _combinations(spec, group):
        excluded = next(
            (e for e, where in tests if all(values[i] in excluded_values for i, excluded_values in where)),
            None,
        )
        yield config_type(*values), excluded


def _combinations(spec: Spec, group: Group) -> Iterator[Sequence[Any]]:
    """The values of each combination, in the family's order. Fields that nothing gives have the defaults that
    follow from the combination."""
    combinations = product(*([choice.value for choice in choices] for choices in group.choices.values()))
    settling = spec.family.settling
    if settling is None or not group.left_out:
        yield from combinations
        return
    fields = list(group.choices)
    place = fields.index(settling.field)
    defaults = {
        choice.value: [
            (fields.index(name), default)
            for name, default in spec.family.defaults({settling.field: choice.value}).items()
            if name in group.left_out
        ]
        for choice in group.choices[settling.field]
    }
    for combination in combinations:
        values = list(combination)
        for index, default in defaults[values[place]]:
            values[index] = default
        yield values


def _too_large(spec: Spec, group: Group, faults: Faults) -> None:
    number = size(group)
    factors = " x ".join(
        f"{len(choices)} of {name}" for name, choices in group.choices.items() if len(choices) > 1
    )
    most = f"{spec.max_combinations:,}"
    if spec.max_combinations != MAX_COMBINATIONS:
        most = f"the {most} that this spec allows"
    faults.add(
        group.position,
        f"this group multiplies out to {number:,} combinations ({factors}), more than {most}; split it, or "
        f"say `max_combinations: {number}` at the top of the spec",
    )


def _nothing_left(spec: Spec, group: Group, rejected: list[Rejected], search: Search, faults: Faults) -> None:
    if size(group) == 1 and rejected:  # an explicit configuration: say all that is wrong with it
        config = rejected[0].config
        against = verdicts(spec.family, config)
        for verdict in against:
            position, where = _blamed(spec, group, verdict)
            faults.add(position, partial(_not_legal, verdict, where, search, config, against))
        return
    excluded = size(group) - len(rejected)
    parts = [_by_rule(rejected)] if rejected else []
    parts += [f"its excludes take {excluded}"] if excluded else []
    example = f"; for example {rejected[0].verdict.why}" if rejected else ""
    faults.add(
        group.position,
        f"nothing is left of this group's {counted(size(group), 'combination')}: {', '.join(parts)}{example}",
    )


def _not_legal(verdict: Verdict, where: str, search: Search, config: Any, against: Sequence[Verdict]) -> str:
    """The message about a verdict against an explicit configuration; the first one says what is legal."""
    near = suggestion(search.nearest(config, against)) if verdict is against[0] else ""
    return f"this configuration is not legal: {verdict}{where}{near}"


def _blamed(spec: Spec, group: Group, verdict: Verdict) -> tuple[Position, str]:
    """The position of the value for which a rule rejects a group of one combination, if the group itself
    gives the value; else the group's position, and the value's position in words."""
    fields = next(rule.fields for rule in spec.family.rules if rule.name == verdict.rule)
    choices = [(name, group.choices[name][0].position) for name in fields]
    for name, position in choices:
        if name in group.own and position is not None:
            return position, ""
    for name, position in choices:
        if position is not None:
            return group.position, f"; {name} is given on line {position.line}"
    return group.position, ""


def _by_rule(rejected: list[Rejected]) -> str:
    counts: dict[str, int] = {}
    for rejection in rejected:
        counts[rejection.verdict.rule] = counts.get(rejection.verdict.rule, 0) + 1
    return ", ".join(f"{rule} rejects {count:,}" for rule, count in counts.items())


class _Values:
    """Finds values of lists that make no kernel, though others of their group do.

    A value is one place in the spec. Groups may share it, through defaults, the top of the spec or an anchor:
    it need make a kernel in one of them.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._alive: set[tuple[str, Position]] = set()
        self._lost: dict[tuple[str, Position], tuple[Any, list[Rejected]]] = {}

    def note(self, group: Group, kernels: list[Kernel], rejected: list[Rejected]) -> None:
        """The use of each value of a group that has legal combinations."""
        for name, choices in group.choices.items():
            used = {getattr(kernel.config, name) for kernel in kernels} if len(choices) > 1 else None
            lost = _by_value(name, rejected) if used is not None and len(used) < len(choices) else {}
            for value, position in choices:
                if position is None:
                    continue
                if used is None or value in used:
                    self._alive.add((name, position))
                elif value in lost:
                    self._lost.setdefault((name, position), (value, []))[1].extend(lost[value])

    def report(self, faults: Faults) -> None:
        """Adds a fault for each value of which rules reject every combination. A value that excludes reject
        wholly is no fault: the excludes state why."""
        for (name, position), (value, rejected) in self._lost.items():
            if (name, position) not in self._alive:
                faults.add(position, partial(_makes_none, name, value, rejected, self._search))


def _makes_none(name: str, value: Any, rejected: list[Rejected], search: Search) -> str:
    first = rejected[0].verdict
    why = f"{_by_rule(rejected)}; for example {first.why}" if rejected[1:] else str(first)
    near = suggestion(search.nearest(rejected[0].config, [first], only=name))
    return f"{name}: {text(value)} makes no kernel: {why}{near}"


def _by_value(name: str, rejected: list[Rejected]) -> dict[Any, list[Rejected]]:
    """The rejected combinations by their value of a field."""
    groups: dict[Any, list[Rejected]] = {}
    for rejection in rejected:
        groups.setdefault(getattr(rejection.config, name), []).append(rejection)
    return groups


def _stale(group: Group, excluded: list[Excluded], faults: Faults) -> None:
    used = {id(exclusion.exclude) for exclusion in excluded}
    for exclude in group.excludes:
        if id(exclude) not in used:
            faults.add(exclude.position, "exclude: it matches nothing that is not excluded before; remove it")
