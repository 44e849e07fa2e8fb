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
from tilewright.ops.common.tactics import Tactic, parsed
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


def prepare(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    fast_accum: bool = False,
    tactic: Tactic | str | None = None,
) -> Prepared:
    """A plan of `gemm`, whose arguments these are."""
    context = contexts.current()
    given: dict[str, Any] = {
        "a": a, "b": b, "out": out, "c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b,
        "alpha": factor("alpha", alpha), "beta": factor("beta", beta),
    }  # fmt: skip
    options: dict[str, Any] = {"out_dtype": out_dtype, "activation": activation, "fast_accum": fast_accum}
    arguments = checking.check(context, **given, **options)
    if given["beta"] == 0:
        given["c"] = None
    if out is None:
        given["out"] = torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device)
    operands = {name: given[name] for name in OPERANDS if given[name] is not None}
    plan = planning.make(context, arguments, parsed(tactic), gemm, calls.addresses(operands))
    return Prepared(plan, given, options)


MAKERS = {gemm: prepare}
