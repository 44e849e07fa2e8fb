"""Families of kernels. Each is a package in this folder that exposes `FAMILY`, or the module `generator` of
one that another distribution brings (`tilewright.outside`); no other code names it."""

from __future__ import annotations

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
        family: Family = import_module(f"{__name__}.{name}").FAMILY
    else:
        family = ops.part(name, "generator").FAMILY
    return family


def _installed() -> list[str]:
    return [*_packaged(), *outside.homes()]


def _packaged() -> list[str]:
    return [module.name for module in iter_modules(__path__) if module.ispkg]
