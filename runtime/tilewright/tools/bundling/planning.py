"""The plan of a bundle: its problems, each once, with all tactics that they can choose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from tilewright.bundle import manifest
from tilewright.bundle.manifest import Entry, Kernel, Manifest
from tilewright.compile.compilers import made_of
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TilewrightError
from tilewright.libraries.registry import Registry
from tilewright.models.product import LeftOut, Listing, Product
from tilewright.selection.families import family_of
from tilewright.tools.bundling import closure
from tilewright.tools.bundling.closure import Chosen, Setting
from tilewright.version import __version__


@dataclass(frozen=True)
class Planned:
    """A problem of a bundle, the products of the model that are this problem, and its choices."""

    products: tuple[Product, ...]
    choices: tuple[Chosen, ...]

    @property
    def product(self) -> Product:
        return self.products[0]

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(product.layer for product in self.products))

    @property
    def count(self) -> int:
        """Launches in a forward pass."""
        return sum(product.count for product in self.products)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that some value chooses, sorted."""
        return tuple(sorted({kernel_of(chosen.tactic) for chosen in self.choices}))


@dataclass(frozen=True)
class Plan:
    """The contents of a bundle, and the products that are left to the caller."""

    title: str
    setting: Setting
    problems: tuple[Planned, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(sorted({name for planned in self.problems for name in planned.kernels}))

    def manifest(self, registry: Registry) -> Manifest:
        """The content of `bundle.json`."""
        tactics = sorted({chosen.tactic for planned in self.problems for chosen in planned.choices})
        numbers = {tactic: number for number, tactic in enumerate(tactics)}
        kernels = {
            name: Kernel(registry.table_of(name).module, made_of(registry.record(name)))
            for name in self.kernels
        }
        return Manifest(
            tilewright=__version__,
            title=self.title,
            device=self.setting.device,
            batch_invariant=self.setting.batch_invariant,
            kernels=kernels,
            tactics=tuple(tactics),
            entries=tuple(_entry(planned, numbers) for planned in self.problems),
        )


def kernel_of(tactic: str) -> str:
    return Tactic.parse(tactic).kernel


def distinct(products: Iterable[Product]) -> list[tuple[Product, ...]]:
    """The products by problem: a tuple holds products that differ only in layer, op and count."""
    groups: dict[tuple[object, ...], list[Product]] = {}
    for product in products:
        key = (product.family, product.problem(product.values[-1]), product.extent, product.values)
        groups.setdefault(key, []).append(product)
    return [tuple(group) for group in groups.values()]


def plan(
    listing: Listing,
    setting: Setting,
    *,
    jobs: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Chooses for all values of all problems. A problem that no kernel computes is left out, with the
    reason."""
    groups = distinct(listing.products)
    closures = closure.close([group[0] for group in groups], setting, jobs=jobs, progress=progress)
    left_out = list(listing.left_out)
    problems = []
    for group, closed in zip(groups, closures, strict=True):
        if closed.refusal:
            left_out += _refused(group, closed.refusal)
        else:
            problems.append(Planned(group, closed.choices))
    return Plan(listing.title, setting, tuple(problems), tuple(left_out))


def sketch(listing: Listing, setting: Setting, points: Collection[int]) -> Plan:
    """The plan with choices for a few values of the extents only, including the largest."""
    groups = distinct(listing.products)
    context = Context(Registry(setting.folders), batch_invariant=setting.batch_invariant)
    left_out, problems = list(listing.left_out), []
    for group in groups:
        values = [value for value in group[0].values if value in points or value == group[0].values[-1]]
        try:
            choices = closure.choices(context, group[0], values, setting.device)
        except TilewrightError as error:
            left_out += _refused(group, error.message)
        else:
            problems.append(Planned(group, tuple(choices)))
    return Plan(listing.title, setting, tuple(problems), tuple(left_out))


def _refused(group: Iterable[Product], reason: str) -> list[LeftOut]:
    return [LeftOut(product.layer, str(product.example), reason, product.count) for product in group]


def _entry(planned: Planned, numbers: dict[str, int]) -> Entry:
    product = planned.product
    fields = manifest.fields_of(family_of(product.family), product.example, product.extent)
    ranges: list[tuple[int, int]] = []
    for chosen in planned.choices:
        number = numbers[chosen.tactic]
        if not ranges or ranges[-1][1] != number:
            ranges.append((chosen.first, number))
    return Entry(
        planned.layers, product.op, product.family, fields, product.extent, product.values, tuple(ranges)
    )
