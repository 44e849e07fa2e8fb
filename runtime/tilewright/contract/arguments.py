"""What every public op refuses, whatever its family: the error names the argument, comes before any work, and
comes in a warm call as in the first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tilewright import context as contexts
from tilewright.context import Context
from tilewright.contract.cases import Case, FamilyCalls, ops_of
from tilewright.contract.tensors import all_of, lies, moved, raw, same
from tilewright.errors import AlignmentError, ArgumentError, ArgumentTypeError, NoKernelError

remembered = pytest.mark.parametrize("remembered", [False, True], ids=["first", "warm"])


def refused(
    case: Case, argument: str | None, error: type[ArgumentError] = ArgumentError, **changes: Any
) -> str:
    """Calls with the changes, which must be refused for an argument (None: for any), and leave what would
    have been written as it is. Answers the message."""
    values = case.make() | changes
    written = [raw(values[name]) for name in case.written if name not in changes]
    before = [tensor.clone() for tensor in written]
    with pytest.raises(error) as caught:
        case.op.function(**values)
    assert argument in (None, caught.value.argument), caught.value
    assert all(map(torch.equal, written, before)), "something was written"
    return str(caught.value)


def prepare(case: Case, remembered: bool) -> None:
    if remembered:
        case.call()


def test_the_calls_of_a_family_bring_every_tensor(
    family_calls: FamilyCalls, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(family_calls.kernels)
    brought = {name for case in family_calls.cases() for name in case.make()}
    for op in ops_of(family_calls.family).values():
        lacking = set(op.tensors) - brought
        assert not lacking, f"{op.name}: no call brings {', '.join(sorted(lacking))}"


def test_results_go_where_the_call_says(case: Case) -> None:
    values = case.make()
    outputs = all_of(case.op.function(**values))
    for index, name in enumerate(case.op.written[: len(outputs)]):
        if name in values:
            assert outputs[index] is values[name]


def test_more_elements_are_another_call_or_refused(case: Case) -> None:
    """Where an operand alone says an extent, a warm call of another must not be taken for the first one's."""
    prepare(case, remembered=True)
    case.op.function(**case.make_all())
    for name, tensor in case.tensors.items():
        if name not in case.op.written and tensor.ndim:
            longer = torch.cat([raw(tensor), raw(tensor)]).view(tensor.dtype)
            with contextlib.suppress(ArgumentError, NoKernelError):
                case.op.function(**(case.make_all() | {name: longer}))


@remembered
def test_what_is_no_tensor(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for name in case.tensors:
        message = refused(case, name, ArgumentTypeError, **{name: "no tensor"})
        assert "it is a str" in message


@remembered
def test_an_operand_that_is_not_there(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for parameter in case.op.parameters:
        if parameter.kind != "tensor":
            continue
        refused(case, parameter.name, ArgumentTypeError, **{parameter.name: None})
        values = case.make()
        del values[parameter.name]
        with pytest.raises(TypeError, match=parameter.name):
            case.op.function(**values)


@remembered
def test_tensors_without_strides(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for name, tensor in case.tensors.items():
        refused(case, name, ArgumentTypeError, **{name: torch.zeros(tensor.shape).to_sparse()})


@remembered
def test_negated_views(case: Case, remembered: bool) -> None:
    """They are refused: only torch knows that their values are negated, and kernels read memory. A warm call
    looks at single numbers, and at tensors that lie as a part of complex numbers does
    (tests/runtime/calls/test_negated_views.py)."""
    prepare(case, remembered)
    for name, tensor in case.tensors.items():
        if not remembered or case.op.interface.operand(name).is_number:
            assert "resolve_neg" in refused(case, name, ArgumentTypeError, **{name: torch._neg_view(tensor)})


@remembered
@pytest.mark.parametrize("dtype", [torch.complex64, torch.bool], ids=str)
def test_types_that_no_operand_has(case: Case, dtype: torch.dtype, remembered: bool) -> None:
    prepare(case, remembered)
    for name, tensor in case.tensors.items():
        changed = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype)
        refused(case, name, **{name: changed})


@remembered
def test_shapes_that_go_with_no_other(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for name, tensor in case.tensors.items():
        for changed in () if name in case.free else shapes_beside(tensor):
            refused(case, None, **{name: changed})


def shapes_beside(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor with an extent one smaller, with one dimension of two less, and with two more."""
    if tensor.numel() == 1:
        yield tensor.repeat(2)
        return
    for dimension, extent in enumerate(tensor.shape):
        if extent > 1:
            yield tensor.narrow(dimension, 0, extent - 1)
    if tensor.dim() > 1:
        yield tensor[(0,) * (tensor.dim() - 1)]
    yield tensor.expand(2, 2, *tensor.shape)


def test_elements_that_lie_in_another_order(case: Case) -> None:
    """The same values, with neighbours along another dimension: a warm call refuses them, or computes with
    them as what they are."""
    expected = all_of(case.call())
    for name, tensor in case.tensors.items():
        for changed in lying_otherwise(tensor):
            try:
                outputs = all_of(case.call(**{name: changed}))
            except ArgumentError:
                continue
            assert all(map(same, outputs, expected)), name


def lying_otherwise(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor's values: with the strides of two dimensions exchanged, of a vector as two rows; with gaps
    between neighbours, between rows alone, and with an address of little alignment."""
    values = raw(tensor)
    if tensor.dim():
        yield values.repeat_interleave(2, -1)[..., ::2].view(tensor.dtype)
    if tensor.dim() > 1:
        yield torch.cat([values, values[..., :1]], -1)[..., :-1].view(tensor.dtype)
    behind_one = torch.cat([values.flatten()[:1], values.flatten()])[1:]
    yield behind_one.view(tensor.shape).view(tensor.dtype)
    shaped = [tensor.unflatten(0, (2, -1))] if tensor.dim() == 1 and len(tensor) % 2 == 0 else []
    for view in (tensor, *shaped):
        for dimension in range(1, view.dim()):
            if min(view.shape[dimension - 1 : dimension + 1]) > 1:
                turned = raw(view).transpose(dimension - 1, dimension).contiguous()
                yield turned.transpose(dimension - 1, dimension).view(view.dtype)


@remembered
def test_operands_of_another_device(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for name, tensor in case.tensors.items():
        refused(case, None if name == case.first else name, **{name: tensor.to("meta")})


def test_the_cpu_where_kernels_are_a_gpus(case: Case) -> None:
    values = case.make()
    with contexts.use(Context()), pytest.raises(ArgumentError, match=r"on cpu; .*CUDA") as caught:
        case.op.function(**values)
    assert caught.value.argument == case.first


@remembered
def test_gradients(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for name, tensor in case.tensors.items():
        if tensor.is_floating_point():
            wants = case.make()[name].requires_grad_()
            message = refused(case, name, **{name: wants})
            assert "no_grad" in message
            with torch.no_grad():
                case.call(**{name: wants})


@remembered
def test_what_is_written_is_no_other_operands(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for written in case.written:
        for name in case.tensors:
            if name == written:
                continue
            message = refused(case, None, **case.overlapping(written, name))
            assert "overlap" in message


def test_an_operand_that_may_be_the_result(case: Case) -> None:
    """Beside the number with which it is multiplied."""
    for operand in case.op.interface.operands:
        values = case.make()
        if not operand.twin or operand.name not in values or operand.twin not in values:
            continue
        if values[operand.name].dtype != values[operand.twin].dtype:
            continue
        expected = all_of(case.call())[0]
        both = values[operand.name].clone()
        outputs = all_of(case.call(**{operand.name: both, operand.twin: both}))[0]
        assert outputs is both
        assert same(outputs, expected)


def test_addresses_that_no_kernel_reads(case: Case) -> None:
    """An operand at such an address is copied, or refused with the alignment that is expected."""
    expected = all_of(case.call())
    for name, tensor in case.tensors.items():
        changed = moved(tensor, tensor.element_size())
        try:
            outputs = all_of(case.call(**{name: changed}))
        except AlignmentError:
            refused(case, name, AlignmentError, **{name: changed})
            continue
        assert all(map(same, outputs, expected)), name
        assert name not in case.written or any(output is changed for output in outputs)


def test_nothing_beside_the_result_is_written(case: Case) -> None:
    """A result within a wider tensor."""
    wide = case.tensors.get("out")
    if wide is None:
        pytest.skip("the call brings none")
    rows = torch.full((*wide.shape[:-1], wide.shape[-1] + 64), 0x5A, dtype=torch.uint8)
    rows = rows.repeat_interleave(wide.element_size(), -1).view(wide.dtype)
    out = rows[..., 32 : 32 + wide.shape[-1]]
    outputs = all_of(case.call(out=out))[0]
    assert outputs is out
    inside = torch.zeros(rows.shape, dtype=torch.bool)
    inside[..., 32 : 32 + wide.shape[-1]] = True
    untouched = raw(rows).view(*rows.shape, -1)[~inside] if wide.element_size() == 1 else rows[~inside]
    assert same(untouched, untouched[:1].expand(untouched.shape))


@remembered
def test_numbers(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for name in case.op.numbers:
        for wrong in ("x", 1j, torch.ones(()), *(() if name in case.op.addends else (None,))):
            refused(case, name, ArgumentTypeError, **{name: wrong})
        wides: tuple[Any, ...] = (10**400, 10**39, 1e39, -3.4028236e38)
        for wide in wides:  # torch refuses these, too
            message = refused(case, name, ArgumentError, **{name: wide})
            assert "beyond the range of a float32" in message or "for int8 operands" in message


@remembered
def test_options_of_the_wrong_kind(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    for parameter in case.op.parameters:
        name = parameter.name
        if parameter.kind == "flag":
            not_flags: tuple[Any, ...] = ("no", torch.ones(()), [])
            for wrong in not_flags:
                refused(case, name, ArgumentTypeError, **{name: wrong})
        elif parameter.kind == "word":
            refused(case, name, ArgumentError, **{name: "no such word"})
        elif parameter.kind == "dtype":
            for wrong in (torch.complex64, "float32", [1]):
                refused(case, name, ArgumentTypeError, **{name: wrong})


@remembered
def test_tactics(case: Case, remembered: bool) -> None:
    prepare(case, remembered)
    with pytest.raises(NoKernelError, match="no_such_kernel"):
        case.call(tactic="no_such_kernel")
    refused(case, "tactic", tactic="no_such_kernel@so")


def test_calls_of_the_same_kind_share_a_plan(case: Case) -> None:
    context = contexts.current()
    first = all_of(case.call())
    case.call()
    plans = len(context.plans)
    assert plans
    again = all_of(case.call())
    assert len(context.plans) == plans
    assert all(map(same, again, first))


def test_results_are_made_where_there_is_nothing(case: Case) -> None:
    outputs, again = (all_of(case.op.function(**case.make_all())) for _ in range(2))
    for first, second in zip(outputs, again, strict=True):
        assert lies(first) == lies(second)
        assert first.data_ptr() != second.data_ptr()
