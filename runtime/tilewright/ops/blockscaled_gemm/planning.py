"""Makes plans: places, selects, binds."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from tilewright.context import Context
from tilewright.errors import NoKernelError
from tilewright.ops.blockscaled_gemm.arguments import Arguments
from tilewright.ops.blockscaled_gemm.family import FAMILY
from tilewright.ops.blockscaled_gemm.placement import aligned, place, weakest
from tilewright.ops.blockscaled_gemm.plan import DegeneratePlan, EmptyPlan, PaddedPlan, direct
from tilewright.ops.blockscaled_gemm.problem import QUANTIZED_OUTPUTS, Alignment, Problem
from tilewright.ops.common.plan import Plan, bind
from tilewright.ops.common.tactics import Tactic

log = logging.getLogger("tilewright")


def make(
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    inner: Callable[..., Any],
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> Plan:
    """The plan of a checked call. `tactic` overrules the selection; `inner` is the op, for padded plans;
    `addresses` says of arguments what their address is a multiple of, where it is not of 32 bytes."""
    registry = context.registry
    lie = dict(addresses)
    problem = describe(arguments, aligned(arguments, lie))
    if 0 in (arguments.m, arguments.n, arguments.batch, arguments.k):
        return _without_kernel(context, arguments, tactic, problem)
    device = context.device(arguments.device.index or 0)
    records = registry.route(FAMILY.name, device)
    fits = FAMILY.fitting_kept(registry, records, problem)
    wanted = weakest([] if fits else FAMILY.of_kind(registry, records, problem.kind))
    placement = place(arguments, problem.alignment, wanted, lie)
    if placement:
        names = {*placement.copies, *(f"{name}_descale" for name in placement.shared)}
        log.warning("%s: copies %s, which no kernel takes as it lies", problem, ", ".join(sorted(names)))
        options = {"out_dtype": arguments.dtype, "tactic": tactic}
        return PaddedPlan(arguments, placement, functools.partial(inner, **options))
    if tactic is None and context.tuner is not None:
        context.tuner(FAMILY, problem, device)
    choice = context.select(FAMILY, problem, device, tactic)
    return direct(
        arguments, bind(registry, problem, choice.tactic, choice.record, device.sm_count), choice.record
    )


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
