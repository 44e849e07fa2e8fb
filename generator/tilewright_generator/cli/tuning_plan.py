"""The dry run of `tilewright tune`: the problems that it would tune, and whether it could begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright_generator.cli.groups import of_family
from tilewright_generator.plurals import are, counted

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.errors import TilewrightError
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family
    from tilewright.selection.tuned_files import Entry
    from tilewright.tools.benchmarking.groups import Standing
    from tilewright.tools.tuning.stages import Options


@dataclass(frozen=True)
class TuningPlan:
    """The beginning of a run. `path`: the file that gets its results."""

    family: Family[Any]
    registry: Registry
    device: DeviceProperties
    path: Path
    options: Options
    incumbents: Mapping[Any, Entry]  # with --only-new, by problem
    again: bool
    build: bool
    built_only: bool

    def lines(self, problems: Sequence[Any]) -> Iterator[str]:
        """The lines for people: a summary, then the problems."""
        from tilewright.tools.benchmarking import dry_run, groups  # noqa: PLC0415 (`--help` needs no runtime)

        if not problems:
            yield f"nothing is left to tune: every entry of {self.path} has seen every kernel"
            return
        everything = of_family(self.family.name, self.registry)
        standing = groups.stand(everything, self.family, problems[0], self.device, self.registry)
        counts = [self._tactics(problem) for problem in problems]
        of_kind, built = len(standing.of_kind), len(standing.built)
        kind, words = dry_run.kind_and_names(self.family, problems)
        yield f"{counted(len(problems), 'problem')} of {kind} on {self.device.name}"
        yield from self._entries(problems)
        yield f"  {counted(of_kind, 'kernel')} for such problems, of which {built:,} {are(built)} built"
        fit, left = (sum(column) for column in zip(*counts, strict=True))
        which = "of built kernels fit" if self.built_only else "fit (built or not)"
        yield f"  {counted(fit, 'tactic')} {which}; the cost model leaves {left:,} to be timed"
        yield from self._obstacles(standing, problems[0])
        yield "Problems, tactics that fit, and those that the cost model leaves:"
        for word, (fit, left) in zip(words, counts, strict=True):
            yield f"  {word}: {fit}, {left}"

    def as_json(self, problems: Sequence[Any]) -> dict[str, Any]:
        """The plan for JSON: each problem with its tactics, and the reason if a real run would refuse."""
        from tilewright.tools.benchmarking import groups  # noqa: PLC0415

        answer: dict[str, Any] = {
            "dry_run": True, "family": self.family.name, "device": self.device.name, "path": self.path,
            "problems": [], "refused": None,
        }  # fmt: skip
        for problem in problems:
            fit, left = self._tactics(problem)
            answer["problems"].append({"problem": asdict(problem), "fit": fit, "left": left})
        if problems:
            everything = of_family(self.family.name, self.registry)
            standing = groups.stand(everything, self.family, problems[0], self.device, self.registry)
            refused = self._refusal(standing, problems[0])
            answer["refused"] = None if refused is None else refused.message
        return answer

    def _tactics(self, problem: Any) -> tuple[int, int]:
        """How many fit, and how many of them the model leaves."""
        from tilewright.tools.tuning import search  # noqa: PLC0415

        records = self.registry.route(self.family.name, self.device)
        fitting = self.family.fitting_kept(self.registry, records, problem)
        if self.built_only:
            fitting = list(filter(self.registry.is_built, fitting))
        ranked, unknown = search.weighed(self.family, fitting, problem, self.device)
        left = search.candidates(ranked, unknown, self.options, self.incumbents.get(problem))
        return len(ranked) + len(unknown), len(left)

    def _entries(self, problems: Sequence[Any]) -> Iterator[str]:
        """The problems that the file of results has already; if it cannot take results, the reason."""
        from tilewright.errors import ForeignTunedFileError, TunedFileError  # noqa: PLC0415
        from tilewright.tools.tuning import tuning  # noqa: PLC0415

        yield f"  results would go to {self.path}"
        try:
            entries = tuning.Known(self.path, self.family, self.registry)
        except ForeignTunedFileError as error:
            yield f"  a real run would refuse: {error.message}"
            return
        except TunedFileError as error:
            yield f"  a real run would set that file aside: {error.message}"
            return
        standing, unseen = len(entries.standing(problems)), len(entries.unseen(problems))
        more = (
            "" if not standing else ", and --again tunes them anew" if self.again else "; --again tunes them"
        )
        if unseen and self.incumbents:
            more = ", beside which kernels are timed that it has not seen"
        elif unseen:
            more += f", --only-new the kernels that {unseen:,} of them have not seen"
        yield f"  {standing:,} of them {'has' if standing == 1 else 'have'} an entry there{more}"

    def _obstacles(self, standing: Standing, problem: Any) -> Iterator[str]:
        """The advice about kernels that are not built."""
        error = self._refusal(standing, problem)
        if error is not None:
            first, *rest = str(error).splitlines()
            yield f"  a real run would refuse: {first}"
            yield from (f"    {line}" for line in rest)
        elif standing.missing:
            number = counted(len(standing.missing), "kernel")
            yield f"  --build builds {number} first" if self.build else f"  --built-only leaves out {number}"

    def _refusal(self, standing: Standing, problem: Any) -> TilewrightError | None:
        from tilewright.tools.benchmarking import groups  # noqa: PLC0415
        from tilewright.tools.benchmarking.errors import CannotCompareError  # noqa: PLC0415

        try:
            groups.check(standing, self.family, problem, self.device)
        except CannotCompareError as error:
            return error
        allowed = self.build or (self.built_only and standing.built)
        return None if allowed else groups.not_built([standing], self.registry)
