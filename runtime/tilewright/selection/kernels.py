"""What selection asks of kernels that are alike: what they compute, what they take, how long they take."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, misfit_settings, plain
from tilewright.selection.estimates import Estimate


class Problem(Protocol):
    """What a caller asks. Messages show its `str()`, which `tilewright.declarations.problem.ProblemBase` puts
    together."""

    @property
    def extents_text(self) -> str: ...

    @property
    def types_text(self) -> str: ...

    @property
    def kind_text(self) -> str: ...

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least."""
        ...

    @property
    def kind(self) -> Hashable:
        """What decides which kernels compute it, but for extents and alignment."""
        ...


P = TypeVar("P", bound=Problem)


class Kernels(Generic[P]):
    """Kernels that are alike: those with one mainloop, say.

    Each `misfit_*` method answers None where there is no obstacle, else the obstacle in words.
    """

    settings: tuple[str, ...] = ()
    """The run-time arguments that a tactic may give, by the names of `Tactic`'s fields."""

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        """Why the kernel computes no problem of this kind, whatever the extents. The decisive fields of both
        (`Family.decisive`) are known to be equal."""
        return None

    def misfit_extents(self, record: KernelRecord, problem: P) -> str | None:
        """Why the kernel, which computes the problem's kind, does not take its extents or alignment."""
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        """Why the kernel does not run with the tactic's run-time arguments, whatever the problem."""
        return misfit_settings(tactic, self.settings)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        """Why the tactic does not compute a problem that its kernel takes: k is too short for so many splits,
        say."""
        return None

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        """Why a device that runs the kernel's code does not run the tactic: it has no room for its clusters,
        say."""
        return None

    def candidates(self, record: KernelRecord, problem: P) -> Sequence[Tactic]:
        """The kernel's tactics that selection estimates. Tuning tries more (`Family.variants`, `wider`)."""
        return (plain(record.name),)

    def estimator(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The cost model of one kernel for a problem, as a function of a tactic. None where no model knows
        the kernel's architecture."""
        return None

    def refine(
        self, nearest: Sequence[tuple[KernelRecord, Tactic]], problem: P, device: DeviceProperties
    ) -> Sequence[Estimate | None]:
        """Estimates of a second model, which errs less than `estimator` and takes longer. Selection asks it
        about the tactics that come first by `estimator`, and orders these anew. None for a tactic that the
        second model does not know."""
        return [None] * len(nearest)

    def does_extra_work(self, record: KernelRecord, problem: P) -> bool:
        """Whether the kernel does something that the problem does not ask for (adds a bias of nothing, say).
        Of two kernels that take equally long, selection prefers the one that does not."""
        return False
