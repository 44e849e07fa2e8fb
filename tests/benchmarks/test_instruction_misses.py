"""What is read from ncu's output, and which of a call's kernels counts."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.compare import instruction_misses
from benchmarks.compare.instruction_misses import METRICS, Launch

HEAD = {"command": "python", "gpu": "NVIDIA H200", "driver": "1", "torch": "2"}
OUTPUT = "\n".join(
    [
        "==PROF== Connected to process 1",
        '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
        f'"0","1","gemm_sm90, 1","{METRICS["misses"]}","","28,103"',
        f'"0","1","gemm_sm90, 1","{METRICS["us"]}","nsecond","17,504"',
        '"0","1","gemm_sm90, 1","other","","1"',
        f'"1","1","other","{METRICS["misses"]}","","5"',
    ]
)


def launch(kernel: str, us: float = 1.0, misses: float = 1.0) -> Launch:
    return Launch(kernel, {"us": us, "misses": misses, "stalled": 0.5})


def test_a_kernel_has_a_line_for_each_metric() -> None:
    assert list(instruction_misses.launches(OUTPUT)) == [
        Launch("gemm_sm90, 1", {"misses": 28103.0, "us": 17504.0}),
        Launch("other", {"misses": 5.0}),
    ]


def test_the_longest_kernel_of_a_call_counts() -> None:
    marker = launch("vectorized FillFunctor<int>")
    kernels = [marker, launch("scales"), launch("product", 7.0), launch("sum", 2.0), marker, launch("peer")]
    assert [each.kernel for each in instruction_misses.calls(kernels)] == ["product", "peer"]


def test_a_row_has_both_sides() -> None:
    problems = [{"kind": "bf16", "problem": "1x2x3", "tactic": "own"}]
    rows = instruction_misses.rows_of(problems, [launch("a", 2000.0, 10.0), launch("b", 1000.0, 15.0)])
    assert (rows[0]["us"], rows[0]["peer_us"], rows[0]["ratio"]) == (2.0, 1.0, 1.5)
    assert "| bf16 | 1x2x3 | own |" in instruction_misses.page(HEAD, rows)
    with pytest.raises(ValueError, match="counted 1 launches; expected two of 1 problems"):
        instruction_misses.rows_of(problems, [launch("a")])
