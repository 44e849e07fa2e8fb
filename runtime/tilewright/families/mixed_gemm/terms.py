"""What the cost models of all mainloops of packed weights compute of a tactic, in one form for `learnt`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_gemm.problem import PackedProblem
from tilewright.selection.estimates import Estimate

UNIT_K = 128  # elements of k in a unit


class Terms(NamedTuple):
    """The terms of a tactic's estimated time."""

    cluster: int  # thread blocks that share activations
    splits: int  # thread blocks that divide the k of a tile
    blocks: int  # thread blocks that have work, tiles times splits
    at_once: int  # thread blocks that the GPU holds
    units: int  # of a thread block, for a tile
    hbm: float  # seconds that HBM takes
    math: float  # seconds that the busiest SM takes to decode and multiply
    main_loop: float  # seconds of both together
    added: float  # seconds of what does not overlap with them

    @property
    def waves(self) -> int:
        """Tiles of the busiest thread block's place, one after another."""
        return -(-self.blocks // self.at_once)


class Kernel:
    """A kernel on a problem: base of the cost models of the mainloops."""

    def __init__(self, record: KernelRecord, problem: PackedProblem, device: DeviceProperties) -> None:
        self.record, self.problem, self.device = record, problem, device

    def terms(self, tactic: Tactic) -> Terms:
        """The terms of a tactic of the kernel."""
        raise NotImplementedError

    @staticmethod
    def estimate(terms: Terms, factor: float = 1.0) -> Estimate:
        """The estimate of a tactic with these terms, times a factor."""
        main_loop, added = terms.main_loop * factor, terms.added * factor
        bound = "hbm" if terms.hbm >= terms.math else "math"
        return Estimate(main_loop + added, terms.waves, bound, main_loop, added)

    @classmethod
    def estimator(
        cls, record: KernelRecord, problem: PackedProblem, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate]:
        """The cost model of one kernel, as selection asks it."""
        kernel = cls(record, problem, device)
        return lambda tactic: kernel.estimate(kernel.terms(tactic))
