"""Selection of the kernels of `grouped_gemm` that multiply by mma.sync: for sm_12x; for sm_90a, to be tried
alone."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import context as contexts
from tilewright.architectures.device import H200, RTX_PRO_6000
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, plain
from tilewright.errors import WrongResultError
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import GROUPED_ROWS, GROUPINGS, PACKED_SCALES, PARTS, Problem
from tilewright.libraries.registry import Registry

REGISTRY = Registry()
KERNELS = [record for record in REGISTRY.kernels("grouped_gemm") if record.config["mainloop"] == "mma"]
OF_HOPPER, OF_RTX = ([row for row in KERNELS if row.arch == arch] for arch in ("sm_90a", "sm_120f"))
FP8 = next(row for row in OF_RTX if row.name.endswith("e4m3_e4m3_bf16_1x128_128x128_128x96x128_mma"))


def problem_of(record: KernelRecord) -> Problem:
    """A problem that the kernel computes."""
    kind = {name: record.config[name] for name in ("a", "b", "d", "scales", "layout")}
    grouping = "k_sizes" if kind["layout"] == "nt" else "ends"
    return Problem(512, 512, 1024, 4, **kind, grouping=grouping)


@pytest.mark.parametrize("record", OF_HOPPER, ids=lambda record: record.name)
def test_hopper_runs_those_that_a_call_names(record: KernelRecord) -> None:
    problem, records = problem_of(record), REGISTRY.runnable("grouped_gemm", H200.capability)
    fitting = FAMILY.fitting(records, problem)
    assert fitting
    assert record not in fitting
    assert FAMILY.legal(REGISTRY, records, problem, H200, Tactic(record.name)) is record


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("type", ["e4m3", "bf16"])
def test_an_rtx_gpu_chooses_among_them(type: str, grouping: str) -> None:
    """For every grouping there are several, each with an estimate."""
    scales = "128x128" if type == "e4m3" else "none"
    kind: dict[str, Any] = {"a": type, "b": type, "scales": scales, "grouping": grouping}
    if grouping == "k_sizes":
        part = next(part for part in PARTS if (part[0] == "none") == (type == "bf16"))
        kind |= dict(zip(("scales", "layout", "d"), part, strict=True))
    problem = Problem(1024, 4096, 2048, 4, **kind)
    records = REGISTRY.runnable("grouped_gemm", RTX_PRO_6000.capability)
    ranked = FAMILY.rank(records, problem, RTX_PRO_6000)
    assert len(ranked) > 2
    assert {candidate.record.name for candidate in ranked} <= {record.name for record in OF_RTX}
    assert all(candidate.estimate.seconds > 0 for candidate in ranked)


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("scales", PACKED_SCALES)
def test_packed_scales_have_kernels_of_their_own(scales: str, grouping: str) -> None:
    """A word of factors of 128 of k would hold those of two groups of k. Hopper has no such instruction."""
    d = "f32" if grouping == "k_sizes" else "bf16"
    problem = Problem(1024, 4096, 2048, 4, scales=scales, grouping=grouping, d=d)
    fitting = FAMILY.fitting(OF_RTX, problem)
    assert {record.config["scales"] for record in fitting} <= {scales}
    assert bool(fitting) == (scales == "1x32_ue8m0" or grouping != "k_sizes")
    assert not FAMILY.fitting(REGISTRY.runnable("grouped_gemm", H200.capability), problem)


@pytest.mark.parametrize("c", [False, True])
@pytest.mark.parametrize("d", ["bf16", "f32"])
@pytest.mark.parametrize(("a", "b"), [("mxfp4", "mxfp4"), ("e4m3", "mxfp4"), ("mxfp4", "e4m3")])
def test_fp4_has_kernels_for_groups_of_rows(a: str, b: str, d: str, c: bool) -> None:
    """Groups of k are refused with the reason, and so is a k whose rows TMA cannot read."""
    fields: dict[str, Any] = {"a": a, "b": b, "d": d, "c": c, "scales": "1x32_ue8m0"}
    for grouping in ("none", *GROUPED_ROWS):
        fitting = FAMILY.fitting(OF_RTX, Problem(1024, 4096, 2048, 4, grouping=grouping, **fields))
        assert len(fitting) > 2
        assert all((row.config["a"], row.config["b"], row.config["d"]) == (a, b, d) for row in fitting)
    assert not FAMILY.fitting(OF_RTX, Problem(1024, 4096, 2064, 4, **fields))
    of_k = Problem(1024, 4096, 2048, 4, grouping="k_sizes", **fields)
    assert not FAMILY.fitting(OF_RTX, of_k)
    kernel = FAMILY.fitting(OF_RTX, Problem(1024, 4096, 2048, **fields))[0]
    assert "none of FP4" in (FAMILY.misfit(kernel, of_k) or "")


@pytest.mark.parametrize("c", [False, True])
@pytest.mark.parametrize("d", ["bf16", "f32"])
@pytest.mark.parametrize("scales", ["128x128", "1x128"])
def test_c_is_added_by_all(scales: str, d: str, c: bool) -> None:
    problem = Problem(512, 512, 1024, scales=scales, d=d, c=c)
    fitting = FAMILY.fitting(OF_RTX, problem)
    assert fitting == FAMILY.fitting(OF_RTX, Problem(512, 512, 1024, scales=scales, d=d))
    assert fitting


@pytest.mark.parametrize(
    ("tactic", "says"),
    [
        ({}, None),
        ({"raster": "along_n", "swizzle": 4}, None),
        ({"splits": 2}, "splits"),
        ({"cluster": "2x1"}, "cluster"),
    ],
    ids=str,
)
def test_which_arguments_they_take(tactic: dict[str, Any], says: str | None) -> None:
    reason = FAMILY.misfit_arguments(Tactic(FP8.name, **tactic), FP8)
    assert (reason is None) if says is None else (says in (reason or ""))
    assert FAMILY.candidates(FP8, problem_of(FP8), RTX_PRO_6000) == (plain(FP8.name),)


@pytest.mark.parametrize("grouping", ["none", "ends", "rows_valid"])
@pytest.mark.parametrize(("a", "b"), [("mxfp4", "mxfp4"), ("mxfp4", "e4m3"), ("e4m3", "mxfp4")])
def test_operands_of_fp4_are_measured(a: str, b: str, grouping: str) -> None:
    """torch indexes no FP4: the rows of A that are compared are taken as bytes."""
    torch = pytest.importorskip("torch")
    from tilewright.families.grouped_gemm import measuring  # noqa: PLC0415 (it imports torch)

    with contexts.use(Context(described=RTX_PRO_6000)):
        problem = Problem(20, 24, 96, 3, a=a, b=b, scales="1x32_ue8m0", grouping=grouping, row_alignment=4)
        operands = measuring.make(problem, torch.Generator().manual_seed(0))
    _, expected = operands.compared(every=True)
    rows = operands.out.reshape(-1, problem.n)
    rows[(operands.groups() >= 0).nonzero().flatten()] = expected.to(rows.dtype)
    assert 0 < operands.check() < 4e-3
    rows.mul_(1.25)
    with pytest.raises(WrongResultError):
        operands.check()
