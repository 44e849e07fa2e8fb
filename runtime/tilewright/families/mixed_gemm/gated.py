"""Kernels of packed weights that compute silu(gate) * up, and those that do not: the problems of each."""

from __future__ import annotations

from typing import Any, TypeVar

from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_gemm.problem import GATED_MULTIPLE, SILU_MUL, PackedProblem
from tilewright.selection.kernels import Kernels

Q = TypeVar("Q", bound=PackedProblem)


class PackedKernels(Kernels[Q]):
    """What kernels of one product and of groups have in common, whatever their mainloop."""

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        d = record.config["a"] if record.config["d"] == "same" else record.config["d"]
        if d != kind.d:
            return f"its D is {d}, not {kind.d}"
        if (record.config["activation"] == SILU_MUL) == kind.gated:
            return None
        return f"it does not compute {SILU_MUL}" if kind.gated else f"it computes nothing but {SILU_MUL}"

    def misfit_extents(self, record: KernelRecord, problem: Q) -> str | None:
        if problem.gated and problem.n % GATED_MULTIPLE:
            return f"gate and up have rows in units of 8, n in units of {GATED_MULTIPLE}, not {problem.n}"
        return None
