"""The chart of speeds: a row for each series, a dot for each problem, as SVG that reads on light and on dark.

The text is the same on every machine, so that the chart can be committed and compared.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from tilewright_generator.reports.speeds import Series

_WIDTH = 960  # of the chart, in pixels, as all lengths here
_LEFT, _RIGHT = 284, 742  # the ends of the axis
_COLUMNS = {"problems": 806, "mean": 866, "worst": 926}  # right ends of the columns behind it
_TOP = 62
_ROW, _HEAD = 38, 34  # heights of a row, and of a peer's head
_STEP = 3.4  # of a dot's place on the axis; the largest distance between dots of one place
_ROOM = 16  # above and below a row's middle
_TICKS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.25)
_SLOWEST, _FASTEST = _TICKS[0], _TICKS[-1]  # ends of the logarithmic axis; dots outside are drawn there

_STYLE = """
.tw-chart {
  --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --dot: #0969da; --slow: #bc4c00;
}
@media (prefers-color-scheme: dark) {
  .tw-chart {
    --paper: #0d1117; --ink: #f0f6fc; --faint: #9198a1; --line: #3d444d; --dot: #4493f8; --slow: #f0883e;
  }
}
.tw-chart text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink); }
.tw-chart .title { font-size: 16px; font-weight: 600; }
.tw-chart .head { font-weight: 600; }
.tw-chart .faint { fill: var(--faint); font-size: 12px; }
.tw-chart .number { text-anchor: end; font-variant-numeric: tabular-nums; }
.tw-chart .grid { stroke: var(--line); fill: none; }
.tw-chart .even { stroke: var(--faint); stroke-width: 1.5; }
.tw-chart .dots { stroke-width: 4; stroke-linecap: round; stroke: var(--dot); }
.tw-chart .slow { stroke: var(--slow); }
.tw-chart .mean { stroke: var(--ink); stroke-width: 2; }
""".strip()


def chart(series: Sequence[Series], title: str, subtitle: str) -> str:
    """The chart of these series, grouped by peer in the order in which they come."""
    body: list[str] = []
    y = float(_TOP)
    for peer, rows in groupby(series, key=lambda row: row.peer):
        body.append(_text(24, y + 22, f"Beside {peer}", "head"))
        y += _HEAD
        for row in rows:
            body += _row(row, y + _ROW / 2)
            y += _ROW
    bottom = y + 6
    height = bottom + 44
    lines = [
        f'<svg class="tw-chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" '
        f'width="{_WIDTH}" height="{height:g}" role="img" aria-label="{html.escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height:g}" rx="8" fill="var(--paper)"/>',
        _text(24, 30, title, "title"),
        _text(24, 50, subtitle, "faint"),
        *(_text(x, 50, name, "faint number") for name, x in _COLUMNS.items()),
        *_axis(bottom),
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _axis(bottom: float) -> Iterator[str]:
    for tick in _TICKS:
        kind = "even" if tick == 1 else "grid"
        yield f'<path class="{kind}" d="M{_x(tick):.1f} {_TOP}V{bottom:g}"/>'
        yield _text(_x(tick), bottom + 16, f"{tick:g}", "faint", "middle")
    yield _text(_x(1.0) - 6, bottom + 34, "the peer is faster", "faint", "end")
    yield _text(_x(1.0) + 6, bottom + 34, "ours is faster: the peer's time over ours", "faint", "start")


def _row(row: Series, middle: float) -> Iterator[str]:
    baseline = middle + 4.5
    yield _text(24, baseline, f"{row.products}, {row.type}")
    places = list(_swarm(row.speeds))
    for kind, some in (
        ("dots", [(x, dy) for x, dy, speed in places if speed >= 1]),
        ("dots slow", [(x, dy) for x, dy, speed in places if speed < 1]),
    ):
        if some:
            path = "".join(f"M{x:.1f} {middle + dy:.1f}h0" for x, dy in some)
            yield f'<path class="{kind}" d="{path}"/>'
    mean = _x(row.mean)
    yield f'<path class="mean" d="M{mean:.1f} {middle - _ROOM:g}v{2 * _ROOM}"/>'
    yield _text(_COLUMNS["problems"], baseline, str(len(row.problems)), "number")
    yield _text(_COLUMNS["mean"], baseline, f"{row.mean:.2f}", "head number")
    yield _text(_COLUMNS["worst"], baseline, f"{row.worst:.2f}", "number")


def _swarm(speeds: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    """For each speed: x, the distance from the row's middle, and the speed.

    Dots of one place on the axis stand above and below one another, closer together where they are many, so
    that none covers another whole. No place holds speeds of both sides of 1.
    """
    places = [math.floor((_x(speed) - _x(1.0)) / _STEP) for speed in speeds]
    step = min(_STEP, _ROOM / (max(Counter(places).values()) / 2))
    taken: Counter[int] = Counter()
    for place, speed in zip(places, speeds, strict=True):
        level = (taken[place] + 1) // 2 * (1 if taken[place] % 2 else -1)
        yield _x(1.0) + (place + 0.5) * _STEP, level * step, speed
        taken[place] += 1


def _x(speed: float) -> float:
    """The place of a speed on the axis."""
    within = min(max(speed, _SLOWEST), _FASTEST)
    share = math.log(within / _SLOWEST) / math.log(_FASTEST / _SLOWEST)
    return _LEFT + share * (_RIGHT - _LEFT)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:g}"{attributes}>{html.escape(text)}</text>'
