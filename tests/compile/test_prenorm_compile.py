"""Real nvcc on an `hc_prenorm` kernel of each architecture. No CUTLASS is in them: they take seconds."""

from __future__ import annotations

from typing import Any

import pytest
from compiled_kernels import GENERATED, built, check_row, rows_of

from tilewright.declarations.table import Table

TABLE = Table.read(GENERATED / "hc_prenorm" / "table.json")
KERNELS = {
    "hc_prenorm_sm90_128x24x64_wgmma_5stages": "HGMMA.64x24x8.F32.TF32",
    "hc_prenorm_sm90_64x24x64_sync_16rows_8stages": "HMMA.1688.F32.TF32",
    "hc_prenorm_sm100f_128x24x64_sync_32rows_5stages": "HMMA.1688.F32.TF32",
    "hc_prenorm_sm120f_32x128x64_sync_16rows_2stages": "HMMA.1688.F32.TF32",
}

pytestmark = pytest.mark.compile


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    return rows_of(built(TABLE, KERNELS))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_kernel_is_what_its_row_says(reports: dict[str, dict[str, Any]], name: str) -> None:
    """On the tensor cores in TF32, no spills and no stack (which copies to clusters bring on sm_120)."""
    check_row(reports[name], TABLE[name])
    assert set(reports[name]["tensor_instructions"]) == {KERNELS[name]}
