"""Kernels that are alike, as selection sees them: what they compute, what they take, how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tilewright.device import DeviceProperties
from tilewright.ops.common.estimates import Estimate
from tilewright.ops.common.tactics import Tactic, misfit_settings, plain
from tilewright.table import KernelRecord


class Problem(Protocol):
    """What a caller asks. `str()` is what messages call it; `tilewright.ops.common.problem.Told` makes it of
    its parts."""

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
    """Kernels with one mainloop, say. A `misfit` answers None, or a reason for people."""

    settings: tuple[str, ...] = ()
    """What a tactic may say besides its kernel."""

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        """Of a kernel and a problem's kind whose decisive fields are equal: whether it computes such
        problems, for some extents."""
        return None

    def misfit_extents(self, record: KernelRecord, problem: P) -> str | None:
        """Of a kernel that computes the problem's kind."""
        return None

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        """Of a tactic and its kernel, whatever the problem."""
        return misfit_settings(tactic, self.settings)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        """Of a tactic, its kernel, and a problem that the kernel takes: what none of them says alone."""
        return None

    def candidates(self, record: KernelRecord, problem: P) -> Sequence[Tactic]:
        """The tactics of a kernel that a first selection weighs."""
        return (plain(record.name),)

    def estimator(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        """The cost model of one kernel: what its tactics share is worked out once. None where there is none
        for the kernel's architecture."""
        return None

    def finer(
        self, nearest: Sequence[tuple[KernelRecord, Tactic]], problem: P, device: DeviceProperties
    ) -> Sequence[Estimate | None]:
        """By a model that errs less than `estimator`, and takes longer: it orders the first of the other's
        order anew. None of a tactic that it does not know."""
        return [None] * len(nearest)

    def idle(self, record: KernelRecord, problem: P) -> bool:
        """Whether the kernel does more than the problem asks; it comes after one that does not."""
        return False
