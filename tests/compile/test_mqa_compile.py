"""Real nvcc on `mqa_logits` kernels of each architecture and type, which take it seconds."""

from __future__ import annotations

from typing import Any

import pytest
from compiled_kernels import GENERATED, built, check_row, rows_of

from tilewright.compile.report import BuildReport
from tilewright.declarations.arguments import packed, struct
from tilewright.declarations.table import Table
from tilewright.declarations.tactics import Tactic
from tilewright.families.mqa_logits.interface import INTERFACE
from tilewright.families.mqa_logits.problem import Problem
from tilewright.libraries.library import load

TABLE = Table.read(GENERATED / "mqa_logits" / "table.json")
KERNELS = {
    "mqa_logits_sm90_ragged_fp4_64x128_f32_2q2p_2wg_8stages": {"HGMMA.64x64x16.F32.BF16"},
    "mqa_logits_sm90_ragged_fp4_16x64_f32_1q_2wg_8stages_blockscaled": {"HMMA.16816.F32.BF16"},
    "mqa_logits_sm90_ragged_64x32_f32_1q_2wg_4stages_tcgen05": set(),
    "mqa_logits_sm100f_ragged_16x32_bf16_8q_2wg_16stages": {"UTCQMMA"},
    "mqa_logits_sm100f_paged_64x128_f32_2q_2wg_8stages": {"UTCQMMA"},
    "mqa_logits_sm100f_ragged_fp4_32x64_bf16_4q_2wg_16stages": {"UTCOMMA"},
    "mqa_logits_sm100f_paged_fp4_64x128_f32_2q_2wg_16stages": {"UTCOMMA"},
    "mqa_logits_sm120f_ragged_fp4_64x128_f32_1q_2wg_8stages": {"OMMA.SF.16864.F32.E2M1.E2M1.E8"},
    "mqa_logits_sm120f_paged_64x128_f32_1q_2wg_8stages": {"QMMA.16832.F32.E4M3.E4M3"},
}

pytestmark = pytest.mark.compile


@pytest.fixture(scope="module")
def report() -> BuildReport:
    return built(TABLE, KERNELS)


@pytest.fixture(scope="module")
def reports(report: BuildReport) -> dict[str, dict[str, Any]]:
    return rows_of(report)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_kernel_is_what_its_row_says(reports: dict[str, dict[str, Any]], name: str) -> None:
    """On the tensor cores in the type that is said, no spills and no stack."""
    check_row(reports[name], TABLE[name])
    assert set(reports[name]["tensor_instructions"]) == KERNELS[name]


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_what_a_kernel_takes(report: BuildReport, name: str) -> None:
    """Problems of its kind, of pages of 32 and 64 keys, of sequences with up to 32 tokens, one to a lane of a
    warp, and no other heads."""
    config = TABLE[name].config
    library = load(next(built.path for built in report.libraries))

    def takes(queries: int = 12, **changes: Any) -> bool:
        given = {field: config[field] for field in ("heads", "head_dim", "form", "q", "d")}
        problem = Problem(
            queries, 300, **given | {"next_n": 3, "cache_pages": 40, "table_pages": 10} | changes
        )
        return library.can_implement(name, packed(INTERFACE, problem, Tactic(name), 132))

    assert takes()
    assert takes(page=32)
    assert takes(page=48) == (config["form"] == "ragged")
    assert takes(64, next_n=32)
    assert takes(66, next_n=33) == (config["form"] == "ragged")
    assert not takes(heads=8)
    assert not takes(head_dim=256)


@pytest.mark.parametrize("name", sorted(name for name in KERNELS if "_ragged_" in name))
def test_rows_of_keys_lie_where_tma_reads_them(report: BuildReport, name: str) -> None:
    """At multiples of 16 bytes: 32 elements of FP4, of which two share a byte."""
    config = TABLE[name].config
    library = load(report.libraries[0].path)
    problem = Problem(12, 300, **{field: config[field] for field in ("heads", "head_dim", "form", "q", "d")})
    arguments = struct(INTERFACE).from_buffer_copy(packed(INTERFACE, problem, Tactic(name), 132))
    for distance in (128, 128 + 16, 128 + 32):
        arguments.ld_kv = distance
        taken = library.can_implement(name, bytes(arguments))
        assert taken == (distance % (32 if "_fp4_" in name else 16) == 0), distance
