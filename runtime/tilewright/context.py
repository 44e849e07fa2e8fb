"""What an op works with: a registry, the GPUs, the plans it has made.

One context is in use by the whole process. Tests, and tools on machines without a GPU, put their own
in its place, with a registry of their own or with a GPU that is described instead of found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.architectures import device
from tilewright.architectures.device import DeviceProperties
from tilewright.base import paths
from tilewright.base.forking import fork_safe_lock
from tilewright.errors import UncompilableError
from tilewright.libraries.builds import jit_allowed
from tilewright.libraries.launcher_cache import CachedLaunchers
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import Choice, choose
from tilewright.selection.family import Family

if TYPE_CHECKING:
    from tilewright.declarations.tactics import Tactic
    from tilewright.libraries.library import Library
    from tilewright.selection.tuned import Tuned
    from tilewright.selection.tuned_files import Entry

MAX_PLANS = 16384  # of some 3 KB; a serving engine whose m is any number has thousands
MAX_CHOICES = 16384  # of some 1 KB
MAX_REFUSED = 3  # kernels that one call compiles in vain, at a minute each


class Remembered(Protocol):
    """A plan, or the launchers of a short key. Whoever finds it sets `used`."""

    used: bool


class Plans(dict[Any, Any]):
    """Plans of all ops by key, which begins with the op's name; `launchers`: by a shorter key
    (`kernels.launcher_cache`)."""

    def __init__(self) -> None:
        super().__init__()
        self.launchers: dict[Any, CachedLaunchers] = {}

    def clear(self) -> None:
        self.launchers.clear()
        super().clear()


class Context:
    """`described`: take every tensor, wherever it lies, as one on this GPU."""

    def __init__(self, registry: Registry | None = None, described: DeviceProperties | None = None) -> None:
        self.registry = Registry() if registry is None else registry
        self.described = described
        self.plans = Plans()
        self.tuner: Callable[[Family[Any], Any, DeviceProperties], None] | None = None
        """Called with a problem before a call's tactic is chosen: it may add to what is tuned."""
        self._tuned: dict[tuple[str, DeviceProperties], tuple[int, Tuned | None]] = {}
        self._own: dict[tuple[str, DeviceProperties], list[Entry]] = {}  # tuned by this process
        self._choices: dict[Any, Choice] = {}
        self._chosen_at = -1  # the registry's count of changes
        self._lock = fork_safe_lock()

    def select(
        self, family: Family[Any], problem: Any, device: DeviceProperties, tactic: Tactic | None = None
    ) -> Choice:
        """The tactic for a problem, as `choose` says; what no caller demands is remembered.

        What has been chosen is forgotten with what is tuned, and where what is built changes. Raises as
        `choose` does, and UnsupportedDeviceError.
        """
        if tactic is not None:
            records = self.registry.route(family.name, device)
            return choose(family, self.registry, records, problem, device, tactic=tactic)
        if self._chosen_at != self.registry.changes:
            self._chosen_at, self._choices = self.registry.changes, {}
        choices, key = self._choices, (problem, device, jit_allowed())
        choice = choices.get(key)
        if choice is None:
            records, tuned = self.registry.route(family.name, device), self.tuned(family, device)
            choice = choose(family, self.registry, records, problem, device, tuned=tuned)
            if len(choices) >= MAX_CHOICES:
                choices.clear()
            choices[key] = choice  # in vain where all was forgotten meanwhile
        return choice

    def load(
        self, family: Family[Any], problem: Any, device: DeviceProperties, tactic: Tactic | None = None
    ) -> tuple[Choice, Library]:
        """The tactic for a problem, and the library of its kernel, which is built now if need be.

        A kernel that does not compile is passed over, unless the caller demands it: the next choice is
        another. Raises as `select` and `Registry.library` do; UncompilableError where none is left, or where
        too many in a row do not compile: then it is not their sources that are at fault.
        """
        refused: dict[str, UncompilableError] = {}
        while True:
            choice = self.select(family, problem, device, tactic)
            if choice.record.name in refused:  # no other is left
                raise next(iter(refused.values()))
            try:
                return choice, self.registry.library(choice.record)
            except UncompilableError as error:
                refused[choice.record.name] = error
                if tactic is not None or len(refused) == MAX_REFUSED:
                    raise next(iter(refused.values())) from None

    def tuned(self, family: Family[Any], device: DeviceProperties) -> Tuned | None:
        """What is tuned of a family for a GPU, read once (and again where what is built has changed); None
        where there is no file of it."""
        known, key, changes = self._tuned, (family.name, device), self.registry.changes
        found = known.get(key)
        if found is None or found[0] != changes:
            tuned, own = None, self._own.get(key, [])
            if own or paths.tuned_files(self.registry.generated, device.name, family.name):
                from tilewright.selection.tuned import Tuned  # noqa: PLC0415 (most processes have no such file)

                tuned = Tuned(family, self.registry, device)
                tuned.prefer(own)
            found = known[key] = (changes, tuned)
        return found[1]

    def add_tuned(self, family: Family[Any], device: DeviceProperties, entry: Entry) -> None:
        """Puts an entry before those of files, for this process; plans that are remembered stay."""
        self._own.setdefault((family.name, device), []).append(entry)
        self.forget_tuned()

    def forget_tuned(self) -> None:
        """Reads tuned files again when they are next asked for."""
        self._tuned, self._choices = {}, {}

    def device(self, index: int) -> DeviceProperties:
        return device.read(index) if self.described is None else self.described

    def launchers(self, key: Any, plan: Any = None) -> CachedLaunchers:
        """The launchers that are kept under a short key; those of a new key begin with none, and `plan`."""
        found = self.plans.launchers.get(key)
        if found is None:
            found = CachedLaunchers(plan)
            self._keep(self.plans.launchers, key, found)
        return found

    def remember(self, key: Any, plan: Remembered) -> None:
        """Keeps a plan."""
        self._keep(self.plans, key, plan)

    def _keep(self, kept: dict[Any, Any], key: Any, one: Remembered) -> None:
        """Adds to a cache; where it is full, the oldest that were not used of late give way.

        A hit only sets a flag; what has it is passed over once (the clock algorithm).
        """
        with self._lock:
            while len(kept) >= MAX_PLANS:
                oldest = next(iter(kept))
                found = kept.pop(oldest)
                if found.used:
                    found.used = False
                    kept[oldest] = found
            kept[key] = one


class _State:
    current: Context | None = None


_state = _State()
_lock = fork_safe_lock()


def current() -> Context:
    """The context in use."""
    context = _state.current
    if context is None:
        with _lock:
            context = _state.current = _state.current or Context()
    return context


@contextmanager
def use(context: Context) -> Iterator[Context]:
    """Puts `context` in the place of the current one, for every thread, until the block ends."""
    previous, _state.current = _state.current, context
    try:
        yield context
    finally:
        _state.current = previous
