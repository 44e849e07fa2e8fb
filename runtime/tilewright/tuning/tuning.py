"""Tuning many problems: what is known is left out, each result is on disk before the next is looked at."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright import context as contexts
from tilewright import paths
from tilewright.errors import ForeignTunedFileError, TunedFileError
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning import files, workers
from tilewright.tuning.engine import Answer, Ended, Engine
from tilewright.tuning.files import Entry
from tilewright.tuning.header import Header
from tilewright.tuning.search import Clock, Options, Result, Timing, search
from tilewright.tuning.workers import Lost, Shard, Site

if TYPE_CHECKING:
    from tilewright.context import Context
    from tilewright.device import DeviceProperties
    from tilewright.ops.common.family import Family
    from tilewright.registry import Registry

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
        runnable = self._registry.runnable(self._family.name, self._header.capability_numbers)
        sections = files.read(self.path).sections
        found: dict[Any, set[files.Key]] = {}
        for section in sections:
            extents = {tuple(row.get(name) for name in self._family.extents) for row in section.rows}
            found.setdefault((files.frozen(section.kind), section.candidates), set()).update(extents)
        known = set()
        for problem in problems:
            of_kind = self._family.of_kind(self._registry, runnable, problem.kind)
            key = (files.frozen(files.kind_of(self._family, problem)), files.candidates_of(of_kind))
            if files.extents_of(self._family, problem) in found.get(key, ()):
                known.add(problem)
        return known

    def _update(self, entries: Iterable[Entry]) -> None:
        files.update(self.path, self._header, self._family, self._registry, entries)


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
            yield Result(broken, None, None, failures=self._broke.get(broken, ()), reason=why)
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


@dataclass
class Session:
    """What `tune` has found so far."""

    results: list[Result] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


Clocks: TypeAlias = "Callable[[str, DeviceProperties], Callable[[Any], Clock]]"
"""Of a family's name and a GPU: what makes the clock of a problem."""


class _Tuner:
    """Tunes the problems that ops meet, in this process."""

    def __init__(
        self,
        context: Context,
        session: Session,
        *,
        file: Path | None,
        write: bool,
        again: bool,
        options: Options,
        clocks: Clocks | None,
    ) -> None:
        self._context = context
        self._session = session
        self._file = file
        self._write = write
        self._again = again
        self._options = options
        self._clocks = clocks
        self._lock = threading.RLock()
        self._met: set[Any] = set()
        self._books: dict[Any, Book] = {}

    def meet(self, family: Family[Any], problem: Any, device: DeviceProperties) -> None:
        """What `Context.tuner` is called with."""
        with self._lock:
            key = (family.name, device, problem)
            if key in self._met or not self._can_time(problem, device):
                return
            self._met.add(key)
            tuned = self._context.tuned(family, device)
            if not self._again and tuned is not None and tuned.found(problem) is not None:
                return
            book = self._book(family, device) if self._write else None
            result = self._search(family, problem, device)
            self._session.results.append(result)
            if result.tactic is None or result.seconds is None:
                return
            if book is not None:
                book.write(result)
            self._context.add_tuned(family, device, Entry(problem, result.tactic, result.seconds))

    def _can_time(self, problem: Any, device: DeviceProperties) -> bool:
        if self._clocks is not None:
            return True
        import torch  # noqa: PLC0415 (an op has imported it)

        reason = None
        if torch.cuda.is_current_stream_capturing():
            reason = "a CUDA graph is being captured"
        elif self._context.device(torch.cuda.current_device()) != device:
            reason = f"the current GPU is not {device.name}"
        if reason is not None:
            self._session.messages.append(f"{problem} is not tuned: {reason}")
        return reason is None

    def _book(self, family: Family[Any], device: DeviceProperties) -> Book:
        key = (family.name, device)
        if key not in self._books:
            registry = self._context.registry
            path = self._file or default_file(device, family.name)
            book = Book(path, Header.of(device, registry, family.name), family, registry)
            self._session.messages += book.messages
            self._books[key] = book
        return self._books[key]

    def _search(self, family: Family[Any], problem: Any, device: DeviceProperties) -> Result:
        """With the op's own calls put aside: what the search calls is nothing to remember."""
        from tilewright.benchmarking.measuring import no_compiling  # noqa: PLC0415 (it imports torch)

        clocks = self._clocks
        if clocks is None:
            from tilewright.tuning import clock  # noqa: PLC0415

            clocks = clock.on_gpu
        plans, self._context.plans = self._context.plans, {}
        try:
            with no_compiling():
                return search(
                    family, self._context.registry, problem, device,
                    make_clock=clocks(family.name, device), options=self._options,
                )  # fmt: skip
        finally:
            self._context.plans = plans


@contextmanager
def tune(
    *,
    file: Path | str | None = None,
    write: bool = True,
    again: bool = False,
    options: Options | None = None,
    clocks: Clocks | None = None,
) -> Iterator[Session]:
    """Within this block, an op tunes each problem that it meets before it chooses a tactic for it.

    What is found counts from then on in this process, and is written to the tuned file (see docs/tuning.md)
    for others. Tuning a problem takes about a second. Kernels that are not built are not tried, and a problem
    that has an entry is left as it is.

    Args:
        file: a tuned file to write to, instead of the user's own of this GPU; of one family alone.
        write: False keeps what is found in this process.
        again: also tunes problems that have an entry.
        options: how far the search goes.
        clocks: makes what times a family's problems on a GPU; by default CUDA graphs on the current one.

    Raises (from the op): ForeignTunedFileError where the file is of another machine, StoreError where it
    cannot be written, GpuLostError where a kernel broke the process's CUDA context.
    """
    context, session = contexts.current(), Session()
    tuner = _Tuner(
        context, session, file=None if file is None else Path(file), write=write, again=again,
        options=Options() if options is None else options, clocks=clocks,
    )  # fmt: skip
    previous, context.tuner = context.tuner, tuner.meet
    context.plans = {}  # what is remembered was chosen before, and would not ask
    try:
        yield session
    finally:
        context.tuner = previous


def default_file(device: DeviceProperties, family: str) -> Path:
    """Where results go unless another place is named: the first of the user's folders that count."""
    folder = next(iter(paths.tuned_dirs()), paths.cache_dir() / "tuned")
    return paths.tuned_file(folder, device.name, family)
