"""A new repository of kernels: a spec to begin with, and what keeps its generated files as the specs say."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tilewright.base import paths
from tilewright.base.spelling import did_you_mean, text
from tilewright.configurations.family import Family
from tilewright.declarations import catalog
from tilewright_generator import __version__, families, generation, new_files, schema
from tilewright_generator.errors import UsageError
from tilewright_generator.expand import Kernel
from tilewright_generator.fields import Field, fields_of
from tilewright_generator.project import Project

TEMPLATES = Path(__file__).with_name("project_template")  # a file's template has its path, `dot_` for a dot
_OWN = "first_spec.yaml"  # in the package of a family that has a better one than its smallest kernel
_FAMILY = re.compile(r"^family: *(\w+)", re.MULTILINE)


class FirstSpec(NamedTuple):
    """A spec to begin with."""

    module: str
    family: Family
    text: str


def first_spec(spec: str | None, family: str | None) -> FirstSpec:
    """The spec that is shipped as `spec`, or else what a family begins with."""
    if spec is not None and family is not None:
        raise UsageError("--spec names a spec to copy, --family a family for a new one; give one of them")
    if spec is not None:
        return _copied(spec)
    chosen = families.get(family or catalog.default_name())
    own = Path(str(import_module(catalog.packages()[chosen.name]).__file__)).with_name(_OWN)
    if own.is_file():
        return FirstSpec(chosen.name, chosen, own.read_text(encoding="utf-8"))
    return _smallest(chosen)


def files(title: str, first: FirstSpec) -> dict[str, str]:
    """The texts of a repository's files, by their paths in it."""
    variables = {"title": title, "module": first.module, "family": first.family.name, "version": __version__}
    texts = new_files.rendered(TEMPLATES, variables, {"dot_": "."})
    texts[f"specs/{first.module}.yaml"] = first.text
    texts[f"specs/schema/{schema.file_name(first.family)}"] = schema.dumps(first.family)
    return texts


def shipped_specs() -> dict[str, Path]:
    """The specs that come with tilewright, by their modules."""
    return {path.stem: path for path in sorted((_shipped().root / "specs").glob("*.yaml"))}


def _shipped() -> Project:
    generated = paths.shipped_generated_dir()
    return Project(generated.parent, generated)


def _copied(name: str) -> FirstSpec:
    specs = shipped_specs()
    if name not in specs:
        hint = did_you_mean(name, specs) or f"; there are: {', '.join(specs)}"
        raise UsageError(f"no spec {name!r} comes with tilewright{hint}")
    first_line, *lines = specs[name].read_text(encoding="utf-8").splitlines(keepends=True)
    origin = f"# Copied from specs/{name}.yaml of tilewright {__version__}.\n"
    content = "".join([first_line, origin, *lines])
    return FirstSpec(name, families.get(_family_of(content)), content)


def _family_of(spec: str) -> str:
    match = _FAMILY.search(spec)
    assert match is not None  # in every spec of ours
    return match[1]


def _smallest(family: Family) -> FirstSpec:
    """A spec of one kernel: of those that are shipped for the oldest architecture, the one with the fewest
    fields that are not defaults."""
    paths_of_family = [
        path
        for path in shipped_specs().values()
        if _family_of(path.read_text(encoding="utf-8")) == family.name
    ]
    if not paths_of_family:
        raise UsageError(f"no spec of {family.name} comes with tilewright; write specs/NAME.yaml by hand")
    kernels = [
        kernel for expansion in generation.read(_shipped(), paths_of_family) for kernel in expansion.kernels
    ]
    kernel = min(kernels, key=lambda kernel: (_architecture(kernel), len(_fields(family, kernel))))
    values = _fields(family, kernel)
    group = ", ".join(f"{name}: {value}" for name, value in values.items() if name != "arch")
    content = (
        f"# yaml-language-server: $schema=schema/{schema.file_name(family)}\n"
        f"family: {family.name}\n"
        f"arch: {values['arch']}\n\n"
        f"configs:\n  - {{{group}}}\n"
    )
    return FirstSpec(family.name, family, content)


def _architecture(kernel: Kernel) -> int:
    return int(re.sub(r"\D", "", kernel.config.arch))


def _fields(family: Family, kernel: Kernel) -> dict[str, str]:
    """The fields that a spec of the kernel has to give, as YAML spells their values."""
    values = {name: getattr(kernel.config, name) for name in fields_of(family)}
    defaults = family.defaults(values)
    return {
        name: _spelt(field, values[name])
        for name, field in fields_of(family).items()
        if field.required or values[name] != defaults[name] or name == _settler(family)
    }


def _settler(family: Family) -> str:
    return "" if family.settling is None else family.settling.field


def _spelt(field: Field, value: object) -> str:
    word = text(value)
    return f'"{word}"' if isinstance(value, str) and not _is_text(field, word) else word


def _is_text(field: Field, word: str) -> bool:
    """Whether YAML reads the word as text, without quotes."""
    try:
        return bool(field.parse_text(word) == word) and not word.replace(".", "").isdigit()
    except ValueError:
        return False
