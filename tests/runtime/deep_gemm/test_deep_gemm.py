"""What `tilewright.compat.deep_gemm` exports, its settings, and its module `testing`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from deep_gemm_operands import matrix

from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm.testing import timing
from tilewright.context import Context
from tilewright.errors import ArgumentError


def test_the_alignment_of_groups_is_kept(alignment: None) -> None:
    assert deep_gemm.get_mk_alignment_for_contiguous_layout() == 128
    deep_gemm.set_mk_alignment_for_contiguous_layout(32)
    assert deep_gemm.utils.get_m_alignment_for_contiguous_layout() == 32
    with pytest.raises(ArgumentError, match="a multiple of 32"):
        deep_gemm.set_mk_alignment_for_contiguous_layout(48)
    assert deep_gemm.get_k_alignment_for_contiguous_layout() == 32


def test_what_differs_is_measured_and_named() -> None:
    x = matrix(64, 64)
    assert deep_gemm.testing.calc_diff(x, x) == pytest.approx(0.0, abs=1e-15)
    assert deep_gemm.testing.calc_diff(x * 0, x * 0) == 0.0
    assert deep_gemm.testing.calc_diff(x, 1.1 * x) == pytest.approx(0.01 / 2.21)
    assert deep_gemm.testing.count_bytes((x, [x[0]]), None) == 64 * 64 * 4 + 64 * 4
    y = x.clone()
    y[3, 5] += 1
    deep_gemm.testing.assert_bitwise_equal(x, x)
    with pytest.raises(AssertionError, match=r"xs: 1 elements differ; at \(3, 5\)"):
        deep_gemm.testing.assert_bitwise_equal(x, y, "xs")


def test_names_that_are_deep_gemms_mean_our_kernels(host: Context) -> None:
    ours = [("host_bf16_tn", 30e-6, 10), ("host_s8_tn", 10e-6, 20)]
    others = [("memset", 9e-6, 10), ("nvjet_tst", 50e-6, 5), ("a_gemm_", 1e-6, 5)]
    assert timing._seconds("bf16_gemm", ours + others, 10, several=False) == pytest.approx(4e-6)
    assert timing._seconds("host_", ours + others, 10, several=False) == pytest.approx(4e-6)
    assert timing._seconds("nvjet", ours + others, 10, several=False) == pytest.approx(10e-6)
    assert timing._seconds("reduce", others, 10, several=False) == 0.0
    assert timing._seconds("e", others, 10, several=True) == pytest.approx(3e-6)
    with pytest.raises(AssertionError, match="'e' is part of 3 kernels' names"):
        timing._seconds("e", others, 10, several=False)


def test_nothing_is_profiled_while_another_tool_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DG_USE_NVIDIA_TOOLS", "1")
    assert deep_gemm.testing.bench_kineto(pytest.fail, ("a", "b")) == (1.0, 1.0)
    assert deep_gemm.testing.bench_kineto(pytest.fail, "a") == 1.0


def test_programs_that_import_deep_gemm_get_this_package() -> None:
    code = (
        "from tilewright.compat import deep_gemm as ours; ours.install()\n"
        "import deep_gemm, deep_gemm.testing\n"
        "from deep_gemm.utils.math import align\n"
        "from deep_gemm.utils import set_mk_alignment_for_contiguous_layout\n"
        "set_mk_alignment_for_contiguous_layout(64)\n"
        "assert deep_gemm is ours and deep_gemm.testing is ours.testing\n"
        "assert ours.get_mk_alignment_for_contiguous_layout() == 64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["mega", "fp8_fp4_mega_moe"])
def test_what_is_not_supported_says_why(name: str) -> None:
    assert not hasattr(deep_gemm, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; kernels in which several GPUs"):
        getattr(deep_gemm, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        deep_gemm.nothing  # noqa: B018


def test_every_exported_name_is_there() -> None:
    for module in (deep_gemm, deep_gemm.testing, deep_gemm.utils):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
        assert sorted(module.__all__) == list(module.__all__)
