"""The ops in torch's machinery on a GPU: opcheck, torch.compile, export, CUDA graphs, modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blockscaled_reference as blockscaled
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode
from torch_helpers import built, random, stream_k_tactic, weight

import tilewright
import tilewright.torch_ops
from tilewright.context import current
from tilewright.errors import ArgumentError

pytestmark = pytest.mark.marks_kernels

OPS = torch.ops.tilewright
ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
BF16 = torch.bfloat16
NAN = float("nan")


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def cases() -> dict[str, tuple[tuple[torch.Tensor, ...], dict[str, Any]]]:
    a, b = random(48, 256), weight(128, 256)
    fp8 = (random(48, 256, dtype="e4m3"), weight(128, 256, "e4m3"))
    tf32 = (random(48, 256, dtype="tf32"), weight(128, 256, "tf32"))
    scale, c, bias = torch.full((1,), 0.5, device="cuda"), random(48, 128, seed=3), random(128, seed=4)
    return {
        "bf16": ((a, b), {}),
        "row_major_b": ((a, random(256, 128)), {}),
        "stream_k": (tf32, {"tactic": stream_k_tactic()}),
        "c": ((a, b), {"c": c, "alpha": 2.0, "beta": -0.5}),
        "bias": ((a, b), {"bias": bias, "activation": "silu"}),
        "batch": ((random(3, 48, 256), b), {}),
        "gated": ((a, b), {"activation": "silu_mul", "bias": bias}),
        "padded": ((random(50, 252), weight(126, 252)), {}),
        "empty": ((a[:0], b), {}),
        "no_k": ((a[:, :0], b[:0]), {"c": c, "beta": 1.0}),
        "fp8": (fp8, {"scale_a": scale, "scale_b": scale, "fast_accum": True}),
        "int8": ((random(48, 256, dtype="s8"), weight(128, 256, "s8")), {}),
    }


@pytest.mark.parametrize(
    "case",
    [
        *("bf16", "row_major_b", "stream_k", "c", "bias", "batch", "gated", "padded", "empty", "no_k"),
        *("fp8", "int8"),
    ],
)
def test_opcheck(case: str) -> None:
    operands, options = cases()[case]
    expected = built(lambda: tilewright.gemm(*operands, **options))
    tests = ALL[1:] if case == "fp8" else ALL  # test_schema compares operands, for which FP8 has no kernels
    opcheck(OPS.gemm.default, operands, options, test_utils=tests)
    assert torch.equal(OPS.gemm(*operands, **options), expected)
    if case == "empty":
        return
    opcheck(OPS.gemm_out.default, (*operands, expected.clone()), options, test_utils=tests)
    out = torch.empty_like(expected)
    OPS.gemm_out(*operands, out, **options)
    assert torch.equal(out, expected)
    if case == "bf16":
        more = {"accumulate": True, "beta": 1.0}
        opcheck(OPS.gemm_out.default, (*operands, expected.clone()), more, test_utils=ALL)


@pytest.mark.parametrize(
    ("op", "pair"),
    [
        ("mm_nvfp4", "nvfp4"), ("mm_mxfp4", "mxfp4"), ("mm_mxfp8", "mxfp8"),
        ("mm_mxfp8_mxfp4", "mxfp8 x mxfp4"), ("mm_mxfp8_mxfp4", "mxfp4 x mxfp8"),
    ],
)  # fmt: skip
def test_opcheck_of_blockscaled(op: str, pair: str) -> None:
    of = blockscaled.of_pair(pair, (48, 128, 512))
    expected = of.multiply_built()
    operands, tests = of.call, ALL[1:]
    if "mxfp8" not in pair:  # bytes serve as well, and test_schema compares them
        operands, tests = tuple(tensor.view(torch.uint8) for tensor in of.call), ALL
    opcheck(getattr(OPS, op).default, operands, test_utils=tests)
    out = torch.zeros_like(expected)
    opcheck(getattr(OPS, f"{op}_out").default, (*operands, None, out), test_utils=tests)
    getattr(OPS, f"{op}_out")(*operands, None, out)
    assert torch.equal(out, expected)
    assert torch.equal(getattr(OPS, op)(*operands), expected)


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
def test_compiled_over_several_m(dtype: str, dynamic: bool | None) -> None:
    """One op is one kernel, compiled or not: equal to the bit."""
    b, scale = weight(256, 512, dtype), torch.full((1,), 0.25, device="cuda")

    def f(x: torch.Tensor, out: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        y = tilewright.gemm(x, b, scale_a=scale)
        tilewright.gemm(x, b, out=out)
        tilewright.gemm(x, b, c=c, out=c, beta=1.0)
        return y

    compiled = torch.compile(f, fullgraph=True, dynamic=dynamic)
    for m in (16, 48, 200, 64, 1024):
        x, out = random(m, 512, dtype=dtype, seed=m), torch.full((m, 256), NAN, device="cuda", dtype=BF16)
        c = random(m, 256, seed=m)
        expected = [torch.empty_like(out), c.clone()]
        expected.append(built(lambda x=x, w=expected: f(x, *w)))
        actual = [out, c, compiled(x, out, c)]
        for one, other in zip(actual, expected, strict=True):
            assert torch.equal(one, other), f"m = {m}"


def test_compiled_blockscaled() -> None:
    of = blockscaled.of_pair("nvfp4", (48, 512, 1024))
    expected = of.multiply_built()
    compiled = torch.compile(tilewright.mm_nvfp4, fullgraph=True)
    assert torch.equal(compiled(*of.call), expected)


class Block(torch.nn.Module):
    """A transformer's block: RMSNorm, attention, SwiGLU; its products are Tilewright's."""

    def __init__(self, width: int = 512, heads: int = 8, hidden: int = 1408, fp8: bool = False) -> None:
        super().__init__()
        self.heads, self.hidden, self.fp8 = heads, hidden, fp8

        def matrix(n: int, k: int, seed: int) -> torch.nn.Parameter:
            value = random(n, k, seed=seed) / k**0.5
            return torch.nn.Parameter(value, requires_grad=False)

        self.norms = torch.nn.Parameter(torch.ones(2, width, device="cuda", dtype=BF16), requires_grad=False)
        self.qkv, self.projection = matrix(3 * width, width, 1), matrix(width, width, 2)
        self.up, self.down = matrix(2 * hidden, width, 3), matrix(width, hidden, 4)
        if fp8:
            for name in ("up", "down"):
                value, scale = self.quantize(getattr(self, name))
                self.register_buffer(f"{name}8", value)
                self.register_buffer(f"{name}_scale", scale)

    @staticmethod
    def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = x.abs().amax().float() / 448
        return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale

    @staticmethod
    def normalize(x: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * norm

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        if not (self.fp8 and name in ("up", "down")):
            return tilewright.gemm(x, getattr(self, name).t())
        value, scale = self.quantize(x)
        b, scale_b = getattr(self, f"{name}8").t(), getattr(self, f"{name}_scale")
        return tilewright.gemm(value, b, scale_a=scale, scale_b=scale_b, fast_accum=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, width], one sequence."""
        tokens, width = x.shape
        normed = self.normalize(x, self.norms[0])
        qkv = self.linear(normed, "qkv").view(tokens, 3, self.heads, -1).permute(1, 2, 0, 3)
        heads = torch.nn.functional.scaled_dot_product_attention(
            qkv[0][None], qkv[1][None], qkv[2][None], is_causal=True
        )
        x = x + self.linear(heads[0].transpose(0, 1).reshape(tokens, width), "projection")
        normed = self.normalize(x, self.norms[1])
        gate, up = self.linear(normed, "up").split(self.hidden, dim=-1)
        return x + self.linear(torch.nn.functional.silu(gate) * up, "down")


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize(
    ("backend", "tolerance"),
    # aot_eager runs the same kernels: equal to the bit. Inductor fuses, and rounds to BF16 less often; a
    # value that falls on the other side of an FP8 boundary is 6 % off, a few of them are.
    [("aot_eager", 0.0), ("inductor", 1e-2), ("reduce-overhead", 1e-2)],
)
def test_a_transformer_block(fp8: bool, backend: str, tolerance: float) -> None:
    block = Block(fp8=fp8)
    options: dict[str, Any] = {"backend": backend}
    if backend == "reduce-overhead":
        options = {"mode": "reduce-overhead"}
    compiled = torch.compile(block, fullgraph=True, **options)
    with torch.no_grad():
        for tokens in (128, 200, 128):
            for seed in range(4):  # reduce-overhead: a warm-up, a capture, replays with changed data
                x = random(tokens, 512, seed=seed)
                expected = built(lambda x=x: block(x))
                assert bool(expected.isfinite().all())
                assert error(expected, x) > 0.1  # the block does something
                torch.compiler.cudagraph_mark_step_begin()
                assert error(compiled(x).clone(), expected) <= tolerance * (3 if fp8 else 1)


def test_reduce_overhead_with_workspaces() -> None:
    """Its warm-up and its graphs allocate from one pool, of which the kernels' workspaces must be part."""
    tactic = stream_k_tactic()
    first, second = weight(512, 1024, "tf32"), weight(1024, 512, "tf32", seed=5)

    def f(x: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(tilewright.gemm(x, first, tactic=tactic), second, tactic=tactic)

    compiled = torch.compile(f, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        for m in (64, 128, 64):
            for seed in range(10):
                x = random(m, 1024, dtype="tf32", seed=seed)
                expected = f(x)
                torch.compiler.cudagraph_mark_step_begin()
                assert torch.equal(compiled(x).clone(), expected)
                # An eager call between replays, with a larger workspace.
                f(random(256, 1024, dtype="tf32", seed=seed))


def test_reduce_overhead_with_a_number_as_global_scale() -> None:
    """What the op would keep of it may not be of the graphs' pool."""
    compiled = torch.compile(
        lambda x: tilewright.quantize_nvfp4(x, 37.25), fullgraph=True, mode="reduce-overhead"
    )
    for seed in range(6):
        x = random(64, 1024, seed=seed)
        torch.compiler.cudagraph_mark_step_begin()
        data, scales = (made.clone() for made in compiled(x))
        expected, wanted_scales = tilewright.quantize_nvfp4(x, 37.25)
        assert torch.equal(data, expected)
        assert torch.equal(scales.view(torch.uint8), wanted_scales.view(torch.uint8))


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(random(256, 512), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(x, self.weight.t())


def test_export(tmp_path: Path) -> None:
    module = Linear()
    built(lambda: module(random(64, 512)))
    m = torch.export.Dim("m", min=2, max=4096)
    program = torch.export.export(module, (random(64, 512),), dynamic_shapes=({0: m},))
    torch.export.save(program, tmp_path / "linear.pt2")
    loaded = torch.export.load(tmp_path / "linear.pt2").module()
    for rows in (16, 64, 200):
        x = random(rows, 512, seed=rows)
        assert torch.equal(loaded(x), module(x))


def test_fake_tensors_after_real_ones() -> None:
    a, b = random(64, 512), weight(256, 512)
    built(lambda: tilewright.gemm(a, b))
    plans = len(current().plans)
    mode = FakeTensorMode()
    fake_a, fake_b = mode.from_tensor(a), mode.from_tensor(b)
    with mode:
        actual = [
            tilewright.gemm(fake_a, fake_b),
            tilewright.gemm(torch.empty(64, 512, device="cuda").bfloat16(), fake_b),
        ]
    actual.append(tilewright.gemm(fake_a, fake_b))
    for one in actual:
        assert isinstance(one, FakeTensor)
        assert (one.shape, one.dtype, one.device.type) == ((64, 256), BF16, "cuda")
    assert len(current().plans) == plans
    with pytest.raises(ArgumentError, match="expected k of 512"):
        tilewright.gemm(fake_a, fake_b[:256])
    torch.cuda.synchronize()


def test_flops_are_counted() -> None:
    a, b = random(64, 512), weight(256, 512)
    built(lambda: tilewright.gemm(a, b))
    with FlopCounterMode(display=False) as counter:
        tilewright.gemm(a, b)
        tilewright.gemm(a, b, out=torch.empty(64, 256, device="cuda", dtype=BF16))
    assert counter.get_total_flops() == 2 * (2 * 64 * 256 * 512)


def test_vmap() -> None:
    a, b = random(3, 64, 512), weight(256, 512)
    expected = torch.stack([built(lambda x=x: tilewright.gemm(x, b)) for x in a])
    assert torch.equal(torch.vmap(lambda x: tilewright.gemm(x, b))(a), expected)
