"""Pictures of tuned problems against the roofline, as PNG or SVG.

Drawing needs matplotlib, an optional extra: `pip install 'tilewright[report]'`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.tools.tuning.points import Point, ReportError

# Distinct for colour-blind readers.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKERS = "osD^vPXp"  # one for each kind, so that points in one place are distinct
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
        looks = _looks(points)
        figure = Figure(figsize=(10, (9 if products else 5) + len(looks) / 8), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title)
        *above, bandwidth = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat
        for rate in above:
            _draw_rates(rate, products, device, looks)
        _draw_bandwidth(bandwidth, points, device, looks)
        # Below both panels, where it covers no point.
        figure.legend(
            *bandwidth.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small"
        )
        out = io.BytesIO()
        metadata = {"Source": SOURCE} | ({"Date": None} if form == "svg" else {})
        figure.savefig(out, format=form, dpi=150, metadata=metadata)
        return out.getvalue()


def _looks(points: Sequence[Point]) -> dict[str, dict[str, Any]]:
    """How the points of each kind look: outlines, which do not hide the points below them."""
    return {
        kind: {
            "marker": _MARKERS[number % len(_MARKERS)],
            "edgecolors": _COLOURS[number % len(_COLOURS)],
            "facecolors": "none",
            "linewidths": 1,
            "s": 24,
        }
        for number, kind in enumerate(dict.fromkeys(point.kind for point in points))
    }


def _draw_rates(
    axes: Any, points: Sequence[Point], device: DeviceProperties, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    axes.set(xscale="log", yscale="log", xlabel="FLOP / byte", ylabel="TFLOP/s")
    axes.grid(visible=True, which="both", alpha=0.2)
    intensities = [point.intensity for point in points if point.intensity]
    low, high = min(intensities) / 1.5, max(intensities) * 1.5
    peaks: dict[float, str] = {}
    for kind, look in looks.items():
        some = [point for point in points if point.kind == kind]
        rates = [(point.flops or 0) / point.seconds * 1e-12 for point in some]
        axes.scatter([point.intensity for point in some], rates, label=kind, **look)
        if some and some[0].peak:
            peaks.setdefault(some[0].peak, kind.partition(" ->")[0])
    for peak, kind in peaks.items():
        ridge = peak / device.memory_bandwidth
        axes.plot([min(low, ridge), ridge, max(high, ridge)], [
            min(low, ridge) * device.memory_bandwidth * 1e-12, peak * 1e-12, peak * 1e-12,
        ], color="#444444", linewidth=1)  # fmt: skip
        axes.annotate(  # beside the panel, where no point is
            f"{kind}\n{peak * 1e-12:.0f} TFLOP/s", (1, peak * 1e-12), xycoords=axes.get_yaxis_transform(),
            xytext=(5, 0), textcoords="offset points", ha="left", va="center", fontsize="small",
        )  # fmt: skip
    if peaks:  # above the middle of the slope, where nothing can be
        middle = math.sqrt(low * min(peaks) / device.memory_bandwidth)
        axes.annotate(
            f"memory: {device.memory_bandwidth * 1e-12:.2f} TB/s ",
            (middle, middle * device.memory_bandwidth * 1e-12), ha="right", va="bottom",
        )  # fmt: skip


def _draw_bandwidth(
    axes: Any, points: Sequence[Point], device: DeviceProperties, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    axes.set(xscale="log", xlabel="bytes that memory must move", ylabel="GB/s")
    axes.grid(visible=True, which="both", alpha=0.2)
    for kind, look in looks.items():
        some = [point for point in points if point.kind == kind]
        achieved = [point.bytes / point.seconds * 1e-9 for point in some]
        axes.scatter([point.bytes for point in some], achieved, label=kind, **look)
    axes.axhline(device.memory_bandwidth * 1e-9, color="#444444", linewidth=1)
    axes.set_ylim(bottom=0)
