"""Why a kernel is made, or a combination is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.base.spelling import did_you_mean
from tilewright.configurations.family import Family
from tilewright.declarations import catalog
from tilewright_generator import families
from tilewright_generator.choices import Choices
from tilewright_generator.errors import Position, UsageError
from tilewright_generator.expand import Expansion
from tilewright_generator.fields import InvalidValueError, fields_of
from tilewright_generator.neighbours import Neighbour, Search
from tilewright_generator.plurals import counted
from tilewright_generator.rules import Verdict, verdicts
from tilewright_generator.spec import Exclude, Group, Spec


@dataclass(frozen=True, slots=True)
class Candidate:
    """A combination, and what becomes of it: a kernel unless it is excluded or a rule rejects it."""

    family: Family
    config: Any
    spec: Spec | None = None
    group: Group | None = None
    """The group that names it; None for a combination that no spec names."""
    exclude: Exclude | None = None
    verdicts: tuple[Verdict, ...] = ()

    def neighbours(self) -> list[Neighbour]:
        """The nearest legal values, if rules reject it."""
        return Search(self.family).nearest(self.config, self.verdicts) if self.verdicts else []

    @property
    def name(self) -> str:
        """The kernel's name, which a combination that makes no kernel would have too."""
        return self.family.kernel_name(self.config)

    @property
    def made(self) -> bool:
        """Whether the specs make this kernel."""
        return self.group is not None and self.exclude is None and not self.verdicts

    def origin(self, field: str) -> Position | None:
        """The position of the field's value in the spec; None for the family's default."""
        value = getattr(self.config, field)
        choices = self.group.choices[field] if self.group else ()
        return next((choice.position for choice in choices if choice.value == value), None)


def candidates(expansion: Expansion) -> Iterator[Candidate]:
    """Every combination that the spec names, with all that stands against it."""
    spec, family = expansion.spec, expansion.spec.family
    for kernel in expansion.kernels:
        yield Candidate(family, kernel.config, spec, kernel.group)
    for left in expansion.excluded:
        yield Candidate(
            family, left.config, spec, left.group, left.exclude, tuple(verdicts(family, left.config))
        )
    for rejected in expansion.rejected:
        against = tuple(verdicts(family, rejected.config))
        yield Candidate(family, rejected.config, spec, rejected.group, None, against)


def named(name: str, expansions: Sequence[Expansion]) -> Candidate:
    """The combination whose kernel has, or would have, this name; `UsageError` if no spec names it."""
    for expansion in expansions:
        for kernel in expansion.kernels:
            if kernel.name == name:
                return Candidate(expansion.spec.family, kernel.config, expansion.spec, kernel.group)
    for expansion in expansions:
        for candidate in candidates(expansion):
            if not candidate.made and candidate.name == name:
                return candidate
    kernels = [kernel.name for expansion in expansions for kernel in expansion.kernels]
    names = [
        *families.names(),
        *(rule.name for family in families.names() for rule in families.get(family).rules),
    ]
    hint = _field_of(name) or catalog.of_op(name) or did_you_mean(name, names) or did_you_mean(name, kernels)
    hint = hint or _beginning_alike(name, kernels)
    raise UsageError(f"no family, no rule and no kernel of a spec is called {name!r}{hint}")


def _beginning_alike(name: str, kernels: Sequence[str]) -> str:
    """The kernels whose names share the longest beginning of whole words with a name, if any do."""
    words = name.split("_")
    for count in range(len(words) - 1, 0, -1):
        start = "_".join(words[:count]) + "_"
        alike = [kernel for kernel in kernels if kernel.startswith(start)]
        if alike:
            verb = "begins" if len(alike) == 1 else "begin"
            names = f"{counted(len(alike), 'kernel')} {verb} with {start}, such as {alike[0]!r}"
            return f"; {names} (`tilewright list --filter '{start}*'`)"
    return ""


def _field_of(name: str) -> str:
    """Whose field it is, if it is one."""
    having = [family for family in families.names() if name in fields_of(families.get(family))]
    return f"; it is a field of {', '.join(having)} (`tilewright explain {having[0]}`)" if having else ""


def matching(expansion: Expansion, values: Mapping[str, Any]) -> list[Candidate]:
    """The combinations of the spec that have these values."""
    return [
        candidate
        for candidate in candidates(expansion)
        if all(getattr(candidate.config, field) == value for field, value in values.items())
    ]


def combination(family: Family, chosen: Mapping[str, Any], spec: Spec | None = None) -> Candidate:
    """A combination that need not be in any spec: these values, the spec's own, the family's defaults.

    Raises `UsageError` if fields remain without a value.
    """
    shared = _single(spec.shared) if spec else {}
    values = {**shared, **chosen}
    fields = fields_of(family)
    missing = [name for name, field in fields.items() if field.required and name not in values]
    if missing:
        raise UsageError(f"give {', '.join(f'{name}=...' for name in missing)} too")
    config = family.config(**(family.defaults(values) | values))
    return Candidate(family, config, spec, verdicts=tuple(verdicts(family, config)))


def made_of(config: Any, expansions: Iterable[Expansion]) -> Candidate | None:
    """The kernel of exactly this configuration, if a spec makes it."""
    for expansion in expansions:
        for kernel in expansion.kernels:
            if kernel.config == config:
                return Candidate(expansion.spec.family, config, expansion.spec, kernel.group)
    return None


def parse_terms(family: Family, terms: Iterable[str]) -> dict[str, Any]:
    """Values of `field=value` words; `UsageError` for a field or value that the family has not."""
    fields = fields_of(family)
    conditions: dict[str, Any] = {}
    for term in terms:
        name, _, value = term.partition("=")
        if name not in fields:
            hint = did_you_mean(name, fields) or f"; there are: {', '.join(fields)}"
            raise UsageError(f"{term}: {family.name} has no field {name!r}{hint}")
        if name in conditions:
            raise UsageError(f"{term}: {name} is given twice; give it once")
        if not value:
            raise UsageError(f"{term}: expected FIELD=VALUE")
        try:
            conditions[name] = fields[name].parse_text(value)
        except InvalidValueError as error:
            raise UsageError(str(error)) from None
    return conditions


def _single(choices: Choices) -> dict[str, Any]:
    return {name: values[0].value for name, values in choices.items() if len(values) == 1}
