"""Prepared calls of every public op: equal to the op, and for operands that lie as the planned ones."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright
from tilewright.contract.cases import Case
from tilewright.contract.tensors import all_of, moved, raw, same
from tilewright.declarations.declaration import Matrix
from tilewright.errors import ArgumentError, ArgumentTypeError


def prepared(case: Case, **changes: Any) -> Any:
    return tilewright.plan(case.op.function, **(case.make() | changes))


def passed(case: Case, **changes: Any) -> dict[str, Any]:
    """What a call of a plan is given."""
    values = case.make() | changes
    return {name: values[name] for name in case.op.passed if name in values}


def test_equals_the_op(case: Case) -> None:
    expected = all_of(case.call())
    plan = prepared(case)
    for _ in range(2):
        call = passed(case)
        outputs = all_of(plan(*call.values()))
        assert all(map(same, outputs, expected))
        for index, name in enumerate(case.op.written):
            if name in call:
                assert outputs[index] is call[name]
    assert all(map(same, all_of(plan(**passed(case))), expected))


def test_makes_what_a_call_leaves_out(case: Case) -> None:
    values = case.make_all()
    plan = tilewright.plan(case.op.function, **values)
    read = {name: value for name, value in passed(case).items() if name not in case.op.written}
    outputs = all_of(plan(**read))
    assert all(map(same, outputs, all_of(case.op.function(**values))))
    assert outputs[0] is not all_of(plan(**read))[0]


def test_planning_writes_nothing(case: Case) -> None:
    values = case.make()
    before = {name: raw(values[name]).clone() for name in case.written}
    tilewright.plan(case.op.function, **values)
    for name, old in before.items():
        assert torch.equal(raw(values[name]), old)


def test_operands_that_do_not_lie_as_planned(case: Case) -> None:
    plan = prepared(case)
    expected = all_of(case.call())
    for name, tensor in passed(case).items():
        complex = torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.complex64)
        misfits = [tensor[..., :-1], complex, "no tensor", tensor.to("meta")]
        misfits.append(FakeTensorMode().from_tensor(tensor))
        if isinstance(case.declared(name), Matrix):  # what is packed may have any shape
            misfits.append(tensor.unsqueeze(0))
        for changed in misfits:
            with pytest.raises(ArgumentError):
                plan(**passed(case, **{name: changed}))
    assert all(map(same, all_of(plan(**passed(case))), expected))


def test_gradients_of_a_planned_call(case: Case) -> None:
    plan = prepared(case)
    for name, tensor in passed(case).items():
        if tensor.is_floating_point():
            with pytest.raises(ArgumentError, match="requires a gradient") as caught:
                plan(**passed(case, **{name: tensor.requires_grad_()}))
            assert caught.value.argument == name


def test_results_that_overlap_operands(case: Case) -> None:
    plan = prepared(case)
    if "out" not in case.written:
        pytest.skip("the call brings no result")
    for name in passed(case):
        if name in case.op.written:
            continue
        with pytest.raises(ArgumentError, match="overlap"):
            plan(**passed(case, **case.overlapping("out", name)))


def test_kept_operands_are_replaced(case: Case) -> None:
    """Operands given by keyword replace those that a plan keeps, if their layout is the same."""
    plan = prepared(case)
    expected = all_of(case.call())
    for name, tensor in case.tensors.items():
        if name in case.op.passed:
            continue
        changed = moved(tensor, 512)
        raw(tensor).zero_()  # the plan holds its own
        assert all(map(same, all_of(plan(**passed(case), **{name: changed})), expected))
        with pytest.raises(ArgumentError) as caught:
            plan(**passed(case), **{name: "no tensor"})
        assert caught.value.argument == name


def test_numbers_are_replaced(case: Case) -> None:
    plan = prepared(case)
    another = 4  # a power of two, which some numbers have to be
    for name in case.op.numbers:
        lacking = [operand.name for operand in case.op.interface.operands if operand.unread_if_zero == name]
        if lacking and lacking[0] not in case.make():  # it would be read
            for call in (case.call, lambda **change: plan(**passed(case), **change)):
                with pytest.raises(ArgumentError) as caught:
                    call(**{name: another})
                assert caught.value.argument == lacking[0]
        else:
            expected = all_of(case.call(**{name: another}))
            assert all(map(same, all_of(plan(**passed(case), **{name: another})), expected))
        with pytest.raises(ArgumentTypeError) as caught:
            plan(**passed(case), **{name: "x"})
        assert caught.value.argument == name


def test_what_a_plan_has_decided_is_not_replaced(case: Case) -> None:
    plan = prepared(case)
    for parameter in case.op.parameters:
        if not parameter.is_tensor and not parameter.is_number:
            with pytest.raises(ArgumentTypeError, match="not an argument of a plan's call"):
                plan(**passed(case), **{parameter.name: parameter.default})


def test_wrong_arguments_of_planning(case: Case) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        prepared(case, **{case.first: "no tensor"})
    assert caught.value.argument == case.first
    with pytest.raises(TypeError, match=f"tilewright.{case.op.name}: .*'no_such'"):
        prepared(case, no_such=1)


def test_holds_neither_operands_nor_results(case: Case) -> None:
    gc.freeze()  # `collect` looks at what is made from here on, and not for half a second at all of torch
    values = case.make()
    plan = tilewright.plan(case.op.function, **values)
    call = {name: values[name] for name in case.op.passed if name in values}
    plan(**call)
    held = [weakref.ref(tensor) for tensor in call.values()]
    del values, call
    gc.collect()
    gc.unfreeze()
    assert [ref() for ref in held] == [None] * len(held)
