"""Makes plans: places, selects, binds."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.errors import NoKernelError
from tilewright.ops.blockscaled_gemm.arguments import OUTPUT_DTYPES, Arguments, check, formats_of, per_byte
from tilewright.ops.blockscaled_gemm.family import FAMILY
from tilewright.ops.blockscaled_gemm.interface import INTERFACE
from tilewright.ops.blockscaled_gemm.placement import Placement, aligned, place, weakest
from tilewright.ops.blockscaled_gemm.plan import DegeneratePlan, EmptyPlan, PaddedPlan
from tilewright.ops.blockscaled_gemm.problem import (
    BITS,
    QUANTIZED_OUTPUTS,
    Alignment,
    Problem,
    c_type,
    scale_shape,
)
from tilewright.ops.common.formats import MXFP8_FORMATS, scale_dtype
from tilewright.ops.common.plan import DirectPlan, Plan, bind
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord

log = logging.getLogger("tilewright")


def make(
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    again: Callable[..., Any],
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> Plan:
    """The plan of a checked call. `tactic` overrules the selection; `again` is the op with the
    call's options, for padded plans;
    `addresses` says of arguments what their address is a multiple of, where it is not of 32 bytes."""
    lie = dict(addresses)
    problem = describe(arguments, aligned(arguments, lie))
    if 0 in (arguments.m, arguments.n, arguments.batch, arguments.k):
        return _without_kernel(context, arguments, tactic, problem)
    device = context.device(arguments.device.index or 0)
    placement = placed(context, arguments, problem, device, lie)
    if placement:
        names = {*placement.copies, *(f"{name}_descale" for name in placement.shared)}
        log.warning("%s: copies %s, which no kernel takes as it lies", problem, ", ".join(sorted(names)))
        return PaddedPlan(arguments, placement, again)
    if tactic is None and context.tuner is not None:
        context.tuner(FAMILY, problem, device)
    wanted = functools.partial(alignments, arguments)
    bound = bind(context, FAMILY, problem, device, tactic, interface=INTERFACE, alignments=wanted)
    return DirectPlan(arguments, bound)


def alignments(arguments: Arguments, record: KernelRecord) -> dict[str, int]:
    """Bytes that a kernel asks of the matrices' addresses: some ask for more than the 16 of TMA, for 32-byte
    stores of D (`direct_256`), and for TMA's 4-bit type that is unpacked to bytes, beside FP8 (CUDA driver
    API, cuTensorMapEncodeTiled)."""
    elements = record.facts["alignment"]
    types = {"a": arguments.a.dtype, "b": arguments.b.dtype, "out": arguments.d}
    if arguments.c is not None:
        types["c"] = arguments.c.dtype
    return {name: elements["d" if name == "out" else name] * BITS[of] // 8 for name, of in types.items()}


def placed(
    context: Context,
    arguments: Arguments,
    problem: Problem,
    device: DeviceProperties,
    lie: Mapping[str, int],
) -> Placement:
    """What is copied: where no kernel takes the problem as it is, as some kernel of its kind wants it."""
    registry = context.registry
    records = registry.route(FAMILY.name, device)
    fits = FAMILY.fitting_kept(registry, records, problem)
    wanted = weakest([] if fits else FAMILY.of_kind(registry, records, problem.kind))
    return place(arguments, problem.alignment, wanted, lie)


def copied(
    context: Context, problem: Problem, device: DeviceProperties
) -> tuple[Problem, tuple[str, ...]] | None:
    """What a call plans for contiguous operands: what is computed instead, and the arguments that are copied;
    None where none is."""
    m, n, k = problem.m, problem.n, problem.k

    def operand(name: str, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        dtypes = {name: dtype for dtype, name in MXFP8_FORMATS.items()}
        shape = (problem.batch, rows, k // per_byte(name))
        descale = (problem.batch, *scale_shape(rows, k, name))
        return _nowhere(shape, dtypes.get(name, torch.uint8)), _nowhere(descale, scale_dtype(name))

    a, a_descale = operand(problem.a, m)
    b, b_descale = operand(problem.b, n)
    arguments = check(
        context,
        formats_of(problem.a, problem.b),
        a,
        b.mT,
        a_descale,
        b_descale,
        alpha=None,
        out_dtype=OUTPUT_DTYPES[problem.d],
        out=None,
        c=_nowhere((problem.batch, m, n), OUTPUT_DTYPES[c_type(problem.d)]) if problem.c else None,
        beta=float(problem.c),
        out_descale=None,
        out_global_scale=_nowhere((1,), torch.float32) if problem.d == "nvfp4" else None,
        fake=True,
    )
    placement = placed(context, arguments, describe(arguments, aligned(arguments, {})), device, {})
    made = replace(problem, n=placement.n, k=placement.k, alignment=Alignment())
    return (made, tuple(sorted(placement.copies))) if placement.copies else None


def _nowhere(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor without memory."""
    return torch.empty(shape, dtype=dtype, device="meta")


def _without_kernel(context: Context, arguments: Arguments, tactic: Tactic | None, problem: Problem) -> Plan:
    if tactic is not None:
        FAMILY.check_demand(context.registry, tactic, problem)
    if 0 in arguments.shape:
        return EmptyPlan(arguments)
    if arguments.c is not None and arguments.d in QUANTIZED_OUTPUTS:
        raise NoKernelError(f"{problem}: k is 0, and no kernel quantises beta * C alone")
    return DegeneratePlan(arguments)


def describe(arguments: Arguments, alignment: Alignment) -> Problem:
    return Problem(
        m=arguments.m,
        n=arguments.n,
        k=arguments.k,
        batch=arguments.batch,
        a=arguments.a.dtype,
        b=arguments.b.dtype,
        d=arguments.d,
        c=arguments.c is not None,
        alignment=alignment,
    )
