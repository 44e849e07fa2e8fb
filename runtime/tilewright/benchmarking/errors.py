"""What keeps a comparison from being made."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class CannotCompareError(TilewrightError):
    """This machine cannot compare the groups: no GPU, kernels of another one, kernels that are not built."""

    exit_code = 1


class MeasureError(TilewrightError):
    """A tactic was not timed: CUDA or torch refused."""

    exit_code = 1


class GpuLostError(TilewrightError):
    """A kernel left the GPU in a state in which this process runs nothing more on it."""

    exit_code = 1
