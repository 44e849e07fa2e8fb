"""The ops in compiled functions and exported programs; the kernels run on the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blockscaled_operands as blockscaled
import pytest
import torch

import tilewright
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError

BF16 = torch.bfloat16
INTEGERS = torch.arange(-256, 256, dtype=torch.int8)


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).bfloat16()


A, B, BIAS = matrix(16, 32), matrix(24, 32).t(), matrix(24)


@pytest.fixture(params=["default", "dynamic", "automatic"])
def compiled(request: pytest.FixtureRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    torch._dynamo.reset()
    dynamic = {"default": False, "dynamic": True, "automatic": None}[request.param]
    return lambda f: torch.compile(f, fullgraph=True, dynamic=dynamic, backend="aot_eager")


def test_compiled(host: Context, compiled: Any) -> None:
    @compiled
    def block(x: torch.Tensor, out: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = tilewright.gemm(x, B, bias=BIAS, activation="relu")
        tilewright.gemm(x + 1, B, out=out)
        tilewright.gemm(x, B, c=c, out=c, beta=1.0)
        return torch.nn.functional.silu(y), out * 2

    for m in (16, 40, 24, 56):
        x, out, c = matrix(m, 32), torch.full((m, 24), float("nan"), dtype=BF16), matrix(m, 24)
        added = tilewright.gemm(x, B, c=c, beta=1.0)
        actual = block(x, out, c)
        expected = torch.nn.functional.silu(tilewright.gemm(x, B, bias=BIAS, activation="relu"))
        assert torch.equal(actual[0], expected)
        assert torch.equal(out, tilewright.gemm(x + 1, B))
        assert torch.equal(actual[1], out * 2)
        assert torch.equal(c, added)


def test_dynamic_sizes_compile_once(host: Context) -> None:
    torch._dynamo.reset()
    f = torch.compile(
        lambda x: tilewright.gemm(x, B, bias=BIAS), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    with torch._dynamo.config.patch(error_on_recompile=True):
        for m in (16, 40, 24, 7):
            assert torch.equal(f(matrix(m, 32)), tilewright.gemm(matrix(m, 32), B, bias=BIAS))
        with pytest.raises(torch._dynamo.exc.RecompileError):
            f(matrix(1, 32))  # torch specialises extents of 1: the guard against other recompiles works


def test_compiled_factors_and_tactics(host: Context, compiled: Any) -> None:
    tactic = "host_bf16_tn_streamk@decomposition=split_k,splits=2"

    @compiled
    def f(x: torch.Tensor, alpha: float) -> torch.Tensor:
        return tilewright.gemm(x, B, alpha=alpha, tactic=tactic)

    for alpha in (0.5, 2.0, 3, 4, 0.25):
        assert torch.equal(f(A, alpha), tilewright.gemm(A, B, alpha=alpha))
    parsed = torch.compile(
        lambda x: tilewright.gemm(x, B, tactic=Tactic.parse(tactic)), fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(parsed(A), tilewright.gemm(A, B))


def test_out_within_a_wider_tensor_through_inductor(host: Context) -> None:
    torch._dynamo.reset()

    def f(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
        left, right = room[:, 8:32], room[:, 32:56]
        tilewright.gemm(x, B, out=left)
        tilewright.gemm(x, B, out=right, c=right, beta=1.0)
        return room + 1

    compiled = torch.compile(f, fullgraph=True, dynamic=True)
    for m in (16, 40):
        x, room = matrix(m, 32), matrix(m, 64, seed=3)
        eager = room.clone()
        expected = f(x, eager)
        assert torch.equal(compiled(x, room), expected)
        assert torch.equal(room, eager)


def test_inductor_keeps_a_column_major_b(host: Context) -> None:
    """8-bit operands in another layout would be an error, so that this sees a copy."""
    torch._dynamo.reset()
    a, weight = INTEGERS.view(16, 32), INTEGERS.view(16, 32)

    def f(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(a.neg(), weight.neg().t()) + 1

    actual = torch.compile(f, fullgraph=True)(a, weight)
    assert torch.equal(actual, f(a, weight))


def test_compiled_blockscaled(blackwell: Context, compiled: Any) -> None:
    operands, _ = blockscaled.product(16, 32, 128, "nvfp4", "nvfp4")

    @compiled
    def f(*operands: torch.Tensor) -> torch.Tensor:
        return tilewright.mm_nvfp4(*operands) * 2

    assert torch.equal(f(*operands), tilewright.mm_nvfp4(*operands) * 2)


def test_compiled_quantising(blackwell: Context, compiled: Any) -> None:
    operands, _ = blockscaled.product(16, 32, 128, "mxfp8", "mxfp8")
    dtype = torch.float8_e4m3fn
    expected = tilewright.mm_mxfp8(*operands, out_dtype=dtype)

    @compiled
    def f(*operands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tilewright.mm_mxfp8(*operands, out_dtype=dtype)

    @compiled
    def into(out: torch.Tensor, *operands: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tilewright.mm_mxfp8(*operands, out_dtype=dtype, out=out)

    out = torch.empty(16, 32, dtype=dtype)
    for actual in (f(*operands), into(out, *operands)):
        for x, y in zip(actual, expected, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
    assert torch.equal(out.view(torch.uint8), expected[0].view(torch.uint8))


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(matrix(24, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(x, self.weight.t())


def test_export_and_load_in_another_process(host: Context, tmp_path: Path) -> None:
    module = Linear()
    with torch.no_grad():
        m = torch.export.Dim("m", min=2, max=512)
        program = torch.export.export(module, (A,), dynamic_shapes=({0: m},))
        assert "tilewright.gemm" in str(program.graph)
        x = matrix(40, 32)
        assert torch.equal(program.module()(x), module(x))
    torch.export.save(program, tmp_path / "linear.pt2")
    code = (
        "import sys, torch, tilewright.torch_ops\n"
        "program = torch.export.load(sys.argv[1])\n"
        "print([str(node.target) for node in program.graph.nodes])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "linear.pt2")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "tilewright.gemm.default" in result.stdout, result.stderr


def test_export_of_a_size_that_is_data(host: Context) -> None:
    class Prefix(torch.nn.Module):
        def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            count = rows.item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[0])
            return tilewright.gemm(x.narrow(0, 0, count), B)

    module = torch.export.export(Prefix(), (A, torch.tensor(8))).module()
    for rows in (8, 3, 0):
        assert torch.equal(module(A, torch.tensor(rows)), tilewright.gemm(A[:rows], B))


def test_a_block_of_batch_invariant_mode_is_in_no_graph(host: Context) -> None:
    """A graph would open and close the block while it is traced, and run the op without the mode."""

    def invariant(a: torch.Tensor) -> torch.Tensor:
        with tilewright.batch_invariant():
            return tilewright.gemm(a, B)

    torch._dynamo.reset()
    with pytest.raises(NoKernelError, match="batch-invariantly"):  # no kernel of the host is
        torch.compile(invariant, backend="eager")(A)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(invariant, backend="eager", fullgraph=True)(A)


def test_a_plan_in_a_compiled_function_runs_outside_of_its_graph(host: Context) -> None:
    torch._dynamo.reset()
    plan = tilewright.plan(tilewright.gemm, A, B)
    compiled = torch.compile(lambda x: plan(x + 1, B) * 2, backend="aot_eager")
    for seed in range(2):
        x = matrix(16, 32, seed=seed)
        assert torch.equal(compiled(x), tilewright.gemm(x + 1, B) * 2)
