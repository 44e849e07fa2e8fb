"""Factors on a cost model's estimates, which trees have learnt from measured times.

The mechanisms of a cost model put a tactic near its time. Their error depends on several facts at once, which
boosted trees (`benchmarks/fit/`) have learnt: the logarithm of the factor on an estimate, from features of a
kernel and a tactic. The factor is bounded, so that a problem unlike all that were timed stays near its
estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import exp
from pathlib import Path
from typing import Any, TypeVar

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.base import reading
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import UnreadableFileError
from tilewright.selection.estimates import Estimate
from tilewright.selection.trees import Trees

P = TypeVar("P")

UNIT = 1e-4  # the unit of the trees' answers
MOST = 0.35  # the largest magnitude of the logarithm of a factor


class Corrections:
    """What trees in a file have learnt. The file's first line names the features that they ask about, in the
    order of their numbers; `command` writes it. `gpu`: the one whose times taught the trees."""

    def __init__(self, weights: Path, command: str, gpu: DeviceProperties = H200) -> None:
        self.weights, self.command, self.gpu = weights, command, gpu

    def serve(self, device: DeviceProperties) -> bool:
        """Whether the trees hold for a GPU: their thresholds for waves and busy SMs are absolute numbers, so
        it has as many SMs as the GPU that taught them. A part of that GPU (MIG, MPS) has fewer."""
        return device.capability == self.gpu.capability and device.sm_count == self.gpu.sm_count

    def estimates(
        self,
        nearest: Sequence[tuple[KernelRecord, Tactic]],
        problem: P,
        device: DeviceProperties,
        kernel_of: Callable[[KernelRecord, P, DeviceProperties], Any],
        features: Callable[[Any, Any], Mapping[str, float]],
    ) -> Sequence[Estimate | None]:
        """The corrected estimates of tactics; None on GPUs for which the trees do not hold. A cost model's
        kernel, which `kernel_of` makes, has `terms(tactic)` and `estimate(terms, factor)`;
        `features(kernel, terms)` are what the trees ask about."""
        if not nearest or not self.serve(device):
            return [None] * len(nearest)
        records = {record.name: record for record, _ in nearest}
        kernels = {name: kernel_of(record, problem, device) for name, record in records.items()}
        pairs = [(kernel := kernels[record.name], kernel.terms(tactic)) for record, tactic in nearest]
        factors = self.factors([features(kernel, terms) for kernel, terms in pairs])
        return [kernel.estimate(terms, by) for (kernel, terms), by in zip(pairs, factors, strict=True)]

    def factors(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """The factors on the estimates of tactics with these features. Raises what `trees` raises."""
        answers = self.trees(tuple(rows[0])).answers([tuple(row.values()) for row in rows])
        return [factor(answer) for answer in answers]

    def trees(self, names: Sequence[str]) -> Trees:
        """The trees, which ask about features by their places. Raises UnreadableFileError if they were learnt
        from other features than `names`, or from these in another order."""
        first, trees = self._read
        if first != head(names):
            raise UnreadableFileError(
                self.weights,
                f"its trees were learnt from other features: expected {head(names)!r}, got {first!r}",
                hint=f"Run `{self.command}`.",
            )
        return trees

    @cached_property
    def _read(self) -> tuple[str, Trees]:
        first, _, text = reading.text(self.weights).partition("\n")
        return first, Trees(text)


def factor(answer: float) -> float:
    """The factor that the sum of the trees' answers stands for."""
    return exp(max(-MOST, min(MOST, answer * UNIT)))


def head(names: Iterable[str]) -> str:
    """The first line of the file of trees that ask about these features."""
    return f"features: {' '.join(names)}"
