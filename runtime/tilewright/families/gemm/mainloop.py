"""What the mainloops of `gemm` have in common as selection sees them."""

from __future__ import annotations

from typing import Any

from tilewright.declarations.table import KernelRecord
from tilewright.families.gemm.problem import ADDENDS, GATED, GIVEN, Problem, addends
from tilewright.formats.types import TMA_BYTES, bits, bytes_of
from tilewright.selection.kernels import Kernels


class Mainloop(Kernels[Problem]):
    """Kernels with one mainloop."""

    def by_tma(self, record: KernelRecord) -> tuple[str, ...]:
        """The operands among C, D and the bias that TMA moves: they start at multiples of 16 bytes, and C and
        the bias have the default type. If TMA moves none, threads load C and the bias, which may have any
        type."""
        return ()

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        config = record.config
        general = () if kind.activation == "none" or kind.activation in GATED else (GIVEN,)
        if config["activation"] not in (kind.activation, *general):
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


def misfit_rows(problem: Problem) -> str | None:
    """Why TMA alone cannot store the rows of D: it stores whole 16 bytes."""
    row = problem.d_columns * bytes_of(problem.d)
    if not (row % TMA_BYTES or problem.alignment % TMA_BYTES):
        return None
    return (
        f"it stores D by TMA only: rows of {row} bytes, aligned to {problem.alignment}, "
        f"are not multiples of {TMA_BYTES}"
    )


def misfit_promotion(record: KernelRecord, problem: Problem) -> str | None:
    """Why a kernel's sums have other bits than those that the call allows: it promotes them, and the others
    do not. None if they agree."""
    if bits(problem.a) == 8 and record.config["fast_accum"] != problem.fast_accum:
        return "it promotes its sums, and kernels with fast accumulation do not"
    return None
