"""Makes plans: checks, places, selects, binds."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

import torch

from tilewright.context import Context
from tilewright.ops.common.plan import Plan, bind
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.arguments import Arguments
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.placement import place
from tilewright.ops.gemm.plan import DegeneratePlan, DirectPlan, EmptyPlan, PaddedPlan
from tilewright.ops.gemm.problem import Problem

log = logging.getLogger("tilewright")


def make(
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    inner: Callable[..., torch.Tensor],
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> Plan:
    """The plan of a checked call. `tactic` overrules the selection; `inner` is the op, for padded plans."""
    registry = context.registry
    if 0 in (arguments.m, arguments.n, arguments.batch, arguments.k):
        if tactic is not None:  # an empty matrix lies in any layout
            layout = registry.record(tactic.kernel).config.get("layout", "tn")
            FAMILY.check_demand(registry, tactic, describe(arguments, layout))
        return EmptyPlan(arguments) if 0 in arguments.shape else DegeneratePlan(arguments)
    device = context.device(arguments.device.index or 0)
    records = registry.route(FAMILY.name, device)
    placement = place(arguments, addresses)
    problem = describe(arguments, placement.layout)
    unread = problem.layout != "tn" and not FAMILY.fitting_kept(registry, records, problem)
    if unread and not placement.copies:
        placement = place(arguments, addresses, k_major=True)
    if placement.copies:
        log.warning(
            "%s: copies %s, which no kernel takes as it lies", problem, ", ".join(sorted(placement.copies))
        )
        options = {
            "activation": arguments.activation,
            "fast_accum": arguments.fast_accum,
            "out_dtype": arguments.dtype,
            "tactic": tactic,
        }
        return PaddedPlan(arguments, placement, functools.partial(inner, **options))
    if tactic is None and context.tuner is not None:
        context.tuner(FAMILY, problem, device)
    chosen, record, *_ = context.select(FAMILY, problem, device, tactic)
    return DirectPlan(arguments, bind(registry, problem, chosen, record, device.sm_count))


def describe(arguments: Arguments, layout: str) -> Problem:
    return Problem(
        m=arguments.m,
        n=arguments.n,
        k=arguments.k,
        batch=arguments.batch,
        a=arguments.a.dtype,
        b=arguments.b.dtype,
        d=arguments.d,
        layout=layout,
        c=arguments.c is not None,
        bias=arguments.bias,
        activation=arguments.activation,
        fast_accum=arguments.fast_accum,
    )
