"""Every public op as torch sees it: schemas, fake kernels, graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

from tilewright import context as contexts
from tilewright.contract.cases import Case
from tilewright.contract.tensors import all_of, lies, same
from tilewright.errors import ArgumentError

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def torch_op(case: Case, *, out: bool) -> Any:
    """The op under which torch knows such calls."""
    name = case.op.name + case.op.variant(case.op.defaults() | case.make())
    return getattr(torch.ops.tilewright, f"{name}_out" if out else name).default


def as_torch_takes_it(case: Case, *, out: bool) -> dict[str, Any]:
    """The call's arguments. An operand that is a number or a tensor is a tensor there."""
    values = case.make() if out else case.make_all()
    for parameter in case.op.parameters:
        name = parameter.name
        if parameter.kind == "scale" and isinstance(values.get(name), float):
            values[name] = torch.tensor([values[name]])
        elif parameter.kind == "integers" and name in values:
            values[name] = list(values[name])
    for argument in torch_op(case, out=out)._schema.arguments:
        if not argument.has_default_value():
            values.setdefault(argument.name, None)
    return values


def comparable(values: Iterable[Any]) -> bool:
    """Whether torch compares all tensors, as its check of a schema does: it has no arithmetic of FP8."""
    tensors = [tensor for tensor in values if isinstance(tensor, torch.Tensor)]
    return not any(tensor.is_floating_point() and tensor.element_size() == 1 for tensor in tensors)


@pytest.mark.parametrize("out", [False, True], ids=["made", "out"])
def test_opcheck(case: Case, out: bool) -> None:
    values = as_torch_takes_it(case, out=out)
    if out and not set(case.op.variants()[case.op.variant(case.op.defaults() | values)]) <= set(values):
        pytest.skip("the call does not bring all that it writes")
    results = () if out else all_of(torch_op(case, out=False)(**values))
    checks = CHECKS if comparable([*values.values(), *results]) else CHECKS[1:]
    opcheck(torch_op(case, out=out), (), values, test_utils=checks)


def test_the_op_in_torch_equals_the_function(case: Case) -> None:
    outputs = all_of(torch_op(case, out=False)(**as_torch_takes_it(case, out=False)))
    expected = all_of(case.op.function(**case.make_all()))
    assert all(map(same, outputs, expected))
    assert list(map(lies, outputs)) == list(map(lies, expected))


@pytest.mark.parametrize("warm", [False, True])
def test_fake_results_lie_as_real_ones(case: Case, warm: bool) -> None:
    real = all_of(case.op.function(**case.make_all()))
    mode = FakeTensorMode()
    fakes = faked(mode, case.make_all())
    context = contexts.current()
    if not warm:
        context.plans.clear()
    plans = len(context.plans)
    with mode:
        under = all_of(case.op.function(**fakes))
    for outputs in (under, all_of(case.op.function(**fakes))):
        assert all(isinstance(output, FakeTensor) for output in outputs)
        assert list(map(lies, outputs)) == list(map(lies, real))
    assert len(context.plans) == plans, "a plan of fake tensors is remembered"


@pytest.mark.parametrize("meta", [False, True], ids=["real", "meta"])
def test_options_of_the_wrong_kind_are_told_alike(case: Case, meta: bool) -> None:
    """Also where torch's dispatcher sees the call, which would say that a value of another type is wanted,
    or take a number for a dtype."""
    values = {
        name: value.to("meta") if meta and isinstance(value, torch.Tensor) else value
        for name, value in case.make().items()
    }
    for parameter in case.op.parameters:
        wrongs = {"dtype": ("float32", 6), "word": (3, torch.bfloat16), "integer": ("1", 2.5, None)}
        for wrong in wrongs.get(parameter.kind, ()):
            if parameter.name == "out_dtype":
                values.pop("out", None)
            with pytest.raises(ArgumentError, match=r"it is .*; expected .*|expected .*, got .*") as caught:
                case.op.function(**values | {parameter.name: wrong})
            assert caught.value.argument == parameter.name


def test_meta_results_lie_as_real_ones(case: Case) -> None:
    real = all_of(case.op.function(**case.make_all()))
    on_meta = {
        name: value.to("meta") if isinstance(value, torch.Tensor) else value
        for name, value in case.make_all().items()
    }
    outputs = all_of(case.op.function(**on_meta))
    assert all(output.is_meta for output in outputs)
    assert [lies(output)[:3] for output in outputs] == [lies(output)[:3] for output in real]


def faked(mode: FakeTensorMode, values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
        for name, value in values.items()
    }


def test_fakes_of_types_that_no_operand_has(case: Case) -> None:
    for name, tensor in case.tensors.items():
        changed = torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.complex64)
        mode = FakeTensorMode()
        with pytest.raises(ArgumentError) as caught:
            case.op.function(**faked(mode, case.make() | {name: changed}))
        assert caught.value.argument == name


def test_fakes_that_want_gradients(case: Case) -> None:
    for name, tensor in case.tensors.items():
        if tensor.is_floating_point():
            with pytest.raises(ArgumentError, match="requires a gradient") as caught:
                case.op.function(**faked(FakeTensorMode(), case.make() | {name: tensor.requires_grad_()}))
            assert caught.value.argument == name


def test_graphs_hold_the_op(case: Case) -> None:
    values = case.make_all()
    first = values.pop(case.first)
    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(
            lambda x: case.op.function(**{case.first: x}, **values),
            tracing_mode=mode,
            _allow_non_fake_inputs=True,
        )(first)
        assert f"tilewright.{case.op.name}" in graph.code
        expected = all_of(case.op.function(**{case.first: first}, **values))
        assert all(map(same, all_of(graph(first)), expected))


def test_inference_mode(case: Case) -> None:
    expected = all_of(case.call())
    before = case.make()
    with torch.inference_mode():
        for values in (before, case.make()):
            assert all(map(same, all_of(case.op.function(**values)), expected))


class Labelled(torch.Tensor):  # type: ignore[misc]
    """A subclass that torch treats as a tensor."""


def test_subclasses(case: Case) -> None:
    values = case.make_all()
    expected = all_of(case.op.function(**values))
    values[case.first] = values[case.first].as_subclass(Labelled)
    outputs = all_of(case.op.function(**values))
    assert all(isinstance(output, Labelled) for output in outputs)
    assert not any(Labelled in key for key in contexts.current().plans)
    assert all(map(same, (output.as_subclass(torch.Tensor) for output in outputs), expected))


def test_some_of_the_results(case: Case) -> None:
    """A call through torch's dispatcher makes the results that it does not bring (`Op.empty_results`)."""
    for name in case.written:
        expected, outputs = (
            all_of(case.op.function(**(case.make_all() | {name: case.make()[name]} | changes)))
            for changes in ({}, {case.first: case.make()[case.first].as_subclass(Labelled)})
        )
        assert all(map(same, (output.as_subclass(torch.Tensor) for output in outputs), expected))
        assert list(map(lies, outputs)) == list(map(lies, expected))
