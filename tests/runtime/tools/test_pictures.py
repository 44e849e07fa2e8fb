"""Pictures of tuned problems: nothing covers a point, and points of two kinds in one place are told apart."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tilewright.architectures.device import H200
from tilewright.tools.tuning.pictures import _looks, picture
from tilewright.tools.tuning.points import Point

pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'tilewright[report]')")
KINDS = ["bf16 x bf16 -> bf16", "f16 x f16 -> f16", "e4m3 x e4m3 -> bf16"]
PEAKS = [1071e12, 1071e12, 2141e12]


def point(kind: str, peak: float | None, flops: float | None, seconds: float) -> Point:
    return Point("a problem", kind, "a tactic", seconds, flops, 1 << 20, H200.memory_bandwidth, peak)


def drawn(points: list[Point]) -> ElementTree.Element:
    text = picture("a title", points, H200, "svg").decode()
    return ElementTree.fromstring(text.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def element(svg: ElementTree.Element, name: str) -> ElementTree.Element:
    actual = svg.find(f".//g[@id='{name}']")
    assert actual is not None, name
    return actual


def box(group: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the first path: the frame of a panel or of a legend."""
    path = next(group.iter("path"))
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def legends(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in svg.iter("g") if re.fullmatch(r"legend_\d+", group.get("id", ""))]


@pytest.fixture
def products() -> list[Point]:
    kinds = zip(KINDS, PEAKS, strict=True)
    return [point(kind, peak, 1e9 * scale, 5e-6 * scale) for kind, peak in kinds for scale in (1, 10, 100)]


def test_the_one_legend_is_below_all_panels(products: list[Point]) -> None:
    svg = drawn(products)
    (legend,) = legends(svg)
    top = box(legend)[1]
    assert all(box(element(svg, panel))[3] < top for panel in ("axes_1", "axes_2"))
    texts = ["".join(text.itertext()) for text in legend.iter("text")]
    assert texts == KINDS


def test_the_legend_of_a_family_that_does_not_multiply(products: list[Point]) -> None:
    svg = drawn([point(kind, None, None, 1e-6) for kind in KINDS])
    (legend,) = legends(svg)
    assert box(element(svg, "axes_1"))[3] < box(legend)[1]


def test_roofs_are_named_beside_the_panel(products: list[Point]) -> None:
    svg = drawn(products)
    right = box(element(svg, "axes_1"))[2]
    names = [text for text in element(svg, "axes_1").iter("text") if "TFLOP/s" in "".join(text.itertext())]
    roofs = [text for text in names if re.search(r"\d TFLOP/s", "".join(text.itertext()))]
    assert len(roofs) == 2, "the two peaks"
    assert all(_x(text) > right for text in roofs)


def _x(text: ElementTree.Element) -> float:
    place = text.get("x") or re.findall(r"translate\(([\d.]+)", text.get("transform", ""))[0]
    return float(place)


def test_points_are_outlines(products: list[Point]) -> None:
    panel = element(drawn(products), "axes_1")
    collections = [group for group in panel.iter("g") if "PathCollection" in group.get("id", "")]
    assert len(collections) == len(KINDS)
    for collection in collections:
        styles = [element.get("style", "") for element in collection.iter() if element.get("style")]
        assert len(styles) == 3
        assert all("fill: none" in style for style in styles)


def test_kinds_differ_in_shape_and_colour() -> None:
    looks = [*_looks([point(str(number), None, None, 1.0) for number in range(24)]).values()]
    assert len({look["marker"] for look in looks[:8]}) == 8
    assert len({look["edgecolors"] for look in looks[:6]}) == 6
    assert len({(look["marker"], look["edgecolors"]) for look in looks}) == 24
