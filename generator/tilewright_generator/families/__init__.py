"""Families of kernels. Each is a package in this folder that exposes `FAMILY`; no other code names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from tilewright.spelling import did_you_mean
from tilewright_generator.errors import InternalError, UsageError
from tilewright_generator.families.rule import Rule
from tilewright_generator.words import quoted


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of kernel: the shape of its configurations, what is legal, and how one becomes a source."""

    name: str
    config: type
    """A frozen, slotted dataclass: one kernel. Its annotations validate each value of a spec."""
    rules: tuple[Rule, ...]
    kernel_name: Callable[[Any], str]
    facts: Callable[[Any], dict[str, Any]]
    """Derived numbers for the table: stages, bytes of shared memory, threads, alignments."""
    variables: Callable[[Any], dict[str, str]]
    """What the template needs, spelt as C++: a template does no arithmetic."""
    build: Callable[[Any], dict[str, Any]]
    """How a unit is compiled and checked: `arch`, `defines`, `instructions`; where it applies, `cutlass`, the
    release it needs at least, and `spills`, why it may spill registers."""
    template: Callable[[Any], str]
    """Template of a kernel's source, relative to the templates folder."""
    table_template: str
    """Template of a module's binding source, relative to the templates folder."""
    summary: Callable[[Any], str]
    """One line for people."""


_registered: dict[str, Family] = {}


def register(family: Family) -> None:
    """Add a family that is defined outside this package; its name must be new."""
    if _registered.setdefault(family.name, family) is not family or family.name in _packaged():
        raise InternalError(f"the family {family.name!r} is registered twice")


def names() -> list[str]:
    """Every family's name, sorted, without importing any."""
    return sorted({*_packaged(), *_registered})


def get(name: str) -> Family:
    """The family called `name`; `UsageError` if there is none."""
    if name in _registered:
        return _registered[name]
    if name not in _packaged():
        known = names()
        hint = did_you_mean(name, known) if len(known) > 1 else ""
        raise UsageError(f"no family {quoted(name)} (there are: {', '.join(known)}){hint}")
    family: Family = import_module(f"{__name__}.{name}").FAMILY
    return family


def _packaged() -> list[str]:
    return [module.name for module in iter_modules(__path__) if module.ispkg]
