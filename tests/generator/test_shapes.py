from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tilewright_generator.shapes import Cluster, Tile

extents = st.integers(1, 999_999)


@given(extents, extents, extents)
def test_a_tile_reads_back_as_it_is_written(m: int, n: int, k: int) -> None:
    assert TypeAdapter(Tile).validate_python(str(Tile(m, n, k)), strict=True) == Tile(m, n, k)


@given(extents, extents)
def test_a_cluster_reads_back_as_it_is_written(m: int, n: int) -> None:
    assert TypeAdapter(Cluster).validate_python(str(Cluster(m, n)), strict=True) == Cluster(m, n)


@pytest.mark.parametrize(
    "given", ["128x64", "128x64x0", "128x064x64", "128X64X64", "128x64x64 ", "x", "", 128, None]
)
def test_what_is_no_tile_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(ValidationError, match=r"is not a tile; write MxNxK .* for example 128x256x64"):
        TypeAdapter(Tile).validate_python(given)


def test_json_schema_completes_shapes() -> None:
    schema = TypeAdapter(Tile).json_schema()
    assert schema["type"] == "string"
    assert schema["examples"] == ["128x256x64"]
