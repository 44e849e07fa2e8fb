"""Selection of the kernels of `gemm` that multiply by mma.sync: for sm_12x; for sm_90a, to be tried alone."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.architectures.device import H200, RTX_PRO_6000
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry

REGISTRY = Registry()
KERNELS = [record for record in REGISTRY.kernels("gemm") if mainloop_of(record) == "mma"]
OF_HOPPER, OF_RTX = ([record for record in KERNELS if record.arch == arch] for arch in ("sm_90a", "sm_120f"))
BF16 = next(record for record in OF_RTX if record.name.endswith("bf16_f32_bf16_tn_128x128x64_mma_coop"))
PROBLEMS = [Problem(64, 4096, 4096), Problem(4096, 4096, 4096), Problem(4096, 64, 512, a="e4m3", b="e4m3")]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_hopper_never_chooses_them(problem: Problem) -> None:
    records = REGISTRY.runnable("gemm", H200.capability)
    tried = {record.name for record in OF_HOPPER}
    assert tried & {record.name for record in records}
    for fitting in (
        FAMILY.fitting(records, problem),
        FAMILY.fitting_kept(REGISTRY, records, problem),
        FAMILY.of_kind(REGISTRY, records, problem.kind),
    ):
        assert fitting
        assert not tried & {record.name for record in fitting}


@pytest.mark.parametrize("record", OF_HOPPER, ids=lambda record: record.name)
def test_hopper_runs_those_that_a_call_names(record: KernelRecord) -> None:
    name, config = record.name, record.config
    problem = Problem(
        256, 512, 1024, a=config["a"], b=config["b"], d=config["d"], layout=config["layout"],
        activation="relu" if config["activation"] == "given" else "none",
    )  # fmt: skip
    records = REGISTRY.runnable("gemm", H200.capability)
    for tactic in (Tactic(name), Tactic(name, decomposition="split_k", splits=2)):
        assert FAMILY.legal(REGISTRY, records, problem, H200, tactic).name == name


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_an_rtx_gpu_chooses_among_them(problem: Problem) -> None:
    records = REGISTRY.runnable("gemm", RTX_PRO_6000.capability)
    ranked = FAMILY.rank(records, problem, RTX_PRO_6000)
    assert len({candidate.record.name for candidate in ranked}) > 10
    assert {candidate.record.name for candidate in ranked} <= {record.name for record in OF_RTX}


@pytest.mark.parametrize(
    ("tactic", "says"),
    [
        ({}, None),
        ({"raster": "along_n", "swizzle": 4}, None),
        ({"decomposition": "split_k", "splits": 3}, None),
        ({"splits": 3}, "expected split_k"),
        ({"decomposition": "split_k"}, "expected split_k"),
        ({"decomposition": "stream_k"}, "no decomposition stream_k"),
        ({"cluster": "2x1"}, "cluster"),
    ],
    ids=str,
)
def test_which_arguments_they_take(tactic: dict[str, Any], says: str | None) -> None:
    reason = FAMILY.misfit_arguments(Tactic(BF16.name, **tactic), BF16)
    assert (reason is None) if says is None else (says in (reason or ""))


def test_k_is_split_where_tiles_leave_sms_idle() -> None:
    """Into parts of four k tiles of 64 at least, which together are one wave of 188 SMs."""
    for m, k, parts in (
        (128, 255, 1),
        (128, 64 * 4 * 3, 3),
        (128, 8192, 16),
        (128 * 30, 8192, 6),
        (4096, 8192, 5),
    ):
        candidates = FAMILY.candidates(BF16, Problem(m, 128, k), RTX_PRO_6000)
        assert [tactic.splits for tactic in candidates] == list(range(1, parts + 1))
        assert all(FAMILY.misfit_arguments(tactic, BF16) is None for tactic in candidates)
