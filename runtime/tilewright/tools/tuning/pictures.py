"""Pictures of tuned problems against the roofline, as PNG or SVG.

Drawing needs matplotlib, an optional extra: `pip install 'tilewright[report]'`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.tools.tuning.points import Point, ReportError

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by everyone
_MARKERS = "osD^vP"
SOURCE = "tilewright tune --report"  # what a report says it was drawn by


def picture(title: str, points: Sequence[Point], device: DeviceProperties, form: str) -> bytes:
    """Achieved rate over arithmetic intensity, where problems multiply; achieved bandwidth below it."""
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
        products = [point for point in points if point.intensity]
        heights = (3, 2) if products else (2,)
        figure = Figure(figsize=(10, 9 if products else 5), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title)
        *above, bandwidth = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat
        for rate in above:
            _draw_rates(rate, products, device)
        _draw_bandwidth(bandwidth, points, device)
        out = io.BytesIO()
        metadata = {"Source": SOURCE} | ({"Date": None} if form == "svg" else {})
        figure.savefig(out, format=form, dpi=150, metadata=metadata)
        return out.getvalue()


def _groups(points: Sequence[Point]) -> Iterator[tuple[str, list[Point], dict[str, Any]]]:
    """Points of each kind, with how they look."""
    for number, kind in enumerate(dict.fromkeys(point.kind for point in points)):
        look = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number // len(_COLOURS) % len(_MARKERS)],
        }
        yield kind, [point for point in points if point.kind == kind], look


def _draw_rates(axes: Any, points: Sequence[Point], device: DeviceProperties) -> None:
    axes.set(xscale="log", yscale="log", xlabel="FLOP / byte", ylabel="TFLOP/s")
    axes.grid(visible=True, which="both", alpha=0.2)
    intensities = [point.intensity for point in points if point.intensity]
    low, high = min(intensities) / 1.5, max(intensities) * 1.5
    peaks: dict[float, str] = {}
    for kind, some, look in _groups(points):
        rates = [(point.flops or 0) / point.seconds * 1e-12 for point in some]
        axes.scatter([point.intensity for point in some], rates, s=22, alpha=0.8, label=kind, **look)
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
    groups = list(_groups(points))
    for kind, some, look in groups:
        achieved = [point.bytes / point.seconds * 1e-9 for point in some]
        axes.scatter([point.bytes for point in some], achieved, s=22, alpha=0.8, label=kind, **look)
    axes.axhline(device.memory_bandwidth * 1e-9, color="#444444", linewidth=1)
    axes.set_ylim(bottom=0)
    if len(groups) > 1:
        axes.legend(fontsize="small", loc="lower right")
