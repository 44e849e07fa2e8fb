"""A checked spec: its groups of configurations, each value with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from tilewright.base.spelling import cut, did_you_mean, listed, nearest, quoted, text
from tilewright.configurations.family import Family
from tilewright_generator import families, nodes, requires
from tilewright_generator.choices import Choices, Reader, Value, as_list, described
from tilewright_generator.errors import Faults, Position, UsageError
from tilewright_generator.fields import fields_of
from tilewright_generator.limits import MOST_FRAGMENTS, MOST_KERNELS, MOST_VALUES
from tilewright_generator.slips import unspaced

MAX_COMBINATIONS = 10_000
"""The most combinations of a group, unless its spec sets another number. It reports a slip at once."""


@dataclass(frozen=True, slots=True)
class Exclude:
    """Combinations that a group leaves out, and why."""

    position: Position
    reason: str
    where: dict[str, frozenset[Any]]


@dataclass(frozen=True, slots=True)
class Group:
    """An item of `configs:`: choices for every field of the family, in the family's order."""

    position: Position
    choices: Choices
    excludes: tuple[Exclude, ...]
    own: frozenset[str] = frozenset()
    """The fields that it gives itself; the others come from the top, from fragments, anchors or defaults."""
    left_out: frozenset[str] = frozenset()
    """The fields that have the family's default, because nothing gives them."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec file: the module that it makes."""

    path: str
    module: str
    family: Family
    description: str
    shared: Choices
    groups: tuple[Group, ...]
    max_combinations: int = MAX_COMBINATIONS
    """How many combinations each group may multiply out to."""


_MODULE = re.compile(r"[a-z][a-z0-9_]*")
_SPEC_KEYS = ("family", "description", requires.KEY, "max_combinations", "defaults", "configs")
_GROUP_KEYS = ("use", "exclude")


def parse(document: nodes.Node, path: str, faults: Faults) -> Spec | None:
    """Check the YAML of the spec called `path`. Faults go to `faults`; what has one is left out."""
    start = Position(path, 1, 1)
    if isinstance(document, nodes.Unreadable):
        return None
    if not isinstance(document, nodes.Mapping):
        faults.add(document.position, "a spec is a mapping: family, defaults and configs")
        return None
    if not requires.met(document, faults):
        return None
    module = PurePosixPath(path).stem
    if not _MODULE.fullmatch(module):
        faults.add(start, f"the file name makes the module {module!r}; use a-z, 0-9 and _ only")
    family = _family(document, faults)
    return _Parser(family, faults).spec(document, path, module) if family else None


def _family(document: nodes.Mapping, faults: Faults) -> Family | None:
    entry = document.entries.get("family")
    if entry is None:
        typo = nearest("family", document.entries)
        if typo is None:
            faults.add(document.position, f"'family' is missing; there are: {', '.join(families.names())}")
        else:
            message = f"a spec has no field {typo!r}; did you mean 'family'?"
            faults.add(document.entries[typo].position, message)
        return None
    name = _string(entry.value, "family", faults)
    try:
        return families.get(name) if name is not None else None
    except UsageError as error:
        faults.add(entry.value.position, error.message)
        return None


def _string(node: nodes.Node, what: str, faults: Faults) -> str | None:
    """The text of `node`, or None with the fault reported. Commands print it, so it must not hold signs that
    a terminal obeys."""
    if isinstance(node, nodes.Scalar) and isinstance(node.value, str) and node.value.strip():
        obeyed = next((sign for sign in node.value if sign != "\n" and not sign.isprintable()), None)
        if obeyed is None:
            return node.value
        faults.add(node.position, f"{what}: write plain text, without {obeyed!a}")
    elif not isinstance(node, nodes.Unreadable):
        faults.add(node.position, f"{what}: write text, not {described(node)}")
    return None


class _Parser:
    """Checks the parts of one spec against its family."""

    def __init__(self, family: Family, faults: Faults) -> None:
        self._family = family
        self._faults = faults
        self._fields = fields_of(family)
        self._reader = Reader(family, faults)
        self._fragments: dict[str, Choices] = {}
        self._idle: dict[str, Position] = {}
        self._nested: set[str] = set()
        self._uses = 0

    def spec(self, document: nodes.Mapping, path: str, module: str) -> Spec:
        """The whole spec, without the groups that have faults."""
        entries = document.entries
        note = entries.get("description")
        description = _string(note.value, "description", self._faults) if note else None
        shared = self._reader.read(document, _SPEC_KEYS)
        self._fragments = dict(self._read_fragments(entries.get("defaults")))
        groups = tuple(self._groups(document, entries.get("configs"), shared))
        for name, position in self._idle.items():
            if name not in self._nested:
                self._faults.add(position, f"defaults: no group uses {name!r}; remove it")
        most = self._max_combinations(entries.get("max_combinations"))
        return Spec(path, module, self._family, (description or "").strip(), shared, groups, most)

    def _max_combinations(self, entry: nodes.Entry | None) -> int:
        if entry is None or isinstance(entry.value, nodes.Unreadable):
            return MAX_COMBINATIONS
        limit = entry.value.value if isinstance(entry.value, nodes.Scalar) else None
        if type(limit) is int and limit > 0:
            return limit
        complaint = f"max_combinations: write a whole number above 0, not {described(entry.value)}"
        self._faults.add(entry.value.position, complaint)
        return MAX_COMBINATIONS

    def _read_fragments(self, entry: nodes.Entry | None) -> Iterator[tuple[str, Choices]]:
        if entry is None:
            return
        fragments = self._mapping(entry.value, "defaults")
        if len(fragments) > MOST_FRAGMENTS:
            message = f"defaults: {len(fragments):,} fragments, more than {MOST_FRAGMENTS:,}"
            self._faults.add(entry.value.position, message)
            return
        for name, fragment in fragments.items():
            self._idle[name] = fragment.position
            if isinstance(fragment.value, nodes.Mapping):
                self._refuse_use(name, fragment.value)
                yield name, self._reader.read(fragment.value, ("use",))
            else:
                self._mapping(fragment.value, f"defaults: {name}")
                yield name, {}

    def _refuse_use(self, name: str, fragment: nodes.Mapping) -> None:
        """Reports a fragment that uses others: its own fault, and none of theirs."""
        entry = fragment.entries.get("use")
        if entry is None:
            return
        used = [str(item.value) for item in as_list(entry.value) if isinstance(item, nodes.Scalar)]
        self._nested.update(used)
        together = ", ".join([*used, name])
        message = f"defaults: {name}: a fragment cannot use others; a group can: `use: [{together}]`"
        self._faults.add(entry.position, message)

    def _mapping(self, node: nodes.Node, what: str) -> dict[str, nodes.Entry]:
        if isinstance(node, nodes.Mapping):
            return node.entries
        if not isinstance(node, nodes.Unreadable):
            hint = unspaced(str(node.value), self._fields) if isinstance(node, nodes.Scalar) else ""
            self._faults.add(node.position, f"{what}: write a mapping, not {described(node)}{hint}")
        return {}

    def _groups(self, document: nodes.Mapping, entry: nodes.Entry | None, shared: Choices) -> Iterator[Group]:
        if entry is None:
            self._idle.clear()
            self._faults.add(document.position, "'configs' is missing: the list of configuration groups")
            return
        if not isinstance(entry.value, nodes.Sequence) or not entry.value.items:
            self._idle.clear()
            self._no_groups(entry.value)
            return
        if len(entry.value.items) > MOST_KERNELS:
            self._idle.clear()
            number = len(entry.value.items)
            message = f"configs: {number:,} groups, more than {MOST_KERNELS:,}; split them into several specs"
            self._faults.add(entry.value.position, message)
            return
        for node in entry.value.items:
            before = len(self._faults)
            group = self._group(node, shared)
            if group and len(self._faults) == before:
                yield group

    def _no_groups(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.Sequence):
            self._faults.add(node.position, "configs: the list is empty")
        elif not isinstance(node, nodes.Unreadable):
            complaint = f"configs: write a list of groups ('- tile: ...'), not {described(node)}"
            self._faults.add(node.position, complaint)

    def _group(self, node: nodes.Node, shared: Choices) -> Group | None:
        entries = self._mapping(node, "a group of configs")
        if not isinstance(node, nodes.Mapping):
            self._idle.clear()  # who knows what it would use
            return None
        chosen = dict(shared)
        if "use" in entries:
            for fragment in self._used(entries["use"].value):
                chosen |= fragment
        chosen |= self._reader.read(node, _GROUP_KEYS)
        choices = self._complete(chosen, node)
        excludes = entries.get("exclude")
        left_out = frozenset(choices.keys() - chosen.keys())
        excluded = tuple(self._excludes(excludes.value, choices, left_out)) if excludes else ()
        own = frozenset(name for name, entry in entries.items() if entry.position >= node.position)
        return Group(node.position, choices, excluded, own & choices.keys(), left_out) if choices else None

    def _used(self, node: nodes.Node) -> Iterator[Choices]:
        for item in as_list(node):
            name = _string(item, "use", self._faults)
            if name in self._fragments:
                self._idle.pop(name, None)
                self._uses += 1 + len(self._fragments[name])
                if self._uses > MOST_VALUES:
                    self._faults.add(item.position, f"use: more than {MOST_VALUES:,} values up to here")
                    return
                yield self._fragments[name]
                continue
            self._idle.clear()  # it may mean any of them
            if name is not None:
                self._faults.add(item.position, partial(self._no_fragment, name))

    def _no_fragment(self, name: str) -> str:
        hint = did_you_mean(name, self._fragments) if len(self._fragments) > 1 else ""
        return f"use: no defaults called {quoted(name)} (there are: {listed([*self._fragments])}){hint}"

    def _complete(self, choices: Choices, node: nodes.Mapping) -> Choices:
        """Every field in the family's order; `{}` if one is missing or has a fault."""
        missing = [f.name for f in self._fields.values() if f.required and f.name not in choices]
        if missing and not node.broken:
            fields = ", ".join(f"{name} ({self._fields[name].values})" for name in missing)
            single = len(missing) == 1
            self._faults.add(
                node.position,
                f"the field{'' if single else 's'} {fields} {'is' if single else 'are'} missing",
            )
        own = {name: choices.get(name, (Value(f.default, None),)) for name, f in self._fields.items()}
        return {} if missing or not all(own.values()) else own

    def _excludes(self, node: nodes.Node, choices: Choices, left_out: frozenset[str]) -> Iterator[Exclude]:
        offered: dict[str, set[str]] = {}
        for item in as_list(node):
            entries = self._mapping(item, "exclude")
            if not isinstance(item, nodes.Mapping):
                continue
            reason = _string(entries["reason"].value, "reason", self._faults) if "reason" in entries else None
            if "reason" not in entries:
                self._faults.add(item.position, "exclude: the 'reason' is missing")
            where = self._reader.read(item, ("reason",))
            if not where:
                self._faults.add(item.position, "exclude: say which values of which fields")
            for name, values in where.items() if choices else ():
                if name not in offered:
                    offered[name] = self._offered_values(name, choices, left_out)
                self._offered(name, values, offered[name])
            yield Exclude(
                item.position,
                reason or "",
                {name: frozenset(v.value for v in vs) for name, vs in where.items()},
            )

    def _offered_values(self, name: str, choices: Choices, left_out: frozenset[str]) -> set[str]:
        """The values of a field that a group has; a default may follow from another field's values."""
        settling = self._family.settling
        if settling is None or name not in left_out:
            return {text(choice.value) for choice in choices[name]}
        settlers = (choice.value for choice in choices[settling.field])
        return {text(self._family.defaults({settling.field: value})[name]) for value in settlers}

    def _offered(self, name: str, values: tuple[Value, ...], offered: set[str]) -> None:
        """An exclude may only name what its group offers; else it has gone stale or has a slip."""
        for value in values:
            spelt = text(value.value)
            if spelt not in offered and value.position:
                self._faults.add(value.position, partial(_not_offered, name, spelt, offered))


def _not_offered(name: str, value: str, offered: set[str]) -> str:
    return f"exclude: this group has no {name} {cut(value)}{did_you_mean(value, offered)}"
