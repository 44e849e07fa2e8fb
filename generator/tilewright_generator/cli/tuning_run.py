"""Runs `tilewright tune`: plans or tunes problems, merges or draws files, reports results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.declarations import catalog
from tilewright_generator.cli import answers, groups, running, tuning_files, tuning_plan, tuning_progress
from tilewright_generator.cli.tuning_place import Place
from tilewright_generator.cli.tuning_settings import Settings
from tilewright_generator.cli.verbosity import note
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context
    from tilewright.selection.tuned_files import Entry
    from tilewright.tools.tuning.search import Result
    from tilewright.tools.tuning.tuning import Book


class Tune:
    """One call of `tilewright tune`."""

    def __init__(self, settings: Settings) -> None:
        from tilewright.selection.families import family_of  # noqa: PLC0415 (`--help` needs no cost model)

        self.settings = settings
        self.family = family_of(settings.family or catalog.default_name())
        self._answer: dict[str, Any] = {}  # what --json prints

    def run(self, files: Sequence[Path]) -> int:
        from tilewright import context  # noqa: PLC0415

        settings = self.settings
        with context.use(running.context_of(settings.root)) as current:
            registry = current.registry
            only = self.family if settings.family or settings.tunes else None
            if settings.merge:
                tuning_files.merge(files, only, registry, self._file, as_json=settings.as_json)
                return 0
            code = 0
            if settings.tunes:
                problems = self._problems()
                if settings.dry_run:
                    return self._plan(current, problems)
                code, target = self._tune(current, problems)
                files = [target]
            if settings.report:
                drawn = tuning_files.draw(settings, files, only, registry, self._described())
                self._answer |= drawn
                self._say(tuning_files.told(drawn))
            if settings.as_json:
                answers.print_json(self._answer)
            return code

    def _say(self, text: str) -> None:
        """Prints a line for people; --json prints an answer of its own."""
        if not self.settings.as_json:
            click.echo(text)

    def _problems(self) -> list[Any] | None:
        """The problems that the options name; None without sizes, which means all tuned problems."""
        from tilewright.tools.benchmarking import problems, sizes  # noqa: PLC0415

        settings = self.settings
        if not (settings.sizes or settings.given):
            return None
        with running.usage_errors():
            return problems.make(
                self.family.name, settings.words, sizes.chosen(settings.sizes, settings.given)
            )

    def _plan(self, current: Context, problems: Sequence[Any] | None) -> int:
        """Plans the tuning, on the present GPU or a described one."""
        from tilewright.architectures.device import H200  # noqa: PLC0415

        settings, device = self.settings, self._described() or H200
        path = self._file(device.name, self.family.name)
        incumbents = self._incumbents(path, current, problems)
        plan = tuning_plan.TuningPlan(
            self.family, current.registry, device, path, settings.options(), incumbents,
            again=settings.again, build=settings.build, built_only=settings.built_only,
        )  # fmt: skip
        chosen = list(incumbents) if settings.only_new else problems or []
        for line in () if settings.as_json else plan.lines(chosen):
            self._say(line)
        if settings.as_json:
            answers.print_json(plan.as_json(chosen))
        return 0

    def _incumbents(self, path: Path, current: Context, problems: Sequence[Any] | None) -> dict[Any, Entry]:
        """With --only-new: the entries of these problems, or of all, that have not seen every kernel."""
        from tilewright.tools.tuning.tuning import Known  # noqa: PLC0415

        if not self.settings.only_new:
            return {}
        entries = Known(path, self.family, current.registry)
        return {unseen.entry.problem: unseen.entry for unseen in entries.unseen(problems)}

    def _described(self) -> DeviceProperties | None:
        """The GPU that --device names, else the one that is here."""
        from tilewright.architectures import device as devices  # noqa: PLC0415

        return devices.DESCRIBED[self.settings.device] if self.settings.device else devices.present()

    def _file(self, gpu: str, family: str) -> Path:
        from tilewright.base import paths  # noqa: PLC0415
        from tilewright.tools.tuning.tuning import default_folder  # noqa: PLC0415

        return paths.tuned_file(self.settings.out or default_folder(), gpu, family)

    def _tune(self, current: Context, problems: list[Any] | None) -> tuple[int, Path]:
        from tilewright.tools.benchmarking.errors import CannotCompareError  # noqa: PLC0415

        lacking = None if self.settings.on_ray else running.missing()
        if lacking:
            raise CannotCompareError(
                f"nothing was tuned: {lacking}", hint="--dry-run says what there would be to tune."
            )
        place = self._place(current)
        with place.closing():
            path = self._file(place.device.name, self.family.name)
            incumbents = self._incumbents(path, current, problems)
            chosen = list(incumbents) if self.settings.only_new else problems or []
            self._make_ready(current, chosen, place.device)
            results: list[Result] = []
            if chosen:
                book = self._book(path, current, place)
                chosen = chosen if incumbents else self._not_known(path, current, chosen)
                results = self._measure(current, chosen, incumbents, book, place)
            if not chosen:
                self._say("nothing is left to tune")
        wrong = any(failure.wrong for result in results for failure in result.failures)
        return (1 if wrong or any(result.tactic is None for result in results) else 0), path

    def _not_known(self, path: Path, current: Context, problems: list[Any]) -> list[Any]:
        """The problems that the file has no entry for. A note counts the others."""
        from tilewright.tools.tuning.tuning import Known  # noqa: PLC0415

        if self.settings.again:
            return problems
        entries = Known(path, self.family, current.registry)
        standing, unseen = entries.standing(problems), entries.unseen(problems)
        if standing:
            have = "has" if len(standing) == 1 else "have"
            more = f", --only-new the kernels that {len(unseen):,} of them have not seen" if unseen else ""
            note(f"{counted(len(standing), 'problem')} {have} an entry in {path}; --again tunes them{more}")
        return [problem for problem in problems if problem not in standing]

    def _place(self, current: Context) -> Place:
        settings = self.settings
        return (
            Place.of_ray(settings.ray_address) if settings.on_ray else Place.of_here(settings.gpus, current)
        )

    def _make_ready(self, current: Context, problems: Sequence[Any], device: DeviceProperties) -> None:
        """The kernels of each kind of problem."""
        from tilewright.tools.benchmarking.groups import stand  # noqa: PLC0415

        registry, settings = current.registry, self.settings
        everything = groups.of_family(self.family.name, registry)
        for problem in {problem.kind: problem for problem in problems}.values():
            standing = stand(everything, self.family, problem, device, registry)
            groups.ready(
                [standing], self.family, problem, device=device, registry=registry, build=settings.build,
                built_only=settings.built_only,
            )  # fmt: skip

    def _book(self, path: Path, current: Context, place: Place) -> Book:
        from tilewright.selection.tuned_header import Header  # noqa: PLC0415
        from tilewright.tools.tuning.tuning import Book  # noqa: PLC0415

        header = Header.of(place.device, current.registry, self.family.name, driver=place.driver)
        book = Book(path, header, self.family)
        for message in book.messages:
            note(message)
        return book

    def _measure(
        self,
        current: Context,
        problems: list[Any],
        incumbents: Mapping[Any, Entry],
        book: Book,
        place: Place,
    ) -> list[Result]:
        from tilewright.tools.tuning.tuning import tune_problems  # noqa: PLC0415
        from tilewright.tools.tuning.workers import GpuSite  # noqa: PLC0415

        site = GpuSite(current.registry.folders, self.family.name, place.device, self.settings.seed)
        results: list[Result] = []
        if not problems:
            return results
        progress = tuning_progress.progress_for(len(problems))
        progress.message(f"tuning {counted(len(problems), 'problem')} on {place}, into {book.path}")
        progress.begin()
        try:
            for result in tune_problems(
                problems, place.engine, site, book=book, options=self.settings.options(),
                incumbents=incumbents,
            ):  # fmt: skip
                results.append(result)
                progress.result(result)
        finally:
            progress.end()
            self._summarise(results, book.path)
            self._note_results(results, place)
        return results

    def _summarise(self, results: Sequence[Result], path: Path) -> None:
        successes = [result for result in results if result.seconds]
        gains = [
            result.model_seconds / result.seconds
            for result in successes
            if result.model_seconds and result.seconds
        ]
        seconds = sum(result.elapsed for result in results)
        text = f"{counted(len(successes), 'problem')} tuned in {seconds:.1f} s of a GPU, written to {path}"
        if gains:
            mean = math.exp(math.fsum(map(math.log, gains)) / len(gains))
            text += f"; geomean {mean:.3f} times as fast as the cost model's first"
        if len(successes) < len(results):
            text += f"; {len(results) - len(successes)} without a result"
        self._say(text)

    def _note_results(self, results: Sequence[Result], place: Place) -> None:
        """Keeps all results for --json, and writes them to the file of --results."""
        from tilewright.tools.benchmarking.measuring import environment  # noqa: PLC0415 (it imports torch)

        settings = self.settings
        if settings.results is None and not settings.as_json:
            return
        head = environment(place.device) | {"family": self.family.name, "where": str(place)}
        self._answer = head | {
            "settings": settings.to_json(),
            "results": [result.as_json() for result in results],
        }
        if settings.results is not None:
            (output,) = (file for file in settings.outputs() if file.path == settings.results)
            output.write(json.dumps(self._answer, indent=1, default=str) + "\n")
            note(f"wrote {output.path}")
