"""Tuning many problems: what is known is left out, each result is on disk before the next is looked at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright import paths
from tilewright.errors import ForeignTunedFileError, TunedFileError
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning import files, workers
from tilewright.tuning.engine import Answer, Ended, Engine
from tilewright.tuning.files import Entry
from tilewright.tuning.header import Header
from tilewright.tuning.search import Options, Result
from tilewright.tuning.trials import Timing
from tilewright.tuning.workers import Lost, Shard, Site

if TYPE_CHECKING:
    from tilewright.ops.common.family import Family
    from tilewright.registry import Registry
    from tilewright.routing import Capability

MOST_LOSSES = 4  # processes that one problem may cost; then it has no result


class Book:
    """A tuned file that takes each result at once, so that a kill loses the one under way alone.

    Opening it says whether it can be written: raises ForeignTunedFileError where the file that is there is of
    another machine, StoreError where it cannot be written. A damaged one is set aside; `messages` say so.
    """

    def __init__(self, path: Path, header: Header, family: Family[Any], registry: Registry) -> None:
        self.path = path
        self.messages: list[str] = []
        self._header = header
        self._family = family
        self._registry = registry
        try:
            self._update([])
        except ForeignTunedFileError as error:
            raise ForeignTunedFileError(
                error.message,
                hint="Nothing was measured, and the file is as it was. Move it away, or write elsewhere: "
                "`--out FOLDER`, and TILEWRIGHT_TUNED=FOLDER for those who use it.",
            ) from None
        except TunedFileError as error:
            self.messages.append(f"{error.message}; it is now {files.set_aside(path)}")
            self._update([])

    def write(self, result: Result) -> None:
        """It is on disk when this returns. A result without a tactic is not written."""
        if result.tactic is not None and result.seconds is not None:
            self._update([Entry(result.problem, result.tactic, result.seconds)])

    def known(self, problems: Iterable[Any]) -> set[Any]:
        """Those that the file has an entry of, for the kernels that there are to choose from now."""
        capability = self._header.capability_numbers
        return known(self.path, problems, self._family, self._registry, capability)

    def _update(self, entries: Iterable[Entry]) -> None:
        files.update(self.path, self._header, self._family, self._registry, entries)


def known(
    path: Path, problems: Iterable[Any], family: Family[Any], registry: Registry, capability: Capability
) -> set[Any]:
    """The problems that a tuned file has an entry of, for the kernels that there are to choose from now.

    Raises what `files.read` raises.
    """
    runnable = registry.runnable(family.name, capability)
    found: dict[Any, set[files.Key]] = {}
    for section in files.read(path).sections:
        extents = {tuple(row.get(name) for name in family.extents) for row in section.rows}
        found.setdefault((files.frozen(section.kind), section.candidates), set()).update(extents)
    answer = set()
    for problem in problems:
        of_kind = family.of_kind(registry, runnable, problem.kind)
        key = (files.frozen(files.kind_of(family, problem)), files.candidates_of(of_kind))
        if files.extents_of(family, problem) in found.get(key, ()):
            answer.add(problem)
    return answer


def tune_problems(
    problems: Sequence[Any],
    engine: Engine,
    site: Callable[[int], Site],
    *,
    book: Book | None,
    options: Options | None = None,
) -> Iterator[Result]:
    """Results as they come, each written before it is given. A tactic that ends its process is a failure of
    its problem, which then goes on without it.

    Raises what a search raises, and StoreError. Whoever stops early closes the engine.
    """
    shards = _shards(list(dict.fromkeys(problems)), engine.shard)
    first = Shard((), site, Options() if options is None else options)
    for some in shards:
        engine.submit(workers.tune_shard, replace(first, problems=some))
    state = _State(engine)
    for event in engine.events():
        for result in state.take(event):
            if book is not None:
                book.write(result)
            yield result


class _State:
    """What has become of the shards."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._answered: set[Any] = set()
        self._broke: dict[Any, tuple[Timing, ...]] = {}
        self._blamed: set[Any] = set()  # problems whose loss is in `_broke` already
        self._losses: dict[Any, int] = {}

    def take(self, event: Answer | Ended | None) -> Iterator[Result]:
        if isinstance(event, Answer):
            value = event.value
            if isinstance(value, Lost):
                self._blame(value.problem, value.tactic, value.message)
                self._blamed.add(value.problem)
            else:
                self._answered.add(value.problem)
                yield value
        elif isinstance(event, Ended):
            left = [one for one in event.shard.problems if one not in self._answered]
            if left:
                yield from self._go_on(event, left)

    def _go_on(self, event: Ended, left: Sequence[Any]) -> Iterator[Result]:
        """The first that has no answer was under way; it is tried again without what broke it."""
        broken, failure = left[0], event.failure or "its process gave no answer"
        if broken in self._blamed:
            self._blamed.discard(broken)
        else:
            tactic = None if event.under_way is None else Tactic.parse(event.under_way)
            self._blame(broken, tactic, failure)
        self._losses[broken] = self._losses.get(broken, 0) + 1
        if self._losses[broken] >= MOST_LOSSES:
            self._answered.add(broken)
            why = f"given up after {MOST_LOSSES} processes, the last: {failure}"
            yield Result(broken, None, None, timings=self._broke.get(broken, ()), reason=why)
            left = left[1:]
        for some in _shards(left, self._engine.shard):
            excluded = {one: self._broke[one] for one in some if one in self._broke}
            again = replace(event.shard, problems=some, excluded=excluded)
            self._engine.submit(workers.tune_shard, again)

    def _blame(self, problem: Any, tactic: Tactic | None, failure: str) -> None:
        if tactic is not None:
            self._broke[problem] = (*self._broke.get(problem, ()), Timing(tactic, None, failure))


def _shards(problems: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
    left = iter(problems)
    while some := tuple(itertools.islice(left, size)):
        yield some


def default_folder() -> Path:
    """Where results go unless another place is named: the first of the user's folders that count."""
    return next(iter(paths.tuned_dirs()), paths.cache_dir() / "tuned")
