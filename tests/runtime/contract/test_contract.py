"""Every family that comes with tilewright keeps the contract, by kernels of the host.

A family's calls stand in `<family>_calls.py`.
"""

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import tilewright
from tilewright.base import plugins
from tilewright.contract import declarations
from tilewright.contract.cases import ops_of
from tilewright.contract.suite import *  # noqa: F403
from tilewright.declarations import catalog

FAMILIES = [family for family in catalog.names() if family not in plugins.families()]
CONTRACT = tuple(
    import_module(f"{family}_calls").CONTRACT for family in FAMILIES if find_spec(f"{family}_calls")
)


def test_every_family_is_called_and_measured() -> None:
    assert {calls.family for calls in CONTRACT if calls.measured} == {*FAMILIES}


def test_an_operand_that_no_op_takes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    [(name, op)] = ops_of("hc_prenorm").items()
    lacking = SimpleNamespace(
        interface=op.interface, tensors=tuple(each for each in op.tensors if each != "b")
    )
    monkeypatch.setattr(declarations, "ops_of", lambda family: {name: lacking})
    with pytest.raises(AssertionError, match="'b'"):
        declarations.test_every_operand_is_an_argument_of_an_op("hc_prenorm")


def test_dual_tensors_of_compiled_functions() -> None:
    a, b = torch.ones(16, 32, device="meta"), torch.ones(32, 8, device="meta")

    def jvp(x: torch.Tensor) -> Any:
        return torch.func.jvp(lambda y: tilewright.gemm(y, b), (x,), (x,))

    torch._dynamo.reset()
    with pytest.raises(Exception, match="a: it is a dual tensor"):
        torch.compile(jvp, backend="aot_eager")(a)
    compiled = torch.compile(lambda x: tilewright.gemm(x, b), backend="aot_eager")
    assert compiled(a).shape == (16, 8)
    with forward_ad.dual_level(), pytest.raises(Exception, match="a: it is a dual tensor"):
        compiled(forward_ad.make_dual(a, a))
