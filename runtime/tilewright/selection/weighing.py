"""Weighs the tactics of kernels that compute a problem, by their cost models."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.estimates import Estimate
from tilewright.selection.kernels import Kernels, P

# The number of tactics that `refine` estimates anew. For 95 % of 759 dense products the fastest timed tactic
# was among the first 48. For 399 products that had taught the trees nothing, the choice among the first 96
# was no better.
MOST_REFINED = 48
# A kernel is far behind if its estimate, for one way to cut k and without clusters, exceeds the fastest such
# estimate by this factor. Its clusters are not estimated then. With 1.3, kernels that need a cluster were
# left out although they were the fastest: 4144x456x16184 of layout nt lost 22 %. With 2, all of 500 dense
# products had the same choice as without a limit.
FAR = 2.0


class Candidate(NamedTuple):
    tactic: Tactic
    record: KernelRecord
    estimate: Estimate


# Nanoseconds, whether the kernel does extra work, the tactic (to order equals by name), the candidate.
_Weighed = tuple[float, bool, Tactic, Candidate]
_Weigh = Callable[[Tactic], _Weighed]
_ORDER = itemgetter(0, 1, 2)
_HOW_K_IS_CUT = attrgetter("splits", "decomposition")


def weigh(
    kernels: Kernels[P],
    fitting: Iterable[KernelRecord],
    problem: P,
    device: DeviceProperties,
    *,
    batch_invariant: bool = False,
) -> list[Candidate]:
    """The legal tactics of kernels that fit, the best first (`Family.weigh`).

    A kernel's candidates that cut k in the same way follow one another, and differ in their clusters. If the
    first of them is far behind the fastest (`FAR`), the rest are not estimated. The first `MOST_REFINED`
    candidates are estimated again by `refine`, and ordered by its estimates.
    """
    ranked: list[_Weighed] = []
    clusters: list[tuple[float, _Weigh, list[Tactic]]] = []
    for record in fitting:
        weigher = _weigher(kernels, record, problem, device)
        if weigher is None:
            continue
        tactics = possible(kernels, record, problem, device, batch_invariant=batch_invariant)
        for _, alike in itertools.groupby(tactics, _HOW_K_IS_CUT):
            first, *rest = alike
            ranked.append(weigher(first))
            if rest:
                clusters.append((ranked[-1][0], weigher, rest))
    near = FAR * min((nanoseconds for nanoseconds, *_ in ranked), default=0)
    for nanoseconds, weigher, rest in clusters:
        if nanoseconds <= near:
            ranked += map(weigher, rest)
    ranked.sort(key=_ORDER)
    nearest = sorted(_refined(kernels, ranked[:MOST_REFINED], problem, device), key=_ORDER)
    return [candidate for *_, candidate in (*nearest, *ranked[MOST_REFINED:])]


def possible(
    kernels: Kernels[P],
    record: KernelRecord,
    problem: P,
    device: DeviceProperties,
    *,
    batch_invariant: bool = False,
) -> Sequence[Tactic]:
    """The candidates of a kernel for which the device has room."""
    tactics_of = kernels.invariant_candidates if batch_invariant else kernels.candidates
    candidates = tactics_of(record, problem, device)
    if all(device.clusters):  # no cluster is known to be too large
        return candidates
    return [tactic for tactic in candidates if not kernels.misfit_device(tactic, record, device)]


def _weigher(
    kernels: Kernels[P],
    record: KernelRecord,
    problem: P,
    device: DeviceProperties,
) -> _Weigh | None:
    """The function that weighs one kernel's tactics; None if no model knows the kernel."""
    estimate_of = kernels.estimator(record, problem, device)
    if estimate_of is None:
        return None
    extra = kernels.does_extra_work(record, problem)

    def weigh(tactic: Tactic) -> _Weighed:
        estimate = estimate_of(tactic)
        return round(estimate.seconds * 1e9), extra, tactic, Candidate(tactic, record, estimate)

    return weigh


def _refined(
    kernels: Kernels[P], nearest: Sequence[_Weighed], problem: P, device: DeviceProperties
) -> Iterator[_Weighed]:
    """The same tactics, estimated by `refine` if it knows them."""
    tactics = [(candidate.record, candidate.tactic) for *_, candidate in nearest]
    for weighed, estimate in zip(nearest, kernels.refine(tactics, problem, device), strict=True):
        if estimate is None:
            yield weighed
            continue
        _, extra, tactic, candidate = weighed
        yield round(estimate.seconds * 1e9), extra, tactic, candidate._replace(estimate=estimate)
