"""The model's first tactics for thousands of m at once, with numpy.

The choice for one m estimates some 700 tactics, and takes 17 ms; here it takes 2 ms. Between two multiples
of a kernel's tile the terms of `cost_lean` depend on m through few numbers. So a tactic is estimated for a
whole such interval with arrays in the place of these numbers, by the same code. The answers are those of
`Family.weigh`, bit for bit: numpy adds and multiplies as Python does, products of extents are whole numbers
below 2^53, and powers and exponentials are Python's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import learnt
from tilewright.families.gemm.cost_lean import Kernel, Loads
from tilewright.families.gemm.problem import Problem
from tilewright.selection import corrections
from tilewright.selection.estimates import Estimate
from tilewright.selection.weighing import FAR, MOST_REFINED, Candidate

Array = Any  # of numpy
Possible = Callable[[KernelRecord, Problem, DeviceProperties], Sequence[Tactic]]

BLOCK = 2048  # values of m at once
_NEVER = np.iinfo(np.int64).max // 4096  # nanoseconds of a tactic that is no candidate
_HOW_K_IS_CUT = attrgetter("splits", "decomposition")


class _Exact(np.ndarray):
    """Numbers whose powers are Python's, to the last bit; numpy's may differ in it."""

    def __pow__(self, power: Any, mod: Any = None) -> Any:
        return np.array([number**power for number in self.tolist()]).view(_Exact)


class _Interval(Kernel):
    """A kernel on problems that differ in m alone. The number of tiles along m is the same for all of them,
    and more than one."""

    longer: Any = staticmethod(np.maximum)

    def __init__(self, record: KernelRecord, problem: Problem, rows: Array, device: DeviceProperties) -> None:
        """`problem`: with the first m; `rows`: every m."""
        super().__init__(record, problem, device)
        self.record = record
        self.problem = replace(problem, m=rows)
        self._side = 1 if self.swapped else 0  # of m: that of A, or of B
        extents: list[Any] = [*self.extents]
        extents[self._side] = rows
        self.extents = (extents[0], extents[1])
        k_bytes = problem.batch * problem.k * self.size
        self.bytes_a, self.bytes_b = (extent * k_bytes for extent in extents)

    def loads(self, side: int, sharers: int) -> Loads:
        if side != self._side:
            return super().loads(side, sharers)
        tile, tiles = self.tile[side], (self.down, self.across)[side]
        inside = self.extents[side] - (tiles - 1) * tile
        outside: Any = np.minimum(tile - inside, tile / sharers)
        return Loads(tile, tile / sharers - outside, outside)

    def nanoseconds(self, tactic: Tactic) -> Array:
        terms = self.terms(tactic)
        return _rounded(terms.whole / self.hertz + terms.added / self.hertz)


class _Weighed(NamedTuple):
    """A tactic on an interval: its place among the values, and its nanoseconds there."""

    interval: _Interval
    tactic: Tactic
    first: int
    nanoseconds: Array


def first_of_each(
    records: Sequence[KernelRecord],
    problem: Problem,
    values: Sequence[int],
    device: DeviceProperties,
    *,
    possible: Possible,
) -> dict[int, Candidate]:
    """The first of `Family.weigh`'s tactics, by m. All m are left out if arrays do not serve.

    records: the kernels that fit the largest m. Whether a lean kernel fits does not depend on m, and other
    kernels that fit fewer rows fit none of these. possible: a kernel's candidates.
    """
    side = [record.config["tile"][1 if record.config["swap_ab"] else 0] for record in records]
    lean = all(record.config["mainloop"] == "lean" for record in records)
    if not records or not lean or problem.layout[0] != "t" or not learnt.is_learnt(problem, device):
        return {}
    chosen: dict[int, Candidate] = {}
    swept = [value for value in values if value > max(side)]
    for start in range(0, len(swept), BLOCK):
        rows = np.array(swept[start : start + BLOCK], dtype=float).view(_Exact)
        chosen |= _Block(records, problem, rows, device, possible).firsts()
    return chosen


class _Block:
    """The candidates for some values of m."""

    def __init__(
        self,
        records: Sequence[KernelRecord],
        problem: Problem,
        rows: Array,
        device: DeviceProperties,
        possible: Possible,
    ) -> None:
        self._rows, self._problem, self._device, self._possible = rows, problem, device, possible
        weighed: list[_Weighed] = []
        waiting: list[tuple[_Weighed, list[Tactic]]] = []
        for first, interval in itertools.chain.from_iterable(map(self._intervals, records)):
            candidates = possible(interval.record, replace(problem, m=int(rows[first])), device)
            for _, alike in itertools.groupby(candidates, _HOW_K_IS_CUT):
                tactic, *rest = [*alike]
                weighed.append(_Weighed(interval, tactic, first, interval.nanoseconds(tactic)))
                if rest:
                    waiting.append((weighed[-1], rest))
        near = FAR * _least(weighed, len(rows))
        for leader, rest in waiting:
            is_near = leader.nanoseconds <= near[leader.first : leader.first + len(leader.nanoseconds)]
            if is_near.any():
                for tactic in rest:
                    nanoseconds = np.where(is_near, leader.interval.nanoseconds(tactic), _NEVER)
                    weighed.append(_Weighed(leader.interval, tactic, leader.first, nanoseconds))
        self._weighed = weighed
        order = sorted({item.tactic for item in weighed})
        self._rank = {tactic: rank for rank, tactic in enumerate(order)}

    def _intervals(self, record: KernelRecord) -> Iterator[tuple[int, _Interval]]:
        """The intervals of m between multiples of a kernel's tile, each with the place of its first m."""
        side = record.config["tile"][1 if record.config["swap_ab"] else 0]
        tiles = (-(-self._rows // side)).tolist()
        start = 0
        for _, group in itertools.groupby(tiles):
            end = start + len(list(group))
            rows = self._rows[start:end]
            problem = replace(self._problem, m=int(rows[0]))
            yield start, _Interval(record, problem, rows, self._device)
            start = end

    def firsts(self) -> dict[int, Candidate]:
        """The first tactic of those that are refined, by m."""
        keys = self._keys()
        best = np.full(len(self._rows), np.iinfo(np.int64).max)
        winners: list[Candidate | None] = [None] * len(self._rows)
        most = np.partition(keys, min(MOST_REFINED, len(keys)) - 1, axis=0)[min(MOST_REFINED, len(keys)) - 1]
        refined = [(item, places) for item in self._weighed if (places := self._among(item, keys, most)).size]
        for item, places, seconds in self._refined(refined):
            key = _rounded(seconds) * len(self._rank) + self._rank[item.tactic]
            for place in (key < best[places]).nonzero()[0]:
                best[places[place]] = key[place]
                estimate = Estimate(float(seconds[place]), 0, "", 0.0, 0.0)
                winners[places[place]] = Candidate(item.tactic, item.interval.record, estimate)
        return {int(m): winner for m, winner in zip(self._rows, winners, strict=True) if winner is not None}

    def _keys(self) -> Array:
        """A row for item tactic, a column for item m: numbers in the order of nanoseconds, then of names."""
        keys = np.full((len(self._rank), len(self._rows)), _NEVER * len(self._rank))
        for item in self._weighed:
            rank = self._rank[item.tactic]
            keys[rank, item.first : item.first + len(item.nanoseconds)] = (
                item.nanoseconds * len(self._rank) + rank
            )
        return keys

    def _among(self, item: _Weighed, keys: Array, most: Array) -> Array:
        """The places of the values for which a tactic is among those that are refined."""
        end = item.first + len(item.nanoseconds)
        own = keys[self._rank[item.tactic], item.first : end]
        return item.first + ((own <= most[item.first : end]) & (item.nanoseconds < _NEVER)).nonzero()[0]

    def _refined(self, refined: Sequence[tuple[_Weighed, Array]]) -> Iterator[tuple[_Weighed, Array, Array]]:
        """The seconds of tactics, corrected by what was learnt (`learnt.refine`)."""
        features, times = [], []
        for item, places in refined:
            here = places - item.first
            kernel, terms = item.interval, item.interval.terms(item.tactic)
            named = learnt.features(kernel, terms)
            features.append(_columns([*named.values()], here))
            times.append((_at(terms.whole / kernel.hertz, here), _at(terms.added / kernel.hertz, here)))
        columns = [*np.concatenate(features, axis=1)]
        trees = learnt.CORRECTIONS.trees(tuple(named))
        answers = trees.answers_of(columns, np.arange(len(columns[0]))).tolist()
        factors = np.array([corrections.factor(answer) for answer in answers])
        start = 0
        for (item, places), (whole, added) in zip(refined, times, strict=True):
            factor = factors[start : start + len(places)]
            start += len(places)
            yield item, places, whole * factor + added * factor


def _least(weighed: Sequence[_Weighed], count: int) -> Array:
    least = np.full(count, _NEVER)
    for item in weighed:
        own = least[item.first : item.first + len(item.nanoseconds)]
        np.minimum(own, item.nanoseconds, out=own)
    return least


def _columns(values: Sequence[Any], here: Array) -> Array:
    return np.stack([_at(value, here) for value in values])


def _at(value: Any, here: Array) -> Array:
    """The numbers at some places of an array; a number as often as there are places."""
    if isinstance(value, np.ndarray):
        return np.asarray(value, dtype=float)[here]
    return np.full(len(here), float(value))


def _rounded(seconds: Array) -> Array:
    """Whole nanoseconds, as `round` has them."""
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64)
