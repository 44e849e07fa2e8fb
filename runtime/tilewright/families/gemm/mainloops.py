"""For each mainloop of `gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import contiguous_extents
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import MATRIX_SETTINGS, Tactic
from tilewright.families.gemm import cost, cost_mma, cost_stream, cost_tcgen05
from tilewright.families.gemm.lean import Lean
from tilewright.families.gemm.mainloop import Mainloop, misfit_promotion, misfit_rows
from tilewright.families.gemm.problem import GATED, INTEGER_ACTIVATIONS, Problem
from tilewright.formats.types import TMA_BYTES, bytes_of
from tilewright.selection import cluster_splits, fitting, memory_splits

MOST_ROWS = 8  # rows that a stream kernel computes at most
MOST_MATRICES = 65535  # matrices of a stream kernel's batch: the grid's limit along y


class Cutlass(Mainloop):
    """CUTLASS's kernels. The cluster is fixed at compile time; stream-K uses a workspace."""

    settings = MATRIX_SETTINGS
    estimator = staticmethod(cost.estimator)

    def by_tma(self, record: KernelRecord) -> tuple[str, ...]:
        return "c", "out", "bias"

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if problem.alignment % TMA_BYTES:
            return f"its C, D and bias are aligned to {TMA_BYTES} bytes, not {problem.alignment}"
        return fitting.misfit_contiguous(record, contiguous_extents(problem, problem.layout))

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record) or fitting.misfit_splits(tactic, record)
        return reason or fitting.misfit_cluster(tactic, record)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        if record.config["acc"] == "s32":  # sums of integers are exact in any order
            return None
        if record.config["a"] != "tf32":
            return "it is not known to add products along k in the order of the lean kernels"
        if record.config["scheduler"] == "stream_k":
            return "its scheduler splits k as the number of tiles demands"
        return fitting.misfit_invariant_split(tactic)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return fitting.splittings(record, problem.k)

    def does_extra_work(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether the kernel adds a bias although the problem has none. A launch tells our kernels whether
        there is a bias."""
        return bool(record.config["bias"]) and not problem.bias


class Mma(Mainloop):
    """Our kernels of mma.sync (tilewright/gemm/mma_kernel.hpp): without clusters, k ranges added in memory.

    On sm_90a they only serve to test their code, because wgmma is faster there (`only_if_named` of the
    family).
    """

    settings = ("raster", "swizzle", "splits", "decomposition")
    estimator = staticmethod(cost_mma.estimator)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return memory_splits.misfit_decomposition(tactic) or super().misfit_arguments(tactic, record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """Without splits they add products along k in one order, in steps of 32 bytes."""
        return misfit_promotion(record, problem) or fitting.misfit_invariant_split(tactic)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return memory_splits.in_one_wave(record, problem, device)


class CuteDsl(Mainloop):
    """Our kernels in CuTe-DSL (templates/gemm/cute_dsl.py.j2), with clusters compiled in.

    They run only if a call names one (`only_if_named` of the family). Their parts are those of CUTLASS's
    kernels, whose model estimates them; nobody has fitted it to their times.
    """

    settings = ("raster", "swizzle")
    estimator = staticmethod(cost.estimator)

    def by_tma(self, record: KernelRecord) -> tuple[str, ...]:
        """D. Threads load C, of D's type alone."""
        return ("out",)

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_rows(problem)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return "it is not known to add products along k in the order of the lean kernels"


class Tcgen05(Mainloop):
    """Our kernels of tcgen05 (gemm/tcgen05_program.py) for sm_100, sm_103 and sm_110. Clusters are compiled
    in, except those of thread blocks that share a tile along k."""

    settings = ("raster", "swizzle", "splits")
    estimator = staticmethod(cost_tcgen05.estimator)

    def by_tma(self, record: KernelRecord) -> tuple[str, ...]:
        """D, unless operands are swapped: threads store it then. They load C and the bias."""
        return () if record.config["swap_ab"] else ("out",)

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        """C and the bias have any type, whatever stores D."""
        if kind.activation in GATED:
            return f"it does not apply {kind.activation}"
        if kind.activation not in INTEGER_ACTIVATIONS and record.config["d"] == "s32":
            return f"integers have no activation {kind.activation}"
        return None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        return misfit_rows(problem) if self.by_tma(record) else None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return super().misfit_arguments(tactic, record) or cluster_splits.misfit(tactic, record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return cluster_splits.misfit_device(tactic, device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """Without splits they add products along k in one order, in steps of 32 bytes."""
        return fitting.misfit_invariant_split(tactic)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        return cluster_splits.in_one_wave(record, problem, device)


class Stream(Mainloop):
    """Our kernels for few rows (tilewright/gemm/stream_kernel.hpp). C, D and the bias may lie anywhere."""

    settings = ("splits",)
    estimator = staticmethod(cost_stream.estimator)
    SPLITS = range(1, fitting.MOST_BLOCKS + 1)

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if problem.m > MOST_ROWS:
            return f"it computes {MOST_ROWS} rows at most, not {problem.m}"
        if problem.batch > MOST_MATRICES:
            return f"it computes {MOST_MATRICES} matrices at most, not {problem.batch}"
        row = problem.k * bytes_of(problem.a)
        if row % TMA_BYTES:
            return f"it loads {TMA_BYTES} bytes at a time: rows of {row} bytes are no multiple"
        return None

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return f"it divides k among warps, and more than {MOST_ROWS} rows are added in another order"

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        if tactic.splits not in self.SPLITS:
            return f"it splits k over a cluster of 1 to {self.SPLITS[-1]}, not {tactic.splits}"
        return super().misfit_arguments(tactic, record)

    def candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> tuple[Tactic, ...]:
        """Splits that leave every warp a part of k."""
        step = cost_stream.WARPS * record.config["tile"][2]
        return tuple(
            Tactic(record.name, splits=splits) for splits in self.SPLITS if problem.k > step * (splits - 1)
        )


MAINLOOPS = {
    "cutlass": Cutlass(),
    "lean": Lean(),
    "stream": Stream(),
    "mma": Mma(),
    "cute_dsl": CuteDsl(),
    "tcgen05": Tcgen05(),
}


def kernels_of(record: KernelRecord) -> Mainloop:
    """A kernel's mainloop."""
    return MAINLOOPS[record.config["mainloop"]]


def mainloop_of(record: KernelRecord) -> str:
    """The name of a kernel's mainloop."""
    return str(record.config["mainloop"])
