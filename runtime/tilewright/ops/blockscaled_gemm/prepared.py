"""Prepared calls of the block-scaled ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright import context as contexts
from tilewright import prepared
from tilewright.ops.blockscaled_gemm import arguments as checking
from tilewright.ops.blockscaled_gemm import op as ops
from tilewright.ops.blockscaled_gemm import planning
from tilewright.ops.blockscaled_gemm.arguments import MIXED, MXFP4, MXFP8, NVFP4, Op
from tilewright.ops.blockscaled_gemm.call import multiply, quantisation
from tilewright.ops.blockscaled_gemm.plan import OPERANDS
from tilewright.ops.common import calls
from tilewright.ops.common.guards import factor
from tilewright.ops.common.memory import check_aliasing
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.tactics import parsed


class Prepared(prepared.Prepared):
    """`a_descale` and `b_descale` of a call cost nothing; to replace other operands takes a little longer."""

    numbers = ("beta",)

    def __init__(
        self,
        function: Callable[..., Any],
        op: Op,
        plan: Plan,
        given: Mapping[str, Any],
        out_dtype: torch.dtype,
    ) -> None:
        def check(call: Mapping[str, Any]) -> object:
            return checking.check(contexts.current(), op, **call, out_dtype=out_dtype)

        self._quantizes = bool(plan.arguments.descale)
        full = dict(given)
        if self._quantizes:
            made, scale = quantisation(plan.arguments, None, given["out_global_scale"])
            full["out_global_scale"] = scale
            if given["out_descale"] is None:  # one that is given is left as it is
                full["out_descale"] = made
        super().__init__(function, plan, full, check)
        self.kept["out_descale"] = given["out_descale"]  # made by each call where it is not given
        self._a_descale, self._b_descale = self.kept["a_descale"], self.kept["b_descale"]
        self._alpha, self._beta, self._c = self.kept["alpha"], self.kept["beta"], self.kept["c"]

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor | None = None,
        *,
        a_descale: torch.Tensor | None = None,
        b_descale: torch.Tensor | None = None,
        **changes: Any,
    ) -> Any:
        if out is None:
            self.check_made(changes)
            out = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        if a_descale is None:
            a_descale = self._a_descale
        if b_descale is None:
            b_descale = self._b_descale
        if not changes and not self._quantizes:
            c = out if self.accumulates else self._c
            try:
                if not (a.requires_grad or b.requires_grad or out.requires_grad or self.needs_gradients):
                    status = self.launch(
                        a, b, a_descale, b_descale, c, out, None, self._alpha, None, self._beta, None
                    )
                    if status == 0:
                        return out
            except (AttributeError, RuntimeError, TypeError, ValueError):
                pass  # said below
        call = {"a": a, "b": b, "out": out, "a_descale": a_descale, "b_descale": b_descale}
        if not self._quantizes:
            self.carefully(call, changes)
            return out
        given = {**self.kept, **call, **changes}
        out_descale, scale = given.pop("out_descale"), given.pop("out_global_scale")
        if out_descale is not None:
            others = {name: value for name, value in given.items() if name in OPERANDS}
            check_aliasing(out_descale, "out_descale", **others)
        out_descale, scale = quantisation(self.plan.arguments, out_descale, scale)
        self.carefully(call, {**changes, "out_descale": out_descale, "out_global_scale": scale})
        return out, out_descale


_GIVEN = (
    "a", "b", "a_descale", "b_descale", "c", "out", "out_descale", "alpha", "out_global_scale", "beta",
)  # fmt: skip


def prepare(function: Callable[..., Any], op: Op, asked: Mapping[str, Any]) -> Prepared:
    """A plan of a block-scaled op, whose arguments are those asked."""
    context = contexts.current()
    given = {name: asked[name] for name in _GIVEN}
    given["beta"] = factor("beta", given["beta"])
    out_dtype = asked["out_dtype"]
    arguments = checking.check(context, op, **given, out_dtype=out_dtype)
    if given["beta"] == 0:
        given["c"] = None
    if given["out"] is None:
        given["out"] = torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device)
    operands = {name: given[name] for name in OPERANDS if given[name] is not None}
    inner = functools.partial(multiply, op)
    plan = planning.make(context, arguments, parsed(asked["tactic"]), inner, calls.addresses(operands))
    return Prepared(function, op, plan, given, out_dtype)


MAKERS = {
    function: functools.partial(prepare, function, op)
    for function, op in (
        (ops.mm_nvfp4, NVFP4),
        (ops.mm_mxfp4, MXFP4),
        (ops.mm_mxfp8, MXFP8),
        (ops.mm_mxfp8_mxfp4, MIXED),
    )
}
