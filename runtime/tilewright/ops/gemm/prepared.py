"""Prepared calls of `gemm`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright import context as contexts
from tilewright import prepared
from tilewright.ops.common import calls
from tilewright.ops.common.guards import factor
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.tactics import parsed
from tilewright.ops.gemm import arguments as checking
from tilewright.ops.gemm import guards, planning
from tilewright.ops.gemm.op import gemm
from tilewright.ops.gemm.plan import OPERANDS


class Prepared(prepared.Prepared):
    numbers = ("alpha", "beta")

    def __init__(self, plan: Plan, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        def check(call: Mapping[str, Any]) -> object:
            return checking.check(contexts.current(), **{**call, **options})

        super().__init__(gemm, plan, given, check)
        self._c, self._bias = self.kept["c"], self.kept["bias"]
        self._scale_a, self._scale_b = self.kept["scale_a"], self.kept["scale_b"]
        self._alpha, self._beta = self.kept["alpha"], self.kept["beta"]

    def __call__(
        self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None, **changes: Any
    ) -> torch.Tensor:
        if out is None:
            self.check_made(changes)
            out = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        if not changes:
            c = out if self.accumulates else self._c
            try:
                if not (a.requires_grad or b.requires_grad or out.requires_grad or self.needs_gradients):
                    status = self.launch(
                        a, b, c, out, self._bias, self._scale_a, self._scale_b, self._alpha, self._beta, None
                    )
                    if status == 0:
                        return out
            except (AttributeError, RuntimeError, TypeError, ValueError):
                pass  # said below
        elif self.plan.arguments.integer:
            guards.check_integer_factors(*(factor(name, changes.get(name, 1.0)) for name in self.numbers))
        self.carefully({"a": a, "b": b, "out": out}, changes)
        return out


_GIVEN = ("a", "b", "out", "c", "bias", "scale_a", "scale_b", *Prepared.numbers)
_OPTIONS = ("out_dtype", "activation", "fast_accum")


def prepare(asked: Mapping[str, Any]) -> Prepared:
    """A plan of `gemm`, whose arguments these are."""
    context = contexts.current()
    given = {name: asked[name] for name in _GIVEN}
    for name in Prepared.numbers:
        given[name] = factor(name, given[name])
    options = {name: asked[name] for name in _OPTIONS}
    arguments = checking.check(context, **given, **options)
    if given["beta"] == 0:
        given["c"] = None
    if given["out"] is None:
        given["out"] = torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device)
    operands = {name: given[name] for name in OPERANDS if given[name] is not None}
    plan = planning.make(context, arguments, parsed(asked["tactic"]), gemm, calls.addresses(operands))
    return Prepared(plan, given, options)


MAKERS = {gemm: prepare}
