"""The interface between selection and kernels of one kind: which problems they compute, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, misfit_settings, plain
from tilewright.selection.estimates import Estimate


class Problem(Protocol):
    """What a caller wants computed. Messages show its `str()`, which
    `tilewright.declarations.problem.ProblemBase` composes."""

    @property
    def extents_text(self) -> str: ...

    @property
    def types_text(self) -> str: ...

    @property
    def kind_text(self) -> str: ...

    @property
    def bytes(self) -> int:
        """The bytes that memory must move at least."""
        ...

    @property
    def kind(self) -> Hashable:
        """Everything that decides which kernels compute it, except extents and alignment."""
        ...


P = TypeVar("P", bound=Problem)


class Kernels(Generic[P]):
    """Kernels of one kind: for instance, those with one mainloop.

    Each `misfit_*` method returns the obstacle in words, or None if there is no obstacle.
    """

    settings: tuple[str, ...] = ()
    """The run-time arguments that a tactic may set: names of fields of `Tactic`."""

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        """Why the kernel computes no problem of this kind, whatever the extents. The decisive fields of the
        kernel and the kind (`Family.decisive`) are known to be equal."""
        return None

    def misfit_extents(self, record: KernelRecord, problem: P) -> str | None:
        """Why the kernel does not take the problem's extents or alignment. It computes the problem's kind."""
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        """Why the kernel does not run with the tactic's run-time arguments, whatever the problem."""
        return misfit_settings(tactic, self.settings)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        """Why the tactic does not compute a problem that its kernel takes: for instance, k is too short for
        the number of splits."""
        return None

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        """Why a device that runs the kernel's code does not run the tactic: for instance, it has no room for
        the clusters."""
        return None

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        """Why a row of the result may have other bits if the problem has other rows, or more of them; None if
        its bits follow from the row, the other operand and the kind alone.

        All tactics of a family for which this is None must give a row the same bits: in batch-invariant mode
        selection chooses among them by m.
        """
        return "its family is not known to give a row the same bits in every batch"

    def candidates(self, record: KernelRecord, problem: P, device: DeviceProperties) -> Sequence[Tactic]:
        """The kernel's tactics that selection estimates on a device. Tuning tries more (`Family.variants`,
        `wider`)."""
        return (plain(record.name),)

    def invariant_candidates(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Sequence[Tactic]:
        """The kernel's tactics that selection estimates in batch-invariant mode."""
        return [
            tactic
            for tactic in self.candidates(record, problem, device)
            if self.misfit_invariant(tactic, record, problem) is None
        ]

    def invariant_order(self, record: KernelRecord, problem: P) -> str:
        """The order in which batch-invariant mode adds products along k, in words, if it splits k; else
        empty."""
        return ""

    def estimator(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The cost model of one kernel for a problem, as a function of a tactic. None if no model knows the
        kernel's architecture."""
        return None

    def refine(
        self, nearest: Sequence[tuple[KernelRecord, Tactic]], problem: P, device: DeviceProperties
    ) -> Sequence[Estimate | None]:
        """Estimates of a second model, which is more accurate than `estimator` and slower. Selection asks it
        about the tactics that come first by `estimator`, and orders these anew. None for a tactic that the
        second model does not know."""
        return [None] * len(nearest)

    def does_extra_work(self, record: KernelRecord, problem: P) -> bool:
        """Whether the kernel does work that the problem does not need: for instance, it adds a bias of zero.
        If two kernels are equally fast, selection prefers the one without extra work."""
        return False
