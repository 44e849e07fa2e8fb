"""What annotations of fields stand for: `tilewright.configurations.value_kinds`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configurations import value_kinds
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.configurations.value_kinds import NO, Bounds, ValueKind

extents = st.integers(1, 999_999)


def only(annotation: Any) -> ValueKind:
    (kind,) = value_kinds.of(annotation)
    return kind


@given(extents, extents, extents)
def test_a_tile_reads_back_as_it_is_written(m: int, n: int, k: int) -> None:
    assert only(Tile).read(str(Tile(m, n, k))) == Tile(m, n, k)


@given(extents, extents)
def test_a_cluster_reads_back_as_it_is_written(m: int, n: int) -> None:
    assert only(Cluster).read(str(Cluster(m, n))) == Cluster(m, n)


@pytest.mark.parametrize(
    "scalar",
    [
        "128x64",
        "128x64x0",
        "128x064x64",
        "128X64X64",
        "128x64x64 ",
        "128x64x64\n",
        "1x1000000x1",
        "x",
        "",
        128,
        None,
    ],
)
def test_what_is_no_tile_is_refused_with_an_example(scalar: object) -> None:
    kind = only(Annotated[Tile, "of a thread block"])
    assert kind.read(scalar) is NO
    expected = "is not a tile; write MxNxK in whole numbers from 1 to 999999, for example 128x256x64"
    assert kind.expected(scalar).endswith(expected)


def test_json_schema_completes_shapes() -> None:
    schema = only(Tile).json_schema()
    assert schema["type"] == "string"
    assert schema["examples"] == ["128x256x64"]


@pytest.mark.parametrize(
    ("annotation", "taken", "refused"),
    [
        (Literal["auto", 1, 2], ["auto", 1, 2], ["Auto", 3, True, 1.0, "1", None]),
        (bool, [True, False], [1, 0, "true", None]),
        (str, ["", "x"], [1, True, None]),
        (Annotated[int, Bounds(4, 12, multiple=4)], [4, 8, 12], [0, 6, 16, -4, True, 8.0, "8", None]),
        (Literal["dynamic"] | Cluster, ["dynamic", "2x1"], ["Dynamic", "2", 2, "2x1x1"]),
        (Literal["auto"] | Annotated[int, Bounds(2, 3)], ["auto", 2, 3], [1, 4, "2", "", False]),
    ],
)
def test_a_scalar_is_a_value_by_its_type_too(
    annotation: Any, taken: list[object], refused: list[object]
) -> None:
    of = value_kinds.of(annotation)

    def found(scalar: object) -> list[Any]:
        return [value for kind in of if (value := kind.read(scalar)) is not NO]

    for scalar in taken:
        (value,) = found(scalar)
        assert (value, type(value)) == (scalar, type(scalar)) or str(value) == scalar
    assert [scalar for scalar in refused if found(scalar)] == []


@pytest.mark.parametrize(
    ("scalar", "wanted"),
    [
        (6, "a multiple of 4"),
        (0, "greater than or equal to 4"),
        (16, "less than or equal to 12"),
        ("8", "a valid integer"),
        (True, "a valid integer"),
        (8, ""),
    ],
)
def test_what_is_wrong_with_a_number_is_said(scalar: object, wanted: str) -> None:
    assert only(Annotated[int, Bounds(4, 12, multiple=4), "threads"]).expected(scalar) == wanted


@pytest.mark.parametrize(
    "annotation",
    [int, float, list[int], Annotated[str, Bounds(1, 2)], Annotated[int, range(3)], Literal["a"] | float],
)
def test_an_annotation_that_is_not_known_is_refused(annotation: Any) -> None:
    with pytest.raises(TypeError, match="a field has no values of"):
        value_kinds.of(annotation)
