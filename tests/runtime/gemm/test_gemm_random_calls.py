"""Every call that `gemm` documents has a kernel: calls drawn at random, as far as the choice of a kernel.

Of 260 calls of an earlier set of kernels, 11 met NoKernelError. Operands are CPU tensors, taken as if on an
H200 or an H100; nothing is compiled or launched.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tilewright
from tilewright import context as contexts
from tilewright.architectures.device import H100, H200, DeviceProperties
from tilewright.calls import planning
from tilewright.context import Context
from tilewright.families.gemm.problem import ACTIVATIONS, FP8, INTEGER_ACTIVATIONS, OUTPUTS, addends
from tilewright.formats.dtypes import dtype_of
from tilewright.formats.types import bytes_of
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import Choice

CALLS = 520
EXTENTS = (1, 3, 7, 8, 16, 31, 64, 100, 129, 512, 1000, 4097)
DEPTHS = (16, 48, 136, 512, 1000, 4096, 20480)


class ChosenError(Exception):
    """Ends a call where its kernel would be loaded."""

    def __init__(self, problem: Any, choice: Choice) -> None:
        self.problem, self.choice = problem, choice


@pytest.fixture(params=[H200, H100], ids=lambda device: device.name.split()[-1])
def context(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    device: DeviceProperties = request.param

    def bind(context: Context, family: Any, problem: Any, device: Any, tactic: Any, **_: Any) -> Any:
        raise ChosenError(problem, context.select(family, problem, device, tactic))

    monkeypatch.setattr(planning, "bind", bind)
    with contexts.use(Context(Registry(libraries=lambda module: []), described=device)) as context:
        yield context


def laid_out(chance: random.Random, shape: tuple[int, ...], dtype: str, *, rows: bool) -> torch.Tensor:
    """A matrix of a batch, `rows` or columns contiguous, with a stride that TMA takes, sometimes in a wider
    tensor."""
    *batch, m, n = shape
    inner, outer = (n, m) if rows else (m, n)
    unit = 16 // bytes_of(dtype)
    room = -(-inner // unit) * unit + unit * chance.randrange(2)
    whole = torch.empty((*batch, outer, room), dtype=dtype_of(dtype))[..., :inner]
    return whole if rows else whole.mT


def call(chance: random.Random, pair: tuple[str, str]) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Operands and options of one legal call."""
    (a, b), d = pair, chance.choice(OUTPUTS[pair])
    m, n, k = chance.choice(EXTENTS), chance.choice(EXTENTS), chance.choice(DEPTHS)
    if a == "s8":  # whose k, and n of D, are multiples of 16 bytes
        k, n = -(-k // 16) * 16, -(-n // 4) * 4
    batch = (3,) if chance.random() < 0.25 else ()
    either = a in ("bf16", "f16")  # which k may be contiguous in, or not
    operands = []
    for shape, dtype, rows in (((m, k), a, True), ((k, n), b, False)):
        operand = laid_out(
            chance,
            (*batch * (chance.random() < 0.7), *shape),
            dtype,
            rows=chance.random() < 0.5 if either else rows,
        )
        operands.append(operand)
    batched = (*batch,) if any(operand.ndim == 3 for operand in operands) else ()
    options: dict[str, Any] = {
        "activation": chance.choice(INTEGER_ACTIVATIONS if d == "s32" else ACTIVATIONS)
    }
    if chance.random() < 0.5:
        options["out"] = laid_out(chance, (*batched, m, n), d, rows=True)
    else:
        options["out_dtype"] = dtype_of(d)
    if chance.random() < 0.5:
        type_ = chance.choice(addends(a, d))
        options |= {"c": laid_out(chance, (*batched, m, n), type_, rows=True), "beta": 2.0}
    if chance.random() < 0.5:
        options["bias"] = torch.empty(n, dtype=dtype_of(chance.choice(addends(a, d))))
    if a in FP8:
        options["fast_accum"] = chance.random() < 0.5
        for name in ("scale_a", "scale_b"):
            if chance.random() < 0.5:
                options[name] = torch.ones(1)
    if d in FP8:
        for name in ("scale_result", "amax"):
            if chance.random() < 0.5:
                options[name] = torch.ones(1)
    return operands[0], operands[1], options


@pytest.mark.parametrize("pair", OUTPUTS, ids="x".join)
def test_every_call_has_a_kernel(context: Context, pair: tuple[str, str]) -> None:
    chance = random.Random(f"{pair}")
    for _ in range(CALLS // len(OUTPUTS)):
        a, b, options = call(chance, pair)
        with pytest.raises(ChosenError) as actual:
            tilewright.gemm(a, b, **options)
        mainloop = actual.value.choice.record.config.get("mainloop")
        assert (mainloop == "cutlass") == (pair[0] in ("tf32", "s8")), actual.value.choice
