"""A report of tuned files: a page with a picture and a table of each family, or a PNG or SVG of one.

Needs no GPU. Drawing needs matplotlib, an optional extra: `pip install 'tilewright[report]'`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.architectures.device import DESCRIBED, DeviceProperties
from tilewright.errors import ArgumentError
from tilewright.selection import tuned_files
from tilewright.tools.tuning import tuned_writing
from tilewright.tools.tuning.pictures import SOURCE, picture
from tilewright.tools.tuning.points import COLUMNS, Point, ReportError, points

if TYPE_CHECKING:
    from tilewright.selection.family import Family

FORMATS = (".html", ".png", ".svg")
# The text at the beginning of a report's files: a page, an image, a table.
MARK = re.compile(rb"tilewright tune --report|" + re.escape(" | ".join(COLUMNS).encode()))


@dataclass(frozen=True)
class Part:
    """The part of a report about one family."""

    family: str
    sources: list[Path]
    points: list[Point]
    made_with: str
    gpu: DeviceProperties

    @property
    def title(self) -> str:
        return f"{self.family} on {self.gpu.name}, tuned"

    def svg(self) -> str:
        """The picture, as an element of a page. Raises ReportError without matplotlib."""
        svg = picture(self.title, self.points, self.gpu, "svg").decode()
        return svg[svg.index("<svg") :]


@dataclass(frozen=True)
class Report:
    """A report, and the content of the files that it is made of."""

    parts: list[Part]
    files: dict[Path, bytes]


def draw(
    target: Path, sources: Sequence[Path], family: Family[Any] | None, device: DeviceProperties | None
) -> Report:
    """Draws tuned files, family by family (`family` alone, where it is given), and writes nothing.

    An image holds one family, and its table is a file of its own, as Markdown (`table_of`).

    The roofs are those of `device` if it is the GPU of the files, else those of the GPU's description.

    Raises ArgumentError for another kind of file, ReportError, FileNotFoundError, TunedFileError.
    """
    table = table_of(target)
    parts = parts_of(sources, family, device)
    if target.suffix == ".html":
        return Report(parts, {target: _page(parts).encode()})
    if len(parts) > 1:
        raise ReportError(
            f"{target}: an image holds one family, and these files are of "
            f"{', '.join(part.family for part in parts)}",
            hint="--family says which of them; a report in HTML holds all.",
        )
    (part,) = parts
    image = picture(part.title, part.points, part.gpu, target.suffix[1:])
    assert table is not None
    return Report(parts, {target: image, table: f"# {part.title}\n\n{markdown(part.points)}".encode()})


def parts_of(
    sources: Sequence[Path], family: Family[Any] | None, device: DeviceProperties | None
) -> list[Part]:
    """The parts of tuned files that hold a problem, by family. Raises as `draw`."""
    read = [(source, tuned_files.read(source)) for source in sources]
    gpus = sorted({file.header.gpu for _, file in read})
    if len(gpus) > 1:
        raise ReportError(f"these files are of several GPUs: {', '.join(gpus)}")
    gpu = _device(gpus[0], device)
    parts = [part for part in _parts(read, family, gpu) if part.points]
    if not parts:
        of_family = "" if family is None else f" of {family.name}"
        raise ReportError(f"there is nothing tuned{of_family} in {', '.join(map(str, sources))}")
    return parts


def table_of(target: Path) -> Path | None:
    """The path of the table beside an image; None for a page, which holds its tables. Raises ArgumentError if
    no report has this suffix.

    Raises ArgumentError where no report is of this kind.
    """
    if target.suffix not in FORMATS:
        raise ArgumentError("--report", f"{target}: expected one of {', '.join(FORMATS)}")
    return None if target.suffix == ".html" else target.with_suffix(".md")


def markdown(points: Sequence[Point]) -> str:
    """The table."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(point.cells() for point in points)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _device(name: str, device: DeviceProperties | None) -> DeviceProperties:
    devices = [
        candidate
        for candidate in (device, *DESCRIBED.values())
        if candidate is not None and candidate.name == name
    ]
    if not devices:
        raise ReportError(
            f"the files are of {name}, whose bandwidth and rates are not known here",
            hint="Draw on a machine that has one.",
        )
    return devices[0]


def _parts(
    read: Sequence[tuple[Path, tuned_files.TunedFile]], only: Family[Any] | None, gpu: DeviceProperties
) -> Iterator[Part]:
    """The parts of a report, in the order in which the files first name the families."""
    for name in dict.fromkeys(file.family for _, file in read if only is None or file.family == only.name):
        named = [(source, file) for source, file in read if file.family == name]
        family = only or tuned_writing.family_of(*named[0])
        header = named[0][1].header
        made_with = f"driver {header.driver}, CUDA {header.cuda}, CUTLASS {header.cutlass}"
        all_points = list(points([file for _, file in named], family, gpu))
        yield Part(name, [source for source, _ in named], all_points, made_with, gpu)


def _page(parts: Sequence[Part]) -> str:
    """One file that needs no other: the pictures are in it as SVG."""
    sections = "\n".join(map(_section, parts))
    title = parts[0].title if len(parts) == 1 else f"{parts[0].gpu.name}, tuned"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="{SOURCE}">
<title>{html.escape(title)}</title>
<style>
body {{ font: 14px/1.4 sans-serif; margin: 2em; }}
svg {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 2px 10px; text-align: right; white-space: nowrap; }}
th {{ border-bottom: 1px solid #888; }}
td:nth-child(-n+2) {{ text-align: left; font-family: monospace; font-size: 12px; }}
tr:nth-child(even) {{ background: #f4f4f4; }}
</style>
</head>
<body>
{sections}
</body>
</html>
"""


def _section(part: Part) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in COLUMNS)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in point.cells()) + "</tr>"
        for point in part.points
    )
    return f"""<section>
<h1>{html.escape(part.title)}</h1>
<p>{len(part.points)} problems; {html.escape(part.made_with)}. Operands that L2 does not hold. Bytes are each
matrix once; roofs are the memory's rated bandwidth and the tensor cores' published rate at the highest
clock.</p>
{part.svg()}
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</section>"""
