"""The kernels that tests compile: of each family and architecture the fewest that show what is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.compile.building import build
from tilewright.compile.report import BuildReport
from tilewright.compile.store import Store
from tilewright.declarations.table import KernelRecord, Table, read_tables

GENERATED = Path(__file__).parents[2] / "generated"
TABLES = read_tables(GENERATED)
TWO_SM = "blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16_128x128x256_dyn_2sm"
ULTRA = "blockscaled_gemm_sm103_nvfp4_nvfp4_bf16_128x128x768_dyn_1sm_direct256_nopdl"
STREAM_K = "blockscaled_gemm_sm120f_nvfp4_nvfp4_bf16_128x128x128_1x1_coop_streamk"
CUTLASS = "gemm_sm90_tf32_tf32_f32_f32_tn_128x128x32_1x1_coop_streamk"
LEAN = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x160x64_lean_coop"
HOPPER = "blockscaled_gemm_sm90_nvfp4_nvfp4_bf16_128x32x256_1x1_coop_swap"
KERNELS = {  # with what every tensor-core instruction of theirs begins with
    CUTLASS: "HGMMA",
    LEAN: "HGMMA",
    "gemm_sm90_bf16_bf16_f32_f32_tn_64x64x128_lean_coop_swap_act": "HGMMA",
    "gemm_sm90_e4m3_e4m3_f32_bf16_tn_64x160x128_lean_pingpong": "QGMMA",
    HOPPER: "HGMMA",
    TWO_SM: "UTCOMMA.2CTA.4X",
    ULTRA: "UTCOMMA.BLOCK16",
    STREAM_K: "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X",
}


@dataclass(frozen=True)
class Compiled:
    """A kernel of KERNELS, built."""

    table: Table
    record: KernelRecord
    report: dict[str, Any]  # its row of the build report
    library: Path  # its module's
    object: Path


def built(table: Table, kernels: Iterable[str]) -> BuildReport:
    """The report of a strict build of some of a table's kernels."""
    report = build([table], frozenset(kernels), store=Store(), strict=True)
    report.raise_for_failures()
    return report


def rows_of(report: BuildReport) -> dict[str, dict[str, Any]]:
    """The rows of a build report, by kernel."""
    return {row["name"]: row for row in report.to_json()["kernels"]}


def check_row(row: dict[str, Any], record: KernelRecord) -> None:
    """A kernel of ours is as its table's row says, keeps its values in registers, and waits for the kernel
    before it as programmatic dependent launch wants it."""
    assert row["findings"] == []
    assert row["warnings"] == []
    assert row["smem_bytes"] == record.facts["smem_bytes"]
    assert row["threads"] == record.facts["threads"]
    assert row["registers"] * row["threads"] <= 65536
    assert set(row["grid_dependency"]) == {"ACQBULK", "PREEXIT"}
