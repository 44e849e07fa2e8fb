"""The search for a problem's fastest tactic: what the cost model takes to be hopeless is left out, the rest
is timed in stages (`tilewright.tools.tuning.stages`).

This module needs no GPU and no torch: times come through a `Clock`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, TilewrightError
from tilewright.tools.tuning.stages import KEEP_LEAST, Clock, Options, StagedTiming
from tilewright.tools.tuning.trials import Timing

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.declarations.table import KernelRecord
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family
    from tilewright.selection.tuned_files import Entry
    from tilewright.selection.weighing import Candidate


def promising(
    ranked: Sequence[Candidate], factor: float, most: int | None = None, least: int = 1
) -> list[Candidate]:
    """The first candidates of the model's order, within `factor` of the first, limited to the given least
    and greatest number."""
    limit = factor * ranked[0].estimate.seconds if ranked else 0.0
    near = sum(candidate.estimate.seconds <= limit for candidate in ranked)
    return list(ranked[: max(near, least)][:most])


@dataclass(frozen=True)
class Result:
    """The result for a problem."""

    problem: Any
    tactic: Tactic | None  # the fastest with a right result; None if there is none
    seconds: float | None
    legal: int = 0  # tactics of built kernels that compute the problem
    tried: int = 0  # tactics of these, and of their variants, that were timed
    rank: int | None = None  # of the tactic, whatever its variant, in the model's order, from 0
    model: Tactic | None = None  # the model's first
    model_seconds: float | None = None  # measured
    timings: tuple[Timing, ...] = field(default=(), repr=False)
    """The times of all tactics that were tried, in that order, as they were known at last."""
    reason: str | None = None  # why there is no tactic
    elapsed: float = 0.0  # seconds that the search took
    peer: float | None = None  # seconds of another library's call, by turns with the finalists
    notes: tuple[str, ...] = ()
    seen: frozenset[str] = field(default=frozenset(), repr=False)
    """The kernels that there were to choose from: all of the problem's kind that were built."""

    @property
    def failures(self) -> list[Timing]:
        return [timing for timing in self.timings if timing.seconds is None]

    def as_json(self) -> dict[str, Any]:
        """The result for a record."""
        failures = [
            {"tactic": str(timing.tactic), "reason": timing.failure, "wrong": timing.wrong}
            for timing in self.failures
        ]
        return {
            "problem": asdict(self.problem),
            "tactic": None if self.tactic is None else str(self.tactic),
            "us": None if self.seconds is None else round(self.seconds * 1e6, 4),
            "model": None if self.model is None else str(self.model),
            "model_us": None if self.model_seconds is None else round(self.model_seconds * 1e6, 4),
            "peer_us": None if self.peer is None else round(self.peer * 1e6, 4),
            "rank": self.rank,
            "legal": self.legal,
            "tried": self.tried,
            "times": {
                str(timing.tactic): round(timing.seconds * 1e6, 3)
                for timing in self.timings
                if timing.seconds is not None
            },
            "failures": failures,
            "reason": self.reason,
            "notes": list(self.notes),
            "seconds": round(self.elapsed, 3),
        }


def weighed(
    family: Family[Any], fitting: Sequence[KernelRecord], problem: Any, device: DeviceProperties
) -> tuple[list[Candidate], list[Tactic]]:
    """The tactics of kernels that compute the problem: in the model's order, and those of kernels that no
    model knows."""
    ranked = family.weigh(fitting, problem, device)
    names = {candidate.record.name for candidate in ranked}
    unranked = (record for record in fitting if record.name not in names)
    return ranked, [tactic for record in unranked for tactic in family.candidates(record, problem, device)]


def candidates(
    ranked: Sequence[Candidate],
    unknown: Sequence[Tactic],
    options: Options,
    incumbent: Entry | None = None,
    near: Iterable[Tactic] = (),
) -> list[Tactic]:
    """The tactics to time: the promising ones, those that no model knows, and those tuned `near`. With an
    incumbent: the incumbent, and tactics of kernels that it has not seen."""
    kept = [candidate.tactic for candidate in promising(ranked, options.factor, options.keep, KEEP_LEAST)]
    tactics = list(dict.fromkeys([*kept[:1], *near, *kept[1:], *unknown]))
    if incumbent is None:
        return tactics
    unseen = [
        tactic for tactic in tactics if tactic.kernel not in incumbent.seen and tactic != incumbent.tactic
    ]
    return [incumbent.tactic, *unseen]


def search(
    family: Family[Any],
    registry: Registry,
    problem: Any,
    device: DeviceProperties,
    *,
    make_clock: Callable[[Any], Clock],
    options: Options | None = None,
    excluded: Collection[Timing] = (),
    incumbent: Entry | None = None,
    near: Iterable[Tactic] = (),
) -> Result:
    """The fastest tactic of the kernels that are built. What fails is passed over, and is in the result.

    `excluded` are known failures, for example of a kernel that broke another process. If the problem has a
    tuned tactic (the incumbent), only kernels that it has not seen are tried, because the others have lost to
    it. `near` are tactics that fit and won for similar problems: they are always tried.

    Raises GpuLostError, and UnsupportedDeviceError where no kernel of the family runs on the GPU.
    """
    started = time.monotonic()
    options = Options() if options is None else options
    records = registry.route(family.name, device)
    fitting = [
        record for record in family.fitting_kept(registry, records, problem) if registry.is_built(record)
    ]
    ranked, unknown = weighed(family, fitting, problem, device)
    names = {record.name for record in fitting}
    kept = candidates(
        ranked, unknown, options, incumbent, [tactic for tactic in near if tactic.kernel in names]
    )
    everything = len(ranked) + len(unknown)
    seen = frozenset(
        record.name for record in family.of_kind(registry, records, problem.kind) if registry.is_built(record)
    )
    if incumbent is not None:
        seen |= incumbent.seen
        if incumbent.tactic.kernel not in names:
            return Result(problem, None, None, everything, reason=f"{incumbent.tactic}, tuned, is not built")
        if kept == [incumbent.tactic]:
            note = "by the cost model no other kernel comes near what is tuned: nothing was timed"
            return Result(problem, incumbent.tactic, incumbent.seconds, everything, notes=(note,), seen=seen)
    if not kept:
        built = [record for record in records if registry.is_built(record)]
        why = family.explain(built, problem).strip() or f"no {family.name} kernel for {device.name} is built"
        return Result(problem, None, None, reason=why)
    try:
        clock = make_clock(problem)
    except GpuLostError:
        raise
    except TilewrightError as error:  # as operands that do not fit into memory
        return Result(problem, None, None, everything, reason=str(error))
    stages = StagedTiming(family, registry.record, clock, options, excluded)
    one_wave = {candidate.tactic for candidate in ranked if candidate.estimate.waves == 1}
    best = stages.run(kept, one_wave)
    order = [candidate.tactic for candidate in ranked]
    return Result(
        problem,
        best,
        None if best is None else stages.trials.seconds(best),
        legal=everything,
        tried=len(stages.trials.timed),
        rank=_rank(family, order, best),
        model=order[0] if order else None,
        model_seconds=stages.trials.seconds(order[0]) if order else None,
        timings=tuple(stages.trials.timed.values()),
        reason=None if best is not None else stages.why_nothing(),
        elapsed=time.monotonic() - started,
        notes=tuple(stages.notes),
        seen=seen,
        peer=stages.peer,
    )


def _rank(family: Family[Any], order: Sequence[Tactic], best: Tactic | None) -> int | None:
    """The place in the order of the tactic, or of the tactic of which it is a variant."""
    if best is None:
        return None
    near = (number for number, tactic in enumerate(order) if tactic.kernel == best.kernel)
    return next((number for number in near if best in family.variants(order[number])), None)
