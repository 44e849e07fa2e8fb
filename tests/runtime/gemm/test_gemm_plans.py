"""Plans of `gemm`: what is kept between calls, demanded tactics, and missing kernels."""

from __future__ import annotations

import pytest
import torch
from gemm_operands import A, B, expected, matrix

import tilewright
from tilewright import context as contexts
from tilewright.context import Context
from tilewright.errors import ArgumentError, NoKernelError, NotBuiltError, WrongResultError
from tilewright.families.gemm import measuring
from tilewright.families.gemm.problem import Problem


class Unkeyable(str):
    """An activation that equals another and has no hash."""

    __hash__ = None  # type: ignore[assignment]


def test_calls_without_a_key_are_not_remembered(host: Context) -> None:
    def shifted(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape).copy_(tensor)

    for m in (16, 24, 16):
        a = matrix(m, 32)
        d = tilewright.gemm(shifted(a), B, activation=Unkeyable("none"))
        torch.testing.assert_close(d, expected(a, B, torch.bfloat16))
        # The copies of `a` are what the inner call remembers, and nothing else.
        assert all(key[0] == "gemm" and key[1] is not None for key in host.plans)
    reference = torch.relu(A.double() @ B.double()).bfloat16()
    torch.testing.assert_close(tilewright.gemm(A, B, activation=Unkeyable("relu")), reference)


@pytest.mark.parametrize("shape", [(0, 24, 32), (16, 24, 0)])
def test_a_tactic_for_nothing_is_judged(host: Context, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = matrix(m, k), matrix(k, n)
    assert tilewright.gemm(a, b, tactic="host_bf16_nt").shape == (m, n)
    with pytest.raises(NoKernelError, match="host_bf16_tm"):
        tilewright.gemm(a, b, tactic="host_bf16_tm")
    with pytest.raises(ArgumentError, match="its a is s8"):
        tilewright.gemm(a, b, tactic="host_s8_tn")
    with pytest.raises(ArgumentError, match="only stream-K"):
        tilewright.gemm(a, b, tactic="host_bf16_tn@decomposition=split_k,splits=2")


def test_a_kernel_that_is_not_built(host: Context) -> None:
    with pytest.raises(NotBuiltError, match="tilewright build --filter host_absent"):
        tilewright.gemm(A, B, activation="silu")


def test_no_kernel_says_why(host: Context) -> None:
    with pytest.raises(NoKernelError, match=r"no gemm kernel computes gemm 16x24x32 bf16 x bf16 -> f32"):
        tilewright.gemm(A, B, out_dtype=torch.float32)


def test_a_demanded_tactic_runs(host: Context) -> None:
    reference = expected(A, B, torch.bfloat16)
    split = "host_bf16_tn_streamk@decomposition=split_k,splits=2"
    torch.testing.assert_close(tilewright.gemm(A, B, tactic="host_bf16_tn"), reference)
    torch.testing.assert_close(tilewright.gemm(A, B, tactic=split), reference)
    with pytest.raises(NoKernelError, match=r"Did you mean .*host_bf16_tn"):
        tilewright.gemm(A, B, tactic="host_bf16_tm")
    reduced = next(iter(host.registry.tables["host_reduced"]))
    with pytest.raises(ArgumentError, match=f"{reduced} is a reduced_gemm kernel; expected a gemm kernel"):
        tilewright.gemm(A, B, tactic=reduced)


def test_plans_are_remembered_and_bounded(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PLANS", 5)
    for m in range(1, 20):
        tilewright.gemm(matrix(m, 32), B)
        tilewright.gemm(matrix(m, 32), B)
    assert len(host.plans) == 5
    assert all(key[0] == "gemm" for key in host.plans)


@pytest.mark.parametrize("k", [256, 16384])
@pytest.mark.parametrize("fast_accum", [False, True])
def test_a_measurement_sees_a_wrong_alpha(k: int, fast_accum: bool) -> None:
    problem = Problem(16, 64, k, a="e4m3", b="e4m3", fast_accum=fast_accum)
    a, b = matrix(16, k).to(torch.float8_e4m3fn), matrix(64, k).to(torch.float8_e4m3fn).t()
    d = (a.double() @ b.double()).bfloat16()
    assert measuring.operands(problem, a=a, b=b, out=d).check() < 4e-3
    for wrong in (1.02, 0.98, float("nan")):
        with pytest.raises(WrongResultError, match="norm ratio"):
            measuring.operands(problem, a=a, b=b, out=wrong * d).check()


def test_plans_in_use_outlive_others(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PLANS", 5)
    tilewright.gemm(A, B)
    (used,) = host.plans.values()
    for m in range(1, 20):
        tilewright.gemm(A, B)
        tilewright.gemm(matrix(m, 40), matrix(8, 40).t())
    assert used.cached in host.plans.launchers.values(), "its calls look for no plan any more"
    for m in range(1, 20):
        tilewright.gemm(matrix(m, 48), matrix(8, 48).t())
    assert used not in host.plans.values()
