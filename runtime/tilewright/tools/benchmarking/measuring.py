"""Measures for a comparison on this machine's GPU, and records the conditions."""

from __future__ import annotations

import datetime
import platform
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties, driver
from tilewright.declarations import catalog
from tilewright.declarations.tactics import Tactic
from tilewright.tools import measuring
from tilewright.tools.benchmarking.comparing import Meter
from tilewright.tools.trying import refusals
from tilewright.tools.tuning.trials import Timer
from tilewright.version import __version__

METHOD = "median of replays of a CUDA graph; operands in turn, so that L2 is cold; each tactic's D checked"


def on_gpu(family: str, device: DeviceProperties, iters: int, seed: int) -> Meter:
    """A meter of the ops of the context in use, on the current GPU: `iters` replays, data of `seed`.

    Each tactic's D is checked against the reference before it is timed.
    """
    of_family = catalog.family_module(family, "measuring")

    def timer(problem: Any) -> Timer:
        with refusals(f"operands of {problem}"):
            operands = measuring.make_operands(of_family, problem, device, seed)

        def seconds(tactic: Tactic) -> float:
            with refusals(str(tactic)):
                return measuring.seconds(operands, tactic, iters)

        return seconds

    return timer


def environment(device: DeviceProperties) -> dict[str, Any]:
    """The conditions of a measurement: GPU, driver, releases, and time."""
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
