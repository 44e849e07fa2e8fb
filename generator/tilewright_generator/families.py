"""The families of kernels, as the generator sees them: the module `kernel` of a family's package.

It has the functions of a `Family` by their names there, and `RULES`, if there are any; the dataclass of a
kernel is `CONFIG` of the module `config`, or of `kernel` itself (`catalog.configuration_of`). Sources are
made from `kernel.cu.j2` in the family's folder of templates, unless it has a function `template`. No other
code names a family.
"""

from __future__ import annotations

import inspect
import shlex
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base import plugins
from tilewright.base.spelling import did_you_mean, quoted
from tilewright.configurations.family import Family
from tilewright.configurations.rule import Rule
from tilewright.declarations import catalog
from tilewright_generator.errors import InternalError, UsageError, mistake

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
        listed = names()
        hint = _off_the_path(name) or (did_you_mean(name, listed) if len(listed) > 1 else "")
        raise UsageError(f"no family {quoted(name)} (there are: {', '.join(listed)}){hint}")
    return _declared(name)


_FILE_NAME_BYTES = 255  # the most that Linux's file systems take


def _off_the_path(name: str) -> str:
    """What to do if the family's folder lies in the project, and Python does not find it."""
    here = Path.cwd()
    if not name.isidentifier() or len(name.encode()) > _FILE_NAME_BYTES:
        return ""
    for folder in (here, *here.parents):
        if (package := folder / plugins.NAMESPACE / name).is_dir():
            if not (package / "__init__.py").is_file():
                return f"; {package} has no __init__.py"
            place = f"{plugins.NAMESPACE}/{name} is in {folder}, which is not on Python's path"
            word = shlex.quote(str(folder))
            return f"; {place}: pip install --editable {word}, or export PYTHONPATH={word}"
    return ""


@cache
def _declared(name: str) -> Family:
    kernel = catalog.family_module(name, "kernel")
    functions: dict[str, Any] = {"template": lambda config: f"{name}/kernel.cu.j2"}
    own = [field for field in fields(Family) if field.name not in ("name", "config", "rules")]
    functions |= {field.name: vars(kernel)[field.name] for field in own if field.name in vars(kernel)}
    missing = [field.name for field in own if field.default is MISSING and field.name not in functions]
    if missing:
        raise mistake(name, f"the family {name!r} has no function {', '.join(missing)}")
    declared = catalog.configuration_of(name)
    if lacking := [field for field in ("CONFIG", "FACTS") if field not in vars(declared)]:
        raise mistake(name, f"the family {name!r} has no {', '.join(lacking)}")
    rules: tuple[Rule, ...] = getattr(kernel, "RULES", ())
    _check_fields(name, rules, [field.name for field in fields(declared.CONFIG)])
    return Family(name, declared.CONFIG, rules, **functions)


def _check_fields(family: str, rules: tuple[Rule, ...], known: list[str]) -> None:
    """Raises the error for a rule that names a field that configurations do not have."""
    for rule in rules:
        for field in rule.fields:
            if field not in known:
                message = f"the rule {rule.name} names {field!r}, which is no field of CONFIG"
                file = inspect.getsourcefile(rule.check) or ""
                raise mistake(family, f"{message}{did_you_mean(field, known)}", file)


def _installed() -> list[str]:
    return catalog.names()
