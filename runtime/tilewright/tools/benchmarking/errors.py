"""Errors that prevent a comparison."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class CannotCompareError(TilewrightError):
    """This machine cannot compare the groups: no GPU, kernels of another one, kernels that are not built."""

    exit_code = 1
