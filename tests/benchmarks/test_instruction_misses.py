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
        "==WARNING== this is not a kernel",
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
    launched = [launch("a", 2000.0, 10.0), launch("b", 1000.0, 15.0)]
    rows = instruction_misses.rows_of(problems, launched, sides=2)
    assert (rows[0]["us"], rows[0]["peer_us"], rows[0]["ratio"]) == (2.0, 1.0, 1.5)
    assert "| bf16 | 1x2x3 | own |" in instruction_misses.page(HEAD, rows)
    with pytest.raises(ValueError, match="counted 1 launches; expected 2: 2 of each of 1 problems"):
        instruction_misses.rows_of(problems, [launch("a")], sides=2)


def test_a_product_by_a_tactic_has_no_peer() -> None:
    problems = [{"kind": "scaled", "problem": "1x2x3", "tactic": name} for name in ("own", "other")]
    rows = instruction_misses.rows_of(problems, [launch("a", misses=10.0), launch("b", misses=15.0)], sides=1)
    assert [(row["tactic"], row["misses"]) for row in rows] == [("own", 10.0), ("other", 15.0)]
    page = instruction_misses.page(HEAD, rows)
    assert "| scaled | 1x2x3 | other | 15.000 |" in page
    assert "peer_" not in page


def test_a_line_names_a_problem_and_a_tactic() -> None:
    kind, problem, tactic = instruction_misses.parsed_line("scaled 48x512x256 name@cluster=2x1\n")
    assert (kind, problem.m, problem.n, problem.k) == ("scaled", 48, 512, 256)  # type: ignore[union-attr]
    assert str(tactic) == "name@cluster=2x1"


def test_ncu_runs_the_same_products() -> None:
    options = ["--kind", "scaled", "--tactics", "F"]
    command = instruction_misses.ncu_command(instruction_misses.parsed(options))
    assert command[command.index("--launch") :] == ["--launch", *options]
