"""The checks of `tilewright doctor`: whether kernels can be built and run on a machine, and which kernels
would run.

Each check is a function that yields findings. No check of `diagnose` compiles, writes or launches anything.
If a package, a compiler or a GPU is missing, a check yields what it can find out without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError
from tilewright.tools.doctor import kernels, machine
from tilewright.tools.doctor.findings import LEVELS, OK, PROBLEM, WARNING, Finding

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context

__all__ = ["LEVELS", "OK", "PROBLEM", "WARNING", "Finding", "device_self_test", "diagnose"]


def diagnose(context: Context, device: DeviceProperties | None = None) -> list[Finding]:
    """All findings; `device` stands for this machine's GPU.

    An error that a check raises is a finding, too: other checks follow also on a broken machine.
    """
    quiet = logging.NullHandler()  # what is passed over becomes a finding; it need not reach stderr as well
    logging.getLogger("tilewright").addHandler(quiet)
    try:
        examined = machine.Machine.examine(context, device)
        checks = {
            "environment": machine.environment,
            "toolchain": machine.toolchain,
            "packages": machine.packages,
            "gpu": machine.gpu,
            "cache": kernels.cache,
            "modules": kernels.modules,
            "libraries": kernels.libraries,
            "tuned": kernels.tuned,
            "would run": kernels.would_run,
        }
        findings = []
        for area, check in checks.items():
            try:
                for finding in check(examined):
                    findings.append(Finding(area, *finding))  # one by one: those before an error count
            except TilewrightError as error:
                findings.append(Finding(area, PROBLEM, error.message, error.hint or ""))
            except OSError as error:  # a folder that may not be read
                findings.append(Finding(area, PROBLEM, str(error)))
        return findings
    finally:
        logging.getLogger("tilewright").removeHandler(quiet)


def device_self_test() -> list[Finding]:
    """The findings about the instructions of this machine's GPU. Compiles the kernels that run them, if the
    cache lacks them."""
    from tilewright.tools.doctor import instructions  # noqa: PLC0415 (compilers, which `diagnose` may lack)

    return [Finding("instructions", *finding) for finding in instructions.self_test()]
