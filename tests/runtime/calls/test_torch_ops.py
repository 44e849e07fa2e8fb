"""The ops as torch sees them: checked, traced, faked, counted; the kernels run on the host."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import blockscaled_operands as blockscaled
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode

import tilewright
import tilewright.torch_ops
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, ArgumentTypeError, NoKernelError

OPS = torch.ops.tilewright
BF16 = torch.bfloat16


def matrix(*shape: int, dtype: torch.dtype = BF16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


A, B = matrix(16, 32), matrix(24, 32).t()
C, BIAS, SCALE = matrix(16, 24), matrix(24), torch.full((1,), 0.5)
INTEGERS = torch.arange(-256, 256, dtype=torch.int8)
CASES: dict[str, tuple[tuple[torch.Tensor, ...], dict[str, Any]]] = {
    "row_major_b": ((A, matrix(32, 24)), {}),
    "batch": ((matrix(3, 16, 32), B), {"c": C, "beta": 1.0}),
    "empty": ((A[:0], B), {}),
    "no_k": ((A[:, :0], B[:0]), {"c": C, "beta": 1.0}),
    "tf32": ((A.float(), B.float()), {"out_dtype": torch.float32}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_opcheck(host: Context, case: str) -> None:
    operands, options = CASES[case]
    opcheck(OPS.gemm.default, operands, options)


@pytest.mark.parametrize("case", [case for case in CASES if case != "empty"])
def test_opcheck_of_out(host: Context, case: str) -> None:
    operands, options = CASES[case]
    out = OPS.gemm(*operands, **options)
    options = {name: value for name, value in options.items() if name != "out_dtype"}
    opcheck(OPS.gemm_out.default, (*operands, out), options)
    if "c" not in options:
        opcheck(OPS.gemm_out.default, (*operands, out), {**options, "accumulate": True, "beta": 1.0})


def test_accumulating_in_place(host: Context) -> None:
    out = C.clone()
    version = out._version
    assert OPS.gemm_out(A, B, out, accumulate=True, beta=1.0) is None
    assert torch.equal(out, tilewright.gemm(A, B, c=C, beta=1.0))
    assert out._version > version


ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
BLOCKSCALED = {
    "mm_nvfp4": ("nvfp4", "nvfp4"), "mm_mxfp4": ("mxfp4", "mxfp4"), "mm_mxfp8": ("mxfp8", "mxfp8"),
    "mm_mxfp8_mxfp4": ("mxfp8", "mxfp4"),
}  # fmt: skip


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(matrix(24, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tilewright.gemm(x, self.weight.t())


def test_inference_mode(host: Context) -> None:
    normal = torch.empty(16, 24, dtype=BF16)
    expected = tilewright.gemm(A, B)
    plan = tilewright.plan(tilewright.gemm, A, B)
    with torch.inference_mode():
        made = torch.empty(16, 24, dtype=BF16)
        for out in (normal, made):
            OPS.gemm_out(A, B, out.zero_())
            assert torch.equal(out, expected)
        assert torch.equal(plan(A, B), tilewright.gemm(A.clone(), B))


def test_parameters_are_plain_tensors(host: Context) -> None:
    module = Linear()
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(module(A), tilewright.gemm(A, B))
    assert {plan.arguments.shape for plan in host.plans.values()} == {(16, 24)}
    with pytest.raises(ArgumentError, match="requires a gradient"):
        module(A)


def test_gradients_are_refused(host: Context) -> None:
    a = A.clone().requires_grad_()
    with pytest.raises(ArgumentError, match="a: it requires a gradient"):
        OPS.gemm(a, B)
    with pytest.raises(ArgumentError, match="b: it requires a gradient"):
        OPS.gemm_out(A, B.clone().requires_grad_(), C.clone())
    with torch.no_grad():
        assert torch.equal(OPS.gemm(a, B), tilewright.gemm(A, B))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="a: it requires a gradient"):
        torch.compile(lambda x: tilewright.gemm(x, B), fullgraph=True, backend="aot_eager")(a)


@pytest.mark.parametrize("remembered", [False, True])
def test_fake_tensors_never_reach_a_kernel(host: Context, remembered: bool) -> None:
    if remembered:
        tilewright.gemm(A, B)
        tilewright.gemm(A, B, out=C.clone(), c=C, beta=1.0, bias=BIAS)
    before = len(host.plans)
    mode = FakeTensorMode()
    fakes = {
        name: mode.from_tensor(tensor) for name, tensor in {"a": A, "b": B, "c": C, "bias": BIAS}.items()
    }
    a, b, c, bias = fakes.values()
    with mode:  # under the mode, and after it
        actual = [tilewright.gemm(a, b), tilewright.gemm(a, b, out=c, c=c, beta=1.0, bias=bias)]
    actual += [tilewright.gemm(a, b), tilewright.gemm(a, b, out=c, c=c, beta=1.0, bias=bias)]
    for result in actual:
        assert isinstance(result, FakeTensor)
        assert (result.shape, result.dtype) == ((16, 24), BF16)
    assert len(host.plans) == before
    with pytest.raises(Exception, match=r"[mM]ix|fake"):
        tilewright.gemm(A, B, bias=bias)


FAKE_WRONG: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (ArgumentTypeError, "b: a is torch.bfloat16 and b is torch.float16", {"b": B.half()}),
    (ArgumentError, r"a: its shape is \[16\]", {"a": A[:, 0]}),
    (ArgumentError, r"b: its shape is \[31, 24\]", {"b": B[:31]}),
    (ArgumentTypeError, "out_dtype: it is torch.int32", {"out_dtype": torch.int32}),
    (ArgumentError, r"bias: its shape is \[16\]", {"bias": BIAS[:16]}),
    (ArgumentError, "c: it is None", {"beta": 1.0}),
    (ArgumentError, "scale_a: its shape", {"scale_a": torch.ones(2)}),
    (ArgumentError, "activation: it is 'tanh'", {"activation": "tanh"}),
    (ArgumentError, r"out: its shape is \[16, 16\]", {"out": C[:, :16].clone()}),
]


@pytest.mark.parametrize(("error", "message", "change"), FAKE_WRONG, ids=[wrong[1] for wrong in FAKE_WRONG])
def test_fakes_get_the_same_errors(
    host: Context, error: type[Exception], message: str, change: dict[str, Any]
) -> None:
    call = {"a": A, "b": B, **change}
    with pytest.raises(error, match=message):
        tilewright.gemm(call.pop("a"), call.pop("b"), **call)
    mode = FakeTensorMode()
    call = {"a": A, "b": B, **change}
    fakes = {
        name: mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
        for name, value in call.items()
    }
    with pytest.raises(error, match=message):
        tilewright.gemm(fakes.pop("a"), fakes.pop("b"), **fakes)


@pytest.mark.parametrize(
    "wrong", [torch.ones(24).to_sparse(), [1.0], 2.0], ids=["sparse", "a list", "a number"]
)
@pytest.mark.parametrize("name", ["b", "bias", "out"])
def test_what_is_no_strided_tensor_beside_one_without_memory(host: Context, name: str, wrong: object) -> None:
    """The dispatcher takes a sparse tensor's kernel, which has to ask the dispatcher for one of meta's."""
    call = {"a": A.to("meta"), "b": B, "bias": BIAS, name: wrong}
    with pytest.raises(ArgumentTypeError, match=f"{name}: it.*expected.*ensor"):
        tilewright.gemm(call.pop("a"), call.pop("b"), **call)


def test_flops_are_counted(host: Context) -> None:
    with FlopCounterMode(display=False) as counter:
        tilewright.gemm(A, B)
        tilewright.gemm(matrix(3, 16, 32), B)
    assert counter.get_total_flops() == 2 * 16 * 24 * 32 * (1 + 3)


def test_flops_of_fp4(blackwell: Context) -> None:
    operands, _ = blockscaled.product(16, 32, 128, "nvfp4", "nvfp4")
    with FlopCounterMode(display=False) as counter:
        tilewright.mm_nvfp4(*operands)
    assert counter.get_total_flops() == 2 * 16 * 32 * 128


@pytest.mark.parametrize(
    ("op", "a", "b"),
    [
        ("mm_nvfp4", "nvfp4", "nvfp4"),
        ("mm_mxfp4", "mxfp4", "mxfp4"),
        ("mm_mxfp8", "mxfp8", "mxfp8"),
        ("mm_mxfp8_mxfp4", "mxfp8", "mxfp4"),
        ("mm_mxfp8_mxfp4", "mxfp4", "mxfp8"),
    ],
)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_flops_of_all_operands(blackwell: Context, op: str, a: str, b: str, batch: tuple[int, ...]) -> None:
    operands, _ = blockscaled.product(16, 32, 128, a, b, batch=batch)
    with FlopCounterMode(display=False) as counter:
        getattr(tilewright, op)(*(operand.to("meta") for operand in operands))
    assert counter.get_total_flops() == 2 * 16 * 32 * 128 * math.prod(batch)


def test_flops_of_an_op_that_was_not_asked_for_before() -> None:
    program = (
        "import torch, tilewright, tilewright.torch_ops\n"
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "a, b = (torch.empty(shape, device='meta', dtype=torch.bfloat16) for shape in ((16, 32), (32, 24)))\n"
        "with FlopCounterMode(display=False) as counter:\n"
        "    tilewright.gemm(a, b)\n"
        "assert counter.get_total_flops() == 2 * 16 * 32 * 24\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("remembered", [False, True])
def test_vmap(host: Context, remembered: bool) -> None:
    if remembered:
        tilewright.gemm(A, B)
    batch = matrix(3, 16, 32)
    actual = torch.vmap(lambda x: tilewright.gemm(x, B))(batch)
    assert torch.equal(actual, tilewright.gemm(batch, B))


def test_importing_tilewright_registers_nothing() -> None:
    code = (
        "import sys, tilewright\n"
        "assert 'torch' not in sys.modules\n"
        "import torch\n"
        "assert not hasattr(torch.ops.tilewright, 'gemm')\n"
        "tilewright.gemm\n"
        "assert torch.ops.tilewright.gemm and not hasattr(torch.ops.tilewright, 'mm_nvfp4')\n"
        "import tilewright.torch_ops\n"
        "assert torch.ops.tilewright.mm_nvfp4 and torch.ops.tilewright.mm_mxfp8_quantized_out\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_meta_calls_look_at_factors_and_tactics(host: Context) -> None:
    a, b = A.to("meta"), B.to("meta")
    for tactic in (None, "host_bf16_tn", "host_bf16_tn_streamk@splits=2", Tactic("host_bf16_tn")):
        assert tilewright.gemm(a, b, tactic=tactic).shape == (16, 24)
    with pytest.raises(NoKernelError, match="no table lists a kernel named nope"):
        tilewright.gemm(a, b, tactic="nope")
    with pytest.raises(ArgumentError, match=r"^tactic: host_tf32_tn does not compute"):
        tilewright.gemm(a, b, tactic="host_tf32_tn")
    with pytest.raises(ArgumentError, match=r"^tactic: 'up' is not NAME=VALUE"):
        tilewright.gemm(a, b, tactic="host_bf16_tn@up")
    for name, value in (("alpha", 1e300), ("beta", -1e39), ("alpha", 10**400)):
        with pytest.raises(ArgumentError, match=rf"^{name}: it is beyond the range of a float32"):
            tilewright.gemm(a, b, c=C.to("meta"), **{name: value})
