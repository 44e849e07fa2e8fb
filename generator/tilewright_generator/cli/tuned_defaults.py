"""The messages of `generate` and `check` about the project's tuned defaults: which kernels they have not
seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright_generator.cli import plan_text
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project

_NAMED = 3  # tactics without a kernel that are printed; --json has all


@dataclass(frozen=True)
class Defaults:
    """A tuned file of the project, beside the kernels that are generated now."""

    path: Path
    family: str
    unseen: Counter[tuple[str, ...]]  # by kernels: how many problems were tuned without them
    lost: tuple[str, ...]  # tuned tactics that are no longer valid: "TACTIC (why)"

    def of(self, kernels: Collection[str]) -> Defaults:
        """The same file, if these kernels are the only ones that it has not seen."""
        unseen: Counter[tuple[str, ...]] = Counter()
        for those, count in self.unseen.items():
            if kept := tuple(tactic for tactic in those if tactic in kernels):
                unseen[kept] += count
        return replace(self, unseen=unseen)

    def as_json(self) -> dict[str, Any]:
        unseen = [{"kernels": list(kernels), "problems": count} for kernels, count in self.unseen.items()]
        return asdict(self) | {"path": str(plan_text.shown(self.path)), "unseen": unseen}

    def lines(self) -> Iterator[str]:
        """The message for people; none if every problem has seen every kernel."""
        if self.unseen:
            newest, kernels = self._least_seen()
            yield f"{self._unseen_text()}:"
            yield f"  {newest}{' ...' * (kernels > 1)}"
            folder = plan_text.shown(self.path.parents[1])
            yield "tune new kernels beside what is tuned with:"
            yield f"  tilewright tune --only-new --family {self.family} --out {folder}"
        yield from self._lost_lines()

    def notes(self, verbose: bool) -> Iterator[str]:
        """The messages of `check`: the number of tuned problems whose kernels are missing and, if
        `verbose`, of those that have not seen every kernel. These are no faults: the tuned entries stay in
        force.
        """
        if self.unseen and verbose:
            yield f"{self._unseen_text()}; `tilewright tune --only-new` tries them"
        yield from self._lost_lines()

    def _unseen_text(self) -> str:
        _, kernels = self._least_seen()
        problems, some = counted(self.unseen.total(), "problem"), "some of " * (kernels > 1)
        return f"{plan_text.shown(self.path)}: {problems} tuned without {some}{counted(kernels, 'kernel')}"

    def _lost_lines(self) -> Iterator[str]:
        if not self.lost:
            return
        lack = "lacks its kernel" if len(self.lost) == 1 else "lack their kernels"
        yield f"{plan_text.shown(self.path)}: {counted(len(self.lost), 'problem')} {lack}:"
        for tactic, why in (lost.split(" ", 1) for lost in self.lost[:_NAMED]):
            yield f"  {tactic}"
            yield f"    {why}"
        if len(self.lost) > _NAMED:
            yield f"  and {len(self.lost) - _NAMED:,} more"

    def _least_seen(self) -> tuple[str, int]:
        """The kernel that most problems have not seen, since it was added last; and how many kernels there
        are that some problem has not seen."""
        problems: Counter[str] = Counter()
        for kernels, count in self.unseen.items():
            problems.update(dict.fromkeys(kernels, count))
        return problems.most_common(1)[0][0], len(problems)


def read(project: Project) -> Sequence[Defaults]:
    """The tuned defaults of each GPU and family, checked against the generated kernels. A damaged file, or
    one of another format, is skipped, as in selection, which reports it.

    """
    from tilewright.base import paths  # noqa: PLC0415 (only where something is tuned)
    from tilewright.errors import TunedFileError  # noqa: PLC0415

    defaults: list[Defaults] = []
    files = sorted(paths.shipped_dir(project.out).glob("*/*.json"))
    if not files:
        return defaults
    from tilewright.libraries.registry import Registry  # noqa: PLC0415

    registry = Registry(project.out)
    for path in files:
        try:
            defaults.append(_review(path, registry))
        except TunedFileError:
            continue
    return defaults


def _review(path: Path, registry: Any) -> Defaults:
    from tilewright.selection import tuned_files  # noqa: PLC0415
    from tilewright.tools.tuning import tuned_writing  # noqa: PLC0415
    from tilewright.tools.tuning.review import review  # noqa: PLC0415

    file = tuned_files.read(path)
    family = tuned_writing.family_of(path, file)
    reviewed = review(file, family, registry)
    unseen = Counter(entry.kernels for entry in reviewed.unseen)
    lost = tuple(f"{entry.tactic} ({entry.reason})" for entry in reviewed.dropped)
    return Defaults(path, family.name, unseen, lost)
