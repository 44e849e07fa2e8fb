"""Every public op, with each argument in turn replaced by what no caller should pass: an op takes it or says,
as a TilewrightError, what is wrong. Nothing takes long, or much memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tilewright.calls.signature import Parameter
from tilewright.contract.cases import Case
from tilewright.errors import ArgumentError, TilewrightError


class Odd:
    """An object that nothing can be done with."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")


def plain_values() -> Iterator[Any]:
    """Values that are no tensors."""
    yield from (None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**70, -(2**70), 10**5000, 2.5, 1e300)
    yield from (math.nan, math.inf, 1j, "", "none", "\ud800", "1x128\x00", "q" * 100_000, b"none")
    yield from ((), (1, 128), [1, 2**70], (1.0, 128.0), (True, 128), ["1", "128"], [[1]], [1] * 10_000)
    yield from (
        torch.bfloat16,
        torch.qint8,
        torch.complex64,
        torch.strided,
        torch.device("cpu"),
        int,
        object(),
    )
    yield from (np.zeros(3), np.float64(2.0), np.int64(1), np.bool_(True), np.array("none"), iter([1, 128]))


def tensors() -> Iterator[torch.Tensor]:
    """Tensors that are none of an op's, on the CPU and on the meta device."""
    for device in ("cpu", "meta"):
        for shape in ((), (1,), (0,), (7,), (3, 0), (5, 7), (2, 3, 4), (1, 1, 1, 1)):
            yield torch.zeros(shape, dtype=torch.bfloat16, device=device)
        for dtype in (torch.float32, torch.int32, torch.int64, torch.bool, torch.uint8, torch.complex64):
            yield torch.zeros(16, 16, dtype=dtype, device=device)
        yield torch.zeros(16, 16, dtype=torch.float8_e4m3fn, device=device)
    yield torch.empty(2**30, 2, device="meta")
    yield torch.empty(2**40, dtype=torch.int32, device="meta")
    yield torch.quantize_per_tensor(torch.zeros(16, 16), 1.0, 0, torch.qint8)
    yield torch.zeros(16, 16).to_sparse()
    yield torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    yield torch._efficientzerotensor((16, 16))
    yield torch.zeros(16, 16, dtype=torch.complex64).conj().imag
    yield torch.zeros(16, 16, requires_grad=True)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # nested tensors are a prototype, quantised ones go away
    TENSORS = tuple(tensors())
ODD = Odd()


def values_for(parameter: Parameter) -> tuple[Any, ...]:
    """Values for a parameter: for a tensor mostly tensors."""
    if parameter.kind == "scale":
        return (*TENSORS, *plain_values(), ODD)
    if parameter.is_tensor:
        return (*TENSORS, 0, 2**70, 10**5000, "none", "\ud800", [], np.zeros(3), ODD)
    return (*plain_values(), *TENSORS[:4], torch.empty(2**30, 2, device="meta"), ODD)


def attempt(case: Case, values: dict[str, Any], what: str) -> None:
    """A call, which may be right."""
    error: Exception | None = None
    try:
        case.op.function(**values)
    except Exception as caught:
        error = caught
    assert error is None or isinstance(error, TilewrightError), f"{what}: {error!r:.300}"
    text = str(error)
    assert len(text) < 2000, f"{what}: a message of {len(text)} characters"
    text.encode()
    if isinstance(error, ArgumentError):
        assert error.argument in {*(parameter.name for parameter in case.op.parameters), "types"}, what


def on(device: str, case: Case, mode: FakeTensorMode | None = None) -> dict[str, Any]:
    """A call's arguments, on a device or fake."""
    values = case.make()
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            values[name] = mode.from_tensor(value) if mode is not None else value.to(device)
    return values


@pytest.mark.parametrize(("where", "results"), [("cpu", "given"), ("meta", "made"), ("meta", "given")])
def test_any_value_for_any_argument(first_case: Case, where: str, results: str) -> None:
    case = first_case
    values = on(where, case)
    if results == "made":
        values = {name: value for name, value in values.items() if name not in case.op.written}
    for parameter in case.op.parameters:
        for index, value in enumerate(values_for(parameter)):
            what = f"{case.op.name} on {where}, {parameter.name} = value {index}, {type(value)}"
            attempt(case, values | {parameter.name: value}, what)


def test_any_option_in_torch(first_case: Case) -> None:
    case = first_case
    mode = FakeTensorMode()
    values = on("", case, mode)
    for parameter in case.op.parameters:
        if not parameter.is_tensor:
            for index, value in enumerate(values_for(parameter)):
                if not isinstance(value, torch.Tensor):  # which no fake mode takes
                    what = f"{case.op.name} of fakes, {parameter.name} = value {index}"
                    attempt(case, values | {parameter.name: value}, what)


@pytest.mark.parametrize("dims", [0, 1, 4])
@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_tensors_of_other_dimensions(case: Case, where: str, dims: int) -> None:
    """One operand of another number of dimensions, beside some of the results that an op writes."""
    for name, tensor in case.tensors.items():
        for left_out in (None, *case.written):
            values = on(where, case)
            values = {key: value for key, value in values.items() if key != left_out or key == name}
            shape = (1,) * dims
            values[name] = torch.zeros(shape, dtype=tensor.dtype, device=where)
            attempt(case, values, f"{case.op.name} on {where}, {name} of {dims} dimensions")
