"""Publishes ops: a public function gets its body, is known to torch, and can be prepared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from tilewright.calls import protocol, registered
from tilewright.calls.op import Op
from tilewright.calls.signature import parameters

F = TypeVar("F", bound=Callable[..., Any])

published: dict[Callable[..., Any], Op] = {}


@overload
def public(op: Op) -> Callable[[F], F]: ...
@overload
def public(op: Op, *, like: F) -> Callable[[Callable[..., Any]], F]: ...
def public(op: Op, *, like: Any = None) -> Any:
    """Publishes an op under its function's name, signature and docstring, or with the signature of another
    op, which it is `like`."""

    def publish(function: Any) -> Any:
        if like is not None:
            function.__signature__ = inspect.signature(like)
        op.name = function.__name__
        op.parameters = parameters(function)
        factors = op.of(("addend factor",))
        operands = op.interface.operands
        op.addends = {
            operand.unread_if_zero: operand.name for operand in operands if operand.unread_if_zero in factors
        }
        op.function = protocol.eager(op, function)
        published[op.function] = op
        registered.register(op)
        return op.function

    return publish
