"""The `gemm` family as selection sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.device import DeviceProperties
from tilewright.interface.declaration import TMA_BYTES
from tilewright.ops.common import fitting
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.family import Family
from tilewright.ops.common.tactics import MATRIX_SETTINGS, Tactic, misfit_settings, rearranged
from tilewright.ops.gemm import cost, cost_lean, lean, stream
from tilewright.ops.gemm.problem import Kind, Problem, addends
from tilewright.ops.gemm.words import WORDS
from tilewright.table import KernelRecord

# CUTLASS's kernels are estimated by a model fitted to powers of two, where their tiles fit; between those
# they took 8 % longer than cuBLAS on 56 shapes, and lean kernels less. One compiles for a minute, too.
BEHIND_LEAN = 1.3


def alignments(record: KernelRecord) -> dict[str, int]:
    """Bytes that a kernel asks of the addresses of what it adds and of D."""
    if stream.is_stream(record):
        return {}
    if lean.is_lean(record):
        return {} if record.facts["splits"] else dict.fromkeys(("c", "out"), TMA_BYTES)
    return dict.fromkeys(("c", "out", "bias"), TMA_BYTES)


class _Gemm(Family[Problem]):
    words = WORDS
    decisive = ("a", "b", "d", "layout", "activation")
    layouts = ("layout",)
    variants = staticmethod(rearranged)
    peak = staticmethod(cost.peak)

    def misfit_options(self, record: KernelRecord, kind: Kind) -> str | None:
        config = record.config
        if kind.bias and not config["bias"]:
            return "it adds no bias"
        if kind.c and config["c"] == "none":
            return "it adds no C"
        any_addend = stream.is_stream(record) or (lean.is_lean(record) and record.facts["splits"])
        for name, type_ in (("C", kind.c_type), ("bias", kind.bias_type)):
            if type_ and not any_addend:
                return f"it adds no {name} of {type_}, but of {addends(kind.a, kind.d)[0]}"
        if config["fast_accum"] and not kind.fast_accum:
            return "it sums with fast accumulation, which the call does not allow"
        return None

    def misfit_extents(self, record: KernelRecord, problem: Problem) -> str | None:
        if lean.is_lean(record):
            return lean.misfit_extents(record, problem)
        if stream.is_stream(record):
            return stream.misfit_extents(record, problem)
        if problem.alignment % TMA_BYTES:
            return f"its C, D and bias are aligned to {TMA_BYTES} bytes, not {problem.alignment}"
        return fitting.misfit_contiguous(record, problem.contiguous_extents())

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        if lean.is_lean(record):
            return lean.misfit(tactic, record)
        if stream.is_stream(record):
            return stream.misfit(tactic)
        return (
            misfit_settings(tactic, MATRIX_SETTINGS)
            or fitting.misfit_splits(tactic, record)
            or fitting.misfit_cluster(tactic, record)
        )

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
        return fitting.misfit_tiles_of_k(tactic, record, problem.k) if lean.is_lean(record) else None

    def candidates(self, record: KernelRecord, problem: Problem) -> tuple[Tactic, ...]:
        if lean.is_lean(record):
            return tuple(lean.candidates(record, problem))
        if stream.is_stream(record):
            return tuple(stream.candidates(record, problem))
        return fitting.splittings(record, problem.k)

    def idle(self, record: KernelRecord, problem: Problem) -> bool:
        """Whether the kernel looks for a bias that the problem has not; ours are told at run time."""
        told = lean.is_lean(record) or stream.is_stream(record)
        return bool(record.config["bias"]) and not problem.bias and not told

    def estimator(
        self, record: KernelRecord, problem: Problem, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The cost model of a kernel: there are three for sm_90a, of CUTLASS's, lean and stream kernels."""
        if record.arch != "sm_90a":
            return None
        if lean.is_lean(record):
            return cost_lean.estimator(record, problem, device)
        if stream.is_stream(record):
            return stream.estimator(record, problem, device)
        weigh = cost.Cutlass(record, problem, device).weigh
        if not lean.may_be_lean(problem.a):
            return weigh

        def behind(tactic: Tactic) -> Estimate:
            estimate = weigh(tactic)
            return replace(estimate, seconds=estimate.seconds * BEHIND_LEAN)

        return behind


FAMILY = _Gemm()
