"""No op has a derivative: a dual tensor of forward-mode AD is refused wherever torch shows it, and a level of
it changes nothing for other tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import tilewright
from tilewright.contract.cases import Case
from tilewright.contract.graphs import as_torch_takes_it, torch_op
from tilewright.contract.tensors import all_of, bytes_of, same
from tilewright.errors import ArgumentError

REFUSED = r"^{}: it is a dual tensor of forward-mode AD, and {} has no derivative"


def floats(case: Case) -> dict[str, torch.Tensor]:
    """The operands that torch makes dual tensors of."""
    return {
        name: tensor
        for name, tensor in case.tensors.items()
        if tensor.dtype.is_floating_point and tensor.element_size() > 1
    }


def refuses(function: Callable[..., Any], case: Case, name: str, values: dict[str, Any]) -> None:
    """Calls with a dual tensor for an operand, which is to be refused."""
    with pytest.raises(ArgumentError, match=REFUSED.format(name, case.op.name)) as caught:
        function(**values)
    assert caught.value.argument == name


@pytest.mark.parametrize("warm", [False, True])
def test_dual_tensors(case: Case, warm: bool) -> None:
    if warm:
        case.call()
        case.call()
    for name, tensor in floats(case).items():
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(tensor, torch.ones_like(tensor))
            refuses(case.op.function, case, name, case.make() | {name: dual})
            with torch.no_grad():  # it turns gradients off, and no tangents
                refuses(case.op.function, case, name, case.make() | {name: dual})
            with forward_ad._set_fwd_grad_enabled(False):
                case.call(**{name: dual})


def test_plans_of_dual_tensors(case: Case) -> None:
    plan = tilewright.plan(case.op.function, **case.make())
    for name, tensor in floats(case).items():
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(tensor, torch.ones_like(tensor))
            values = case.make() | {name: dual}
            call = {key: values[key] for key in (*case.op.passed, name) if key in values}
            refuses(plan, case, name, call)
            refuses(functools.partial(tilewright.plan, case.op.function), case, name, values)


def test_other_tensors_in_a_level(case: Case) -> None:
    expected = all_of(case.call())
    plan = tilewright.plan(case.op.function, **case.make())
    with forward_ad.dual_level():
        assert all(map(same, all_of(case.call()), expected))
        values = case.make()
        passed = {name: values[name] for name in case.op.passed if name in values}
        assert all(map(same, all_of(plan(**passed)), expected))


@pytest.mark.parametrize("direct", [False, True], ids=["function", "torch's op"])
def test_functorch(case: Case, direct: bool) -> None:
    function = torch_op(case, out=False) if direct else case.op.function
    values = as_torch_takes_it(case, out=False) if direct else case.make_all()
    read = {name: tensor for name, tensor in floats(case).items() if values.get(name) is not None}
    for index, (name, tensor) in enumerate(read.items()):
        of = functools.partial(first_result, function, values, name)
        alone = index > 0 or case.op.updates(case.op.variant(case.op.defaults() | values))  # no vmap of these
        for transformed in transforms(of, tensor)[: 1 if alone else None]:
            with pytest.raises(ArgumentError, match=rf"^{name}: it is a dual tensor of forward-mode AD"):
                transformed()
        with pytest.raises(ArgumentError, match=rf"^{name}: it requires a gradient"):
            torch.func.jvp(torch.func.grad(lambda x, of=of: of(x).sum()), (tensor,), (tensor,))


def first_result(
    function: Callable[..., Any], values: dict[str, Any], name: str, x: torch.Tensor
) -> torch.Tensor:
    """A call's first result, of types that torch differentiates; `x`: the operand of that name."""
    return all_of(function(**values | {name: x}))[0].float()


def transforms(of: Callable[..., Any], x: torch.Tensor) -> tuple[Callable[[], Any], ...]:
    """Derivatives of `of` at `x` in forward mode, also with other transforms around them and within."""
    several, tangent = twice(x), torch.ones_like(x)
    return (
        lambda: torch.func.jvp(of, (x,), (tangent,)),
        lambda: torch.func.jvp(torch.vmap(of), (several,), (torch.ones_like(several),)),
        lambda: torch.vmap(lambda row: torch.func.jvp(of, (row,), (tangent,)))(several),
        lambda: torch.func.jacfwd(of)(x),
    )


def twice(tensor: torch.Tensor) -> torch.Tensor:
    """A batch of two, each of which lies as the tensor."""
    both = torch.empty_strided((2, *tensor.shape), (bytes_of(tensor), *tensor.stride()), dtype=tensor.dtype)
    return both.copy_(tensor)
