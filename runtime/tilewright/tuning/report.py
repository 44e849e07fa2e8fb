"""Draws tuned times against the roofline, and lists them: PNG, SVG, or a page with both. Needs no GPU.

Drawing needs matplotlib, an optional extra: `pip install 'tilewright[report]'`.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.device import DESCRIBED, DeviceProperties
from tilewright.errors import ArgumentError, TilewrightError
from tilewright.tuning import files

if TYPE_CHECKING:
    from tilewright.ops.common.family import Family

FORMATS = (".html", ".png", ".svg")
_COLUMNS = (
    "problem", "tactic", "us", "TFLOP/s", "GB/s", "FLOP/byte", "bound by", "share of the roof",
)  # fmt: skip
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by everyone
_MARKERS = "osD^vP"


class ReportError(TilewrightError):
    """A report cannot be drawn: matplotlib is missing, or there is nothing to draw."""

    exit_code = 2


@dataclass(frozen=True)
class Point:
    """A tuned problem beside what the GPU could do. Rates are a second."""

    problem: Any
    kind: str  # for a legend
    tactic: str
    seconds: float
    flops: float | None  # of the whole problem; None where the family does not multiply
    bytes: int
    bandwidth: float  # that the memory is rated at
    peak: float | None  # that the multipliers are rated at

    @property
    def intensity(self) -> float | None:
        """Operations to a byte."""
        return None if self.flops is None else self.flops / self.bytes

    @property
    def roof_seconds(self) -> float:
        """That the problem takes at least."""
        return max(self.bytes / self.bandwidth, self.flops / self.peak if self.flops and self.peak else 0.0)

    @property
    def bound(self) -> str:
        return "memory" if self.roof_seconds == self.bytes / self.bandwidth else "math"

    def cells(self) -> list[str]:
        """In the order of the table's columns."""
        rate = "-" if self.flops is None else f"{self.flops / self.seconds * 1e-12:.1f}"
        intensity = "-" if self.intensity is None else f"{self.intensity:.1f}"
        return [
            str(self.problem),
            self.tactic,
            f"{self.seconds * 1e6:.2f}",
            rate,
            f"{self.bytes / self.seconds * 1e-9:.0f}",
            intensity,
            self.bound,
            f"{self.roof_seconds / self.seconds:.1%}",
        ]


def draw(target: Path, sources: Sequence[Path], family: Family[Any], device: DeviceProperties | None) -> int:
    """Writes a report of tuned files and answers how many problems are in it; an image also writes its table
    beside it, as Markdown. Of two entries for one problem the first counts.

    `device` says what roofs are, where it is the GPU of the files; else a description of that GPU does.

    Raises ArgumentError for another kind of file, ReportError, FileNotFoundError, TunedFileError.
    """
    if target.suffix not in FORMATS:
        raise ArgumentError("--report", f"{target}: one of {', '.join(FORMATS)} is wanted")
    read = [files.read(source) for source in sources]
    gpus = sorted({file.header.gpu for file in read})
    if len(gpus) > 1:
        raise ReportError(f"these files are of several GPUs: {', '.join(gpus)}")
    gpu = _device(gpus[0], device)
    points = list(_points(read, family, gpu))
    if not points:
        raise ReportError(f"there is nothing tuned of {family.name} in {', '.join(map(str, sources))}")
    title = f"{family.name} on {gpu.name}, tuned"
    if target.suffix == ".html":
        target.write_text(_page(title, read, points, gpu), encoding="utf-8", newline="\n")
    else:
        target.write_bytes(_picture(title, points, gpu, target.suffix[1:]))
        table = target.with_suffix(".md")
        table.write_text(f"# {title}\n\n{markdown(points)}", encoding="utf-8", newline="\n")
    return len(points)


def markdown(points: Sequence[Point]) -> str:
    """The table."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *(one.cells() for one in points)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _device(name: str, device: DeviceProperties | None) -> DeviceProperties:
    known = [one for one in (device, *DESCRIBED.values()) if one is not None and one.name == name]
    if not known:
        raise ReportError(
            f"the files are of {name}, whose bandwidth and rates are not known here",
            hint="Draw on a machine that has one.",
        )
    return known[0]


def _points(
    read: Sequence[files.TunedFile], family: Family[Any], device: DeviceProperties
) -> Iterator[Point]:
    """By kind, then as they stand in the files: m last."""
    seen = set()
    sections = [section for file in read if file.family == family.name for section in file.sections]
    for section in sections:
        for row in section.rows:
            extents = {name: row[name] for name in family.extents}
            try:
                problem = family.problem(**section.kind, **extents)
            except TypeError:  # a field that problems no longer have
                continue
            if problem not in seen:
                seen.add(problem)
                yield Point(
                    problem,
                    _kind(family, problem),
                    row["tactic"],
                    row["seconds"],
                    getattr(problem, "flops", None),
                    problem.bytes,
                    device.memory_bandwidth,
                    None if family.peak is None else family.peak(problem.kind, device),
                )


def _kind(family: Family[Any], problem: Any) -> str:
    """The problem's own words without its extents."""
    return str(problem).removeprefix(f"{family.name} ").partition(" ")[2]


def _page(
    title: str, read: Sequence[files.TunedFile], points: Sequence[Point], device: DeviceProperties
) -> str:
    """One file that needs no other: the picture is in it as SVG."""
    svg = _picture(title, points, device, "svg").decode()
    svg = svg[svg.index("<svg") :]
    header = read[0].header
    made_with = f"driver {header.driver}, CUDA {header.cuda}, CUTLASS {header.cutlass}"
    head = "".join(f"<th>{html.escape(one)}</th>" for one in _COLUMNS)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in one.cells()) + "</tr>" for one in points
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
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
<h1>{html.escape(title)}</h1>
<p>{len(points)} problems; {html.escape(made_with)}. Operands that L2 does not hold. Bytes are each matrix
once; roofs are the memory's rated bandwidth and the tensor cores' published rate at the highest clock.</p>
{svg}
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def _picture(title: str, points: Sequence[Point], device: DeviceProperties, form: str) -> bytes:
    """Achieved rate over arithmetic intensity, and achieved bandwidth below it."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415 (an optional extra)
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise ReportError(
            "a report is drawn with matplotlib, which is not installed",
            hint="Install it with: pip install 'tilewright[report]'",
        ) from None
    # No date and fixed ids: the same numbers make the same file.
    with rc_context({"svg.hashsalt": "tilewright", "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 9), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title)
        rate, bandwidth = figure.subplots(2, 1, height_ratios=(3, 2))
        _draw_rates(rate, [one for one in points if one.intensity], device)
        _draw_bandwidth(bandwidth, points, device)
        out = io.BytesIO()
        figure.savefig(out, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
        return out.getvalue()


def _groups(points: Sequence[Point]) -> Iterator[tuple[str, list[Point], dict[str, Any]]]:
    """Points of each kind, with how they look."""
    for number, kind in enumerate(dict.fromkeys(one.kind for one in points)):
        look = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number // len(_COLOURS) % len(_MARKERS)],
        }
        yield kind, [one for one in points if one.kind == kind], look


def _draw_rates(axes: Any, points: Sequence[Point], device: DeviceProperties) -> None:
    axes.set(xscale="log", yscale="log", xlabel="FLOP / byte", ylabel="TFLOP/s")
    axes.grid(visible=True, which="both", alpha=0.2)
    if not points:
        axes.text(0.5, 0.5, "these problems have no multiplications", ha="center", transform=axes.transAxes)
        return
    intensities = [one.intensity for one in points if one.intensity]
    low, high = min(intensities) / 1.5, max(intensities) * 1.5
    peaks: dict[float, str] = {}
    for kind, some, look in _groups(points):
        rates = [(one.flops or 0) / one.seconds * 1e-12 for one in some]
        axes.scatter([one.intensity for one in some], rates, s=22, alpha=0.8, label=kind, **look)
        if some[0].peak:
            peaks.setdefault(some[0].peak, some[0].kind.partition(" ->")[0])
    for peak, kind in peaks.items():
        ridge = peak / device.memory_bandwidth
        axes.plot([min(low, ridge), ridge, max(high, ridge)], [
            min(low, ridge) * device.memory_bandwidth * 1e-12, peak * 1e-12, peak * 1e-12,
        ], color="#444444", linewidth=1)  # fmt: skip
        axes.annotate(
            f"{kind}: {peak * 1e-12:.0f} TFLOP/s", (max(high, ridge), peak * 1e-12), ha="right", va="bottom"
        )
    if peaks:  # above the middle of the slope, where nothing can be
        middle = math.sqrt(low * min(peaks) / device.memory_bandwidth)
        axes.annotate(
            f"memory: {device.memory_bandwidth * 1e-12:.2f} TB/s ",
            (middle, middle * device.memory_bandwidth * 1e-12), ha="right", va="bottom",
        )  # fmt: skip
    axes.legend(fontsize="small", loc="lower right")


def _draw_bandwidth(axes: Any, points: Sequence[Point], device: DeviceProperties) -> None:
    axes.set(xscale="log", xlabel="bytes that memory must move", ylabel="GB/s")
    axes.grid(visible=True, which="both", alpha=0.2)
    for kind, some, look in _groups(points):
        achieved = [one.bytes / one.seconds * 1e-9 for one in some]
        axes.scatter([one.bytes for one in some], achieved, s=22, alpha=0.8, label=kind, **look)
    axes.axhline(device.memory_bandwidth * 1e-9, color="#444444", linewidth=1)
    axes.set_ylim(bottom=0)
