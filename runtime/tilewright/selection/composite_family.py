"""A family with several kinds of kernels, such as one kind for each mainloop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.estimates import Estimate
from tilewright.selection.family import Family
from tilewright.selection.kernels import Kernels, P


class CompositeFamily(Family[P]):
    """Passes every question about a kernel on to the kernel's kind."""

    def kernels(self, record: KernelRecord) -> Kernels[P]:
        """The kind of a kernel."""
        raise NotImplementedError

    def misfit_options(self, record: KernelRecord, kind: Any) -> str | None:
        return self.kernels(record).misfit_options(record, kind)

    def misfit_extents(self, record: KernelRecord, problem: P) -> str | None:
        return self.kernels(record).misfit_extents(record, problem)

    def misfit_arguments(self, tactic: Tactic, record: KernelRecord) -> str | None:
        return self.kernels(record).misfit_arguments(tactic, record)

    def misfit_together(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        return self.kernels(record).misfit_together(tactic, record, problem)

    def misfit_invariant(self, tactic: Tactic, record: KernelRecord, problem: P) -> str | None:
        return self.kernels(record).misfit_invariant(tactic, record, problem)

    def candidates(self, record: KernelRecord, problem: P, device: DeviceProperties) -> Sequence[Tactic]:
        return self.kernels(record).candidates(record, problem, device)

    def invariant_candidates(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Sequence[Tactic]:
        return self.kernels(record).invariant_candidates(record, problem, device)

    def invariant_order(self, record: KernelRecord, problem: P) -> str:
        return self.kernels(record).invariant_order(record, problem)

    def misfit_device(self, tactic: Tactic, record: KernelRecord, device: DeviceProperties) -> str | None:
        return self.kernels(record).misfit_device(tactic, record, device)

    def estimator(
        self, record: KernelRecord, problem: P, device: DeviceProperties
    ) -> Callable[[Tactic], Estimate] | None:
        return self.kernels(record).estimator(record, problem, device)

    def refine(
        self, nearest: Sequence[tuple[KernelRecord, Tactic]], problem: P, device: DeviceProperties
    ) -> Sequence[Estimate | None]:
        by_kind: dict[Kernels[P], list[int]] = {}
        for index, (record, _) in enumerate(nearest):
            by_kind.setdefault(self.kernels(record), []).append(index)
        estimates: list[Estimate | None] = [None] * len(nearest)
        for kernels, places in by_kind.items():
            weighed = kernels.refine([nearest[place] for place in places], problem, device)
            for place, estimate in zip(places, weighed, strict=True):
                estimates[place] = estimate
        return estimates

    def does_extra_work(self, record: KernelRecord, problem: P) -> bool:
        return self.kernels(record).does_extra_work(record, problem)
