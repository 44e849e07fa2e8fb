"""Prepared calls of every public op: equal to the op, and for operands that lie as the planned ones."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from contract_cases import Case, all_of, moved, raw
from same_bits import same
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright
from tilewright.declarations.declaration import Matrix
from tilewright.errors import ArgumentError, ArgumentTypeError


def prepared(case: Case, **changes: Any) -> Any:
    return tilewright.plan(case.op.function, **(case.make() | changes))


def passed(case: Case, **changes: Any) -> dict[str, Any]:
    """What a call of a plan is given."""
    values = case.make() | changes
    return {name: values[name] for name in case.op.passed if name in values}


def test_equals_the_op(case: Case) -> None:
    wanted = all_of(case.call())
    plan = prepared(case)
    for _ in range(2):
        call = passed(case)
        found = all_of(plan(*call.values()))
        assert all(map(same, found, wanted))
        for index, name in enumerate(case.op.written):
            if name in call:
                assert found[index] is call[name]
    assert all(map(same, all_of(plan(**passed(case))), wanted))


def test_makes_what_a_call_leaves_out(case: Case) -> None:
    values = case.make_all()
    plan = tilewright.plan(case.op.function, **values)
    read = {name: one for name, one in passed(case).items() if name not in case.op.written}
    found = all_of(plan(**read))
    assert all(map(same, found, all_of(case.op.function(**values))))
    assert found[0] is not all_of(plan(**read))[0]


def test_planning_writes_nothing(case: Case) -> None:
    values = case.make()
    before = {name: raw(values[name]).clone() for name in case.written}
    tilewright.plan(case.op.function, **values)
    for name, old in before.items():
        assert torch.equal(raw(values[name]), old)


def test_operands_that_do_not_lie_as_planned(case: Case) -> None:
    plan = prepared(case)
    wanted = all_of(case.call())
    for name, tensor in passed(case).items():
        complex = torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.complex64)
        wrong = [tensor[..., :-1], complex, "no tensor", tensor.to("meta")]
        wrong.append(FakeTensorMode().from_tensor(tensor))
        if isinstance(case.declared(name), Matrix):  # what is packed may have any shape
            wrong.append(tensor.unsqueeze(0))
        for other in wrong:
            with pytest.raises(ArgumentError):
                plan(**passed(case, **{name: other}))
    assert all(map(same, all_of(plan(**passed(case))), wanted))


def test_gradients(case: Case) -> None:
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
    """By keyword, by such as lie the same."""
    plan = prepared(case)
    wanted = all_of(case.call())
    for name, tensor in case.tensors.items():
        if name in case.op.passed:
            continue
        other = moved(tensor, 512)
        raw(tensor).zero_()  # the plan holds its own
        assert all(map(same, all_of(plan(**passed(case), **{name: other})), wanted))
        with pytest.raises(ArgumentError) as caught:
            plan(**passed(case), **{name: "no tensor"})
        assert caught.value.argument == name


def test_numbers_are_replaced(case: Case) -> None:
    plan = prepared(case)
    for name in case.op.numbers:
        lacking = [one.name for one in case.op.interface.operands if one.unread_if_zero == name]
        if lacking and lacking[0] not in case.make():  # it would be read
            for call in (case.call, lambda **change: plan(**passed(case), **change)):
                with pytest.raises(ArgumentError) as caught:
                    call(**{name: 3})
                assert caught.value.argument == lacking[0]
        else:
            wanted = all_of(case.call(**{name: 3}))
            assert all(map(same, all_of(plan(**passed(case), **{name: 3})), wanted))
        with pytest.raises(ArgumentTypeError) as caught:
            plan(**passed(case), **{name: "x"})
        assert caught.value.argument == name


def test_what_a_plan_has_decided_is_not_replaced(case: Case) -> None:
    plan = prepared(case)
    for one in case.op.parameters:
        if not one.is_tensor and not one.is_number:
            with pytest.raises(ArgumentTypeError, match="no plan's call takes it"):
                plan(**passed(case), **{one.name: one.default})


def test_wrong_arguments_of_planning(case: Case) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        prepared(case, **{case.first: "no tensor"})
    assert caught.value.argument == case.first
    with pytest.raises(TypeError, match=f"tilewright.{case.op.name}: .*'no_such'"):
        prepared(case, no_such=1)


def test_holds_neither_operands_nor_results(case: Case) -> None:
    values = case.make()
    plan = tilewright.plan(case.op.function, **values)
    call = {name: values[name] for name in case.op.passed if name in values}
    plan(**call)
    held = [weakref.ref(tensor) for tensor in call.values()]
    del values, call
    gc.collect()
    assert [ref() for ref in held] == [None] * len(held)
