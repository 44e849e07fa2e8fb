"""The kernels of a project as rows: fields, what was built, what each has been through by the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tilewright.base import spelling
from tilewright_generator import status
from tilewright_generator.expand import Expansion, Kernel
from tilewright_generator.fields import fields_of
from tilewright_generator.project import Project
from tilewright_generator.status import CURRENT, NEVER, RECORDED, STALE, Verdict

BUILD = {  # columns of what a build measures, by the names in the records
    "registers": "registers",
    "smem_bytes": "shared memory, bytes",
    "code_bytes": "code, bytes",
    "spill_store_bytes": "spills, bytes",
    "seconds": "compiling, s",
}
SUMMARY = ("kernels", *RECORDED, STALE)  # columns of `summary`, after the group's name
PROOFS = ("compiled", "run", "problems", "run on", "hammered", "hammer's runs", "hammered on")


class Row(NamedTuple):
    """A kernel that a spec names."""

    kernel: Kernel
    expansion: Expansion
    verdict: Verdict

    @property
    def proofs(self) -> list[str]:
        """The cells of `PROOFS`: states, numbers and days."""
        check, hammer = self.verdict.check, self.verdict.hammer
        return [
            self.verdict.compiled,
            self.verdict.run,
            str(check.get("problems", "")),
            str(check.get("date", "")),
            self.verdict.hammered,
            str(hammer.get("runs", "")),
            str(hammer.get("date", "")),
        ]

    @property
    def build(self) -> list[str]:
        """The cells of `BUILD`; empty if the kernel has no row in the records."""
        return [str(self.verdict.numbers.get(name, "")) for name in BUILD]


class FamilyTable(NamedTuple):
    """The kernels of a family: what all have in common, and a row for each."""

    family: str
    common: dict[str, str]
    """Fields that have one value in all kernels."""
    columns: list[str]
    rows: list[list[str]]


def rows(project: Project, expansions: Iterable[Expansion]) -> list[Row]:
    """Every kernel of the specs, by module. A kernel that is not generated was never compiled or run."""
    verdicts = {verdict.name: verdict for _, several in status.verdicts(project) for verdict in several}
    return [
        Row(kernel, expansion, verdicts.get(kernel.name) or Verdict(kernel.name, "", NEVER, NEVER))
        for expansion in expansions
        for kernel in sorted(expansion.kernels, key=lambda kernel: kernel.name)
    ]


def family_tables(kernels: Sequence[Row], tuned: Mapping[str, int]) -> list[FamilyTable]:
    """A table for each family, by name. `tuned`: for how many tuned problems a kernel is the fastest."""
    tables = []
    for name in sorted({row.expansion.spec.family.name for row in kernels}):
        some = [row for row in kernels if row.expansion.spec.family.name == name]
        fields = {field: _values(some, field) for field in fields_of(some[0].expansion.spec.family)}
        varied = [field for field, values in fields.items() if len(set(values)) > 1]
        common = {field: values[0] for field, values in fields.items() if field not in varied}
        tables.append(
            FamilyTable(
                name,
                common,
                ["kernel", "module", *varied, *PROOFS, *BUILD.values(), "tuned problems"],
                [
                    [
                        row.kernel.name,
                        row.expansion.spec.module,
                        *(fields[field][number] for field in varied),
                        *row.proofs,
                        *row.build,
                        str(tuned.get(row.kernel.name, 0)),
                    ]
                    for number, row in enumerate(some)
                ],
            )
        )
    return tables


def _values(kernels: Sequence[Row], field: str) -> list[str]:
    return [spelling.text(getattr(row.kernel.config, field)) for row in kernels]


def summary(kernels: Sequence[Row], key: str) -> list[list[str]]:
    """Counts by `module` or by `target`: kernels, those that are current by each kind of record, and stale
    rows."""
    groups: dict[str, Counter[str]] = {}
    for row in kernels:
        states = {what: getattr(row.verdict, what) for what in RECORDED}
        name = row.expansion.spec.module if key == "module" else row.verdict.target or "not generated"
        groups.setdefault(name, Counter()).update(
            ["kernels", *(what for what, state in states.items() if state == CURRENT)]
            + [STALE] * (STALE in states.values())
        )
    return [[name, *(str(count[what]) for what in SUMMARY)] for name, count in sorted(groups.items())]


def stale(kernels: Iterable[Row]) -> list[str]:
    """The names of the kernels whose records are of another source."""
    return [row.kernel.name for row in kernels if STALE in (getattr(row.verdict, what) for what in RECORDED)]


def run_days(kernels: Iterable[Row]) -> tuple[str, str] | None:
    """The first and the last day of a kernel's recorded runs; None if none ran."""
    dates = sorted({str(row.verdict.check["date"]) for row in kernels if row.verdict.check})
    return (dates[0], dates[-1]) if dates else None
