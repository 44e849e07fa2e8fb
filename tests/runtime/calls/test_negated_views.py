"""Warm calls with negated views (`z.conj().imag`): the bit is in the tensor, kernels read memory.

`z.real` and `z.imag` of the same numbers have the same strides and no such bit; those calls are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilewright
from tilewright.context import Context
from tilewright.errors import ArgumentTypeError

M, N, K = 16, 8, 32
WARM = 3  # calls: the first makes a plan, the second remembers its launcher, the third finds it

Call = Callable[[torch.Tensor], Any]
PARTS = (torch.real, torch.imag)


def operands(n: int = N, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    a, b = torch.randn(M, K, generator=generator), torch.randn(n, K, generator=generator)
    return a.to(dtype), b.to(dtype).t()


def column() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A and B of a `reduced_gemm` with a single column, and the product in FP32."""
    a, b = operands(n=1)
    return a[None], b[None], (a.double() @ b.double()).float()


def refused(call: Call, z: torch.Tensor) -> None:
    negated = z.conj().imag
    assert negated.is_neg()
    before = torch.view_as_real(z).clone()
    with pytest.raises(ArgumentTypeError, match="resolve_neg"):
        call(negated)
    assert torch.equal(torch.view_as_real(z), before), "something was written"


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
def test_a_scale(host: Context, name: str, shape: tuple[int, ...]) -> None:
    a, b = operands(dtype=torch.float8_e4m3fn)
    product, z = a.double() @ b.double(), torch.full(shape, 2 + 3j)

    def call(scale: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(a, b, **{name: scale})

    for part, factor in zip(PARTS, (2, 3), strict=True):
        for _ in range(WARM):
            torch.testing.assert_close(call(part(z)), (product * factor).bfloat16())
    refused(call, z)


@pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
def test_a_column_of_results(all_hosts: Context, first: int) -> None:
    """`first`: whether the plan is made for an even element of memory or for an odd one."""
    a, b, expected = column()
    z = torch.zeros(M, 1, dtype=torch.complex64)

    def call(out: torch.Tensor) -> torch.Tensor:
        return tilewright.reduced_gemm(a, b, out=out)

    for part in (PARTS[first], PARTS[1 - first]):
        for _ in range(WARM):
            part(z).fill_(float("nan"))
            assert call(part(z)) is not None
            torch.testing.assert_close(part(z), expected)
    refused(call, z)


@pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
def test_a_column_that_is_added(all_hosts: Context, first: int) -> None:
    a, b, product = column()
    z = torch.randn(M, 1, dtype=torch.complex64)

    def call(c: torch.Tensor) -> torch.Tensor:
        return tilewright.reduced_gemm(a, b, c=c, out_dtype=torch.float32)

    for part in (PARTS[first], PARTS[1 - first]):
        for _ in range(WARM):
            torch.testing.assert_close(call(part(z)), product + part(z))
    refused(call, z)


@pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
def test_a_plan(all_hosts: Context, first: int) -> None:
    a, b, expected = column()
    z = torch.zeros(M, 1, dtype=torch.complex64)
    plan = tilewright.plan(tilewright.reduced_gemm, a, b, out=PARTS[first](z))
    for part in (PARTS[first], PARTS[1 - first]):
        part(z).fill_(float("nan"))
        plan(a, b, part(z))
        torch.testing.assert_close(part(z), expected)
    refused(lambda out: plan(a, b, out), z)


def test_an_operand_that_is_copied(host: Context) -> None:
    """A with gaps between its elements is copied before the launch."""
    _, b = operands(dtype=torch.float32)
    z = torch.randn(M, K, dtype=torch.complex64)

    def call(a: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(a, b)

    for part in (*PARTS, *PARTS):
        torch.testing.assert_close(call(part(z)), part(z) @ b, rtol=1e-2, atol=1e-2)
    refused(call, z)


def test_an_operand_of_what_torch_computes(host: Context) -> None:
    """Without k the result is C, which no launcher looks at."""
    a, b = torch.zeros(M, 0), torch.zeros(1, 0)
    z = torch.randn(M, 1, dtype=torch.complex64)

    def call(c: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(a, b.t(), c=c)

    for part in (*PARTS, *PARTS):
        assert torch.equal(call(part(z)), part(z))
    refused(call, z)
