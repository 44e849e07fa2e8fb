"""Families of kernels. Each is a package in this folder, or the module `generator` of one that another
distribution brings (`tilewright.outside`), which exposes `FAMILY`; no other code names it.

A package here has `config`, with the dataclass of a kernel; `rules`, with RULES, if there are any; and
`kernel` (and `source`), with the functions of a `Family` by their names there.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tilewright import ops, outside
from tilewright.spelling import did_you_mean
from tilewright_generator.errors import InternalError, UsageError
from tilewright_generator.families.family import Family
from tilewright_generator.words import quoted

_registered: dict[str, Family] = {}


def register(family: Family) -> None:
    """Add a family of this process alone; its name must be new."""
    if _registered.setdefault(family.name, family) is not family or family.name in _installed():
        raise InternalError(f"the family {family.name!r} is registered twice")


def names() -> list[str]:
    """Every family's name, sorted, without importing any."""
    return sorted({*_installed(), *_registered})


def get(name: str) -> Family:
    """The family called `name`; `UsageError` if there is none."""
    if name in _registered:
        return _registered[name]
    if name not in _installed():
        known = names()
        hint = did_you_mean(name, known) if len(known) > 1 else ""
        raise UsageError(f"no family {quoted(name)} (there are: {', '.join(known)}){hint}")
    if name in _packaged():
        return _ours(name)
    family: Family = ops.part(name, "generator").FAMILY
    return family


@cache
def _ours(name: str) -> Family:
    parts = {one.name for one in iter_modules(import_module(f"{__name__}.{name}").__path__)}
    modules = {
        part: import_module(f"{__name__}.{name}.{part}")
        for part in ("config", "rules", "kernel", "source")
        if part in parts
    }
    own = modules.pop("config")
    made = [one for one in vars(own).values() if isinstance(one, type) and one.__module__ == own.__name__]
    (config,) = filter(is_dataclass, made)
    rules = modules.pop("rules").RULES if "rules" in modules else ()
    wanted = {field.name for field in fields(Family)} - {"name", "config", "rules"}
    functions = {key: value for one in modules.values() for key, value in vars(one).items() if key in wanted}
    return Family(name, config, rules, **functions)


def _installed() -> list[str]:
    return [*_packaged(), *outside.homes()]


def _packaged() -> list[str]:
    return [module.name for module in iter_modules(__path__) if module.ispkg]
