"""All files of one module, as text, from its expansion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter

from tilewright_generator import table
from tilewright_generator.expand import Expansion, Kernel
from tilewright_generator.filters import Filter
from tilewright_generator.render import Renderer


@dataclass(frozen=True, slots=True)
class File:
    """A generated file: its path in the output directory, its bytes and their hash."""

    path: str
    data: bytes
    sha256: str
    selected: bool = True
    """Whether the filter takes it; what it leaves is rendered for the table, and not written."""


def files(expansion: Expansion, renderer: Renderer, only: Filter) -> Iterator[File]:
    """The module's files: its kernels by name, then the files that list them all.

    They come one at a time, so that a module of 20,000 kernels is never held as text.
    """
    spec, family = expansion.spec, expansion.spec.family
    kernels = sorted(expansion.kernels, key=attrgetter("name"))
    records = []
    for kernel in kernels:
        variables = family.variables(kernel.config)
        text = renderer.render(family.template, variables | {"name": kernel.name, "spec": spec.path})
        source = _file(f"{spec.module}/{kernel.name}.cu", text, selects(only, kernel))
        records.append(table.record(family, kernel, source.sha256))
        yield source
    yield _file(f"{spec.module}/table.json", table.table_json(spec, records))
    listing = {"spec": spec.path, "module": spec.module, "kernels": [kernel.name for kernel in kernels]}
    yield _file(f"{spec.module}/table.cc", renderer.render(family.table_template, listing))
    yield _file(f"{spec.module}/README.md", table.readme(spec, kernels))


def selects(only: Filter, kernel: Kernel) -> bool:
    """Whether the filter takes the kernel."""
    return not only or only.matches(kernel.name, lambda field: getattr(kernel.config, field))


def _file(path: str, text: str, selected: bool = True) -> File:
    data = text.encode()
    return File(path, data, sha256(data).hexdigest(), selected)
