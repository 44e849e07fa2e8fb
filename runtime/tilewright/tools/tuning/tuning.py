"""Tuning many problems: what is known is left out, each result is on disk before the next is looked at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base import paths
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ForeignTunedFileError, StoreError, TunedFileError
from tilewright.selection import tuned_files
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.sharding.engine import Answer, Ended, Engine
from tilewright.tools.tuning import tuned_writing, workers
from tilewright.tools.tuning.review import Review, Unseen, review
from tilewright.tools.tuning.search import Result
from tilewright.tools.tuning.stages import Options
from tilewright.tools.tuning.trials import Timing
from tilewright.tools.tuning.workers import Lost, Shard, Site

if TYPE_CHECKING:
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family

MOST_LOSSES = 4  # processes that one problem may break; then it has no result


class Book:
    """Writes each result to a tuned file at once, so that a kill loses only the problem under way.

    Opening it says whether it can be written: raises ForeignTunedFileError where the file that is there is of
    another machine, StoreError where it cannot be written. A damaged one is set aside; `messages` say so.
    """

    def __init__(self, path: Path, header: Header, family: Family[Any]) -> None:
        self.path = path
        self.messages: list[str] = []
        self._header = header
        self._family = family
        try:
            self._update([])
        except ForeignTunedFileError as error:
            raise ForeignTunedFileError(
                error.message,
                hint="Nothing was measured, and the file is as it was. Move it away, or write elsewhere: "
                "`--out FOLDER`, and TILEWRIGHT_TUNED=FOLDER for those who use it.",
            ) from None
        except TunedFileError as error:
            self.messages.append(f"{error.message}; it is now {tuned_writing.set_aside(path)}")
            self._update([])

    def write(self, result: Result) -> None:
        """It is on disk when this returns. A result without a tactic is not written."""
        if result.tactic is not None and result.seconds is not None:
            self._update([Entry(result.problem, result.tactic, result.seconds, result.seen)])

    def _update(self, added: Iterable[Entry]) -> None:
        tuned_writing.update(self.path, self._header, self._family, added)


class Known:
    """The entries of a tuned file, checked against the kernels of today. Raises what `tuned_files.read`
    raises. If the file does not exist, there are none."""

    def __init__(self, path: Path, family: Family[Any], registry: Registry) -> None:
        self._family = family
        try:
            reviewed = review(tuned_files.read(path), family, registry)
        except FileNotFoundError:
            reviewed = Review([], [], [])
        self._standing = {self._key(entry.problem) for entry in reviewed.standing}
        self._unseen = {self._key(unseen.entry.problem): unseen for unseen in reviewed.unseen}

    def standing(self, problems: Iterable[Any]) -> set[Any]:
        """The problems that have an entry whose kernel still exists."""
        return {problem for problem in problems if self._key(problem) in self._standing}

    def unseen(self, problems: Iterable[Any] | None = None) -> list[Unseen]:
        """Entries, of these problems or all, that have not seen every kernel of their kind."""
        if problems is None:
            return list(self._unseen.values())
        keys = dict.fromkeys(map(self._key, problems))
        return [self._unseen[key] for key in keys if key in self._unseen]

    def _key(self, problem: Any) -> tuned_files.Key:
        kind = tuned_files.frozen(tuned_files.kind_of(self._family, problem))
        return (*kind, *tuned_files.extents_of(self._family, problem))


def tune_problems(
    problems: Sequence[Any],
    engine: Engine,
    site: Callable[[int], Site],
    *,
    book: Book | None,
    options: Options | None = None,
    incumbents: Mapping[Any, Entry] | None = None,
) -> Iterator[Result]:
    """Results as they come, each written before it is given. A tactic that ends its process is a failure of
    its problem, which then goes on without it. Beside a problem's incumbent, only kernels that it has not
    seen are tried.

    Raises what a search raises, and StoreError. Whoever stops early closes the engine.
    """
    shards = _shards(list(dict.fromkeys(problems)), engine.shard)
    first = Shard((), site, Options() if options is None else options, incumbents=incumbents or {})
    for some in shards:
        own = {problem: first.incumbents[problem] for problem in some if problem in first.incumbents}
        engine.submit(workers.tune_shard, replace(first, problems=some, incumbents=own))
    state = _State(engine)
    for event in engine.events():
        for result in state.take(event):
            if book is not None:
                book.write(result)
            yield result


class _State:
    """The state of the shards."""

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
            left = [problem for problem in event.shard.problems if problem not in self._answered]
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
            excluded = {problem: self._broke[problem] for problem in some if problem in self._broke}
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
    """The default folder of results: the first of the user's folders that count. It may not exist.

    Raises StoreError if it is a file.
    """
    folder = next(iter(paths.tuned_dirs()), paths.cache_dir() / "tuned")
    if folder.exists() and not folder.is_dir():
        raise StoreError(
            f"expected a folder of tuned files, got the file {folder}",
            hint=f"Name a folder in {paths.TUNED}, or with --out.",
        )
    return folder
