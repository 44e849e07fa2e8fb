"""Tests of what the GPU's tests compare and record with; they need torch, and no GPU."""

from __future__ import annotations

from importlib.util import find_spec

_HAS_TORCH = find_spec("torch") is not None
collect_ignore_glob = [] if _HAS_TORCH else ["test_*.py"]


def pytest_report_header() -> str | None:
    return None if _HAS_TORCH else "tests/comparisons: left out, torch is not installed"
