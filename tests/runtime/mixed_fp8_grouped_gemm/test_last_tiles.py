"""The last tile of an expert, which may have few rows of activations, in the cost model."""

from __future__ import annotations

import pytest

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_fp8_gemm import cost as dense
from tilewright.families.mixed_fp8_grouped_gemm.cost import columns_for, tiles_of
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.libraries.registry import Registry

RECORDS = {record.name: record for record in Registry().route("mixed_fp8_grouped_gemm", H200)}
INT4, MXFP4 = "int4_g128_bf16_128x{}x128_parts_in_turn", "mxfp4_bf16_128x{}x128_fastacc_quick"


def record(name: str) -> KernelRecord:
    return RECORDS[f"mixed_fp8_grouped_gemm_sm90_e4m3_{name}"]


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        (INT4.format(256), 64, 64), (INT4.format(256), 65, 128), (INT4.format(256), 129, 256),
        (INT4.format(224), 48, 48), (INT4.format(224), 112, 112), (INT4.format(224), 113, 224),
        (INT4.format(160), 64, 64), (INT4.format(160), 65, 160), (INT4.format(80), 32, 32),
        (MXFP4.format(256), 128, 128), (MXFP4.format(256), 129, 256), (MXFP4.format(160), 64, 64),
        ("int4_g128_bf16_128x192x128", 1, 192),
    ],
)  # fmt: skip
def test_columns_of_a_tile_with_few_rows(name: str, rows: int, columns: int) -> None:
    """As PartsInTurnMainloop and QuickFastMainloop choose them."""
    assert columns_for(record(name), rows) == columns


def test_tiles_where_rows_fall_to_groups_at_random() -> None:
    """1,024 rows are four tiles of 256; as often some more, which take the time of few columns."""
    kernel = record(INT4.format(256))
    problem = Problem(128 * 1024, 4096, 2048, 128, a_scale=True)
    tiles = tiles_of(kernel, problem)
    whole, few = dense.unit_clocks(kernel, problem.of_group), dense.unit_clocks(kernel, problem.of_group, 64)
    assert tiles.across == 128 * 4.5
    assert tiles.of_unit == pytest.approx((4 * whole + 0.5 * few) / 4.5)


def test_indexed_rows_have_whole_tiles() -> None:
    kernel = record(INT4.format(256))
    problem = Problem(4096, 4096, 2048, 8, grouping="row_index")
    assert tiles_of(kernel, problem).of_unit == dense.unit_clocks(kernel, problem.of_group)
