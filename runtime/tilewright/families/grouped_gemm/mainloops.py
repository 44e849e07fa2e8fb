"""Which problems the kernels of `grouped_gemm` compute, and their tactics for selection, by mainloop."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import contiguous_extents
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, plain
from tilewright.families.grouped_gemm import cost, cost_mma, cost_tcgen05, learnt
from tilewright.families.grouped_gemm.problem import (
    GROUPED_ROWS,
    PARTS,
    Problem,
    part_multiple,
    parts_on_tcgen05,
)
from tilewright.formats.types import bits
from tilewright.selection import tcgen05_clusters
from tilewright.selection.fitting import (
    blocks_of,
    in_clusters,
    misfit_blocks,
    misfit_contiguous,
    misfit_invariant_split,
    misfit_powers,
    misfit_room,
    misfit_tiles_of_k,
    own_tiles,
)
from tilewright.selection.kernels import Kernels

SPLITS = (1, 2, 4, 8)
SCALE_ROWS = 128  # rows of an atom of the 128x4 layout


class Lean(Kernels[Problem]):
    """The kernels of wgmma, with clusters and splits of k at run time."""

    settings: tuple[str, ...] = ("cluster", "raster", "swizzle", "splits")
    estimator = staticmethod(cost.estimator)
    refine = staticmethod(learnt.refine)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        if record.config["constant_b"] and not kind.constant_b:
            return "it loads B before the previous kernel has ended, and no caller says that B is constant"
        if record.config["constant_b"] and kind.grouping != "none":
            return "it loads B first in products without groups alone"
        if kind.grouping == "k_sizes":
            if 4 in {bits(kind.a), bits(kind.b)}:
                return "parts of k are matrices of bytes, whose rows end where their group does: none of FP4"
            if (kind.scales, kind.layout, kind.d) not in PARTS:
                scales = "1x128 or 1x32_ue8m0"
                return f"parts of k are multiplied with scales {scales}, or without in layout nt, into f32"
            if (tile_k := record.config["tile"][2]) != part_multiple(kind.a):
                return (
                    f"parts of k begin at multiples of {part_multiple(kind.a)}, and its stages hold {tile_k}"
                )
        elif kind.layout == "nt":
            return "A has m contiguous only where parts of k are multiplied"
        if kind.c and bits(kind.d) == 16 and not record.facts["splits"]:
            return "its sums do not fit into its stages' memory, through which it adds a C of 16 bits"
        return None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_contiguous(record, contiguous_extents(problem, problem.layout))

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record) or misfit_powers(tactic)
        return reason or misfit_blocks(tactic, record)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return misfit_room(blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """Without splits, all kernels add products along k in one order. FP8 sums are promoted every
        128 of k."""
        return misfit_invariant_split(tactic)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        if problem.grouping == "k_sizes" and tactic.splits > 1:
            return "groups divide k, at places that only the device knows: k is not split again"
        return misfit_tiles_of_k(tactic, record, problem.k)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Clusters no larger than the grid of tiles, and k ranges of two stages at least."""
        rows = problem.m if problem.grouping not in GROUPED_ROWS else cost.group_rows(problem)
        grid = own_tiles(record, rows, problem.n)
        splits = SPLITS if record.facts["splits"] and problem.grouping != "k_sizes" else (1,)
        return in_clusters(record, grid, problem.k, splits)


class Mma(Lean):
    """The kernels of mma.sync (tilewright/grouped_gemm/mma_kernel.hpp): without clusters and splits of k.

    On sm_90a they serve to try their code, beside faster ones of wgmma (`only_if_named` of the family).
    """

    settings = ("raster", "swizzle")
    estimator = staticmethod(cost_mma.estimator)
    refine = Kernels.refine  # nothing was learnt of these

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return (plain(record.name),)


class Tcgen05(Lean):
    """CUTLASS's collectives of groups (tilewright/grouped_gemm/tcgen05.hpp). A tile of scale factors has 128
    rows, so groups begin at multiples of 128."""

    settings = ("cluster", "raster", "swizzle")
    estimator = staticmethod(cost_tcgen05.estimator)
    refine = Kernels.refine  # nothing was learnt of these

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        parts = parts_on_tcgen05(record.config["scales"], record.config["d"])
        if kind.grouping == "k_sizes":
            if not parts:
                return "its groups are rows of A, not parts of k"
            return super().misfit_options(record, kind._replace(c=False))
        return "it adds no C to rows of groups" if kind.c else None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if problem.grouping in ("row_index", "ends") and problem.row_alignment % SCALE_ROWS:
            begins = f"its groups begin at multiples of {SCALE_ROWS} rows"
            return f"{begins}, those of the problem at multiples of {problem.row_alignment}"
        if problem.head_gap:
            return "it skips no columns of D"
        return super().misfit_extents(record, problem)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return super().misfit_arguments(tactic, record) or tcgen05_clusters.misfit(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return tcgen05_clusters.NOT_TESTED

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return tcgen05_clusters.candidates(record)


MAINLOOPS = {"lean": Lean(), "mma": Mma(), "tcgen05": Tcgen05()}


def kernels_of(record: KernelRecord) -> Kernels[Problem]:
    """A kernel's mainloop."""
    return MAINLOOPS[record.config["mainloop"]]
