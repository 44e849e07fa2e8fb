"""`tilewright report`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tilewright_generator.cli import answers, common
from tilewright_generator.cli.output_files import OutputFile, force_option
from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project

_MARKS = {
    ".html": re.compile(rb'name="generator" content="tilewright report"'),
    ".svg": re.compile(rb'<svg class="tw-chart"'),
}


@click.command("report")
@common.root_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="FILE.html: a page of all that the records say. FILE.svg: the chart of speeds beside other "
    "libraries alone.",
)
@force_option
@answers.json_option
def command(*, root: Path | None, output: Path, force: bool, as_json: bool) -> None:
    """Write what the committed records say, as one file.

    The page lists every kernel with its fields, what a build measured of it, what it has been through
    (compiled, run, hammered, and when) and which records are stale; speeds beside other libraries, problem
    by problem; and tuned problems against the roofline. Its tables are searched and sorted in the browser,
    without a network. Rooflines are drawn with matplotlib (pip install 'tilewright[report]'). Needs no GPU.
    Outside of a project, the page is about the kernels that come with tilewright.
    """
    if output.suffix not in _MARKS:
        raise UsageError(f"--output {output}: expected a file that ends in {' or '.join(_MARKS)}")
    file = OutputFile(output, _MARKS[output.suffix], force, "--output")
    file.check()
    project = Project.seen(root)
    file.write(_chart(project) if output.suffix == ".svg" else _page(project))
    if as_json:
        answers.print_json({"written": output})
    else:
        click.echo(f"wrote {output}")


def _page(project: Project) -> str:
    from tilewright_generator.reports import page  # noqa: PLC0415 (`--help` needs no runtime)

    return page.page(project, common.read(project, (), ()).expansions)


def _chart(project: Project) -> str:
    from tilewright_generator.reports import speed_chart, speeds  # noqa: PLC0415

    path, content = project.root / speeds.RESULTS / speeds.LIST, speeds.read(project.root)
    if content is None:
        raise UsageError(f"there is no {path}, which lists the series of a chart")
    shown = [series for series in content.series if series.in_chart]
    if not shown:
        raise UsageError(f"{path} marks no series with `chart`")
    return speed_chart.chart(shown, content.title, content.subtitle)
