"""How a comparison measures on this machine's GPU, and what a record of it says of where that was."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tilewright import ops
from tilewright.benchmarking.comparing import Meter
from tilewright.device import DeviceProperties, driver
from tilewright.errors import GpuLostError, LaunchError, MeasureError, TilewrightError
from tilewright.ops.common import measuring
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning.trials import Timer
from tilewright.version import __version__

METHOD = "median of replays of a CUDA graph; operands in turn, so that L2 is cold; each tactic's D checked"


def on_gpu(family: str, device: DeviceProperties, iters: int, seed: int) -> Meter:
    """A meter of the ops of the context in use, on the current GPU: `iters` replays, data of `seed`.

    Each tactic's D is checked against the reference before it is timed.
    """
    of_family = ops.part(family, "measuring")

    def timer(problem: Any) -> Timer:
        with refusals(f"operands of {problem}"):
            operands = measuring.make_operands(of_family, problem, device, seed)

        def seconds(tactic: Tactic) -> float:
            with refusals(str(tactic)):
                return measuring.seconds(operands, tactic, iters)

        return seconds

    return timer


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


def environment(device: DeviceProperties) -> dict[str, Any]:
    """What numbers depend on: GPU, driver, releases, and when it was."""
    return {
        "device": device.name,
        "capability": f"{device.capability[0]}.{device.capability[1]}",
        "sm_count": device.sm_count,
        "driver": driver(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "tilewright": __version__,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "method": METHOD,
    }
