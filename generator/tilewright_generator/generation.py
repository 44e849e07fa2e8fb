"""The pipeline from specs to a plan of files, which every command runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tilewright.base import writing
from tilewright.declarations import catalog, headers
from tilewright.tools.filters import Filter
from tilewright_generator import load, module, names, spec
from tilewright_generator.errors import Fault, Faults, Position, SpecError, UsageError
from tilewright_generator.expand import Expansion, expand
from tilewright_generator.fields import fields_of
from tilewright_generator.plan import FilePlan, Scope, plan
from tilewright_generator.project import Project
from tilewright_generator.render import Renderer


def read(project: Project, paths: Iterable[Path]) -> tuple[Expansion, ...]:
    """Load, check and expand specs; one `SpecError` holds every fault of all of them."""
    faults = Faults()
    expansions: dict[str, Expansion] = {}
    for path in paths:
        label = project.label(path)
        parsed = _parse(path, label, faults)
        if parsed is None:
            continue
        twin = expansions.get(parsed.module)
        if twin is not None:
            faults.add(Position(label, 1, 1), f"{twin.spec.path} makes the module {parsed.module} already")
        expansions[parsed.module] = expand(parsed, faults)
    names.check(expansions.values(), faults)
    faults.raise_if_any()
    return tuple(expansions.values())


def read_sound(project: Project, paths: Iterable[Path]) -> tuple[tuple[Expansion, ...], list[Fault]]:
    """Reads the specs like `read`. Returns the expansions of specs without faults, and the faults of the
    others.

    Raises SpecError if every spec has a fault.
    """
    sound: list[Expansion] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            sound += read(project, [path])
        except SpecError as error:
            faults += error.faults
    if not sound:
        raise SpecError(faults)
    return tuple(sound), faults


def _parse(path: Path, label: str, faults: Faults) -> spec.Spec | None:
    try:
        return spec.parse(load.load(path, label, faults), label, faults)
    except UsageError as error:  # it cannot be read; the faults of other specs are reported too
        faults.add(Position(label, 1, 1), error.message)
        return None


def stale_headers(expansions: Iterable[Expansion]) -> list[Path]:
    """The headers of argument structs that are not what their families declare: kernels that include them
    would be compiled for other arguments than those that a launch passes."""
    families = {expansion.spec.family.name for expansion in expansions}
    return [*headers.stale(sorted(families.intersection(catalog.names())))]


def parse_filter(terms: Sequence[str], expansions: Iterable[Expansion]) -> Filter:
    """`--filter`, whose fields are those of the specs' families and `compiler`."""
    fields = {name for expansion in expansions for name in fields_of(expansion.spec.family)}
    return Filter.parse(terms, fields | {"compiler"})


def make_plan(
    project: Project, expansions: Sequence[Expansion], only: Filter, everything: bool, force: bool = False
) -> FilePlan:
    """Render every module and compare it with the output directory, which may be no link."""
    writing.check(project.out, project.root)
    renderer = Renderer(project)
    modules = (module.render(expansion, renderer, only) for expansion in expansions)
    return plan(modules, project.out, Scope(everything, not only, force))
