"""The context of ops: a registry, the GPUs, and the plans of calls.

The whole process uses one context. Tests, and tools on machines without a GPU, replace it by one with another
registry, or with a GPU that is described instead of found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.architectures import device
from tilewright.architectures.device import DeviceProperties
from tilewright.base import paths
from tilewright.base.forking import fork_safe_lock
from tilewright.base.variables import value_of
from tilewright.errors import UncompilableError
from tilewright.libraries.builds import built_preferred, jit_allowed
from tilewright.libraries.launcher_cache import CachedLaunchers
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import Choice, choose
from tilewright.selection.family import Family

if TYPE_CHECKING:
    from tilewright.bundle.closed import Bundle
    from tilewright.declarations.tactics import Tactic
    from tilewright.libraries.library import Library
    from tilewright.selection.tuned import Tuned
    from tilewright.selection.tuned_files import Entry

MAX_PLANS = 16384  # each of about 3 KB; a serving engine with any number of tokens has thousands
MAX_CHOICES = 16384  # each of about 1 KB
MAX_REFUSED = 3  # failed compilations in one call, each of about a minute


class Remembered(Protocol):
    """A plan, or the launchers of a short key. A lookup sets `used`."""

    used: bool


class Plans(dict[Any, Any]):
    """The plans of all ops by key, which begins with the op's name, and launchers by a shorter key
    (`libraries.launcher_cache`)."""

    def __init__(self) -> None:
        super().__init__()
        self.launchers: dict[Any, CachedLaunchers] = {}

    def clear(self) -> None:
        self.launchers.clear()
        super().clear()


class Context:
    """What ops work with: kernels, GPUs, tuned files, remembered plans. `tilewright.context.use` makes it the
    current one for a block.

    Args:
        registry: the kernels; default: `Registry()`, all sets that are in force.
        described: a GPU that every tensor counts as lying on, wherever it lies, such as one that is not in
            this machine; default: the GPU of each tensor.
        batch_invariant: whether selection takes only tactics that give a row of a result the same bits,
            whatever other rows there are (`tilewright.batch_invariant`); by default as the bundle was made,
            else False.
        bundle: the bundle from which all tactics and kernels are taken, instead of a registry
            (`tilewright.bundle`).
    """

    def __init__(
        self,
        registry: Registry | None = None,
        described: DeviceProperties | None = None,
        *,
        batch_invariant: bool | None = None,
        bundle: Bundle | None = None,
    ) -> None:
        if bundle is not None:
            registry = bundle.registry
            batch_invariant = bundle.batch_invariant if batch_invariant is None else batch_invariant
        self.registry = Registry() if registry is None else registry
        self.described = described
        self.batch_invariant = bool(batch_invariant)
        self.bundle = bundle
        self.plans = Plans()
        self.tuner: Callable[[Family[Any], Any, DeviceProperties], None] | None = None
        """Called with a problem before a call's tactic is chosen. It may add tuned entries."""
        self._tuned: dict[tuple[str, DeviceProperties], tuple[int, Tuned | None]] = {}
        self._own: dict[tuple[str, DeviceProperties], list[Entry]] = {}  # entries that this process has tuned
        self._choices: dict[Any, Choice] = {}
        self._chosen_at = -1  # the registry's count of changes at the choices
        self._lock = fork_safe_lock()
        self._sibling: Context | None = None

    def sibling(self) -> Context:
        """The context with the other setting of `batch_invariant`: the same registry, GPU, tuner and tuned
        entries, with plans and choices of its own."""
        if self._sibling is None:
            sibling = Context(
                self.registry, self.described, batch_invariant=not self.batch_invariant, bundle=self.bundle
            )
            sibling._sibling, sibling._own = self, self._own
            self._sibling = sibling
        self._sibling.tuner = self.tuner
        return self._sibling

    def select(
        self, family: Family[Any], problem: Any, device: DeviceProperties, tactic: Tactic | None = None
    ) -> Choice:
        """The tactic for a problem, as `choose` says. A choice is remembered unless the caller demands it.

        Choices are forgotten when tuned entries are forgotten, and when the set of built kernels changes.
        Raises as `choose` does, and UnsupportedDeviceError; BundleError for what is not in the bundle.
        """
        if self.bundle is not None:
            return self.bundle.choose(family, problem, device, tactic, batch_invariant=self.batch_invariant)
        if tactic is not None:
            records = self.registry.route(family.name, device)
            return choose(
                family, self.registry, records, problem, device,
                tactic=tactic, batch_invariant=self.batch_invariant,
            )  # fmt: skip
        if self._chosen_at != self.registry.changes:
            self._chosen_at, self._choices = self.registry.changes, {}
        choices, key = self._choices, (problem, device, jit_allowed(), built_preferred())
        choice = choices.get(key)
        if choice is None:
            records, tuned = self.registry.route(family.name, device), self.tuned(family, device)
            choice = choose(
                family, self.registry, records, problem, device,
                tuned=tuned, batch_invariant=self.batch_invariant,
            )  # fmt: skip
            if len(choices) >= MAX_CHOICES:
                choices.clear()
            choices[key] = choice  # without effect if choices were forgotten meanwhile
        return choice

    def load(
        self, family: Family[Any], problem: Any, device: DeviceProperties, tactic: Tactic | None = None
    ) -> tuple[Choice, Library]:
        """The tactic for a problem, and the library of its kernel, which is built now if necessary.

        A kernel that does not compile is passed over and another one chosen, unless the caller demands it.
        Raises as `select` and `Registry.library` do, and UncompilableError if no kernel is left, or if
        `MAX_REFUSED` kernels do not compile, because then their sources are not the cause.
        """
        refused: dict[str, UncompilableError] = {}
        while True:
            choice = self.select(family, problem, device, tactic)
            if choice.record.name in refused:  # no other kernel is left
                raise next(iter(refused.values()))
            try:
                return choice, self.registry.library(choice.record)
            except UncompilableError as error:
                refused[choice.record.name] = error
                if tactic is not None or len(refused) == MAX_REFUSED:
                    raise next(iter(refused.values())) from None

    def tuned(self, family: Family[Any], device: DeviceProperties) -> Tuned | None:
        """The tuned entries of a family for a GPU, read once, and again after the set of built kernels has
        changed; None if there is no such file or entry."""
        cache, key, changes = self._tuned, (family.name, device), self.registry.changes
        cached = cache.get(key)
        if cached is None or cached[0] != changes:
            if paths.TUNED in os.environ:
                paths.warn_of_missing(tuple(paths.tuned_dirs()))
            tuned, own = None, self._own.get(key, [])
            if own or paths.tuned_files(self.registry.folders, device.name, family.name):
                from tilewright.selection.tuned import Tuned  # noqa: PLC0415 (most processes have no such file)

                tuned = Tuned(family, self.registry, device)
                tuned.prefer(own)
            cached = cache[key] = (changes, tuned)
        return cached[1]

    def add_tuned(self, family: Family[Any], device: DeviceProperties, entry: Entry) -> None:
        """Adds an entry that counts before those of files, for this process. Remembered plans stay."""
        self._own.setdefault((family.name, device), []).append(entry)
        self.forget_tuned()

    def forget_tuned(self) -> None:
        """Reads tuned files again when they are next asked for."""
        for context in filter(None, (self, self._sibling)):
            context._tuned, context._choices = {}, {}

    def device(self, index: int) -> DeviceProperties:
        return device.read(index) if self.described is None else self.described

    def launchers(self, key: Any, plan: Any = None) -> CachedLaunchers:
        """The launchers that are kept under a short key. A new key has no launchers yet, and `plan`."""
        launchers = self.plans.launchers.get(key)
        if launchers is None:
            launchers = CachedLaunchers(plan)
            self._keep(self.plans.launchers, key, launchers)
        return launchers

    def remember(self, key: Any, plan: Remembered) -> None:
        """Keeps a plan."""
        self._keep(self.plans, key, plan)

    def _keep(self, kept: dict[Any, Any], key: Any, remembered: Remembered) -> None:
        """Adds an entry to a cache. If the cache is full, the oldest entry that was not used lately is
        removed.

        A hit only sets a flag. An entry with the flag is passed over once (the clock algorithm).
        """
        with self._lock:
            while len(kept) >= MAX_PLANS:
                oldest = next(iter(kept))
                entry = kept.pop(oldest)
                if entry.used:
                    entry.used = False
                    kept[oldest] = entry
            kept[key] = remembered


class _State:
    """The context in use, and the blocks of `use` that are open."""

    def __init__(self) -> None:
        self.current: Context | None = None
        self.outside: Context | None = None  # in use where no block is open
        self.blocks: list[_Block] = []  # in the order in which they began


class _Block:
    """An open block of `use`."""

    def __init__(self, context: Context) -> None:
        self.context = context


_state = _State()
_lock = fork_safe_lock()


def current() -> Context:
    """The context in use."""
    context = _state.current
    if context is None:
        with _lock:
            context = _state.current = _state.current or of_environment()
    return context


def invariant_by_default() -> bool:
    """Whether TILEWRIGHT_BATCH_INVARIANT asks for batch-invariant mode."""
    return value_of("TILEWRIGHT_BATCH_INVARIANT") == "1"


def of_environment(registry: Registry | None = None) -> Context:
    """The context that TILEWRIGHT_BUNDLE and TILEWRIGHT_BATCH_INVARIANT ask for. Without a bundle it has
    `registry`."""
    invariant = invariant_by_default()
    if folder := os.environ.get("TILEWRIGHT_BUNDLE"):
        from tilewright import bundle  # noqa: PLC0415 (most processes have none)

        return Context(bundle=bundle.load(paths.expanded(folder)), batch_invariant=invariant or None)
    return Context(registry, batch_invariant=invariant)


@contextmanager
def batch_invariant(enabled: bool = True) -> Iterator[None]:
    """In the block, a row of a result has the same bits whatever other rows are computed with it.

        with tilewright.batch_invariant():
            d = tilewright.gemm(a, b)       # d[i] depends on a[i] and b alone, bit for bit

    Selection then takes only tactics that add products along k in one order. Most do not split k. Dense
    products on Hopper split k if there are few columns and k is long, in the same way for every m.
    `tilewright explain` says how, and what the mode costs. A plan keeps the mode in which it was made. The
    mode holds for every thread of the process, until the block ends; TILEWRIGHT_BATCH_INVARIANT=1 sets it for
    the whole process. A call with `torch.compile` has the mode in which the compiled code runs; a block in
    a compiled function is in no graph.

    An op raises NoKernelError if none of its kernels is known to be batch-invariant (a table in docs/use.md).
    """
    context = current()
    if context.batch_invariant != enabled:
        context = context.sibling()
    with use(context):
        yield


@contextmanager
def use(context: Context) -> Iterator[Context]:
    """Replaces the current context by `context`, for every thread, until the block ends.

    Blocks of several threads may overlap and end in any order. Of the open blocks, the latest counts.
    """
    block = _Block(context)
    with _lock:
        if not _state.blocks:
            _state.outside = _state.current
        _state.blocks.append(block)
        _state.current = context
    try:
        yield context
    finally:
        with _lock:
            _state.blocks.remove(block)
            _state.current = _state.blocks[-1].context if _state.blocks else _state.outside
