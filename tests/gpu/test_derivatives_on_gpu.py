"""No op has a derivative: autograd and dual tensors of forward-mode AD are refused on a GPU, too."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch_helpers import built, random, weight

import tilewright
import tilewright.torch_ops
from tilewright.errors import ArgumentError

pytestmark = pytest.mark.marks_kernels

OPS = torch.ops.tilewright
GRADIENT = "it requires a gradient and .* has none"
TANGENT = "it is a dual tensor of forward-mode AD, and .* has no derivative"
# Ways to call gemm and quantize_mxfp8. A name is that of the parameter whose tensor is passed to the call.
WAYS: dict[str, Callable[[], tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]]] = {}


def way(function: Callable[[], Any]) -> Callable[[], Any]:
    WAYS[function.__name__] = function
    return function


@way
def gemm() -> tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]:
    b = weight(128, 256)
    return "a", random(48, 256), lambda x: tilewright.gemm(x, b)


@way
def gemm_with_bias() -> tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]:
    a, b = random(48, 256), weight(128, 256)
    return "bias", random(128), lambda x: tilewright.gemm(a, b, bias=x)


@way
def registered_gemm() -> tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]:
    a = random(48, 256)
    return "b", weight(128, 256), lambda x: OPS.gemm(a, x)


@way
def planned_gemm() -> tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]:
    a, b = random(48, 256), weight(128, 256)
    plan = built(lambda: tilewright.plan(tilewright.gemm, a, b))
    return "a", a, lambda x: plan(x, b)


@way
def quantize() -> tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]:
    return "x", random(48, 256), lambda x: tilewright.quantize_mxfp8(x)[0]


@pytest.fixture(params=WAYS)
def called(request: pytest.FixtureRequest) -> tuple[str, torch.Tensor, Callable[[torch.Tensor], Any]]:
    name, tensor, call = WAYS[request.param]()
    built(functools.partial(call, tensor))
    return name, tensor, call


@pytest.mark.parametrize("warm", [False, True])
def test_a_gradient_is_refused(called: Any, warm: bool) -> None:
    name, tensor, call = called
    if warm:
        call(tensor)
    wants = tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    with pytest.raises(ArgumentError, match=f"^{name}: {GRADIENT}"):
        call(wants)
    with torch.no_grad():
        assert same(call(wants), call(tensor))


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("without", [contextlib.nullcontext, torch.no_grad], ids=["", "no_grad"])
def test_a_dual_tensor_is_refused(called: Any, warm: bool, without: Callable[[], Any]) -> None:
    name, tensor, call = called
    if warm:
        call(tensor)
    with forward_ad.dual_level(), without():
        dual = forward_ad.make_dual(tensor, torch.ones_like(tensor))
        with pytest.raises(ArgumentError, match=f"^{name}: {TANGENT}"):
            call(dual)
        assert same(call(forward_ad.unpack_dual(dual).primal), call(tensor))


def test_functorch_gets_the_same_errors(called: Any) -> None:
    name, tensor, call = called
    if "planned" in call.__qualname__:
        pytest.skip("torch does not see the call of a plan")
    with pytest.raises(ArgumentError, match=f"^{name}: {TANGENT}"):
        torch.func.jvp(lambda x: call(x).float(), (tensor,), (torch.ones_like(tensor),))
    with pytest.raises(ArgumentError, match=f"^{name}: {GRADIENT}"):
        torch.func.grad(lambda x: call(x).float().sum())(tensor)


def test_inductor_computes_and_refuses_gradients() -> None:
    a, b = random(48, 256), weight(128, 256)
    expected = built(lambda: tilewright.gemm(a, b))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: tilewright.gemm(x, b) * 2, fullgraph=True, backend="inductor")
    assert torch.equal(compiled(a), expected * 2)
    wants = a.detach().clone().requires_grad_()
    with pytest.raises(Exception, match=GRADIENT):  # dynamo may wrap it
        compiled(wants)
    with torch.no_grad():
        assert torch.equal(compiled(wants), expected * 2)


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    return torch.equal(x.view(torch.uint8), y.view(torch.uint8))
