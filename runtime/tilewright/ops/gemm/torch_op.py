"""`torch.ops.tilewright.gemm` and `gemm_out`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import context as contexts
from tilewright.ops.common import custom_ops
from tilewright.ops.common.custom_ops import name_of, number, plain
from tilewright.ops.common.guards import check_flag
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import arguments as checking

_OPTIONS = (
    "Tensor? c=None, float alpha=1.0, float beta=0.0, Tensor? scale_a=None, Tensor? scale_b=None, "
    'Tensor? bias=None, str activation="none", bool fast_accum=False, str? tactic=None'
)
_SCHEMA = f"(Tensor a, Tensor b, *, ScalarType? out_dtype=None, {_OPTIONS}) -> Tensor"
_SCHEMA_OUT = f"(Tensor a, Tensor b, Tensor(a!) out, *, bool accumulate=False, {_OPTIONS}) -> ()"
_TENSORS = ("c", "scale_a", "scale_b", "bias")


def _checked(
    a: torch.Tensor, b: torch.Tensor, tactic: str | None = None, **options: Any
) -> checking.Arguments:
    """The op's own checks, of tensors that have no memory; those of addresses are made when it runs."""
    defaults: dict[str, Any] = {
        "out": None, "out_dtype": None, "c": None, "alpha": 1.0, "beta": 0.0, "scale_a": None,
        "scale_b": None, "bias": None, "activation": "none", "fast_accum": False,
    }  # fmt: skip
    return checking.check(contexts.current(), a, b, **{**defaults, **options}, fake=True)


def _fake(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    made = _checked(a, b, **options)
    return torch.empty(made.shape, dtype=made.dtype, device=made.device)


def _fake_out(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, accumulate: bool = False, **options: Any
) -> None:
    if accumulate:
        options["c"] = out
    _checked(a, b, out=out, **options)


def register(gemm: Callable[..., torch.Tensor]) -> None:
    """Registers what runs `gemm`, the public op."""

    def run(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
        return gemm(plain(a), plain(b), **_plain(options))

    def run_out(
        a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, accumulate: bool = False, **options: Any
    ) -> None:
        out = out if type(out) is torch.Tensor else out.as_subclass(torch.Tensor)
        options = _plain(options)
        if accumulate:
            options["c"] = out
        gemm(plain(a), plain(b), out=out, **options)
        custom_ops.wrote(out)

    custom_ops.define("gemm", _SCHEMA, run, _fake, custom_ops.flops)
    custom_ops.define("gemm_out", _SCHEMA_OUT, run_out, _fake_out, custom_ops.flops)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    for name in _TENSORS:
        if name in options:
            options[name] = plain(options[name])
    return options


def call(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    c: torch.Tensor | None,
    alpha: float,
    beta: float,
    fast_accum: bool,
    tactic: Tactic | str | None,
    **options: Any,
) -> torch.Tensor:
    """`gemm`, through torch's dispatcher; torch.compile traces this."""
    check_flag("fast_accum", fast_accum)
    options["alpha"], options["beta"] = number("alpha", alpha), number("beta", beta)
    options["fast_accum"], options["tactic"] = bool(fast_accum), name_of(tactic)
    if out is None:
        made: torch.Tensor = torch.ops.tilewright.gemm.default(a, b, out_dtype=out_dtype, c=c, **options)
        return made
    custom_ops.same_dtype(out, out_dtype)
    itself = c is out
    torch.ops.tilewright.gemm_out.default(a, b, out, c=None if itself else c, accumulate=itself, **options)
    return out
