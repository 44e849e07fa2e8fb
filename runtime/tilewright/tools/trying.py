"""Tries kernels on a GPU: torch's errors become errors of ours, and nothing is compiled meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tilewright.errors import GpuLostError, LaunchError, MeasureError, TilewrightError


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turns torch's errors into MeasureError, or into GpuLostError if nothing runs any more."""
    try:
        yield
    except (RuntimeError, LaunchError) as error:  # torch's own, of memory too, are RuntimeErrors
        _check_alive(what, error)
        if isinstance(error, TilewrightError):
            raise
        raise MeasureError(_first_line(error)) from error


def _check_alive(what: str, error: Exception) -> None:
    """Raises GpuLostError if an error has left the GPU's context unusable: then nothing else can be
    measured."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        raise GpuLostError(
            f"{what} broke the CUDA context: {_first_line(error)}",
            hint="Earlier measurements are valid. `~NAME` in a filter leaves a kernel out.",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def no_compiling() -> Iterator[None]:
    """Keeps calls from building kernels: the build would be timed, or take minutes that nobody expects."""
    before = os.environ.get("TILEWRIGHT_JIT")
    os.environ["TILEWRIGHT_JIT"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TILEWRIGHT_JIT"]
        else:
            os.environ["TILEWRIGHT_JIT"] = before
