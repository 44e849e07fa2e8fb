"""Renders all files of one module, as text, from its expansion."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter
from typing import Any, NamedTuple

from tilewright.configurations.family import Family
from tilewright.declarations.table import DEFAULT_COMPILER
from tilewright.tools.filters import Filter
from tilewright_generator import table
from tilewright_generator.errors import UsageError
from tilewright_generator.expand import Expansion, Kernel
from tilewright_generator.limits import MOST_MODULE_BYTES
from tilewright_generator.parallel import ordered_map, processors
from tilewright_generator.render import Renderer
from tilewright_generator.spec import Spec

_WORTH_A_WORKER = 500  # kernels: a worker's start costs about as much as rendering a hundred
_CHUNK = 64  # kernels: few enough that a worker's pipe holds the text of two chunks


class File(NamedTuple):
    """A generated file: its name in the module's folder, its bytes and their hash."""

    name: str
    data: bytes
    sha256: str
    selected: bool = True
    """Whether the filter takes it; what it leaves is rendered for the table, and not written."""


class Module(NamedTuple):
    """The module that a spec makes."""

    name: str
    templates: dict[str, str]
    """SHA-256 of each template that the files are made from, by its name."""
    files: Iterator[File]
    """Its files: the kernels by name, then the files that list them all. They are made one at a time, so
    that a module of 20,000 kernels is never held as text."""


class _Rendered(NamedTuple):
    """A kernel's source, and its row in the table."""

    source: File
    record: str


def render(expansion: Expansion, renderer: Renderer, only: Filter) -> Module:
    """The module that an expanded spec makes."""
    family = expansion.spec.family
    names = {family.template(kernel.config) for kernel in expansion.kernels} | {family.table_template}
    # Once, before workers share them.
    sources = {
        name: digest for template in sorted(names) for name, digest in renderer.prepare(template).items()
    }
    return Module(expansion.spec.module, sources, _files(expansion, renderer, only))


def _files(expansion: Expansion, renderer: Renderer, only: Filter) -> Iterator[File]:
    spec, family = expansion.spec, expansion.spec.family
    kernels = sorted(expansion.kernels, key=attrgetter("name"))
    chunks = [kernels[start : start + _CHUNK] for start in range(0, len(kernels), _CHUNK)]

    def render_chunk(chunk: list[Kernel]) -> list[_Rendered]:
        return [_render(spec, kernel, renderer, only) for kernel in chunk]

    records, size = [], 0
    for chunk in ordered_map(render_chunk, chunks, _workers(len(kernels))):
        for rendered in chunk:
            records.append(rendered.record)
            size += len(rendered.source.data)
            if size > MOST_MODULE_BYTES:
                most = f"{MOST_MODULE_BYTES >> 20} MB"
                raise UsageError(f"{spec.path}: the module's files take more than {most}; split the spec")
            yield rendered.source
    names = [kernel.name for kernel in kernels]
    listing = {"spec": spec.path, "module": spec.module, "family": family.name, "kernels": names}
    listing["hosts"] = sorted({family.host(kernel.config) for kernel in kernels} - {""})
    yield _file("table.json", table.table_json(spec, records))
    yield _file("table.cc", renderer.render(family.table_template, listing))


def selects(only: Filter, family: Family, kernel: Kernel) -> bool:
    """Whether the filter takes the kernel."""
    return not only or only.matches(kernel.name, functools.partial(value_of, family, kernel.config))


def value_of(family: Family, config: Any, field: str) -> Any:
    """A field of a configuration, or the compiler of its kernel. AttributeError if it is neither."""
    if field == "compiler":
        return family.build(config).get("compiler", DEFAULT_COMPILER)
    return getattr(config, field)


def _workers(kernels: int) -> int:
    return min(processors(), 1 + kernels // _WORTH_A_WORKER)


def _render(spec: Spec, kernel: Kernel, renderer: Renderer, only: Filter) -> _Rendered:
    family = spec.family
    variables = family.variables(kernel.config) | {"name": kernel.name, "spec": spec.path}
    text = renderer.render(family.template(kernel.config), variables)
    build = family.build(kernel.config)
    source = _file(table.source_name(family, kernel.name, build), text, selects(only, family, kernel))
    record = table.record(family, kernel, build, source.name, source.sha256)
    return _Rendered(source, record)


def _file(name: str, text: str, selected: bool = True) -> File:
    data = text.encode()
    return File(name, data, sha256(data).hexdigest(), selected)
