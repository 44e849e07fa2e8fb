"""Publishes ops: a public function gets its body, is known to torch, and can be prepared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.interface import calls, registered
from tilewright.interface.op import Op
from tilewright.interface.signature import parameters

F = TypeVar("F", bound=Callable[..., Any])

published: dict[Callable[..., Any], Op] = {}


def public(op: Op) -> Callable[[F], F]:
    """Publishes an op under its function's name, signature and docstring."""

    def publish(function: F) -> F:
        op.name = function.__name__
        op.parameters = parameters(function)
        op.function = made = calls.eager(op, function)
        published[made] = op
        registered.register(op)
        return made  # type: ignore[return-value]

    return publish
