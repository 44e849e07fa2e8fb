"""The public op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright.calls import custom_ops
from tilewright.calls.guards import dtypes
from tilewright.calls.op import Op, Values
from tilewright.calls.publish import public
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.placement import place
from tilewright.families.gemm.problem import ADDENDS, FP8, GATED_OUTPUTS, Problem, addends
from tilewright.formats.dtypes import dtype_of
from tilewright.formats.types import TMA_BYTES

_ADDENDS = {dtype_of(name): name for name in ADDENDS}

# By name, as torch has them.
ACTIVATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "silu_mul": lambda x: torch.nn.functional.silu(_half(x, 0)) * _half(x, 1),
}


def _half(x: torch.Tensor, number: int) -> torch.Tensor:
    """The first or the second half of the columns."""
    return x.chunk(2, dim=-1)[number]


class _Gemm(Op):
    interface = INTERFACE
    family = FAMILY
    place = staticmethod(place)
    flops = staticmethod(custom_ops.flops)

    def variants(self) -> Mapping[str, tuple[str, ...]]:
        return {"": self.written, "_amax": self.written}

    def variant(self, values: Values) -> str:
        return "" if values["amax"] is None else "_amax"

    def updates(self, suffix: str) -> tuple[str, ...]:
        return ("amax",) if suffix else ()

    def fields(self, values: Values) -> Mapping[str, Any]:
        dtypes_of = {name: getattr(values[name], "dtype", None) for name in ("c", "bias")}
        return {f"{name}_type": _ADDENDS.get(dtype, "") for name, dtype in dtypes_of.items()}

    def rules(self, values: Values, problem: Problem) -> None:
        legal = addends(problem.a, problem.d)
        for name in ("c", "bias"):
            if values[name] is not None and _ADDENDS.get(values[name].dtype) not in legal:
                expected = f"expected one of {dtypes(map(dtype_of, legal))}"
                raise ArgumentTypeError(name, f"its dtype is {values[name].dtype}; {expected}")
        for name in ("scale_result", "amax"):
            if values[name] is not None and problem.d not in FP8:
                raise ArgumentError(name, f"expected a result of FP8 beside it, got {dtype_of(problem.d)}")
        if problem.gated:
            check_gated(values, problem)
        if problem.integer:
            for name in ("scale_a", "scale_b"):
                if values[name] is not None:
                    raise ArgumentError(name, "not supported for int8 operands; use alpha")
            check_integer_factors(values["alpha"], values["beta"])

    def recheck(self, problem: Problem) -> Callable[..., None] | None:
        return check_integer_factors if problem.integer else None

    def alignments(self, problem: Problem, record: KernelRecord) -> Mapping[str, int]:
        return dict.fromkeys(FAMILY.kernels(record).by_tma(record), TMA_BYTES)

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """scale_result * activation(beta * C + bias), in the kernels' compute type, for a k or an alpha of
        0."""
        out, c, bias, beta, amax = (values[name] for name in ("out", "c", "bias", "beta", "amax"))
        compute = torch.int32 if problem.integer else torch.float32
        value = torch.zeros((*out.shape[:-1], problem.n), dtype=compute, device=out.device)
        if c is not None and beta != 0:
            value += c.to(compute) * (int(beta) if problem.integer else beta)
        if bias is not None:
            value += bias.to(compute)
        value = ACTIVATED[problem.activation](value)
        if amax is not None:
            amax.copy_(torch.maximum(amax, value.abs().amax().view(amax.shape)))
        if problem.d in FP8:
            most = torch.finfo(out.dtype).max
            if values["scale_result"] is not None:
                value = value * values["scale_result"]
            value = value.clamp(-most, most)
        out.copy_(value)


def check_gated(values: Values, problem: Problem) -> None:
    """Raises ArgumentError or ArgumentTypeError for what products with a gated activation do not have."""
    for name in ("c", "amax", "scale_result"):
        if values[name] is not None:
            raise ArgumentError(name, f"not supported with activation {problem.activation}")
    if problem.d not in GATED_OUTPUTS:
        expected = dtypes(map(dtype_of, GATED_OUTPUTS))
        raise ArgumentTypeError(
            "out_dtype" if values["out"] is None else "out",
            f"it is {dtype_of(problem.d)}; expected {expected} with activation {problem.activation}",
        )


def check_integer_factors(alpha: float, beta: float) -> None:
    """Raises ArgumentError unless both are integers that a float holds exactly, up to 2**24."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not value.is_integer() or abs(value) > 2**24:  # infinity and NaN are no integers
            raise ArgumentError(name, f"expected an integer up to 2**24 for int8 operands, got {value}")


@public(_Gemm())
def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    amax: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    fast_accum: bool = False,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes scale_result * activation(alpha * scale_a * scale_b * (a @ b) + beta * c + bias) on the
    current stream.

    Args:
        a: [m, k], or [batch, m, k]. bfloat16, float16, float8_e4m3fn, float8_e5m2, float32 (computed as
            TF32) or int8. Row-major or column-major; strides decide, not names.
        b: [k, n], or [batch, k, n]; of a's dtype, or of the other FP8 one. A matrix without batch, or a batch
            stride of 0, serves every batch. Operands that are not of 16 bits have k contiguous.
        out: [m, n] or [batch, m, n], rows contiguous, in a wider tensor too; made if absent. It may be c,
            and overlaps nothing else.
        out_dtype: D's type where `out` is absent; the operands' own (FP8: bfloat16, int8: int32) by default.
            float32 is possible for any floating-point operands; FP8 operands also have bfloat16, float16 and
            both FP8 types, which saturate.
        c: D's shape, or one [m, n] for every batch; not read if beta is 0. Of D's type, or (16-bit and FP8
            operands) bfloat16, float16 or float32; never of FP8.
        alpha: a factor, an integer for int8. If it is 0, a and b are not read: NaN and infinities in them
            do not reach D, as in BLAS.
        beta: a factor, an integer for int8; by default 1 with c and 0 without, as in torch.addmm.
        scale_a, scale_b: one float32 each on the device: read when the kernel runs.
        scale_result: the same, for a D of FP8: the factor of the result before it is rounded.
        amax: one float32 on the device, for a D of FP8. The call raises it to the largest magnitude of the
            result before scale_result, if that is larger (a NaN counts as larger). Set it to zero first to
            get the value of one call.
        bias: [n], contiguous, of the types that c may have.
        activation: none, relu, gelu (erf) or silu; applied last. Or silu_mul, for a b that holds the weights
            of a gate and of another projection side by side: out is [m, n/2], silu(x[:, :n/2]) * x[:, n/2:]
            of the x [m, n] that other calls return. n is then a multiple of 16, out bfloat16 or float16;
            there is no c, and operands in which k is not contiguous are copied.
        fast_accum: lets FP8 sums stay in the tensor core, which keeps about 14 bits of them.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m, n or the batch is 0; beta * c (+ bias, activation) where k or
            alpha is 0.

    Raises:
        AlignmentError: 8-bit operands that TMA cannot read: an address, a row or a matrix of a batch that
            does not begin at a multiple of 16 bytes; int8: also k, or c or out, or n of out. Others are
            copied, and the log says so.
    """
    raise AssertionError("`calls.protocol` writes the body")
