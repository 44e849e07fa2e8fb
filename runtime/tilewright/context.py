"""What an op works with: a registry, the GPUs, the plans it has made.

One context is in use by the whole process. Tests, and tools on machines without a GPU, put their own
in its place, with a registry of their own or with a GPU that is described instead of found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright import device
from tilewright.device import DeviceProperties
from tilewright.registry import Registry

MAX_PLANS = 4096  # problems remembered; a serving engine has some hundreds


class Context:
    """`described`: take every tensor, wherever it lies, as one on this GPU."""

    def __init__(self, registry: Registry | None = None, described: DeviceProperties | None = None) -> None:
        self.registry = Registry() if registry is None else registry
        self.described = described
        self.plans: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def device(self, index: int) -> DeviceProperties:
        return device.read(index) if self.described is None else self.described

    def remember(self, key: Any, plan: Any) -> None:
        """Keeps a plan; the oldest gives way where there are too many."""
        with self._lock:
            while len(self.plans) >= MAX_PLANS:
                del self.plans[next(iter(self.plans))]
            self.plans[key] = plan


class _State:
    current: Context | None = None


_state = _State()
_lock = threading.Lock()


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
