"""`torch.ops.tilewright.mm_*`: of each op four, as D is made or given, and quantised or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import context as contexts
from tilewright.errors import ArgumentError
from tilewright.ops.blockscaled_gemm import arguments as checking
from tilewright.ops.blockscaled_gemm.arguments import Op
from tilewright.ops.blockscaled_gemm.problem import QUANTIZED_OUTPUTS
from tilewright.ops.common import custom_ops
from tilewright.ops.common.custom_ops import name_of, number, plain
from tilewright.ops.common.tactics import Tactic

_OPERANDS = "Tensor a, Tensor b, Tensor a_descale, Tensor b_descale"
_OPTIONS = "Tensor? c=None, float beta=0.0, str? tactic=None"
_SCALE = "Tensor? out_global_scale=None"
_SCHEMA = f"({_OPERANDS}, Tensor? alpha=None, ScalarType? out_dtype=None, *, {_OPTIONS}) -> Tensor"
_SCHEMA_OUT = (
    f"({_OPERANDS}, Tensor? alpha, Tensor(a!) out, *, ScalarType? out_dtype=None, bool accumulate=False, "
    f"{_OPTIONS}) -> ()"
)
_SCHEMA_QUANTIZED = (
    f"({_OPERANDS}, Tensor? alpha=None, ScalarType? out_dtype=None, *, {_SCALE}, {_OPTIONS}) "
    "-> (Tensor, Tensor)"
)
_SCHEMA_QUANTIZED_OUT = (
    f"({_OPERANDS}, Tensor? alpha, Tensor(a!) out, Tensor(b!) out_descale, *, ScalarType? out_dtype=None, "
    f"{_SCALE}, {_OPTIONS}) -> ()"
)
_QUANTIZED = {checking.OUTPUT_DTYPES[name] for name in QUANTIZED_OUTPUTS}
# (a, b, a_descale, b_descale, alpha, out_dtype, out, c, beta, out_descale, out_global_scale, tactic)
Act = Callable[..., Any]


def register(op: Op, multiply: Callable[..., Any]) -> None:
    """Registers the ops that run `multiply` (`call.multiply`) for a public op."""

    def run(*call: Any) -> Any:
        made = multiply(op, *(plain(one) if isinstance(one, torch.Tensor) else one for one in call))
        if call[6] is not None:
            custom_ops.wrote(*(call[index] for index in (6, 9) if call[index] is not None))
        return made

    def fake(*call: Any) -> Any:
        arguments = checking.check(contexts.current(), op, *call[:-1], fake=True)
        if call[6] is not None:
            return None
        device = arguments.device
        d = torch.empty(arguments.shape, dtype=arguments.dtype, device=device)
        if not arguments.descale:
            return d
        return d, torch.empty(arguments.descale, dtype=arguments.descale_dtype, device=device)

    def flops(a: torch.Size, b: torch.Size, *_: Any, **__: Any) -> int:
        return custom_ops.flops(a, b) * (1 if op.fp8 else 2)

    schemas = (_SCHEMA, _SCHEMA_OUT, _SCHEMA_QUANTIZED, _SCHEMA_QUANTIZED_OUT)
    suffixes = ("", "_out", "_quantized", "_quantized_out")
    for suffix, schema, real, pretended in zip(suffixes, schemas, _forms(run), _forms(fake), strict=True):
        custom_ops.define(op.name + suffix, schema, real, pretended, flops)


def _forms(act: Act) -> tuple[Act, Act, Act, Act]:
    """The four ops, in the order of their schemas, of what carries a call out."""

    def make(  # noqa: PLR0917 (as the schemas have them, here and below)
        a: Any, b: Any, a_descale: Any, b_descale: Any, alpha: Any = None, out_dtype: Any = None, *,
        out_global_scale: Any = None, c: Any = None, beta: float = 0.0, tactic: str | None = None,
    ) -> Any:  # fmt: skip
        dtype = out_dtype or torch.bfloat16
        return act(a, b, a_descale, b_descale, alpha, dtype, None, c, beta, None, out_global_scale, tactic)

    def write(  # noqa: PLR0917
        a: Any, b: Any, a_descale: Any, b_descale: Any, alpha: Any, out: Any, *, out_dtype: Any = None,
        accumulate: bool = False, c: Any = None, beta: float = 0.0, tactic: str | None = None,
    ) -> None:  # fmt: skip
        dtype = out_dtype or torch.bfloat16
        c = out if accumulate else c
        act(a, b, a_descale, b_descale, alpha, dtype, out, c, beta, None, None, tactic)

    def write_quantized(  # noqa: PLR0917
        a: Any, b: Any, a_descale: Any, b_descale: Any, alpha: Any, out: Any, out_descale: Any, *,
        out_dtype: Any = None, out_global_scale: Any = None, c: Any = None, beta: float = 0.0,
        tactic: str | None = None,
    ) -> None:  # fmt: skip
        dtype = out_dtype or torch.bfloat16
        act(
            a, b, a_descale, b_descale, alpha, dtype, out, c, beta, out_descale, out_global_scale, tactic
        )  # fmt: skip

    return make, write, make, write_quantized


def call(  # noqa: PLR0917 (as `multiply` takes them)
    op: Op,
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    beta: float,
    out_descale: torch.Tensor | None,
    out_global_scale: torch.Tensor | None,
    tactic: Tactic | str | None,
) -> Any:
    """A public op, through torch's dispatcher; torch.compile traces this."""
    ops = torch.ops.tilewright
    operands = (a, b, a_descale, b_descale, alpha)
    options: dict[str, Any] = {"c": c, "beta": number("beta", beta), "tactic": name_of(tactic)}
    if out_dtype not in _QUANTIZED:
        if out_descale is not None or out_global_scale is not None:
            name = "out_descale" if out_descale is not None else "out_global_scale"
            raise ArgumentError(name, "it goes with a quantised D, which out_dtype is not")
        if out is None:
            return getattr(ops, op.name).default(*operands, out_dtype, **options)
        if c is out:
            options.update(c=None, accumulate=True)
        getattr(ops, f"{op.name}_out").default(*operands, out, out_dtype=out_dtype, **options)
        return out
    if out_global_scale is None:  # of the graph, where this is compiled: what an op makes may not be kept
        out_global_scale = torch.ones(1, dtype=torch.float32, device=a.device)
    options["out_global_scale"] = out_global_scale
    if out is None and out_descale is None:
        return getattr(ops, f"{op.name}_quantized").default(*operands, out_dtype, **options)
    # One op makes both or writes both; of a call that brings one, the other is made here.
    shape, descale, descale_dtype = checking.quantized_shape(a, b, out_dtype)
    if out is None:
        out = torch.empty(shape, dtype=out_dtype, device=a.device)
    if out_descale is None:
        out_descale = torch.empty(descale, dtype=descale_dtype, device=a.device)
    write = getattr(ops, f"{op.name}_quantized_out").default
    write(*operands, out, out_descale, out_dtype=out_dtype, **options)
    return out, out_descale
