"""For each mainloop of `gemm`: the problems that its kernels compute, and their tactics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.products import contiguous_extents
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import MATRIX_SETTINGS, Tactic
from tilewright.families.gemm import (
    cost,
    cost_lean,
    cost_mma,
    cost_stream,
    cost_tcgen05,
    fixed_splits,
    learnt,
)
from tilewright.families.gemm.problem import ADDENDS, GIVEN, INTEGER_ACTIVATIONS, Problem, addends
from tilewright.formats.types import TMA_BYTES, bits, bytes_of
from tilewright.selection import cluster_splits, fitting, memory_splits
from tilewright.selection.kernels import Kernels

MOST_ROWS = 8  # rows that a stream kernel computes at most
MOST_MATRICES = 65535  # matrices of a stream kernel's batch: the grid's limit along y
CLUSTERS = (*fitting.CLUSTERS, "4x2", "2x4")  # that selection considers


class Mainloop(Kernels[Problem]):
    """Kernels with one mainloop."""

    def by_tma(self, record: KernelRecord) -> tuple[str, ...]:
        """The operands among C, D and the bias that TMA moves: they start at multiples of 16 bytes, and C and
        the bias have the default type. If TMA moves none, threads load C and the bias, which may have any
        type."""
        return ()

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        config = record.config
        if config["activation"] not in ((kind.activation, GIVEN) if kind.activation != "none" else ("none",)):
            return f"its activation is {config['activation']}, not {kind.activation}"
        if kind.added_bias and not config["bias"]:
            return "it adds no bias"
        if kind.added_c and config["c"] == "none":
            return "it adds no C"
        legal = addends(kind.a, kind.d)[:1] if self.by_tma(record) else ADDENDS
        for name, type in (("C", kind.added_c), ("bias", kind.added_bias)):
            if type and type not in legal:
                return f"its {name} has type {legal[0]}, not {type}"
        if config["fast_accum"] and not kind.fast_accum:
            return "it sums with fast accumulation, which the call does not allow"
        return None


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
        """TMA loads any extents, and stores whole 16 bytes."""
        return _misfit_rows(problem) if self.by_tma(record) else None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        reason = super().misfit_arguments(tactic, record) or fitting.misfit_cluster(tactic, record)
        if reason is not None or tactic.decomposition == "heuristic":
            return reason or fitting.misfit_blocks(tactic, record)
        if tactic.decomposition != "split_k":
            return f"it has no decomposition {tactic.decomposition}"
        return fitting.misfit_blocks(replace(tactic, splits=1), record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return fitting.misfit_room(fitting.blocks_of(tactic), device)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        """All lean kernels of a type add products along k in one order, in steps of 32 bytes: 1,011 results
        of different tiles, schedules, swapped operands and clusters had equal bits (H200). FP8 kernels that
        promote their sums do so every 128 of k. If k is split, it is split alike for every m."""
        return _misfit_promotion(record, problem) or fixed_splits.misfit(tactic, record, problem)

    def invariant_order(self, record: KernelRecord, problem: Problem) -> str:
        return fixed_splits.order(problem)

    def invariant_candidates(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> Sequence[Tactic]:
        if fixed_splits.splits_of(problem) == 1:
            return super().invariant_candidates(record, problem, device)
        if _misfit_promotion(record, problem) or fixed_splits.misfit_cuts(record, problem):
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
        if most < 2 or problem.batch > 1:
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
        return _misfit_promotion(record, problem) or fitting.misfit_invariant_split(tactic)

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
        return _misfit_rows(problem)

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
        if kind.activation not in INTEGER_ACTIVATIONS and record.config["d"] == "s32":
            return f"integers have no activation {kind.activation}"
        return None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        return _misfit_rows(problem) if self.by_tma(record) else None

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


def _misfit_rows(problem: Problem) -> str | None:
    """Why TMA alone cannot store the rows of D: it stores whole 16 bytes."""
    row = problem.n * bytes_of(problem.d)
    if not (row % TMA_BYTES or problem.alignment % TMA_BYTES):
        return None
    return (
        f"it stores D by TMA only: rows of {row} bytes, aligned to {problem.alignment}, "
        f"are not multiples of {TMA_BYTES}"
    )


def _misfit_promotion(record: KernelRecord, problem: Problem) -> str | None:
    """Why a kernel's sums have other bits than those that the call allows: it promotes them, and the others
    do not. None if they agree."""
    if bits(problem.a) == 8 and record.config["fast_accum"] != problem.fast_accum:
        return "it promotes its sums, and kernels with fast accumulation do not"
    return None


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
