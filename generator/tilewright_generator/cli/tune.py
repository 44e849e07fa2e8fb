"""`tilewright tune`: find the fastest tactics on this machine's GPUs, and keep them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright import ops
from tilewright_generator.cli import (
    answers,
    common,
    groups,
    problem_options,
    running,
    tuning_files,
    tuning_plan,
    tuning_progress,
)
from tilewright_generator.cli.ray_options import ray_options
from tilewright_generator.cli.tuning_place import Place
from tilewright_generator.cli.verbosity import note
from tilewright_generator.errors import UsageError
from tilewright_generator.words import counted

if TYPE_CHECKING:
    from tilewright.context import Context
    from tilewright.device import DeviceProperties
    from tilewright.tuning.files import Entry
    from tilewright.tuning.search import Options, Result
    from tilewright.tuning.tuning import Book

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("files", nargs=-1, type=_FILE, metavar="[FILE]...")
@problem_options.family_option(f"Default: {ops.default_name()}; of --report and --merge, those of the files.")
@problem_options.problem_options("Without it and without -s nothing is tuned.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of tuned files. Default: the first of $TILEWRIGHT_TUNED, or `tuned` in the cache. "
    "`--out tuned` writes the project's defaults.",
)
@click.option("--again", is_flag=True, help="Also tune problems that the file has an entry of.")
@click.option(
    "--only-new",
    is_flag=True,
    help="Of problems that the file has an entry of, time only kernels that these have not seen, beside what "
    "is tuned. Without sizes: all problems of the file.",
)
@click.option("--build", is_flag=True, help="First build the kernels that are not built.")
@click.option("--built-only", is_flag=True, help="Tune without the kernels that are not built.")
@click.option("--gpus", metavar="0,1", help="GPUs to spread over. Default: all of the first one's kind.")
@click.option("--keep", type=click.IntRange(min=1), help="Tactics that the cost model leaves to be timed.")
@click.option("--exhaustive", is_flag=True, help="Time every legal tactic in full.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random operands.")
@click.option("--dry-run", is_flag=True, help="Only say which problems and how many tactics; needs no GPU.")
@click.option("--device", type=click.Choice(common.DEVICES), help="With --dry-run or --report: this GPU.")
@click.option("--merge", is_flag=True, help="Put the entries of the FILEs into the tuned file; needs no GPU.")
@click.option("--report", type=_FILE, help="Draw tuned times against the roofline: FILE.html, .png or .svg.")
@click.option("--results", type=_FILE, help="Write what --json prints: all results, with GPU and settings.")
@answers.json_option
@ray_options("Run as tasks of Ray, on every GPU of the cluster.")
@click.option("--root", metavar="DIRECTORY", help="Project whose kernels run (default: as `run`).")
def command(*, files: tuple[Path, ...], **options: Any) -> int:
    """Find the fastest tactic of each problem on this machine's GPUs, and keep it where ops look for it.

    The cost model leaves out what is hopeless; the rest is timed in CUDA graphs with operands that L2 does
    not hold, the best ones longer and longer. The fastest is checked against the reference. Each result is
    written at once: after an interruption the same command goes on with what is left.

    With --report alone nothing is tuned: the FILEs (default: what ops would use) are drawn, without a GPU; an
    image holds one --family.

    Exits 1 where nothing can be tuned (no GPU, kernels that are not built, a file of another machine), where
    a problem has no result, and where a tactic computes something wrong.
    """
    settings = _Settings(words=problem_options.given(options), **options)
    settings.check(files)
    return _Tune(settings).run(files)


@dataclass(frozen=True)
class _Settings:
    """The options."""

    family: str | None
    words: Mapping[str, Any]  # of problems, as they are given
    sizes: str | None
    given: tuple[str, ...]
    out: Path | None
    again: bool
    only_new: bool
    build: bool
    built_only: bool
    gpus: str | None
    keep: int | None
    exhaustive: bool
    seed: int
    dry_run: bool
    device: str | None
    merge: bool
    report: Path | None
    results: Path | None
    as_json: bool
    ray: bool
    ray_address: str | None
    root: str | None

    def to_json(self) -> dict[str, Any]:
        """For a record."""
        return {name: value for name, value in asdict(self).items() if name != "words"} | {**self.words}

    @property
    def on_ray(self) -> bool:
        return self.ray or self.ray_address is not None

    @property
    def tunes(self) -> bool:
        return bool(self.sizes or self.given or self.only_new)

    def check(self, files: Sequence[Path]) -> None:
        """What needs to be known before anything is measured for minutes."""
        for first, second in (
            ("build", "built_only"), ("keep", "exhaustive"), ("on_ray", "gpus"), ("again", "only_new"),
        ):  # fmt: skip
            if getattr(self, first) not in (None, False) and getattr(self, second) not in (None, False):
                names = [f"--{name.removeprefix('on_').replace('_', '-')}" for name in (first, second)]
                raise UsageError(f"{' and '.join(names)} exclude each other")
        if not self.tunes and not self.report and not self.merge:
            raise UsageError(
                "which problems? --sizes LIST|FILE or -s MxNxK says so, --only-new takes "
                "those that are tuned, --report draws"
            )
        if files and (self.tunes or not (self.report or self.merge)):
            raise UsageError(f"{files[0]}: tuned files are read by --report and --merge alone")
        if self.merge and (self.tunes or not files):
            raise UsageError("--merge takes tuned FILEs and no sizes")
        for path in files:
            if not path.is_file():
                raise UsageError(f"there is no file {path}")
        if self.device is not None and self.tunes and not self.dry_run:
            raise UsageError("--device describes a GPU for --dry-run and --report; tuning is on this one")
        for path in filter(None, (self.report, self.results)):
            if self.dry_run:
                raise UsageError(f"{path}: a dry run has nothing to write")
            if not path.absolute().parent.is_dir():
                raise UsageError(f"{path}: there is no folder {path.parent}")

    def options(self) -> Options:
        from tilewright.tuning.search import KEEP, Options  # noqa: PLC0415 (`--help` needs no runtime)

        return Options.exhaustive() if self.exhaustive else Options(keep=self.keep or KEEP)


class _Tune:
    """One call of the command."""

    def __init__(self, settings: _Settings) -> None:
        from tilewright.ops.families import family_of  # noqa: PLC0415 (`--help` needs no cost model)

        self.settings = settings
        self.family = family_of(settings.family or ops.default_name())
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
                code, drawn = self._tune(current, problems)
                files = [drawn]
            if settings.report:
                found = tuning_files.draw(settings.report, files, only, registry, self._described())
                self._answer |= found
                self._say(tuning_files.told(found))
            if settings.as_json:
                answers.print_json(self._answer)
            return code

    def _say(self, text: str) -> None:
        """For people: --json prints an answer of its own."""
        if not self.settings.as_json:
            click.echo(text)

    def _problems(self) -> list[Any] | None:
        """Those that are named; None where sizes are not: all that are tuned."""
        from tilewright.benchmarking import problems, sizes  # noqa: PLC0415

        settings = self.settings
        if not (settings.sizes or settings.given):
            return None
        with running.usage_errors():
            return problems.make(
                self.family.name, settings.words, sizes.chosen(settings.sizes, settings.given)
            )

    def _plan(self, current: Context, problems: Sequence[Any] | None) -> int:
        """What would be tuned, on the GPU that is here or described."""
        from tilewright.device import H200  # noqa: PLC0415

        settings, device = self.settings, self._described() or H200
        path = self._file(device.name, self.family.name)
        incumbents = self._incumbents(path, current, problems)
        plan = tuning_plan.Plan(
            self.family, current.registry, device, path, settings.options(), incumbents,
            again=settings.again, build=settings.build, built_only=settings.built_only,
        )  # fmt: skip
        wanted = list(incumbents) if settings.only_new else problems or []
        for line in () if settings.as_json else plan.lines(wanted):
            self._say(line)
        if settings.as_json:
            answers.print_json(plan.as_json(wanted))
        return 0

    def _incumbents(self, path: Path, current: Context, problems: Sequence[Any] | None) -> dict[Any, Entry]:
        """With --only-new: the entries, of these problems or all, that have not seen every kernel."""
        from tilewright.tuning.tuning import Known  # noqa: PLC0415

        if not self.settings.only_new:
            return {}
        known = Known(path, self.family, current.registry)
        return {one.entry.problem: one.entry for one in known.unseen(problems)}

    def _described(self) -> DeviceProperties | None:
        """The GPU that --device names, else the one that is here."""
        from tilewright import device as devices  # noqa: PLC0415

        return devices.DESCRIBED[self.settings.device] if self.settings.device else devices.present()

    def _file(self, gpu: str, family: str) -> Path:
        from tilewright import paths  # noqa: PLC0415
        from tilewright.tuning.tuning import default_folder  # noqa: PLC0415

        return paths.tuned_file(self.settings.out or default_folder(), gpu, family)

    def _tune(self, current: Context, problems: list[Any] | None) -> tuple[int, Path]:
        from tilewright.benchmarking.errors import CannotCompareError  # noqa: PLC0415

        lacking = None if self.settings.on_ray else running.missing()
        if lacking:
            raise CannotCompareError(
                f"nothing was tuned: {lacking}", hint="--dry-run says what there would be to tune."
            )
        place = self._place(current)
        with place.closing():
            path = self._file(place.device.name, self.family.name)
            incumbents = self._incumbents(path, current, problems)
            wanted = list(incumbents) if self.settings.only_new else problems or []
            self._make_ready(current, wanted, place.device)
            results: list[Result] = []
            if wanted:
                book = self._book(path, current, place)
                wanted = wanted if incumbents else self._not_known(path, current, wanted)
                results = self._measure(current, wanted, incumbents, book, place)
            if not wanted:
                self._say("nothing is left to tune")
        wrong = any(failure.wrong for one in results for failure in one.failures)
        return (1 if wrong or any(one.tactic is None for one in results) else 0), path

    def _not_known(self, path: Path, current: Context, problems: list[Any]) -> list[Any]:
        """The problems without those that the file has an entry of, which are told."""
        from tilewright.tuning.tuning import Known  # noqa: PLC0415

        if self.settings.again:
            return problems
        found = Known(path, self.family, current.registry)
        known, unseen = found.standing(problems), found.unseen(problems)
        if known:
            have = "has" if len(known) == 1 else "have"
            more = f", --only-new the kernels that {len(unseen):,} of them have not seen" if unseen else ""
            note(f"{counted(len(known), 'problem')} {have} an entry in {path}; --again tunes them{more}")
        return [one for one in problems if one not in known]

    def _place(self, current: Context) -> Place:
        settings = self.settings
        return (
            Place.of_ray(settings.ray_address) if settings.on_ray else Place.of_here(settings.gpus, current)
        )

    def _make_ready(self, current: Context, problems: Sequence[Any], device: DeviceProperties) -> None:
        """The kernels of each kind of problem."""
        from tilewright.benchmarking.groups import stand  # noqa: PLC0415

        registry, settings = current.registry, self.settings
        everything = groups.of_family(self.family.name, registry)
        for problem in {one.kind: one for one in problems}.values():
            standing = stand(everything, self.family, problem, device, registry)
            groups.ready(
                [standing], self.family, problem, device=device, registry=registry, build=settings.build,
                built_only=settings.built_only,
            )  # fmt: skip

    def _book(self, path: Path, current: Context, place: Place) -> Book:
        from tilewright.tuning.header import Header  # noqa: PLC0415
        from tilewright.tuning.tuning import Book  # noqa: PLC0415

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
        from tilewright.tuning.tuning import tune_problems  # noqa: PLC0415
        from tilewright.tuning.workers import GpuSite  # noqa: PLC0415

        site = GpuSite(current.registry.generated, self.family.name, place.device, self.settings.seed)
        results: list[Result] = []
        if not problems:
            return results
        progress = tuning_progress.progress_for(len(problems))
        progress.message(f"tuning {counted(len(problems), 'problem')} on {place}, into {book.path}")
        progress.begin()
        try:
            for one in tune_problems(
                problems, place.engine, site, book=book, options=self.settings.options(),
                incumbents=incumbents,
            ):  # fmt: skip
                results.append(one)
                progress.result(one)
        finally:
            progress.end()
            self._summarise(results, book.path)
            self._note_results(results, place)
        return results

    def _summarise(self, results: Sequence[Result], path: Path) -> None:
        found = [one for one in results if one.seconds]
        gains = [one.model_seconds / one.seconds for one in found if one.model_seconds and one.seconds]
        seconds = sum(one.elapsed for one in results)
        text = f"{counted(len(found), 'problem')} tuned in {seconds:.1f} s of a GPU, written to {path}"
        if gains:
            mean = math.exp(math.fsum(map(math.log, gains)) / len(gains))
            text += f"; geomean {mean:.3f} times as fast as the cost model's first"
        if len(found) < len(results):
            text += f"; {len(results) - len(found)} without a result"
        self._say(text)

    def _note_results(self, results: Sequence[Result], place: Place) -> None:
        """Keeps all results for --json, and writes them where --results says."""
        from tilewright.benchmarking.measuring import environment  # noqa: PLC0415 (it imports torch)

        settings = self.settings
        if settings.results is None and not settings.as_json:
            return
        head = environment(place.device) | {"family": self.family.name, "where": str(place)}
        self._answer = head | {"settings": settings.to_json(), "results": [one.as_json() for one in results]}
        if settings.results is not None:
            text = json.dumps(self._answer, indent=1, default=str) + "\n"
            settings.results.write_text(text, encoding="utf-8", newline="\n")
