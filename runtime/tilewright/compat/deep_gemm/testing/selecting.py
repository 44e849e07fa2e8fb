"""Which tests run where."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch


def get_arch_major() -> int:
    """The major number of the GPU's compute capability: 9 is Hopper."""
    return int(torch.cuda.get_device_capability()[0])


def test_filter(condition: Callable[[], bool]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function runs where `condition()` holds, and else says that it does not."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if condition():
                return function(*args, **kwargs)
            print(f"{function.__name__}: left out on this GPU")
            return None

        return run

    return decorate


def ignore_env(
    name: str, condition: Callable[[], bool]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function runs without the environment variable where `condition()` holds."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            kept = os.environ.pop(name, None) if condition() else None
            try:
                return function(*args, **kwargs)
            finally:
                if kept is not None:
                    os.environ[name] = kept

        return run

    return decorate
