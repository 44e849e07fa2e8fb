"""What `tilewright explain` says of combinations of a spec: text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from tilewright.base.spelling import text
from tilewright.base.tables import table, wrapped
from tilewright_generator.explain import Candidate
from tilewright_generator.fields import Field, fields_of
from tilewright_generator.neighbours import Neighbour
from tilewright_generator.plurals import counted
from tilewright_generator.table import source_name

_SHOWN = 10  # combinations of a kind that are printed; --json has all


def lines(candidates: Sequence[Candidate]) -> Iterator[str]:
    """The whole answer about one combination; counts and examples of several."""
    return _whole(candidates[0]) if len(candidates) == 1 else _many(candidates)


def _many(candidates: Sequence[Candidate]) -> Iterator[str]:
    """Counts, and a few examples of each kind."""
    made_kernels = [candidate for candidate in candidates if candidate.made]
    excluded = [candidate for candidate in candidates if candidate.exclude]
    rejected = [candidate for candidate in candidates if not candidate.made and not candidate.exclude]
    yield (
        f"{counted(len(candidates), 'combination')}: {counted(len(made_kernels), 'kernel')}, "
        f"{len(excluded):,} excluded by the spec, {len(rejected):,} rejected by rules"
    )
    for title, kind in (("kernels", made_kernels), ("excluded", excluded), ("rejected", rejected)):
        if kind:
            yield f"{title}:"
        for candidate in kind[:_SHOWN]:
            yield from wrapped(
                f"{candidate.name}  ({candidate.group.position if candidate.group else ''})", "  ", "      "
            )
            for line in _against(candidate):
                yield from wrapped(line, "      ", "          ")
        if len(kind) > _SHOWN:
            yield f"  ... and {len(kind) - _SHOWN:,} more (--json lists all)"


def _against(candidate: Candidate) -> Iterator[str]:
    if candidate.exclude:
        yield f"excluded at {candidate.exclude.position}: {candidate.exclude.reason}"
    for verdict in candidate.verdicts:
        yield str(verdict)


def _whole(candidate: Candidate) -> Iterator[str]:
    """The whole answer about one combination."""
    family, config = candidate.family, candidate.config
    yield candidate.name
    yield from _fate(candidate)
    weighed = _weighed(candidate)
    rules = "it weighs" if len(candidate.verdicts) == 1 else "they weigh"
    yield f"fields that {rules}:" if weighed else "fields:"
    rows = [
        (name, text(getattr(config, name)), _origin(candidate, field), field.description)
        for name, field in fields_of(family).items()
        if name in weighed or not weighed
    ]
    yield from table(rows)
    if not candidate.verdicts:
        yield from _named_values("facts", family.facts(config))
        yield from _named_values("build", family.build(config))


def _named_values(title: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The entries that are not empty, a line each, below their title."""
    yield f"{title}:"
    rows = {name: value for name, value in values.items() if value not in ([], {}, "")}
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        yield from wrapped(f"{name:<{width}}  {_shown(value)}", "  ", " " * (width + 4))


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return text(value)


def _weighed(candidate: Candidate) -> set[str]:
    """The fields of the rules that reject it: what can be changed."""
    broken = {verdict.rule for verdict in candidate.verdicts}
    return {field for rule in candidate.family.rules if rule.name in broken for field in rule.fields}


def _origin(candidate: Candidate, field: Field) -> str:
    """The origin of the field's value."""
    if position := candidate.origin(field.name):
        return str(position)
    settling = candidate.family.settling
    settled = {} if settling is None else {settling.field: getattr(candidate.config, settling.field)}
    value = getattr(candidate.config, field.name)
    return "default" if candidate.family.defaults(settled).get(field.name, MISSING) == value else "given"


def _fate(candidate: Candidate) -> Iterator[str]:
    family, spec, group = candidate.family, candidate.spec, candidate.group
    if not candidate.verdicts:
        yield from wrapped(family.summary(candidate.config), "  ")
    if candidate.made and spec and group:
        source = source_name(family, candidate.name, family.build(candidate.config))
        yield from wrapped(f"made by {group.position}, as {spec.module}/{source}", "  ", "      ")
    elif candidate.exclude:
        yield f"  excluded at {candidate.exclude.position}: {candidate.exclude.reason}"
    elif not group and not candidate.verdicts:
        yield f"  legal; {spec.path if spec else 'no spec'}{' does not name it' if spec else ' names it'}"
    elif group:
        yield f"  left out of the group at {group.position}:"
    docs = {rule.name: rule.statement for rule in family.rules}
    for verdict in candidate.verdicts:
        yield from wrapped(f"rejected by {verdict}", "  ", "      ")
        if docs[verdict.rule]:
            yield from wrapped(f"rule: {docs[verdict.rule]}", "      ", "          ")
    if neighbours := candidate.neighbours():
        yield from wrapped(f"legal nearby: {', '.join(map(str, neighbours))}", "  ", "      ")


def as_json(candidate: Candidate, neighbours: Sequence[Neighbour]) -> dict[str, Any]:
    exclude = candidate.exclude
    legal = not candidate.verdicts
    return {
        "name": candidate.name,
        "made": candidate.made,
        "family": candidate.family.name,
        "module": candidate.spec.module if candidate.spec else None,
        "position": str(candidate.group.position) if candidate.group else None,
        "config": {name: getattr(candidate.config, name) for name in fields_of(candidate.family)},
        "facts": candidate.family.facts(candidate.config) if legal else None,
        "excluded": {"position": str(exclude.position), "reason": exclude.reason} if exclude else None,
        "rejected": [verdict._asdict() for verdict in candidate.verdicts],
        "legal_nearby": [{field: text(value)} for field, value in neighbours],
    }
