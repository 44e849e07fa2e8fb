from __future__ import annotations

from typing import Any

import pytest

from tilewright_generator.errors import UsageError
from tilewright_generator.filters import Filter, why_nothing
from tilewright_generator.shapes import Tile

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
        (["tile=64x*"], False),
        (["fast=true", "stages=auto"], True),
        (["fast=false"], False),
        (["*coop*,*pingpong*"], True),
    ],
)
def test_every_term_must_hold(terms: list[str], expected: bool) -> None:
    assert matches(*terms) is expected


def test_a_tables_list_is_a_shape_too() -> None:
    assert matches("tile=128x256x64", tile=[128, 256, 64])


def test_a_kernel_without_the_field_meets_no_term_on_it() -> None:
    assert not Filter.parse(["fast=*"], KNOWN).matches("name", {}.__getitem__)


def test_a_second_field_in_a_value_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="a value holds no '='; repeat --filter for each field"):
        Filter.parse(["fast=true,stages=auto"], KNOWN)


def test_a_filter_that_matches_nothing_says_what_there_is() -> None:
    values = {"tile": [Tile(64, n, 64) for n in range(8, 208, 8)], "fast": [True, False]}

    def why(*terms: str) -> str:
        return why_nothing(terms, ["tiny_coop", "tiny_pingpong"], lambda field: values[field])

    assert why("fast=yes", "*coop") == "; fast is one of: false, true"
    assert why("tile=1x1x1").endswith(", and 13 more")
    assert why("ping") == "; did you mean '*ping*'?"
    assert why("ping*", "none", "tiny_coop", "fast=true") == ""


def test_an_unknown_field_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no field 'tiel'; did you mean 'tile'"):
        Filter.parse(["tiel=1"], KNOWN)
    with pytest.raises(UsageError, match="no field 'xyz'; there are: fast, stages, tile"):
        Filter.parse(["xyz=1"], KNOWN)
