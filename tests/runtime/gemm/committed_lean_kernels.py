"""The committed lean kernels of `gemm`, and which of them a cost model puts first."""

from __future__ import annotations

from tilewright.architectures.device import H100, H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry

KERNELS = [record for record in Registry().kernels("gemm") if mainloop_of(record) == "lean"]
WIDE = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
TURNS = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_pingpong"
BY_NAME = {record.name: record for record in KERNELS}


def first(problem: Problem) -> tuple[Tactic, KernelRecord]:
    best = FAMILY.rank(Registry().runnable("gemm", H200.capability), problem, H200)[0]
    return best.tactic, best.record


def waves(tactic: Tactic, record: KernelRecord, problem: Problem) -> float:
    """Tiles for each of 132 SMs."""
    tile_m, tile_n, _ = record.config["tile"]
    rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
    return -(-rows // tile_m) * -(-columns // tile_n) * tactic.splits / 132


# An H20, an H100 with PCIe, and a slice of an H200 that has no room for clusters of four.
SMALLER = (
    H200._replace(sm_count=78, clusters=()),
    H100._replace(sm_count=114, clusters=()),
    H200._replace(sm_count=16, clusters=(16, 8, 4, 0, 0, 0, 0, 0)),
)
