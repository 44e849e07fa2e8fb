"""Keeps what the tests compared, kernel by kernel, for docs/status.md: TILEWRIGHT_RECORD=FILE.

Rows that the file has of other kernels than these tests ran stay, if they are of the same GPU and driver.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blockscaled_reference
import gemm_reference
import pytest
import quantize_reference
import torch

from tilewright import context
from tilewright.build import records
from tilewright.build.library import described
from tilewright.device import driver
from tilewright.table import Table, find_tables


class Recorder:
    """A pytest plugin. A kernel has passed if something was compared and no test of it failed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kernel: str | None = None
        self._problems: dict[str, int] = {}
        self._errors: dict[str, float] = {}
        self._keys: dict[str, str] = {}
        self._failed: set[str] = set()
        for module in (gemm_reference, blockscaled_reference, quantize_reference):
            for name in ("compare", "compare_values"):  # the tests look them up in their modules
                if hasattr(module, name):
                    setattr(module, name, self._noting(getattr(module, name)))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        self._kernel = parameters.get("kernel")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._kernel is not None:
            self._failed.add(self._kernel)

    def pytest_sessionfinish(self) -> None:
        card = {"gpu": torch.cuda.get_device_name(), "driver": driver() or "unknown"}
        before = records.read(self._file)
        rows = {row["name"]: row for row in before["kernels"] if card.items() <= before.items()}
        for name in self._problems:
            rows[name] = {
                "name": name,
                "source_key": self._keys[name],
                "problems": self._problems[name],
                "max_error": self._errors[name],
                "passed": name not in self._failed,
            }
        known = [name for path in find_tables() for name in sorted(Table.read(path)) if name in rows]
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        head = {"format": records.FORMAT, **card, "date": today}
        records.write(self._file, head, [rows[name] for name in known])

    def _noting(self, compare: Callable[..., None]) -> Callable[..., None]:
        """The comparison of a family, (found, wanted, ...), which also keeps what it has seen."""

        def note(found: torch.Tensor, wanted: torch.Tensor, *rest: Any, **options: Any) -> None:
            compare(found, wanted, *rest, **options)
            if self._kernel is not None:
                self._note(self._kernel, found, wanted)

        return note

    def _note(self, kernel: str, found: torch.Tensor, wanted: torch.Tensor) -> None:
        if kernel not in self._keys:
            self._keys[kernel] = _source_key(kernel)
        finite = found.isfinite() & wanted.isfinite()  # what is not, the comparison has seen
        value, right = (torch.where(finite, x.double(), 0.0) for x in (found, wanted))
        error = float((value - right).norm() / right.norm())
        error = 0.0 if math.isnan(error) else error  # 0 / 0
        self._problems[kernel] = self._problems.get(kernel, 0) + 1
        self._errors[kernel] = max(self._errors.get(kernel, 0.0), float(f"{error:.2e}"))


def _source_key(kernel: str) -> str:
    """Of what is loaded; the sources on disk may be newer."""
    registry = context.current().registry
    return described(registry.library(registry.record(kernel)).path).kernels[kernel]["source_key"]
