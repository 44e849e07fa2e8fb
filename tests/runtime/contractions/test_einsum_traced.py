"""`tilewright.einsum` under torch.compile, torch.export, vmap and dual tensors."""

from __future__ import annotations

import pytest
import torch
from einsum_operands import operand, terms
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import tilewright
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import ArgumentError


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("equation", ["bmk,kn->bmn", "bmk,bnk->mn"])
def test_exported_with_extents_that_are_symbols(all_hosts: Context, equation: str, strict: bool) -> None:
    """And run with strides that the example did not have."""

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return tilewright.einsum(equation, a, b)

    term_a, term_b, _ = terms(equation)
    a, b = operand(term_a, 0), operand(term_b, 1)
    rows = ({1: torch.export.Dim("m", min=2, max=64)}, None)
    program = torch.export.export(Model(), (a, b), dynamic_shapes=rows, strict=strict).module()
    for m in (24, 7):
        assert torch.equal(program(a[:, :m], b), tilewright.einsum(equation, a[:, :m], b))


def test_an_exported_program_writes_to_what_it_is_given_or_fails(host: Context) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            tilewright.einsum("bmk,kn->bmn", a, b, out=out)
            return out.clone()

    a, b = operand("bmk", 0), operand("kn", 1)
    expected = tilewright.einsum("bmk,kn->bmn", a, b)
    out = torch.full_like(expected, float("nan"))
    program = torch.export.export(Model(), (a, b, out)).module()
    assert torch.equal(program(a, b, out), expected)
    assert torch.equal(out, expected)
    apart = torch.full((6, 25, 40), float("nan")).bfloat16()[:, :24]
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        program(a, b, apart)


@pytest.mark.filterwarnings("error:Accessing the data pointer")
def test_no_launcher_is_made_for_fake_tensors(host: Context) -> None:
    """Out of their mode, too: it would build a kernel that nobody runs."""
    mode = FakeTensorMode()
    a, b, out = (mode.from_tensor(operand(term, 0)) for term in ("mk", "nk", "mn"))
    assert tilewright.einsum("mk,nk->mn", a, b, out=out) is out
    deep_gemm.bf16_gemm_nt(a, b, out)
    assert not any(entry.launchers for entry in host.plans.launchers.values())
    tilewright.einsum("mk,nk->mn", operand("mk", 0), operand("nk", 1), out=operand("mn", 2))
    assert any(entry.launchers for entry in host.plans.launchers.values())


@pytest.mark.parametrize("at", [0, 1, 2])
def test_vmap_gives_the_results_of_single_calls(host: Context, at: int) -> None:
    a, b = torch.randn(24, 16, 6).bfloat16().movedim(-1, at), operand("kn", 1)
    made = torch.vmap(lambda x: tilewright.einsum("mk,kn->nm", x, b), in_dims=at)(a)
    for actual, matrix in zip(made, a.unbind(at), strict=True):
        assert torch.equal(actual, tilewright.einsum("mk,kn->nm", matrix, b))


def test_dual_tensors_are_refused_in_warm_calls(host: Context) -> None:
    a, b, out = operand("mk", 0), operand("nk", 1), torch.empty(24, 40, dtype=torch.bfloat16)
    for call in (
        lambda x: tilewright.einsum("mk,nk->mn", x, b, out=out),
        lambda x: tilewright.einsum("mk,nk->nm", x, b, out=out.mT.contiguous()),
        lambda x: deep_gemm.bf16_gemm_nt(x, b, out),
    ):
        for _ in range(3):
            call(a)
        with forward_ad.dual_level():
            call(a)
            with pytest.raises(ArgumentError, match=r"^a[:,].* it is a dual tensor of forward-mode AD"):
                call(forward_ad.make_dual(a, torch.ones_like(a)))
