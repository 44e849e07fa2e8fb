"""The road from specs to a plan, in one place for every command that walks it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tilewright_generator import load, names, spec
from tilewright_generator.errors import Position, Problems
from tilewright_generator.expand import Expansion, expand
from tilewright_generator.fields import fields_of
from tilewright_generator.filters import Filter
from tilewright_generator.module import File, files
from tilewright_generator.plan import Plan, Scope, plan
from tilewright_generator.project import Project
from tilewright_generator.render import Renderer


def read(project: Project, paths: Iterable[Path]) -> tuple[Expansion, ...]:
    """Load, check and expand specs; one `SpecError` holds every fault of all of them."""
    problems = Problems()
    expansions: dict[str, Expansion] = {}
    for path in paths:
        label = project.label(path)
        parsed = spec.parse(load.load(path, label, problems), label, problems)
        if parsed is None:
            continue
        twin = expansions.get(parsed.module)
        if twin is not None:
            problems.add(Position(label, 1, 1), f"{twin.spec.path} makes the module {parsed.module} already")
        expansions[parsed.module] = expand(parsed, problems)
    names.check(expansions.values(), problems)
    problems.raise_if_any()
    return tuple(expansions.values())


def parse_filter(terms: Sequence[str], expansions: Iterable[Expansion]) -> Filter:
    """`--filter`, whose fields are those of the specs' families."""
    return Filter.parse(terms, (name for each in expansions for name in fields_of(each.spec.family)))


def make_plan(
    project: Project, expansions: Sequence[Expansion], only: Filter, everything: bool, force: bool = False
) -> Plan:
    """Render every module and compare it with the output directory."""
    scope = Scope(
        modules=frozenset(each.spec.module for each in expansions), everything=everything, prune=not only
    )
    return plan(_render(project, expansions, only), project.out, scope, force)


def _render(project: Project, expansions: Iterable[Expansion], only: Filter) -> Iterator[File]:
    renderer = Renderer(project.templates)
    for expansion in expansions:
        yield from files(expansion, renderer, only)
