"""The measuring and comparing functions of DeepGEMM's tests."""

from __future__ import annotations

from tilewright.compat.deep_gemm.testing.numeric import assert_bitwise_equal, calc_diff, count_bytes
from tilewright.compat.deep_gemm.testing.selecting import get_arch_major, ignore_env, test_filter
from tilewright.compat.deep_gemm.testing.timing import bench, bench_kineto

__all__ = [
    "assert_bitwise_equal", "bench", "bench_kineto", "calc_diff", "count_bytes", "get_arch_major",
    "ignore_env", "test_filter",
]  # fmt: skip
