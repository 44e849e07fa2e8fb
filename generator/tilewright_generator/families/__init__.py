"""Families of kernels. Each is a package in this folder, or the module `generator` of one that another
distribution brings (`tilewright.plugins`), which exposes `FAMILY`; no other code names it.

A package here has `config`, with the dataclass of a kernel; `rules`, with RULES, if there are any; and
`kernel`, with the functions of a `Family` by their names there. Sources are made from `kernel.cu.j2` in its
folder of templates, unless it has a function `template`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from tilewright import ops, plugins
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
    home = import_module(f"{__name__}.{name}")
    config, kernel = (import_module(f"{__name__}.{name}.{part}") for part in ("config", "kernel"))
    ruled = any(one.name == "rules" for one in iter_modules(home.__path__))
    rules = import_module(f"{__name__}.{name}.rules").RULES if ruled else ()
    own = [one for one in vars(config).values() if getattr(one, "__module__", "") == config.__name__]
    (made,) = (one for one in own if isinstance(one, type) and is_dataclass(one))
    functions: dict[str, Any] = {"template": lambda config: f"{name}/kernel.cu.j2"}
    wanted = {field.name for field in fields(Family)} - {"name", "config", "rules"}
    functions |= {key: value for key, value in vars(kernel).items() if key in wanted}
    return Family(name, made, rules, **functions)


def _installed() -> list[str]:
    return [*_packaged(), *plugins.families()]


def _packaged() -> list[str]:
    return [module.name for module in iter_modules(__path__) if module.ispkg]
