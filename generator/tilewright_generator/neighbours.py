"""The nearest legal values around a configuration that rules reject.

The rules themselves are asked, about configurations that differ in one of the fields that the broken rules
weigh. The number of configurations is limited, never the time, so that an answer is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from math import log2
from typing import Any, NamedTuple

from tilewright.base.spelling import text
from tilewright.configurations import value_kinds
from tilewright.configurations.family import Family
from tilewright_generator.errors import InternalError
from tilewright_generator.fields import Field, fields_of
from tilewright_generator.limits import MOST_NEIGHBOURS_ASKED, MOST_NEIGHBOURS_OF_SPEC
from tilewright_generator.rules import Verdict, verdicts

_SHOWN = 3  # values of a field
_STEPS = 16  # whole numbers on either side of one that is rejected
# Extents of shapes that are tried: those of clusters, and tiles in the finest step of an instruction.
_EXTENTS = (*range(1, 8), *range(8, 513, 8), 768, 1024)
_NEAR_EXTENTS = 24  # of each of two extents that change together


class Neighbour(NamedTuple):
    """A value of a field that makes a rejected configuration legal."""

    field: str
    value: Any

    def __str__(self) -> str:
        return f"{self.field}={text(self.value)}"


class Search:
    """Looks for neighbours, until as many configurations were asked about as a spec may cost."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._left = MOST_NEIGHBOURS_OF_SPEC

    def nearest(self, config: Any, against: Sequence[Verdict], only: str | None = None) -> list[Neighbour]:
        """The legal values of the fields that the broken rules weigh, the nearest first. `only`: of this
        field."""
        rules = {verdict.rule for verdict in against}
        weighed = dict.fromkeys(
            field for rule in self._family.rules if rule.name in rules for field in rule.fields
        )
        names = list(weighed) if only is None else [only]
        return [neighbour for name in names for neighbour in self._of_field(name, config)]

    def _of_field(self, name: str, config: Any) -> list[Neighbour]:
        asked = 0
        for line in _lines(fields_of(self._family)[name], getattr(config, name)):
            legal: list[Neighbour] = []
            for values in line:
                for value in values:
                    if asked == MOST_NEIGHBOURS_ASKED or self._left == 0:
                        return legal
                    asked, self._left = asked + 1, self._left - 1
                    if self._is_legal(changed(self._family, config, name, value)):
                        legal.append(Neighbour(name, value))
                        break
            if legal:
                return sorted(legal, key=partial(_change, getattr(config, name)))[:_SHOWN]
        return []

    def _is_legal(self, config: Any) -> bool:
        try:
            return not verdicts(self._family, config, first=True)
        except InternalError:  # a rule that fails is reported where a spec names such a configuration
            return False


def suggestion(neighbours: Sequence[Neighbour]) -> str:
    """The end of a message about a rejected configuration: "; legal nearby: tile 256x176x64"."""
    by_field: dict[str, list[str]] = {}
    for field, value in neighbours:
        by_field.setdefault(field, []).append(text(value))
    listed = ", or ".join(f"{field} {' or '.join(values)}" for field, values in by_field.items())
    return f"; legal nearby: {listed}" if listed else ""


def changed(family: Family, config: Any, name: str, value: Any) -> Any:
    """The configuration with another value of a field. Where the field settles others' defaults, those that
    have its old value's defaults get the new one's."""
    settling = family.settling
    if settling is None or name != settling.field:
        return replace(config, **{name: value})
    before, after = (family.defaults({name: setting}) for setting in (getattr(config, name), value))
    follow = {field: after[field] for field in before if getattr(config, field) == before[field]}
    return replace(config, **(follow | {name: value}))


def _lines(field: Field, value: Any) -> Iterator[Iterator[Iterable[Any]]]:
    """Other values of the field, the nearest first: lists of lists, of each of which the first legal value is
    wanted. The second is for where the first has no legal value."""
    yield (values for kind in field.kinds for values in _of_kind(kind, value))
    if any(isinstance(kind, value_kinds.Shape) and isinstance(value, kind.shape) for kind in field.kinds):
        yield iter([_in_two_extents(value)])


def _of_kind(kind: value_kinds.ValueKind, value: Any) -> Iterator[Iterable[Any]]:
    if isinstance(kind, value_kinds.OneOf):
        yield from ([word] for word in kind.values if word != value)
    elif isinstance(kind, value_kinds.Whole) and type(value) is int:
        yield _whole_numbers(kind, value)
    elif isinstance(kind, value_kinds.Shape) and isinstance(value, kind.shape):
        for place, extent in enumerate(value):
            yield (_with(value, {place: near}) for near in _nearest_extents(extent))


def _whole_numbers(kind: value_kinds.Whole, value: int) -> Iterator[int]:
    step = kind.bounds.multiple
    for distance in range(step, (_STEPS + 1) * step, step):
        yield from (near for near in (value - distance, value + distance) if not kind.expected(near))


def _in_two_extents(value: Any) -> Iterator[Any]:
    near = [_nearest_extents(extent)[:_NEAR_EXTENTS] for extent in value]
    pairs = [
        {first: a, second: b}
        for first, second in combinations(range(len(value)), 2)
        for a, b in product(near[first], near[second])
    ]
    pairs.sort(key=lambda change: sum(_distance(value[place], extent) for place, extent in change.items()))
    return (_with(value, change) for change in pairs)


def _nearest_extents(extent: int) -> list[int]:
    return sorted((near for near in _EXTENTS if near != extent), key=lambda near: _distance(extent, near))


def _change(before: Any, neighbour: Neighbour) -> float:
    """How far a shape is from another; 0 for other values, whose order stays."""
    both = isinstance(before, tuple) and isinstance(neighbour.value, tuple)
    return sum(map(_distance, before, neighbour.value)) if both else 0


def _distance(extent: int, near: int) -> float:
    return abs(log2(near / extent))


def _with(value: Any, change: dict[int, int]) -> Any:
    return value._replace(**{value._fields[place]: extent for place, extent in change.items()})
