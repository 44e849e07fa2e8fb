"""Describes a family's configurations and rules, in words and as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.base.spelling import text
from tilewright.base.tables import table, wrapped
from tilewright.configurations.family import Family
from tilewright.configurations.rule import Rule
from tilewright_generator import families
from tilewright_generator.fields import Field, fields_of


def family_lines(family: Family) -> Iterator[str]:
    """The family's fields and rules, for people."""
    yield f"{family.name}: a family of kernels"
    yield "fields:"
    rows = [(name, field.values, default(field), field.description) for name, field in _fields(family)]
    yield from table(rows)
    yield "rules:"
    for rule in family.rules:
        yield from wrapped(f"{rule.name}: {rule.statement} (limit: {rule.limit.whose})", "  ", "      ")


def family_json(family: Family) -> dict[str, Any]:
    """The same for machines."""
    return {
        "family": family.name,
        "fields": [
            {
                "name": name,
                "values": field.values,
                "default": None if field.required else text(field.default),
                "description": field.description,
            }
            for name, field in _fields(family)
        ],
        "rules": [rule_json(family, rule) for rule in family.rules],
    }


def rule_lines(family: Family, rule: Rule) -> Iterator[str]:
    """The rule's demand, its source, and its place in the code."""
    yield f"{rule.name}: a rule of {family.name}"
    yield from wrapped(rule.statement, "  ")
    yield f"  limit: {rule.limit.whose}"
    if rule.basis:
        yield from wrapped(f"source: {rule.basis}", "  ", "      ")
    if rule.compiles:
        yield from wrapped(f"what it rejects may compile: {rule.compiles}", "  ", "      ")
    yield f"  at {_place(rule)}"


def rule_json(family: Family, rule: Rule) -> dict[str, Any]:
    """The same for machines."""
    return {
        "rule": rule.name,
        "family": family.name,
        "statement": rule.statement,
        "limit": rule.limit.whose,
        "source": rule.basis,
        "compiles": rule.compiles,
        "place": _place(rule),
    }


def find_rules(name: str) -> list[tuple[Family, Rule]]:
    """The rules of this name, and whose they are."""
    return [
        (family, rule)
        for family in map(families.get, families.names())
        for rule in family.rules
        if rule.name == name
    ]


def default(field: Field) -> str:
    """The field's default, or that it has none."""
    return f"default {field.default_text}" if not field.required else "required"


def _fields(family: Family) -> list[tuple[str, Field]]:
    return list(fields_of(family).items())


def _place(rule: Rule) -> str:
    path = Path(inspect.getsourcefile(rule.check) or "")
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{shown}:{inspect.getsourcelines(rule.check)[1]}"
