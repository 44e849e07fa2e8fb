"""The lean mainloop of `gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import cost_lean, fixed_splits, learnt
from tilewright.families.gemm.mainloop import Mainloop, misfit_promotion, misfit_rows
from tilewright.families.gemm.problem import GATED, PAIRED_COLUMNS, Problem
from tilewright.selection import fitting, memory_splits

CLUSTERS = (*fitting.CLUSTERS, "4x2", "2x4")  # that selection considers


class Lean(Mainloop):
    """Our kernels for all sizes (tilewright/gemm/lean.hpp), with clusters and splits of k at run time.

    The k ranges of a tile belong to thread blocks of one cluster, unless the decomposition is split_k: then a
    second kernel adds their sums from memory.
    """

    settings = ("cluster", "raster", "swizzle", "splits", "decomposition")
    estimator = staticmethod(cost_lean.estimator)
    refine = staticmethod(learnt.refine)

    def by_tma(self, record: KernelRecord) -> tuple[str, ...]:
        """Nothing, if the sums fit into the stages' memory: threads then read them from there and store them
        at any address."""
        return () if record.facts["splits"] else ("c", "out")

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        """TMA loads any extents, and stores whole 16 bytes. Rows of B in pairs come as whole pairs."""
        if problem.gated and problem.n % PAIRED_COLUMNS:
            return f"it pairs columns in groups of {PAIRED_COLUMNS}: n of {problem.n} is no multiple"
        return misfit_rows(problem) if self.by_tma(record) else None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record) or fitting.misfit_cluster(tactic, record)
        if reason is not None or tactic.decomposition == "heuristic":
            return reason or fitting.misfit_blocks(tactic, record)
        if tactic.decomposition != "split_k":
            return f"it has no decomposition {tactic.decomposition}"
        if record.config["activation"] in GATED:
            return "it adds k ranges in clusters only: no second kernel pairs their sums"
        return fitting.misfit_blocks(replace(tactic, splits=1), record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return fitting.misfit_room(fitting.blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """All lean kernels of a type add products along k in one order, in steps of 32 bytes: 1,011 results
        of different tiles, schedules, swapped operands and clusters had equal bits (H200). FP8 kernels that
        promote their sums do so every 128 of k. If k is split, it is split alike for every m."""
        return misfit_promotion(record, problem) or fixed_splits.misfit(tactic, record, problem)

    def invariant_order(self, record: KernelRecord, problem: Problem) -> str:
        return fixed_splits.order(problem)

    def invariant_candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> Sequence[Tactic]:
        if fixed_splits.splits_of(problem) == 1:
            return super().invariant_candidates(record, problem, device)
        if misfit_promotion(record, problem) or fixed_splits.misfit_cuts(record, problem):
            return ()
        return fixed_splits.candidates(record, problem, CLUSTERS)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Clusters no larger than the grid of tiles, with k ranges of two stages at least; and as many k
        ranges added in memory as fill the SMs.

        A split k gets one wave: among 499 problems on an H200, splitting won 3 % or more for 164, and for
        none in a second wave, whose time the model puts 4 to 7 % too low.
        """
        down, across = grid = fitting.own_tiles(record, problem.m, problem.n)
        most = device.sm_count // (down * across)
        splits = range(1, max(1, min(most if record.facts["splits"] else 1, fitting.MOST_BLOCKS)) + 1)
        clustered = fitting.in_clusters(record, grid, problem.k, splits, CLUSTERS)
        if most < 2 or problem.batch > 1 or problem.gated:
            return clustered
        in_memory = []
        for cluster, (m, n) in fitting.CLUSTERS.items():
            at_once = device.clusters_at_once(m * n)
            parts = min(at_once // (-(-down // m) * -(-across // n)), memory_splits.MOST_PARTS)
            if (
                (m * n > 1 or down * across == 1)  # all SMs load from L2 then, and multicast pays off
                and m <= down
                and n <= across
                and 1 < parts <= memory_splits.deepest(record, problem.k)
            ):
                in_memory.append(fitting.with_splits(record.name, cluster, parts, "split_k"))
        return (*clustered, *in_memory)
