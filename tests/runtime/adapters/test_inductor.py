"""Inductor calls our products in compiled models; the kernels run on the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.utils import run_and_get_code
from torch._inductor.virtualized import V

import tilewright
from tilewright.adapters import inductor
from tilewright.context import Context

CALL = "extern_kernels.tilewright_gemm("


def matrix(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


class Block(torch.nn.Module):
    """A feed-forward block of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Parameter(matrix(64, 32))
        self.up = torch.nn.Parameter(matrix(32, 64).t().contiguous())
        self.down = torch.nn.Parameter(matrix(32, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.silu(torch.nn.functional.linear(x, self.gate))
        return torch.nn.functional.linear(hidden * torch.nn.functional.linear(x, self.up), self.down)


@pytest.fixture
def ours_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inductor has no other product to choose: which is the faster one is nothing that a test may ask."""
    torch._dynamo.reset()
    inductor.enable()
    with config.patch(max_autotune=True, max_autotune_gemm_backends="NONE", force_disable_caches=True):
        yield
    inductor.disable()
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_model_calls_our_product(host: Context, ours_alone: None, dynamic: bool) -> None:
    block = Block()
    with torch.no_grad():
        compiled = torch.compile(block, fullgraph=True, dynamic=dynamic)
        _, (code,) = run_and_get_code(compiled, matrix(16, 32))
        assert code.count(CALL) == 3
        for m in (16, 40, 24) if dynamic else (16,):
            x = matrix(m, 32)
            gate, up = (tilewright.gemm(x, weight.t()).float() for weight in (block.gate, block.up))
            hidden = (torch.nn.functional.silu(gate) * up).bfloat16()  # not rounded between, as Inductor does
            expected = tilewright.gemm(hidden, block.down.t()).float()
            assert (compiled(x).float() - expected).norm() < 0.004 * expected.norm()


@pytest.mark.parametrize(
    ("c_shape", "alpha", "beta"), [((16, 24), 3, 0.5), ((16, 24), 1, 1), ((1, 24), 1, 1), ((24,), 2, 1)]
)
def test_a_sum_and_a_bias_are_within_our_product(
    host: Context, ours_alone: None, c_shape: tuple[int, ...], alpha: float, beta: float
) -> None:
    x, weight, c = matrix(16, 32), matrix(24, 32), matrix(*c_shape)

    def added(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.addmm(c, x, weight.t(), alpha=alpha, beta=beta)

    with torch.no_grad():
        product, (code,) = run_and_get_code(torch.compile(added, fullgraph=True, dynamic=False), x, c)
    assert code.count("extern_kernels.tilewright_addmm(") == 1
    expected = alpha * (x.double() @ weight.t().double()) + beta * c.double()
    assert (product.double() - expected).norm() < 0.004 * expected.norm()


def test_factors_of_a_sum() -> None:
    """They reach our product, which multiplies no bias."""
    x, weight, c = matrix(16, 32), matrix(24, 32), matrix(16, 24)
    with pytest.raises(NotImplementedError, match="bias"):
        inductor.tilewright_addmm(c[0], x, weight.t(), out=torch.empty_like(c), beta=2)


@pytest.mark.parametrize("added", [False, True])
def test_it_is_one_of_several_choices(host: Context, added: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside torch's own, it is called to be timed; which one is taken is up to the times."""
    torch._dynamo.reset()
    calls = []

    def counted(*arguments: torch.Tensor, **named: Any) -> torch.Tensor:
        calls.append(arguments)
        return (inductor_addmm if added else tilewright.gemm)(*arguments, **named)

    inductor_addmm = inductor.tilewright_addmm
    counted.__name__ = "tilewright_counted_addmm" if added else "tilewright_counted"
    name = "tilewright_addmm" if added else "tilewright_gemm"
    monkeypatch.setattr(inductor, name, counted)
    inductor.enable()
    x, weight, c = matrix(16, 32), matrix(24, 32), matrix(16, 24)
    try:
        with config.patch(force_disable_caches=True), torch.no_grad():
            if added:
                product = torch.compile(lambda x: torch.addmm(c, x, weight.t(), beta=0.5, alpha=3))(x)
            else:
                product = torch.compile(lambda x: torch.mm(x, weight.t()))(x)
    finally:
        inductor.disable()
    assert calls
    expected = 0.5 * c.double() + 3 * (x.double() @ weight.double().t()) if added else x @ weight.t()
    torch.testing.assert_close(product.double(), expected.double(), rtol=0.02, atol=0.1)


def test_torch_computes_what_we_do_not(host: Context) -> None:
    """Where our product refuses, Inductor passes it over."""
    torch._dynamo.reset()
    inductor.enable()
    try:
        for a, b in (
            (torch.randn(8, 16), torch.randn(16, 8)),
            (matrix(8, 16).double(), matrix(16, 8).double()),
        ):
            with config.patch(force_disable_caches=True), torch.no_grad():
                product, (code,) = run_and_get_code(torch.compile(torch.mm), a, b)
            assert CALL not in code
            torch.testing.assert_close(product, a @ b)
            with pytest.raises(NotImplementedError):
                inductor.tilewright_gemm(a, b, out=torch.empty(8, 8, dtype=a.dtype))
    finally:
        inductor.disable()


def test_without_a_gpu_torch_computes_all() -> None:
    with pytest.raises(NotImplementedError, match="CUDA"):
        inductor.tilewright_gemm(matrix(8, 16), matrix(16, 8), out=matrix(8, 8))


def test_enabling_twice_adds_one_choice() -> None:
    before = list(config.external_matmul)
    inductor.enable()
    inductor.enable()
    assert config.external_matmul == [*before, inductor.tilewright_gemm]
    inductor.disable()
    assert config.external_matmul == before


def test_choices_of_the_program_stay() -> None:
    class Own(InductorChoices):
        pass

    with V.set_choices_handler(Own()):
        inductor.enable()
        assert type(V.choices) is Own
        inductor.disable()
        assert type(V.choices) is Own


def test_serving_does_not_import_adapters() -> None:
    code = (
        "import sys, tilewright, tilewright.torch_ops; tilewright.gemm; "
        "sys.exit(any(name.startswith('tilewright.adapters') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
