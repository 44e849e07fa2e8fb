"""Warm calls of `tilewright.compat.deep_gemm`: those that launch without a plan."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deep_gemm_operands import close, matrix, quantised, ready

from tilewright.calls import fast_path
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.libraries.launcher_cache import CachedLaunchers


class TestWarmCalls:
    """What is like an earlier call goes round the op; what is not, does not."""

    @pytest.fixture
    def warm_ones(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """For each call, whether it went round the op."""
        actual: list[bool] = []
        launch = fast_path.launch

        def look(*arguments: Any) -> bool:
            actual.append(launch(*arguments))
            return actual[-1]

        monkeypatch.setattr(fast_path, "launch", look)
        return actual

    def test_each_product(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        counts = torch.tensor([4, 2], dtype=torch.int32)
        index = torch.tensor([0] * 4 + [1] * 4, dtype=torch.int32)
        for seed in range(3):
            (a, x), (flat, whole) = ready(matrix(2, 4, 256, seed=seed)), ready(matrix(8, 256, seed=seed + 3))
            (b, y) = quantised(matrix(2, 128, 256, seed=seed + 6), (128, 128))
            (rows, z) = ready(matrix(40, 256, seed=seed + 9))
            p, q = x[0].bfloat16(), y[0].bfloat16()
            for c in (False, True):
                d = torch.full((4, 128), 3.0, dtype=torch.bfloat16)
                deep_gemm.bf16_gemm_nt(p, q, d, d if c else None)
                close(d, p.double() @ q.double().mT + 3.0 * c)
            d = torch.full((8, 128), torch.nan, dtype=torch.bfloat16)
            deep_gemm.fp8_gemm_nt(flat, (b[0][1], b[1][1]), d)
            close(d, whole @ y[1].mT)
            wide = torch.ones(8, 40)
            deep_gemm.fp8_gemm_nt(flat, rows, wide, wide, recipe=(1, 1, 128))
            close(wide, whole @ z.mT + 1.0)
            masked = torch.full((2, 4, 128), torch.nan, dtype=torch.bfloat16)
            deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, masked, counts, 4)
            close(masked[1, :2], x[1, :2] @ y[1].mT)
            masked.fill_(torch.nan)
            deep_gemm.m_grouped_bf16_gemm_nt_masked(x.bfloat16(), y.bfloat16(), masked, counts, 4)
            close(masked[1, :2], x[1, :2].bfloat16().double() @ y[1].bfloat16().double().mT)
            d.fill_(torch.nan)
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(flat, b, d, index)
            close(d[4:], whole[4:] @ y[1].mT)
            d.fill_(torch.nan)
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(whole.bfloat16(), y.bfloat16(), d, index)
            close(d[4:], whole[4:].bfloat16().double() @ y[1].bfloat16().double().mT)
        assert warm_ones == [False] * 8 + [True] * 16

    def test_parts_of_k(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        sizes = [256, 0, 128]
        ks = torch.tensor(sizes, dtype=torch.int32)
        for seed in range(2):
            (a, x), (b, y) = ready(matrix(16, 384, seed=seed)), ready(matrix(24, 384, seed=seed + 2))
            flat = [
                torch.cat([part.flatten() for part in data.view(torch.uint8).split(sizes, 1)])
                for data in (a[0], b[0])
            ]
            p, q = ((each.view(a[0].dtype), scales) for each, scales in zip(flat, (a[1], b[1]), strict=True))
            d = matrix(3, 16, 24, seed=seed)
            parts = zip(d, x.split(sizes, 1), y.split(sizes, 1), strict=True)
            expected = torch.stack([c.double() + left @ right.mT for c, left, right in parts])
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(p, q, d, sizes, ks, d)
            close(d, expected)
        assert warm_ones == [False, True]

    def test_each_einsum(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        shapes = {"b": 3, "h": 2, "d": 16, "r": 24, "m": 8, "n": 16, "k": 32}
        for seed in range(3):
            for expr in ("bmk,bnk->mn", "bhr,hdr->bhd", "bhd,hdr->bhr"):
                a, b, d = (
                    matrix(*(shapes[x] for x in term), seed=seed + i).bfloat16()
                    for i, term in enumerate(expr.replace("->", ",").split(","))
                )
                expected, added = torch.einsum(expr, a.double(), b.double()), d.clone()
                for c in (None, added):
                    deep_gemm.einsum(expr, a, b, d, c=c)
                    close(d, expected if c is None else expected + c)
        # No kernel of the host's reads weights as the last has them: they are copied, each time.
        assert warm_ones == [False] * 6 + [True, True, True, True, False, False] * 2

    def test_scales_that_are_laid_out_anew_are_so_each_time(
        self, all_hosts: Context, warm_ones: list[bool]
    ) -> None:
        for seed in range(2):
            (a, x), (b, y) = quantised(matrix(6, 256, seed=seed)), quantised(matrix(128, 256), (128, 128))
            d = torch.zeros(6, 128, dtype=torch.bfloat16)
            deep_gemm.fp8_gemm_nt(a, b, d)
            close(d, x @ y.mT)
        assert warm_ones == [False, False]

    def test_another_layout_or_address(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        a, b = matrix(4, 64).bfloat16(), matrix(16, 64, seed=1).bfloat16()
        expected, wide = a.double() @ b.double().mT, torch.zeros(4, 32, dtype=torch.bfloat16)
        shifted = torch.zeros(4 * 64 + 8, dtype=torch.bfloat16)[8:].view(4, 64).copy_(a)
        dense = torch.zeros(4, 16, dtype=torch.bfloat16)
        for x, d in ((a, dense), (a, wide[:, :16]), (a, wide[:, 16:]), (a, dense), (shifted, dense)):
            d.zero_()
            deep_gemm.bf16_gemm_nt(x, b, d)
            close(d, expected)
        assert warm_ones[:4] == [False, False, True, True]

    def test_what_is_wrong_is_said_as_the_op_says_it(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        a, b = matrix(4, 64).bfloat16(), matrix(16, 64, seed=1).bfloat16()
        d = torch.zeros(4, 16, dtype=torch.bfloat16)
        for _ in range(2):
            deep_gemm.bf16_gemm_nt(a, b, d)
        with pytest.raises(ArgumentError, match="overlap"):
            deep_gemm.bf16_gemm_nt(a, b, a.view(-1)[:64].view(4, 16))
        with pytest.raises(ArgumentTypeError, match="float16"):
            deep_gemm.bf16_gemm_nt(a, b.half(), d)
        with pytest.raises(ArgumentError, match="gradient"):
            deep_gemm.bf16_gemm_nt(a, b.clone().requires_grad_(), d)
        assert warm_ones == [False, True, False, False, False]

    def test_what_is_empty_is_not_planned_again_and_again(self, all_hosts: Context) -> None:
        a, b = matrix(0, 64).bfloat16(), matrix(16, 64).bfloat16()
        for _ in range(CachedLaunchers.MOST + 2):
            deep_gemm.bf16_gemm_nt(a, b, torch.zeros(0, 16, dtype=torch.bfloat16))
        (cached,) = all_hosts.plans.launchers.values()
        assert cached.layouts_seen == CachedLaunchers.MOST
        assert not cached.launchers
