"""Real nvcc on real kernels: the right tensor-core instructions, launch dependencies, no spills.

Uses the build cache of whoever runs it, so a second run compiles nothing. Without it: about a minute a
kernel on one core. No toolchain is a failure here, not a reason to skip: leave these out with
`-m "not compile"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilewright.build.building import build
from tilewright.table import Table, find_tables

pytestmark = pytest.mark.compile

KERNELS = {
    "gemm_sm90_bf16_bf16_f32_bf16_tn_128x256x64_2x1_coop": "HGMMA",
    "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_1x1_coop_streamk": "HGMMA",
    "gemm_sm90_e4m3_e4m3_f32_bf16_tn_64x32x256_1x1_pingpong_fastacc_swap": "QGMMA",
}
GENERATED = Path(__file__).parents[2] / "generated"


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, Any]]:
    """Each kernel's row of the build report."""
    tables = [Table.read(path) for path in find_tables(GENERATED)]
    report = build(tables, frozenset(KERNELS), strict=True)
    report.raise_for_failures()
    return {row["name"]: row for row in report.to_json()["kernels"]}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", KERNELS)
class TestKernel:
    def test_computes_on_tensor_cores(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        opcodes = compiled[name]["tensor_instructions"]
        assert opcodes
        assert all(opcode.startswith(KERNELS[name] + ".") for opcode in opcodes), opcodes

    def test_nothing_serializes_wgmma(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        assert compiled[name]["warnings"] == []
        assert compiled[name]["findings"] == []

    def test_keeps_its_registers(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        row = compiled[name]
        assert row["spill_store_bytes"] == row["spill_load_bytes"] == row["stack_bytes"] == 0
        assert 0 < row["registers"] <= 168  # 65,536 / 384 threads, rounded down to 8

    def test_waits_for_the_previous_kernel(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        # griddepcontrol.wait is ACQBULK, griddepcontrol.launch_dependents is PREEXIT.
        assert compiled[name]["grid_dependency"].get("ACQBULK", 0) > 0

    def test_agrees_with_its_table(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        tables = (Table.read(path) for path in find_tables(GENERATED))
        facts = next(table[name] for table in tables if name in table).facts
        assert compiled[name]["smem_bytes"] == facts["smem_bytes"]
        assert compiled[name]["threads"] == facts["threads"]
