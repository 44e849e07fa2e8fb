"""A loaded bundle: it answers with the tactics of its table, and refuses everything else by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from tilewright.architectures.device import DeviceProperties
from tilewright.base import paths
from tilewright.bundle import manifest
from tilewright.bundle.manifest import Entry, Manifest
from tilewright.declarations.table import KernelRecord, Table
from tilewright.declarations.tactics import Tactic
from tilewright.errors import BundleError, NoKernelError
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import Choice, choose
from tilewright.selection.family import Family
from tilewright.version import __version__

_AGAIN = "Make the bundle again with this tilewright: `tilewright bundle` (docs/bundles.md)."
_MORE = (
    "Make the bundle again with this problem (`tilewright bundle --problems`, docs/bundles.md), or unset "
    "TILEWRIGHT_BUNDLE, so that all kernels may run."
)
_SHOWN = 3  # values that a message lists


class Bundle:
    """The tactics of a bundle, and a registry whose libraries are the bundle's."""

    def __init__(self, folder: Path, content: Manifest, registry: Registry) -> None:
        self.folder = folder
        self.manifest = content
        self.registry = registry
        self._tactics: dict[int, tuple[Tactic, KernelRecord]] = {}

    def __repr__(self) -> str:
        return f"<bundle {self.folder}: problems: {self.summary}; for {self.manifest.device.name}>"

    @property
    def summary(self) -> str:
        """The numbers of its problems, by family, in words."""
        counts = Counter(entry.family for entry in self.manifest.entries)
        return ", ".join(f"{count} of {family}" for family, count in sorted(counts.items()))

    @property
    def batch_invariant(self) -> bool:
        """Whether its tactics are those of batch-invariant mode."""
        return self.manifest.batch_invariant

    def choose(
        self,
        family: Family[Any],
        problem: Any,
        device: DeviceProperties,
        tactic: Tactic | None = None,
        *,
        batch_invariant: bool = False,
    ) -> Choice:
        """The tactic that the bundle has for a problem; or `tactic`, if its kernel is in the bundle and it
        computes the problem.

        Raises BundleError for a problem, a GPU, a mode or a kernel that is not the bundle's.
        """
        self.check_device(device)
        if batch_invariant != self.batch_invariant:
            how, mode = ("with", "not in") if self.batch_invariant else ("without", "in")
            raise BundleError(
                f"{self.folder} was made {how} --batch-invariant, and the call is {mode} that mode",
                hint="Make a bundle for this mode, or call in the mode of the bundle.",
            )
        if tactic is not None:
            return self._demanded(family, problem, device, tactic)
        entry = self._entry(family, problem)
        value = getattr(problem, entry.extent)
        chosen, record = self._tactic(entry.number(value))
        if reason := family.misfit_tactic(chosen, record, problem):  # operands of another layout
            raise BundleError(
                f"{chosen}, which {self.folder} has for {problem}, does not compute it: {reason}"
            )
        why = f"{self.folder} has it for {entry.extent} of {value} ({', '.join(entry.layers)})"
        return Choice(chosen, record, "bundle", why)

    def check_device(self, device: DeviceProperties) -> None:
        """Raises BundleError for another GPU than the bundle's."""
        own = self.manifest.device
        if (device.name, device.capability, device.sm_count) != (own.name, own.capability, own.sm_count):
            raise BundleError(
                f"{self.folder} is for {own.name} with {own.sm_count} SMs; this GPU is {device.name} with "
                f"{device.sm_count} SMs",
                hint="Make a bundle for it: `tilewright bundle --gpu`.",
            )

    def _demanded(
        self, family: Family[Any], problem: Any, device: DeviceProperties, tactic: Tactic
    ) -> Choice:
        if tactic.kernel not in self.manifest.kernels:
            raise BundleError(f"{tactic.kernel} is not in {self.folder}", hint=_MORE)
        records = self.registry.route(family.name, device)
        return choose(
            family, self.registry, records, problem, device,
            tactic=tactic, batch_invariant=self.batch_invariant,
        )  # fmt: skip

    def _tactic(self, number: int) -> tuple[Tactic, KernelRecord]:
        """A tactic by its number, parsed once, with its kernel."""
        parsed = self._tactics.get(number)
        if parsed is None:
            tactic = Tactic.parse(self.manifest.tactics[number])
            parsed = self._tactics[number] = tactic, self.registry.record(tactic.kernel)
        return parsed

    @cached_property
    def _by_extent(self) -> dict[tuple[str, str], dict[tuple[Any, ...], list[Entry]]]:
        """Entries by family and extent, then by the values of their fields. Several have the same fields, and
        other values of the extent: a product of tokens, and one of the rows of experts."""
        entries: dict[tuple[str, str], dict[tuple[Any, ...], list[Entry]]] = {}
        for entry in self.manifest.entries:
            alike = entries.setdefault((entry.family, entry.extent), {})
            alike.setdefault(tuple(entry.fields.values()), []).append(entry)
        return entries

    def _entry(self, family: Family[Any], problem: Any) -> Entry:
        """The entry of a problem. Raises BundleError."""
        alike: list[Entry] = []
        for (name, extent), entries in self._by_extent.items():
            if name == family.name:
                alike += entries.get(tuple(manifest.fields_of(family, problem, extent).values()), [])
        for entry in alike:
            if getattr(problem, entry.extent) in entry.values:
                return entry
        raise self._other_value(alike, problem) if alike else self._other_problem(family, problem)

    def _other_problem(self, family: Family[Any], problem: Any) -> BundleError:
        entries = [entry for entry in self.manifest.entries if entry.family == family.name]
        if not entries:
            return BundleError(f"{self.folder} has no {family.name} problem, so not {problem}", hint=_MORE)
        differences = [_differences(family, problem, entry) for entry in entries]
        fewest = min(map(len, differences))
        names = next(names for names in differences if len(names) == fewest)
        nearest = [entry for entry, fields in zip(entries, differences, strict=True) if fields == names]
        reasons = []
        for name in names:
            bundled = _listed(entry.fields[name] for entry in nearest if name in entry.fields)
            reasons.append(f"{name} is {getattr(problem, name)}, there it is {bundled}")
        return BundleError(f"{self.folder} does not have {problem}: {'; '.join(reasons)}", hint=_MORE)

    def _other_value(self, alike: list[Entry], problem: Any) -> BundleError:
        expected = " and ".join(f"{_range(entry.values)} ({', '.join(entry.layers)})" for entry in alike)
        extent = alike[0].extent
        return BundleError(
            f"{self.folder} does not have {problem}: {extent} is {getattr(problem, extent)}, and the bundle "
            f"was made for {expected}",
            hint="Make the bundle again for more: `tilewright bundle --max-tokens` (docs/bundles.md).",
        )


def _range(values: range) -> str:
    if len(values) == 1:
        return str(values[0])
    return f"{values[0]} to {values[-1]}{f' in steps of {values.step}' if values.step > 1 else ''}"


def _differences(family: Family[Any], problem: Any, entry: Entry) -> tuple[str, ...]:
    """The fields in which a problem differs from an entry's."""
    own = manifest.fields_of(family, problem, entry.extent)
    return tuple(name for name, value in entry.fields.items() if own.get(name) != value)


def _listed(values: Iterable[Any]) -> str:
    distinct = list(dict.fromkeys(map(str, values)))
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return f"{' or '.join(distinct[:_SHOWN])}{more}"


def load(folder: Path) -> Bundle:
    """See `tilewright.bundle.load`."""
    content = manifest.read(folder)
    if content.tilewright != __version__:
        raise BundleError(
            f"{folder} was made by tilewright {content.tilewright}, this is {__version__}", hint=_AGAIN
        )

    from tilewright.compile import prebuilt  # noqa: PLC0415 (importing tilewright needs no build)

    def build(table: Table, kernel: str) -> NoReturn:
        raise BundleError(f"no library of {folder} holds {kernel}, and bundles compile nothing", hint=_AGAIN)

    registry = Registry(libraries=prebuilt.only(folder), build=build)
    for reason in _faults(folder, content, registry):
        raise BundleError(f"{folder} cannot be used: {reason}", hint=_AGAIN)
    return Bundle(folder, content, registry)


def _faults(folder: Path, content: Manifest, registry: Registry) -> Iterator[str]:
    """Why the kernels of a bundle are not those of this tilewright, or are not in its libraries."""
    from tilewright.compile import compilers, library, prebuilt  # noqa: PLC0415 (as above)
    from tilewright.compile.keys import HeaderSet  # noqa: PLC0415

    headers = HeaderSet(paths.include_dir())
    for module in dict.fromkeys(kernel.module for kernel in content.kernels.values()):
        for built in prebuilt.examined(module, headers, [folder.absolute()]):
            if reason := built.reason or (built.record and library.damage(built.record.path)):
                yield f"{built.path.parent}: {reason}"
    for name, kernel in content.kernels.items():
        try:
            record = registry.record(name)
        except NoKernelError as error:
            yield error.message
            continue
        if compilers.made_of(record) != kernel.made_of:
            yield f"{name} has another source, or other flags, than when the bundle was made"
        elif not registry.is_built(record):
            yield f"no library of {kernel.module} holds {name}"
