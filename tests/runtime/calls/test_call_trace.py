"""How many files of the runtime a call enters: benchmarks/results/call_trace.md has the figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.host.call_trace import traced

from tilewright.context import Context

MOST_MOVES = 379  # of a first call beside the tables of all host kernels, 2 for each; it may only fall


def test_calls_enter_few_files(host: Context) -> None:
    torch = pytest.importorskip("torch")
    import tilewright  # noqa: PLC0415 (its ops need torch)

    gemm, package = tilewright.gemm, Path(tilewright.__file__).parent
    a, b = torch.randn(1, 8).bfloat16(), torch.randn(8, 8).bfloat16().t()
    first, second, third = (traced(lambda: gemm(a, b), package) for _ in range(3))
    assert 100 < first.moves <= MOST_MOVES
    assert second.moves <= 7
    assert (len(third.files), third.moves) == (2, 2)
