"""`tilewright report`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tilewright_generator.cli import answers, common
from tilewright_generator.cli.output_files import OutputFile, force_option
from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project
from tilewright_generator.reports import speed_chart, speeds

_MARKS = {".svg": re.compile(rb'<svg class="tw-chart"')}


@click.command("report")
@common.root_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="FILE.svg: the chart of speeds beside those of other libraries.",
)
@force_option
@answers.json_option
def command(*, root: Path | None, output: Path, force: bool, as_json: bool) -> None:
    """Draw what the committed records say, in one file. Needs no GPU."""
    if output.suffix not in _MARKS:
        raise UsageError(f"--output {output}: expected a file that ends in {' or '.join(_MARKS)}")
    file = OutputFile(output, _MARKS[output.suffix], force, "--output")
    file.check()
    project = Project.seen(root)
    file.write(_chart(project))
    if as_json:
        answers.print_json({"written": output})
    else:
        click.echo(f"wrote {output}")


def _chart(project: Project) -> str:
    content = speeds.read(project.root)
    shown = [series for series in content.series if series.in_chart] if content else []
    if content is None or not shown:
        raise UsageError(f"{project.root / speeds.RESULTS / speeds.LIST} names no series for the chart")
    return speed_chart.chart(shown, content.title, content.subtitle)
