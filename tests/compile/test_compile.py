"""Real nvcc on real kernels: the right tensor-core instructions, launch dependencies, no spills.

Uses the build cache of whoever runs it, so a second run compiles nothing. Without it: one to three minutes a
kernel on one core. No toolchain is a failure here, not a reason to skip: leave these out with
`-m "not compile"`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.build.building import build
from tilewright.table import KernelRecord, Table, find_tables

pytestmark = pytest.mark.compile

KERNELS = {
    "gemm_sm90_bf16_bf16_f32_bf16_tn_128x256x64_2x1_coop": "HGMMA",
    "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_1x1_coop_streamk": "HGMMA",
    "gemm_sm90_e4m3_e4m3_f32_bf16_tn_64x32x256_1x1_pingpong_fastacc_swap": "QGMMA",
    "blockscaled_gemm_sm90_nvfp4_nvfp4_bf16_128x32x256_1x1_coop_swap": "HGMMA",
    "blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16_128x128x256_dyn_2sm": "UTCOMMA.2CTA.4X",
    "blockscaled_gemm_sm103_nvfp4_nvfp4_bf16_128x128x768_dyn_1sm_direct256": "UTCOMMA.BLOCK16",
    "blockscaled_gemm_sm120f_nvfp4_nvfp4_bf16_128x128x128_1x1_coop_streamk": (
        "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"
    ),
}
GENERATED = Path(__file__).parents[2] / "generated"
TABLES = [Table.read(path) for path in find_tables(GENERATED)]
RECORDS = {name: (table, table[name]) for table in TABLES for name in table}
GDC_SWITCHES = {"CUTLASS_ENABLE_GDC_FOR_SM90=1", "CUTLASS_ENABLE_GDC_FOR_SM100=1", "CUTLASS_GDC_ENABLED=1"}


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, Any]]:
    """Each kernel's row of the build report."""
    report = build(TABLES, frozenset(KERNELS), strict=True)
    report.raise_for_failures()
    return {row["name"]: row for row in report.to_json()["kernels"]}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KERNELS)
class TestKernel:
    def test_computes_on_tensor_cores(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        opcodes = compiled[name]["tensor_instructions"]
        assert opcodes
        assert all(f"{opcode}.".startswith(f"{KERNELS[name]}.") for opcode in opcodes), opcodes

    def test_nothing_serializes_wgmma(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        assert compiled[name]["warnings"] == []
        assert compiled[name]["findings"] == []

    def test_keeps_its_registers(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        row = compiled[name]
        assert row["spill_store_bytes"] == row["spill_load_bytes"] == row["stack_bytes"] == 0
        assert 0 < row["registers"] <= min(255, 65536 // row["threads"] // 8 * 8)

    def test_waits_for_the_previous_kernel(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        # griddepcontrol.wait is ACQBULK, griddepcontrol.launch_dependents is PREEXIT.
        assert RECORDS[name][1].config["pdl"]
        assert compiled[name]["grid_dependency"].get("ACQBULK", 0) > 0

    def test_agrees_with_its_table(self, compiled: dict[str, dict[str, Any]], name: str) -> None:
        facts = RECORDS[name][1].facts
        assert compiled[name]["smem_bytes"] == facts["smem_bytes"]
        assert compiled[name]["threads"] == facts["threads"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.module)
def test_one_field_sets_the_launch_attribute_and_the_instruction(table: Table) -> None:
    """`pdl` is in the table, in the source (the launch attribute) and in the flags (griddepcontrol)."""
    for record in table.values():
        source = table.source(record).read_text(encoding="utf-8")
        (attribute,) = re.findall(r"kPdl = (true|false);", source)
        assert (attribute == "true") == record.config["pdl"], record.name
        assert _switches_griddepcontrol_on(record, source) == record.config["pdl"], record.name


def _switches_griddepcontrol_on(record: KernelRecord, source: str) -> bool:
    switches = GDC_SWITCHES & set(record.defines)
    if "blockscaled_gemm/hopper.hpp" in source:  # a kernel of ours, which takes kPdl itself
        assert not switches
        return "kStages, kWithC, kPdl>" in source and "kPdl = true" in source
    assert len(switches) <= 1
    if record.arch.startswith("sm_110"):  # which CUTLASS 4.2's own switch leaves out
        assert switches <= {"CUTLASS_GDC_ENABLED=1"}
    return bool(switches)
