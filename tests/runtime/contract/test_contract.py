"""Every family that comes with tilewright keeps the contract, by kernels of the host.

A family's calls stand in `<family>_calls.py`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import tilewright
from tilewright.base import plugins
from tilewright.contract.suite import *  # noqa: F403
from tilewright.declarations import catalog

FAMILIES = [family for family in catalog.names() if family not in plugins.families()]
CONTRACT = tuple(
    import_module(f"{family}_calls").CONTRACT for family in FAMILIES if find_spec(f"{family}_calls")
)


def test_every_family_is_called_and_measured() -> None:
    assert {calls.family for calls in CONTRACT if calls.measured} == {*FAMILIES}


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
