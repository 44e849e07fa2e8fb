"""The common parts of families of matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.architectures.table import WGMMA
from tilewright.declarations.problem import ProblemBase
from tilewright.formats.types import bits

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties


def hopper_peak(kind: Any, device: DeviceProperties) -> float | None:
    """The operations per second of the tensor cores for a kind of problem, by A's type; None except on
    sm_90."""
    return hopper_rate(bits(kind.a), device)


def hopper_rate(wide: int, device: DeviceProperties) -> float | None:
    """The operations per second of the tensor cores on elements of `wide` bits; None except on sm_90."""
    if device.capability != (9, 0):
        return None
    return 2 * WGMMA.multiplications[wide] * device.sm_count * device.clock_hz


def contiguous_extents(problem: Any, layout: str) -> dict[str, int]:
    """The elements along the contiguous dimension of each matrix, by its name, in a layout of BLAS such as
    tn."""
    a = problem.k if layout[0] == "t" else problem.m
    return {"a": a, "b": problem.k if layout[1] == "n" else problem.n, "d": problem.n}


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # its subclasses have their own
class Product(ProblemBase):
    """The product A[m,k] B[k,n] for each matrix of a batch."""

    shown_beyond_1 = (("batch", " batch {}"),)

    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch
