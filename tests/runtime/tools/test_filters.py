from __future__ import annotations

from typing import Any

import pytest

from tilewright.configurations.shapes import Tile
from tilewright.errors import ArgumentError
from tilewright.libraries.registry import Registry
from tilewright.tools.filters import Filter, fields_of, why_nothing

KNOWN = ("tile", "fast", "stages")


def matches(*terms: str, name: str = "tiny_bf16_coop", **fields: Any) -> bool:
    values = {"tile": Tile(128, 256, 64), "fast": True, "stages": "auto"} | fields
    return Filter.parse(terms, KNOWN).matches(name, values.__getitem__)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], True),
        (["*coop"], True),
        (["coop"], False),
        (["*bf16*", "*coop*"], True),
        (["*bf16*", "*pingpong*"], False),
        (["tile=128x256x64"], True),
        (["tile=128x*"], True),
        (["tile=64x*,128x*"], True),
        (["tile=64x*, 128x*"], True),
        (["tile=64x*"], False),
        (["fast=true", "stages=auto"], True),
        (["fast=false"], False),
        (["*coop*,*pingpong*"], True),
        (["~*pingpong*"], True),
        (["~*coop"], False),
        (["~tile=64x*,32x*"], True),
        (["~tile=64x*,128x*"], False),
        (["~fast=false", "*coop"], True),
        (["m_tile=128", "n_tile=256", "k_tile=64"], True),
        (["k_tile=6"], False),
        (["k_tile=6*,128"], True),
        (["~k_tile=768"], True),
        (["~n_tile=256"], False),
    ],
)
def test_every_term_must_hold(terms: list[str], expected: bool) -> None:
    assert matches(*terms) is expected


def test_the_compiler_is_a_field_of_every_kernel() -> None:
    compilers = {record.name: fields_of(record)["compiler"] for record in Registry().kernels("gemm")}
    assert compilers["gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_1x1_cute_dsl_coop"] == "cute_dsl"
    assert set(compilers.values()) == {"nvcc", "cute_dsl"}


def test_a_tables_list_is_a_shape_too() -> None:
    assert matches("tile=128x256x64", tile=[128, 256, 64])
    assert matches("k_tile=64", tile=[128, 256, 64])
    assert not matches("m_tile=64", tile=[128, 256, 64])


@pytest.mark.parametrize(
    ("term", "met"),
    [
        ("arch=sm103", ["sm_103a", "sm_103f", "sm_103"]),
        ("arch=sm_103", ["sm_103a", "sm_103f", "sm_103"]),
        ("arch=sm103a", ["sm_103a"]),
        ("arch=sm_100f", ["sm_100f"]),
        ("arch=sm10", []),
        ("arch=sm_10*", ["sm_100f", "sm_103a", "sm_103f", "sm_103"]),
        ("arch=sm90,sm_120f", ["sm_90a", "sm_120f"]),
        ("~arch=sm103", ["sm_90a", "sm_100f", "sm_120f"]),
    ],
)
def test_an_architecture_without_its_last_letter(term: str, met: list[str]) -> None:
    archs = ["sm_90a", "sm_100f", "sm_103a", "sm_103f", "sm_103", "sm_120f"]
    only = Filter.parse([term], ["arch"])
    assert [arch for arch in archs if only.matches("name", {"arch": arch}.__getitem__)] == met


def test_a_kernel_without_the_field_meets_no_term_on_it() -> None:
    for term in ("fast=*", "k_tile=*"):
        assert not Filter.parse([term], KNOWN).matches("name", {}.__getitem__)
        assert Filter.parse([f"~{term}"], KNOWN).matches("name", {}.__getitem__)


def test_a_tiles_sides_are_fields_only_where_there_is_a_tile() -> None:
    with pytest.raises(ArgumentError, match="no field 'k_tile'; there are: stages"):
        Filter.parse(["k_tile=64"], ["stages"])


def test_a_second_field_in_a_value_is_a_usage_error() -> None:
    with pytest.raises(ArgumentError, match="a value holds no '='; repeat --filter for each field"):
        Filter.parse(["fast=true,stages=auto"], KNOWN)


def test_a_filter_that_matches_nothing_says_what_there_is() -> None:
    values = {
        "tile": [Tile(64, n, 64) for n in range(8, 208, 8)], "fast": [True, False], "a": ["bf16", "e4m3"]
    }  # fmt: skip

    def why(*terms: str) -> str:
        return why_nothing(terms, ["tiny_coop", "tiny_pingpong"], lambda field: values[field])

    assert why("fast=yes", "*coop") == "; fast is one of: false, true"
    assert why("a=fp8") == "; a is one of: bf16, e4m3; did you mean 'e4m3'?"
    assert why("tile=1x1x1").endswith(", and 13 more")
    assert why("ping") == "; did you mean '*ping*'?"
    assert why("*_ping") == why("_ping*") == "; did you mean '*_ping*'?"
    assert why("zong*", "none", "tiny_coop", "fast=true", "~fast=true") == ""
    assert why("n_tile=7") == (
        "; n_tile is one of: 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, and 13 more"
    )
    assert why("k_tile=64", "~nothing") == ""


def test_an_unknown_field_is_a_usage_error() -> None:
    with pytest.raises(ArgumentError, match="no field 'tiel'; did you mean 'tile'"):
        Filter.parse(["tiel=1"], KNOWN)
    with pytest.raises(ArgumentError, match="no field 'k_tiel'; did you mean 'k_tile'"):
        Filter.parse(["~k_tiel=1"], KNOWN)
    with pytest.raises(
        ArgumentError, match="no field 'xyz'; there are: fast, k_tile, m_tile, n_tile, stages"
    ):
        Filter.parse(["xyz=1"], KNOWN)
