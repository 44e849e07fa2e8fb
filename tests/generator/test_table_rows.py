"""Rows of table.json, as the generator writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import tiny_family

from tilewright.configurations.shapes import Tile
from tilewright_generator import table
from tilewright_generator.errors import InternalError
from tilewright_generator.expand import Kernel


def line(**build: Any) -> str:
    config = tiny_family.TinyConfig("sm_90a", "bf16", Tile(64, 64, 64))
    family = replace(tiny_family.FAMILY, build=lambda config: {**tiny_family.build(config), **build})
    kernel = Kernel("one", config, None)  # type: ignore[arg-type] # no part of a row
    return table.record(family, kernel, family.build(kernel.config), f"{kernel.name}.cu", "0" * 64)


def test_the_cutlass_release_is_written_where_one_is_needed() -> None:
    assert '"cutlass"' not in line()
    assert line(cutlass="4.5") == line().replace('"config"', '"cutlass": "4.5", "config"')
    assert json.loads(line(cutlass="4.5.1"))["cutlass"] == "4.5.1"


@pytest.mark.parametrize("release", ["", "4", "v4.5", "4.5 or newer"])
def test_a_family_that_names_no_release_is_at_fault(release: str) -> None:
    with pytest.raises(InternalError, match="is not a CUTLASS release"):
        line(cutlass=release)
