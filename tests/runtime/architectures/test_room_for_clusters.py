"""Partitions of a GPU in which no cluster of some size ever runs: a MIG slice, a share of MPS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilewright.architectures.device import H200
from tilewright.calls.plan import INVALID_CLUSTER_SIZE, DirectPlan
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, LaunchError
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.blockscaled_gemm.problem import Problem as Blockscaled
from tilewright.families.gemm.family import FAMILY as GEMM
from tilewright.families.gemm.problem import Problem as Gemm
from tilewright.families.grouped_gemm.family import FAMILY as GROUPED
from tilewright.families.grouped_gemm.problem import Problem as Grouped
from tilewright.families.reduced_gemm.family import FAMILY as REDUCED
from tilewright.families.reduced_gemm.problem import Problem as Reduced
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import choose
from tilewright.selection.family import Family
from tilewright.selection.fitting import blocks_of

SLICE = H200._replace(name="NVIDIA H200 MIG 1g.18gb", sm_count=16, clusters=(16, 8, 4, 2, 0, 0, 0, 0))
LEAN = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
FEW_ROWS = "stream"  # thread blocks of these share SMs, so that clusters of them run


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry()


def test_none_at_once_is_no_cluster_and_not_unknown() -> None:
    assert [SLICE.clusters_at_once(size) for size in range(1, 9)] == [16, 8, 4, 2, 0, 0, 0, 0]
    unknown = SLICE._replace(clusters=())
    assert all(unknown.clusters_at_once(size) >= 1 for size in range(1, 9))


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        (GEMM, Gemm(4096, 4096, 4096)),
        (GEMM, Gemm(4, 512, 4096)),
        (GEMM, Gemm(64, 512, 16384)),
        (GROUPED, Grouped(2048, 4096, 4096, 8)),
        (REDUCED, Reduced(512, 512, 8192)),
        (BLOCKSCALED, Blockscaled(64, 4096, 4096)),
    ],
    ids=lambda value: "" if isinstance(value, Family) else str(value),  # workers must collect the same names
)
def test_selection_weighs_no_cluster_that_never_runs(
    registry: Registry, family: Family[Any], problem: Any
) -> None:
    def sizes(device: Any) -> set[int]:
        ranked = family.rank(registry.route(family.name, device), problem, device)
        assert ranked
        return {
            blocks_of(candidate.tactic)
            for candidate in ranked
            if candidate.record.config.get("mainloop") != FEW_ROWS and family is not BLOCKSCALED
        }

    whole, part = sizes(H200), sizes(SLICE)
    assert part == {size for size in whole if size <= 4}
    chosen = choose(family, registry, registry.route(family.name, SLICE), problem, SLICE)
    assert family.misfit_device(chosen.tactic, chosen.record, SLICE) is None


def test_a_demanded_cluster_that_never_runs_is_refused(registry: Registry) -> None:
    problem, records = Gemm(4096, 4096, 4096), registry.route("gemm", SLICE)
    for tactic, blocks in (
        (Tactic(LEAN, cluster="4x2"), 8),
        (Tactic(LEAN, splits=5), 5),
        (Tactic(LEAN, cluster="2x1", splits=3), 6),
    ):
        with pytest.raises(
            ArgumentError, match=f"16 SMs.* runs no cluster of {blocks} thread blocks.*smaller"
        ):
            choose(GEMM, registry, records, problem, SLICE, tactic=tactic)
    for tactic in (
        Tactic(LEAN, cluster="2x2"),
        Tactic(LEAN, cluster="2x1", decomposition="split_k", splits=8),  # parts that meet in memory
    ):
        assert choose(GEMM, registry, records, problem, SLICE, tactic=tactic).tactic == tactic


@pytest.mark.parametrize(("cluster", "source"), [("4x2", "model"), ("2x1", "tuned")])
def test_a_tuned_cluster_that_never_runs_is_passed_over(
    registry: Registry, cluster: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of this name and of as many SMs may be another GPU's."""
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    monkeypatch.setattr(Registry, "is_built", lambda *_: True)
    problem, records = Gemm(4096, 4096, 4096), registry.route("gemm", SLICE)
    tactic = Tactic(LEAN, cluster=cluster)
    actual = SimpleNamespace(tactic=tactic, seconds=1e-4, path="here", seen=())
    exact: Any = SimpleNamespace(entry=lambda _: actual, neighbour=lambda _: None)
    near: Any = SimpleNamespace(entry=lambda _: None, neighbour=lambda _: (tactic, Gemm(4000, 4096, 4096)))
    chosen = choose(GEMM, registry, records, problem, SLICE, tuned=exact)
    assert (chosen.source, chosen.tactic == tactic) == (source, source == "tuned")
    assert choose(GEMM, registry, records, problem, SLICE, tuned=near).tactic.cluster != "4x2"


def test_a_launch_that_finds_no_room_says_what_to_do() -> None:
    plan = object.__new__(DirectPlan)
    plan.operands, plan.device = ("a", "b"), torch.device("cuda", 3)
    plan.tactic, plan.problem = Tactic(LEAN, cluster="2x2", splits=2), Gemm(16, 16, 64)
    with pytest.raises(LaunchError, match="on cuda:3 run no cluster of 8 thread blocks") as error:
        plan.fail(INVALID_CLUSTER_SIZE)
    assert "smaller cluster or fewer splits" in str(error.value.hint)
    assert "green context" in str(error.value.hint)
