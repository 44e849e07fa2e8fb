"""`tilewright.tune`: within a block, ops tune the problems that they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright import context as contexts
from tilewright.base import paths
from tilewright.base.forking import fork_safe_lock
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuning
from tilewright.tools.tuning.search import Result, search
from tilewright.tools.tuning.stages import Clock, Options

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context
    from tilewright.selection.family import Family


@dataclass
class Session:
    """The results of `tune` so far."""

    results: list[Result] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


Clocks: TypeAlias = "Callable[[str, DeviceProperties], Callable[[Any], Clock]]"
"""A function from a family's name and a GPU to a function that makes the clock of a problem."""


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
        self._lock = fork_safe_lock()
        self._met: set[Any] = set()
        self._books: dict[Any, tuning.Book] = {}

    def meet(self, family: Family[Any], problem: Any, device: DeviceProperties) -> None:
        """The function for `Context.tuner`."""
        with self._lock:
            key = (family.name, device, problem)
            if key in self._met or not self._can_time(problem, device):
                return
            self._met.add(key)
            tuned = self._context.tuned(family, device)
            if not self._again and tuned is not None and tuned.entry(problem) is not None:
                return
            book = self._book(family, device) if self._write else None
            result = self._search(family, problem, device)
            self._session.results.append(result)
            if result.tactic is None or result.seconds is None:
                return
            if book is not None:
                book.write(result)
            self._context.add_tuned(
                family, device, Entry(problem, result.tactic, result.seconds, result.seen)
            )

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

    def _book(self, family: Family[Any], device: DeviceProperties) -> tuning.Book:
        key = (family.name, device)
        if key not in self._books:
            registry = self._context.registry
            path = self._file or paths.tuned_file(tuning.default_folder(), device.name, family.name)
            book = tuning.Book(path, Header.of(device, registry, family.name), family)
            self._session.messages += book.messages
            self._books[key] = book
        return self._books[key]

    def _search(self, family: Family[Any], problem: Any, device: DeviceProperties) -> Result:
        """Searches with the op's plans put aside, because the calls of the search are not to be
        remembered."""
        from tilewright.tools.trying import no_compiling  # noqa: PLC0415 (it imports torch)

        clocks = self._clocks
        if clocks is None:
            from tilewright.tools.tuning import clock  # noqa: PLC0415

            clocks = clock.on_gpu
        plans, self._context.plans = self._context.plans, contexts.Plans()
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

    A result is used from then on in this process, and is written to the tuned file (see docs/tuning.md) for
    other processes. Tuning a problem takes about a second. Kernels that are not built are not tried, and a
    problem that has an entry is left as it is.

    Args:
        file: a tuned file to write to, for one family; default: the user's file for this GPU.
        write: False keeps results in this process only.
        again: also tunes problems that have an entry.
        options: the options of the search.
        clocks: makes the clock for a family's problems on a GPU; by default CUDA graphs on the current GPU.

    Raises (from the op): ForeignTunedFileError where the file is of another machine, StoreError where it
    cannot be written, GpuLostError where a kernel broke the process's CUDA context.
    """
    context, session = contexts.current(), Session()
    tuner = _Tuner(
        context, session, file=None if file is None else Path(file), write=write, again=again,
        options=Options() if options is None else options, clocks=clocks,
    )  # fmt: skip
    previous, context.tuner = context.tuner, tuner.meet
    context.plans = contexts.Plans()  # what is remembered was chosen before, and would not ask
    try:
        yield session
    finally:
        context.tuner = previous
