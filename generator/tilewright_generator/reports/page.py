"""One page of all that a project's records say. It needs no other file and no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright_generator import __version__, status
from tilewright_generator.expand import Expansion
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project
from tilewright_generator.reports import kernels, speed_chart, speeds
from tilewright_generator.reports.speeds import Speeds

if TYPE_CHECKING:
    from tilewright.tools.tuning.report import Part

TEMPLATE = "page.html.j2"
CLOSE = 0.95  # a speed at which a problem counts as no loss


class Roofline(NamedTuple):
    """The tuned problems of a family on a GPU."""

    title: str
    made_with: str
    picture: str
    """SVG; empty where matplotlib is missing."""
    columns: Sequence[str]
    rows: list[list[str]]


def page(project: Project, expansions: Sequence[Expansion]) -> str:
    """The page. Raises DriftError if a kernel's source is missing, and UnreadableFileError."""
    import jinja2  # noqa: PLC0415 (`--help` needs none)

    rows = kernels.rows(project, expansions)
    stale = kernels.stale(rows)
    parts = list(_tuned(project.out))
    content = speeds.read(project.root)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text: str = environment.get_template(TEMPLATE).render(
        version=__version__,
        summary=[*kernels.SUMMARY],
        totals=_totals(rows),
        groups={key: kernels.summary(rows, key) for key in ("target", "module")},
        states={state: state for state in (status.CURRENT, status.STALE, status.FAILED, status.NEVER)},
        stale=stale,
        stale_count=counted(len(stale), "kernel"),
        days=kernels.run_days(rows),
        families=kernels.family_tables(rows, _wins(parts)),
        chart=_chart(content),
        series=_series(content),
        problems=_problems(content),
        rooflines=[_roofline(part) for part in parts],
    )
    return text


def _totals(rows: Sequence[kernels.Row]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for _, *counts in kernels.summary(rows, "module"):
        totals.update(dict(zip(kernels.SUMMARY, map(int, counts), strict=True)))
    return {what: totals[what] for what in kernels.SUMMARY}


def _tuned(generated: Path) -> Iterator[Part]:
    """The tuned files beside the kernels, GPU by GPU."""
    from tilewright.architectures.device import DESCRIBED  # noqa: PLC0415
    from tilewright.base import paths  # noqa: PLC0415
    from tilewright.declarations import catalog  # noqa: PLC0415
    from tilewright.tools.tuning import report  # noqa: PLC0415

    folder = paths.shipped_dir(generated)
    for gpu in DESCRIBED.values():
        files = [paths.tuned_file(folder, gpu.name, family) for family in catalog.names()]
        if present := [path for path in files if path.is_file()]:
            yield from report.parts_of(present, None, gpu)


def _wins(parts: Iterable[Part]) -> Counter[str]:
    """For how many tuned problems each kernel is the fastest."""
    return Counter(point.tactic.partition("@")[0] for part in parts for point in part.points)


def _roofline(part: Part) -> Roofline:
    from tilewright.tools.tuning.points import COLUMNS, ReportError  # noqa: PLC0415

    try:
        picture = part.svg()
    except ReportError:  # the table needs no matplotlib
        picture = ""
    return Roofline(part.title, part.made_with, picture, COLUMNS, [point.cells() for point in part.points])


def _chart(content: Speeds | None) -> str:
    return "" if content is None else speed_chart.chart(content.series, content.title, content.subtitle)


def _series(content: Speeds | None) -> list[list[str]]:
    """A row for each series: what, beside whom, how many problems, mean, worst, the share at 0.95, record."""
    return [
        [
            series.products,
            series.type,
            series.peer,
            str(len(series.problems)),
            f"{series.mean:.3f}",
            f"{series.worst:.3f}",
            f"{sum(speed >= CLOSE for speed in series.speeds) / len(series.problems):.1%}",
            series.record.as_posix(),
            series.note,
        ]
        for series in (content.series if content else ())
    ]


def _problems(content: Speeds | None) -> list[list[Any]]:
    return [
        [series.products, series.type, series.peer, problem.text, f"{problem.speed:.3f}"]
        for series in (content.series if content else ())
        for problem in series.problems
    ]
