"""`tilewright bench`: kernels side by side, measured on this machine's GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright_generator.cli import answers, common, groups, problem_options, running, verbosity
from tilewright_generator.cli.output_files import OutputFile, force_option
from tilewright_generator.cli.verbosity import note
from tilewright_generator.errors import UsageError
from tilewright_generator.project import tables_folder

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context
    from tilewright.selection.family import Family
    from tilewright.tools.benchmarking.comparing import Comparison
    from tilewright.tools.benchmarking.groups import Standing

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def command() -> None:
    """Measure kernels on this machine's GPU, side by side."""


@verbosity.add_options
@command.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@problem_options.family_option("Default: that of A's kernels.")
@problem_options.problem_options("Default: all, or what -s gives.")
@click.option(
    "--iters", type=click.IntRange(min=1), default=15, show_default=True, help="Replays of the graph."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random operands.")
@click.option("--list-tactics", is_flag=True, help="List every tactic with its time, not only the best.")
@click.option("--prune", is_flag=True, help="Leave out tactics that are far behind by the cost model.")
@click.option("--rearrange", is_flag=True, help="Try the fastest with every raster order and swizzle, too.")
@click.option("--labels", nargs=2, metavar="A B", help="The groups' names. Default: from their filters.")
@click.option("--csv", "csv_file", type=_FILE, help="Write the table as CSV.")
@click.option("--results", type=_FILE, help="Write what --json prints: all results, with GPU and settings.")
@force_option
@answers.json_option
@click.option("--build", is_flag=True, help="First build the kernels that are not built.")
@click.option("--built-only", is_flag=True, help="Compare without the kernels that are not built.")
@click.option("--dry-run", is_flag=True, help="Only say which kernels and problems would be compared.")
@click.option("--device", type=common.DEVICE, help="With --dry-run: the GPU, instead of this machine's.")
@click.option("--root", metavar="DIRECTORY", help="Project whose kernels run (default: as `run`).")
def compare(
    *, csv_file: Path | None, results: Path | None, force: bool, as_json: bool, **options: Any
) -> int:
    """Measure the best tactics of groups A and B, problem by problem.

    A and B are filters, as --filter takes them, with all terms in one argument: 'arch=sm103 k_tile=768'.
    A term is a glob on names or FIELD=GLOB[,GLOB]; ~TERM inverts a term ('~swap_ab=true'); m_tile, n_tile,
    k_tile and compiler are fields too, and arch=sm103 means sm_103a as well. B may be `rest`: all kernels of
    the family that A leaves out. Kernels that otherwise run only if a call names them are compared, too.

    Every tactic that this GPU can run for the problem is checked against the reference, then timed: CUDA
    graphs, operands that L2 does not hold, medians. The fastest tactics of both groups are timed again in
    turn, and the best of these times count. The speed-up is B's time over A's: more than 1 if A is faster.

    Exits 1 if nothing can be compared (no GPU, kernels for another GPU, kernels that are not built), or if a
    tactic's result is wrong.
    """
    from tilewright.tools.benchmarking.report import CSV_MARK, RECORD_MARK  # noqa: PLC0415

    settings = _Settings(words=problem_options.given(options), **options)
    outputs = _Outputs(
        None if csv_file is None else OutputFile(csv_file, CSV_MARK, force, "--csv"),
        None if results is None else OutputFile(results, RECORD_MARK, force, "--results"),
        as_json,
    )
    settings.check(outputs)
    return _compare(settings, outputs)


@dataclass(frozen=True)
class _Settings:
    """The options without those that name files."""

    first: str
    second: str
    family: str | None
    words: Mapping[str, Any]  # of problems, as they are given
    sizes: str | None
    given: tuple[str, ...]
    iters: int
    seed: int
    list_tactics: bool
    prune: bool
    rearrange: bool
    labels: tuple[str, str] | None
    build: bool
    built_only: bool
    dry_run: bool
    device: str | None
    root: str | None

    def as_json(self) -> dict[str, Any]:
        """The settings for a record."""
        return {name: value for name, value in asdict(self).items() if name != "words"} | {**self.words}

    def check(self, outputs: _Outputs) -> None:
        """Checks the options before measuring for minutes."""
        if self.build and self.built_only:
            raise UsageError("--build and --built-only exclude each other; give one of them")
        if self.device is not None and not self.dry_run:
            raise UsageError(
                "--device describes a GPU for --dry-run; what is measured is measured on this one"
            )
        for file in outputs.files:
            if self.dry_run:
                raise UsageError(f"{file.path}: a dry run has nothing to write; leave out this file")
            file.check()


@dataclass(frozen=True)
class _Outputs:
    """Where the answer goes, beside the table."""

    csv: OutputFile | None
    results: OutputFile | None
    as_json: bool  # to stdout, in the table's place

    @property
    def files(self) -> list[OutputFile]:
        return [file for file in (self.csv, self.results) if file is not None]


def _compare(settings: _Settings, outputs: _Outputs) -> int:
    from tilewright import context  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.context import Context  # noqa: PLC0415
    from tilewright.declarations import catalog  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.libraries.registry import Registry  # noqa: PLC0415
    from tilewright.selection.families import family_of  # noqa: PLC0415
    from tilewright.tools.benchmarking import dry_run, problems, sizes  # noqa: PLC0415
    from tilewright.tools.benchmarking.errors import CannotCompareError  # noqa: PLC0415
    from tilewright.tools.benchmarking.groups import stand, with_named  # noqa: PLC0415

    registry = Registry(tables_folder(settings.root))
    name, pair = groups.read(registry, catalog.names(), settings.family, settings.first, settings.second)
    pair = groups.labelled(pair, settings.labels)
    compared = problems.make(name, settings.words, sizes.chosen(settings.sizes, settings.given))
    lacking = running.missing()
    if lacking and not settings.dry_run:
        raise CannotCompareError(
            f"nothing was measured: {lacking}", hint="--dry-run says which kernels and problems there are."
        )
    with context.use(Context(registry)) as current:
        device = _device(current, settings, lacking)
        family = with_named(family_of(name))
        a, b = (stand(group, family, compared[0], device, registry) for group in pair)
        if settings.dry_run:
            _show_plan(list(dry_run.text(family, compared, (a, b), device)), compared, (a, b), outputs)
            return 0
        assert device is not None
        a, b = groups.ready(
            (a, b), family, compared[0], device=device, registry=registry, build=settings.build,
            built_only=settings.built_only,
        )  # fmt: skip
        return _Run(settings, family, (a, b), device, outputs).measure(compared)


def _show_plan(
    lines: list[str], problems: list[Any], standings: tuple[Standing, Standing], outputs: _Outputs
) -> None:
    """Prints the answer of a dry run."""
    if outputs.as_json:
        sides = {key: groups.as_json(standing) for key, standing in zip("ab", standings, strict=True)}
        answers.print_json(
            {"dry_run": True, "groups": sides, "problems": [asdict(problem) for problem in problems]}
        )
    else:
        click.echo("\n".join(lines))


def _device(current: Context, settings: _Settings, lacking: str | None) -> DeviceProperties | None:
    """The GPU here, or the one described; None where a dry run knows of none."""
    if settings.device is not None:
        from tilewright.architectures.device import DESCRIBED  # noqa: PLC0415

        return DESCRIBED[settings.device]
    if lacking:
        return None
    import torch  # noqa: PLC0415

    return current.device(torch.cuda.current_device())


@dataclass(frozen=True)
class _Run:
    """A comparison that can be made."""

    settings: _Settings
    family: Family[Any]
    standings: tuple[Standing, Standing]
    device: DeviceProperties
    outputs: _Outputs

    @property
    def labels(self) -> tuple[str, str]:
        a, b = self.standings
        return a.group.label, b.group.label

    def measure(self, problems: list[Any]) -> int:
        """Measures and reports; what was measured before an error is reported, too."""
        from tilewright.tools import trying  # noqa: PLC0415 (it imports torch)
        from tilewright.tools.benchmarking import comparing, measuring  # noqa: PLC0415

        head = measuring.environment(self.device)
        meter = measuring.on_gpu(self.family.name, self.device, self.settings.iters, self.settings.seed)
        options = comparing.Options(self.settings.prune, self.settings.rearrange)
        comparisons: list[Comparison] = []
        try:
            with trying.no_compiling():
                for comparison in comparing.compare(
                    self.family, problems, self.standings, device=self.device, meter=meter, options=options
                ):
                    comparisons.append(comparison)
                    _progress(comparison, len(comparisons), len(problems))
        finally:
            if comparisons:
                self._report(comparisons, head)
        sides = [side for comparison in comparisons for side in (comparison.a, comparison.b)]
        wrong = any(timing.wrong for side in sides for timing in side.timings)
        return 1 if wrong or all(comparison.speedup is None for comparison in comparisons) else 0

    def _report(self, comparisons: list[Comparison], head: dict[str, Any]) -> None:
        from tilewright.tools.benchmarking import report  # noqa: PLC0415

        tactics = self.settings.list_tactics
        if not self.outputs.as_json:
            for line in report.notes(comparisons, self.labels, tactics):
                click.echo(line)
            click.echo(report.table(comparisons, self.labels))
        if self.outputs.csv is not None:
            self.outputs.csv.write(report.as_csv(comparisons, self.labels))
        head = {**head, "settings": self.settings.as_json(), "family": self.family.name}
        head["groups"] = {
            key: groups.as_json(standing) for key, standing in zip("ab", self.standings, strict=True)
        }
        document = report.as_json(comparisons, self.labels, head, tactics)
        if self.outputs.results is not None:
            self.outputs.results.write(json.dumps(document, indent=1) + "\n")
        for file in self.outputs.files:
            note(f"wrote {file.path}")
        if self.outputs.as_json:
            answers.print_json(document)


def _progress(comparison: Comparison, number: int, of: int) -> None:
    """A line on stderr: a comparison takes minutes."""
    result = "no result" if comparison.speedup is None else f"speed-up {comparison.speedup:.3f}"
    tried = f"{len(comparison.a.timings)} and {len(comparison.b.timings)} tactics"
    note(f"[{number}/{of}] {comparison.problem}: {tried}, {result}")
