"""Trying kernels on a GPU: what torch refuses becomes an error of ours, and nothing is compiled meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tilewright.errors import GpuLostError, LaunchError, MeasureError, TilewrightError


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turns torch's errors into MeasureError, or GpuLostError where nothing runs any more."""
    try:
        yield
    except (RuntimeError, LaunchError) as error:  # torch's own, of memory too, are RuntimeErrors
        _check_alive(what, error)
        if isinstance(error, TilewrightError):
            raise
        raise MeasureError(_first_line(error)) from error


def _check_alive(what: str, error: Exception) -> None:
    """After an error: it may have left the GPU's context unusable, and then nothing else can be measured."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        raise GpuLostError(
            f"{what} broke the CUDA context: {_first_line(error)}",
            hint="What was measured before it stands. `~NAME` in a filter leaves a kernel out.",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def no_compiling() -> Iterator[None]:
    """No call builds a kernel by itself: that would be timed, or take minutes that nobody asked for."""
    before = os.environ.get("TILEWRIGHT_JIT")
    os.environ["TILEWRIGHT_JIT"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TILEWRIGHT_JIT"]
        else:
            os.environ["TILEWRIGHT_JIT"] = before
